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
from report.engine.source import INLINE, CodeCell, Line, TextBlock, is_left_out, left_out, read_source

MEMORY = "_cache/outputs.json"
FORCED = "ROOFWRIGHT_FORCED"
"""Where this variable is set, all code runs."""
PROSE = (".qmd", ".md", ".ipynb")
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
UNREADABLE = re.compile(r"`\{+(\w+)\}+\s")

FAILED_LINE = (
    "next((line for frame, line in __import__('traceback').walk_tb(__import__('sys').last_traceback)"
    " if frame.f_globals is globals()), 0)"
)
"""Evaluated after an error: the line of the cell, from 1, whose statement failed, or 0."""
FINISH = "(lambda module: module and module.finish() and None)(__import__('sys').modules.get('report.charts.drawing'))"
"""What is drawn beside the cells is there before the kernel ends, whichever cell waits for it."""

Output = dict[str, str]
"""An output of a cell: MIME type to text, or `stdout` or `stderr` to what was printed there."""


class CellError(Exception):
    """A cell or an expression raised; `line` counts from the code's first line, 0 where it is not known."""

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
        """Run a cell and return its outputs in order; raise CellError."""
        request = self._client.execute(code, store_history=False, allow_stdin=False)
        outputs: list[Output] = []
        error = None
        while True:
            message = self._next(self._client.get_iopub_msg, request)
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                break
            if kind == "stream":
                before = outputs.pop()[content["name"]] if outputs and content["name"] in outputs[-1] else ""
                outputs.append({content["name"]: before + content["text"]})
            elif kind in ("display_data", "execute_result"):
                outputs.append(dict(content["data"]))
            elif kind == "error":
                error = f"{content['ename']}: {content['evalue']}"
        self._next(self._client.get_shell_msg, request)
        if error is not None:
            raise CellError(error, int(self.evaluate(FAILED_LINE)["text/plain"]))
        return outputs

    def evaluate(self, expression: str) -> Output:
        """Return the value of an expression as MIME type to text; raise CellError where it fails."""
        request = self._client.execute("", silent=True, allow_stdin=False, user_expressions={"value": expression})
        reply = self._next(self._client.get_shell_msg, request)["content"]["user_expressions"]["value"]
        if reply["status"] != "ok":
            raise CellError(f"{reply['ename']}: {reply['evalue']}")
        return dict(reply["data"])

    def _next(self, receive: Any, request: str) -> dict[str, Any]:
        """Return the next message that answers `request`, which a kernel that dies would never send."""
        while True:
            with suppress(queue.Empty):
                message: dict[str, Any] = receive(timeout=1)
                if message["parent_header"].get("msg_id") == request:
                    return message
                continue
            if not self._manager.is_alive():
                raise CellError("the Jupyter kernel died; was it out of memory?")


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
        # An expression that has a label to be shown by changes nothing that code after it sees.
        prepares = label is None or any(not isinstance(statement, ast.Expr) for statement in ast.parse(code).body)
        found: list[Output] | None = self._remembered("cell", code)
        if found is None:
            found = self._keep("cell", code, self._started().run(code))
        elif prepares:
            self._pending.append(code)
        if prepares:
            self._prepared = _digest(self._prepared, code)
        return found

    def evaluate(self, expression: str) -> Output:
        """Return the value of an expression as MIME type to text. Raises CellError."""
        found: Output | None = self._remembered("value", expression)
        return found if found is not None else self._keep("value", expression, self._started().evaluate(expression))

    def finish(self) -> None:
        """Wait for what is drawn beside the cells, and note the files that outputs show."""
        if self._kernel:
            try:
                self._kernel.evaluate(FINISH)
            except CellError as problem:
                raise UserError(f"a figure cannot be drawn: {problem}") from problem
        for entry in self.kept.values():
            entry["files"] = {name: self._stamp(name) for name in entry["files"]}

    def _remembered(self, kind: str, code: str) -> Any:
        key = _digest(self._prepared, kind, code)
        entry = self._known.get(key)
        if entry is None or any(stamp != self._stamp(name) for name, stamp in entry["files"].items()):
            return None
        self.kept[key] = entry
        return entry["value"]

    def _keep(self, kind: str, code: str, value: Any) -> Any:
        pictures = dict.fromkeys(PICTURE.findall(json.dumps(value)))
        self.kept[_digest(self._prepared, kind, code)] = {"value": value, "files": pictures}
        return value

    def _stamp(self, name: str) -> list[int] | None:
        with suppress(OSError):
            status = (self._project.root / name).stat()
            return [status.st_size, status.st_mtime_ns]
        return None

    def _started(self) -> Kernel:
        """Return the kernel, in which all cells ran that prepare something for the code at hand."""
        if self._kernel is None:
            self._kernel = Kernel(self._project.root, {"ROOFWRIGHT_DATA": str(self._data)}, self._stack)
        for code in self._pending:
            self._kernel.run(code)
        self._pending.clear()
        return self._kernel


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
    """Return a digest of what code may read: files by their sizes and times."""
    others = (failures.FILE, FORCED)
    variables = [
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name.startswith("ROOFWRIGHT_") and name not in others
    ]
    packages = sorted(path.name for folder in sys.path for path in Path(folder or ".").glob("*.dist-info"))
    folders = [project.root, data, *(Path(__file__).parents[2] / name for name in ("measure", "report"))]
    return _digest(sys.version, *variables, *packages, *(line for folder in folders for line in sorted(_files(folder))))


def _files(folder: Path) -> Iterator[str]:
    """Yield the files below a folder that are neither prose nor made by a render, hidden, or of other projects."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from () if entry.name.startswith((".", "_")) else _files(Path(entry.path))
            elif not entry.name.endswith(PROSE) and not entry.name.startswith(".") and entry.is_file():
                status = entry.stat()
                yield f"{entry.path} {status.st_size} {status.st_mtime_ns}"


def execute(project: Project, code: Session) -> list[Line]:
    """Return the document as Markdown, every line with its place. Raise UserError for code that fails.

    A figure or table becomes a div with its label, whose last paragraph is the caption. Of a chapter that is left out
    no cell is run: it is there for `missing.lua`, which takes it out and knows its labels by then.
    """
    names, lines = left_out(project), list[Line]()
    taken: dict[str, CodeCell] = {}
    blocks = read_source(project)
    for cell in blocks:
        if (
            isinstance(cell, CodeCell)
            and (label := cell.options.get("label"))
            and taken.setdefault(label, cell) is not cell
        ):
            raise cell.opening.error(f"the label '{label}' is taken by the cell at {taken[label].opening.place}")
    for block in blocks:
        if isinstance(block, TextBlock):
            for line, is_listing in zip(block.lines, block.listing, strict=True):
                lines.append(line if is_left_out(line.file, names) else with_values(line, is_listing, code))
        elif not is_left_out(block.opening.file, names):
            lines += _cell_lines(block, code)
        elif "label" in block.options:
            lines += [block.opening.beside(text) for text in ("", f"::: {{#{block.options['label']}}}", ":::", "")]
    return lines


def with_values(line: Line, is_listing: bool, code: Session) -> Line:
    """Return a line with the value of each inline expression in its place, unless it is one of a listing."""
    # Every second part is an expression, and its value takes that place.
    parts = [line.text] if is_listing else INLINE.split(line.text)
    unreadable = UNREADABLE.search("".join(parts[::2]))
    if unreadable:
        form = "inline code is `{python} expression`, on one line and outside listings"
        raise line.error(f"{form}, not {unreadable[0].strip()!r}")
    for at in range(1, len(parts), 2):
        expression = parts[at].strip()
        try:
            parts[at] = as_markdown(code.evaluate(expression), expression, line)
        except CellError as error:
            raise line.error(f"`{expression}` raises {error}") from error
    return line.beside("".join(parts))


def as_markdown(value: Output, expression: str, line: Line) -> str:
    """Return the Markdown that a value stands for, by the rules of Quarto's Jupyter engine.

    A `Markdown` object is Markdown. Anything else is its `repr`; a string's quotes are dropped and what Markdown would
    read as markup in it is escaped. Texts that Quarto garbles are refused: empty ones and those with backslashes.
    """
    text = value.get("text/markdown", value["text/plain"])
    if "text/markdown" not in value and text[:1] in "'\"" and text[:1] == text[-1:]:
        text = "\\" if "\\" in text else re.sub(r"([`*_{}\[\]()>#+,\-.!])", r"\\\1", text[1:-1])
    if "text/html" in value or text in ("", "\\"):
        problem = "is HTML, an empty text, or one that Quarto garbles; return IPython.display.Markdown(text)"
        raise line.error(f"`{expression}` {problem}")
    return text


def _cell_lines(cell: CodeCell, code: Session) -> list[Line]:
    outputs: list[Output] = []
    if cell.shows("eval"):
        try:
            outputs = code.run(cell.code, cell.options.get("label"))
        except CellError as error:
            line = cell.first_line + error.line - 1 if error.line else cell.opening.number
            raise UserError(f"{cell.opening.file}:{line}: {error}") from error
    if not cell.shows("include"):
        return []
    texts = ["", *_listing(cell.code.strip("\n"), " {.python}"), ""] if cell.shows("echo") else []
    shown = [text for output in outputs for text in _output(cell, output)] if cell.shows("output") else []
    if cell.caption:
        shown = ["", f"::: {{#{cell.options['label']}}}", *shown, "", " ".join(cell.caption.split()), ":::", ""]
    return [cell.opening.beside(line) for text in [*texts, *shown] for line in text.split("\n")]


def _output(cell: CodeCell, output: Output) -> list[str]:
    if "stderr" in output:
        return ["", *_listing(output["stderr"].rstrip("\n")), ""] if cell.shows("warning") else []
    if "text/html" in output or not output.keys() & {"text/markdown", "text/plain", "stdout"}:
        kinds = ", ".join(sorted(output))
        raise cell.opening.error(f"the cell outputs {kinds}; output text/markdown (a picture, a table, raw HTML)")
    if "text/markdown" in output:
        return ["", output["text/markdown"], ""]
    if "stdout" in output and cell.options["output"] == "asis":
        return ["", output["stdout"], ""]
    return ["", *_listing(output.get("stdout", output.get("text/plain", "")).rstrip("\n")), ""]


def _listing(text: str, info: str = "") -> list[str]:
    ticks = "`" * (max((len(found) for found in re.findall("`{3,}", text)), default=2) + 1)
    return [ticks + info, text, ticks]
