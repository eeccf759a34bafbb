"""Running a document's cells and inline code in a Jupyter kernel; what has not changed since the last render is kept.

An output is that of the code, of the cells before it that prepare something, and of the state of everything that code
may read: the project's files but its prose, the data, the variables of this program and the installed packages.
"""

import ast
import hashlib
import json
import os
import queue
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

from measure.errors import UserError
from report import failures
from report.engine.project import Project
from report.engine.source import INLINE, CodeCell, Line, left_out, read_source

MEMORY = "_cache/outputs.json"
FORCED = "ROOFWRIGHT_FORCED"  # where this variable is set, all code runs
PROSE = (".qmd", ".md", ".ipynb")
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
UNREADABLE = re.compile(r"`\{+(\w+)\}+\s")
MARKUP = re.compile(r"([`*_{}\[\]()>#+,\-.!])")

FAILED_LINE = (
    "next((line for frame, line in __import__('traceback').walk_tb(getattr(__import__('sys'), 'last_traceback', None))"
    " if frame.f_globals is globals()), 0)"
)
"""Evaluated after an error: the line of the cell, from 1, whose statement failed, or 0."""
FINISH = "(lambda module: module and module.finish() and None)(__import__('sys').modules.get('report.charts.drawing'))"
"""What is drawn beside the cells is there before the kernel ends, whichever cell waits for it."""

SHOWN = ("text/markdown", "stdout", "text/plain")
Output = dict[str, str]
"""An output of a cell: MIME type to text, or `stdout` or `stderr` to what was printed there."""


class CellError(Exception):
    """A cell raised; `line` counts from the code's first line, 0 where it is not known."""

    def __init__(self, text: str, line: int = 0) -> None:
        super().__init__(text)
        self.line = line


class Kernel:
    """A Jupyter kernel under this very Python; it reads none of the user's specifications and start-up files."""

    def __init__(self, directory: Path, environment: dict[str, str], stack: ExitStack) -> None:
        # Without folders to search the manager falls back to ipykernel under sys.executable.
        self._manager = KernelManager(kernel_name="python3", kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))
        variables = {**os.environ, **environment, "IPYTHONDIR": stack.enter_context(tempfile.TemporaryDirectory())}
        quiet = ["--log-level=ERROR", "--HistoryManager.enabled=False"]
        self._manager.start_kernel(cwd=str(directory), env=variables, extra_arguments=quiet)
        stack.callback(self._manager.shutdown_kernel, now=True)
        self._client = self._manager.blocking_client()
        self._client.start_channels()
        stack.callback(self._client.stop_channels)
        try:
            self._client.wait_for_ready(timeout=120)
        except RuntimeError as error:
            raise UserError(f"no Jupyter kernel starts under {sys.executable}; is ipykernel installed?") from error

    def run(self, code: str) -> list[Output]:
        """Run code and return its outputs in order; raise CellError."""
        request = self._client.execute(code, store_history=False, allow_stdin=False)
        outputs: list[Output] = []
        error = None
        while True:
            try:
                message: dict[str, Any] = self._client.get_iopub_msg(timeout=1)
            except queue.Empty:
                if not self._manager.is_alive():  # and so never answers
                    raise CellError("the Jupyter kernel died; was it out of memory?") from None
                continue
            kind, content = message["msg_type"], message["content"]
            if message["parent_header"].get("msg_id") != request:
                continue
            if kind == "stream":
                before = outputs.pop()[content["name"]] if outputs and content["name"] in outputs[-1] else ""
                outputs.append({content["name"]: before + content["text"]})
            elif kind in ("display_data", "execute_result"):
                outputs.append(dict(content["data"]))
            elif kind == "error":
                error = f"{content['ename']}: {content['evalue']}"
            elif kind == "status" and content["execution_state"] == "idle":
                break
        if error is not None:
            raise CellError(error, int(self.run(FAILED_LINE)[-1]["text/plain"]))
        return outputs


class Session:
    """Runs a document's code in order, and in a kernel only what is not remembered."""

    def __init__(self, project: Project, data: Path, known: dict[str, Any], stack: ExitStack) -> None:
        self._project, self._data, self._known, self._stack = project, data, known, stack
        self._prepared = _state(project, data)
        self._pending: list[str] = []
        self._kernel: Kernel | None = None
        self.kept: dict[str, Any] = {}

    def run(self, code: str, label: str | None = None) -> list[Output]:
        """Return the outputs of a cell, in order. Raises CellError."""
        key = _digest(self._prepared, code)
        entry = self._known.get(key)
        is_remembered = entry is not None and entry["files"] == self._stamps(entry["files"])
        if not is_remembered:
            if self._kernel is None:
                self._kernel = Kernel(self._project.root, {"ROOFWRIGHT_DATA": str(self._data)}, self._stack)
            while self._pending:
                self._kernel.run(self._pending.pop(0))
            found = self._kernel.run(code)
            entry = {"outputs": found, "files": dict.fromkeys(PICTURE.findall(json.dumps(found)))}
        self.kept[key] = entry
        # An expression that has a label to be shown by changes nothing that code after it sees.
        if label is None or any(not isinstance(statement, ast.Expr) for statement in ast.parse(code).body):
            self._prepared = _digest(self._prepared, "then", code)
            if is_remembered:
                self._pending.append(code)
        return list(self.kept[key]["outputs"])

    def finish(self) -> None:
        """Wait for what is drawn beside the cells, and note the files that outputs show."""
        if self._kernel:
            try:
                self._kernel.run(FINISH)
            except CellError as problem:
                raise UserError(f"a figure cannot be drawn: {problem}") from problem
        for entry in self.kept.values():
            entry["files"] = self._stamps(entry["files"])

    def _stamps(self, names: dict[str, Any]) -> dict[str, Any]:
        stamps: dict[str, Any] = dict.fromkeys(names)
        for name in names:
            with suppress(OSError):
                status = (self._project.root / name).stat()
                stamps[name] = [status.st_size, status.st_mtime_ns]
        return stamps


@contextmanager
def session(project: Project, data: Path) -> Iterator[Session]:
    """Yield what runs a document's code; keep its outputs once all of it has run and nothing of it failed."""
    file = project.root / MEMORY
    known: dict[str, Any] = {}
    if not os.environ.get(FORCED):
        with suppress(OSError, ValueError):
            known = dict(json.loads(file.read_text("utf-8")))
    with ExitStack() as stack:
        running = Session(project, data, known, stack)
        yield running
        running.finish()
    if not failures.any_noted():
        with suppress(OSError):  # without it the next render takes longer, and that is all
            file.parent.mkdir(exist_ok=True)
            partial = file.with_name(f".{file.name}.{os.getpid()}")
            partial.write_text(json.dumps(running.kept), "utf-8")
            os.replace(partial, file)


def _digest(*texts: str) -> str:
    return hashlib.blake2b("\0".join(texts).encode("utf-8", "replace"), digest_size=16).hexdigest()


def _state(project: Project, data: Path) -> str:
    """Return a digest of what code may read: files, but prose and what is hidden or made, by their sizes and times."""
    ours = {name for name in os.environ if name.startswith("ROOFWRIGHT_")} - {failures.FILE, FORCED}
    texts = [sys.version, *(f"{name}={os.environ[name]}" for name in sorted(ours))]
    texts += sorted(path.name for folder in sys.path for path in Path(folder or ".").glob("*.dist-info"))
    for root in (project.root, data, *(Path(__file__).parents[2] / name for name in ("measure", "report"))):
        for folder, below, names in os.walk(root):
            below[:] = sorted(name for name in below if not name.startswith((".", "_")))
            for name in sorted(names):
                if not name.endswith(PROSE) and not name.startswith("."):
                    status = os.stat(f"{folder}/{name}", follow_symlinks=False)
                    texts.append(f"{folder}/{name} {status.st_size} {status.st_mtime_ns}")
    return _digest(*texts)


def execute(project: Project, code: Session) -> list[Line]:
    """Return the document as Markdown, every line with its place. Raise UserError for code that fails.

    A figure or table becomes a div with its label, whose last paragraph is the caption. Of a chapter that is left out
    no cell is run: it is there for `missing.lua`, which takes it out and knows its labels by then.
    """
    unread, lines = left_out(project), list[Line]()
    for part in read_source(project):
        if isinstance(part, Line):
            lines.append(part if part.file in unread else with_values(part, code))
        elif part.opening.file not in unread:
            lines += [part.opening.beside(line) for text in _cell_texts(part, code) for line in text.split("\n")]
        elif "label" in part.options:
            lines += [part.opening.beside(text) for text in ("", f"::: {{#{part.options['label']}}}", ":::", "")]
    return lines


def with_values(line: Line, code: Session) -> Line:
    """Return a line with the value of each inline expression in its place, unless it is one of a listing."""
    # Every second part is an expression, and its value takes that place.
    parts = [line.text] if line.is_listing else INLINE.split(line.text)
    if unreadable := UNREADABLE.search("".join(parts[::2])):
        form = "inline code is `{python} expression`, on one line and outside listings"
        raise line.error(f"{form}, not {unreadable[0].strip()!r}")
    for at in range(1, len(parts), 2):
        expression = parts[at].strip()
        try:
            parts[at] = as_markdown(code.run(expression, "inline"), expression, line)
        except CellError as error:
            raise line.error(f"`{expression}` raises {error}") from error
    return line.beside("".join(parts))


def as_markdown(outputs: list[Output], expression: str, line: Line) -> str:
    """Return the Markdown that a value stands for, by the rules of Quarto's Jupyter engine.

    A `Markdown` object is Markdown. Anything else is its `repr`; a string's quotes are dropped and what Markdown would
    read as markup in it is escaped. What Quarto garbles is refused: empty texts, and those with backslashes.
    """
    value = outputs[-1] if outputs else {"text/plain": ""}
    text = value.get("text/markdown", value["text/plain"])
    if "text/markdown" not in value and text[:1] in ("'", '"'):
        text = "" if "\\" in text else MARKUP.sub(r"\\\1", text[1:-1])
    if "text/html" in value or not text:
        problem = "is HTML, an empty text, or one that Quarto garbles; return IPython.display.Markdown(text)"
        raise line.error(f"`{expression}` {problem}")
    return text


def _cell_texts(cell: CodeCell, code: Session) -> list[str]:
    outputs: list[Output] = []
    if cell.options["eval"]:
        try:
            outputs = code.run(cell.code, cell.options.get("label"))
        except CellError as error:
            line = cell.first_line + error.line - 1 if error.line else cell.opening.number
            raise UserError(f"{cell.opening.file}:{line}: {error}") from error
    if not cell.options["include"]:
        return []
    texts = ["", *_listing(cell.code, " {.python}"), ""] if cell.options["echo"] else []
    shown = [text for output in outputs for text in _output(cell, output)]
    if caption := cell.options.get("fig-cap") or cell.options.get("tbl-cap"):
        shown = ["", f"::: {{#{cell.options['label']}}}", *shown, "", " ".join(caption.split()), ":::", ""]
    return [*texts, *shown]


def _output(cell: CodeCell, output: Output) -> list[str]:
    if "stderr" in output:  # a warning
        return []
    kind = next((kind for kind in SHOWN if kind in output), None)
    if "text/html" in output or kind is None:
        kinds = ", ".join(sorted(output))
        raise cell.opening.error(f"the cell outputs {kinds}; output text/markdown (a picture, a table, raw HTML)")
    is_markdown = kind == "text/markdown" or (kind == "stdout" and cell.options["output"] == "asis")
    return ["", *([output[kind]] if is_markdown else _listing(output[kind])), ""]


def _listing(text: str, info: str = "") -> list[str]:
    ticks = "`" * (max((len(found) for found in re.findall("`{3,}", text)), default=2) + 1)
    return [ticks + info, text.strip("\n"), ticks]
