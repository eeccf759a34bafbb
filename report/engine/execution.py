"""Running a document's cells and inline code in a Jupyter kernel; what has not changed since the last render is kept.

An output is that of the code, of the cells before it that prepare something, and of the state of everything that code
may read: the project's files but its prose, the data, the variables of this program and the installed packages.
"""

import ast
import base64
import hashlib
import json
import os
import queue
import re
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from itertools import groupby
from pathlib import Path
from typing import Any

from measure.errors import UserError
from report import failures
from report.engine.project import PICTURES, Project, write_file
from report.engine.source import INLINE, CodeCell, Line, left_out, read_source
from report.markdown import MISSING, escape, quoted

MEMORY = "_cache/outputs.json"
FORCED = "ROOFWRIGHT_FORCED"  # where this variable is set, all code runs
PROSE = (".qmd", ".md", ".ipynb")
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
UNREADABLE = re.compile(r"`\{+(\w+)\}+\s")
MARKUP = re.compile(r"([`*_{}\[\]()>#+,\-.!])")
ENDINGS = {"image/svg+xml": "svg", "image/png": "png", "image/jpeg": "jpg"}  # MIME types and endings of files
FAILED_LINE = re.compile(r"\bline (\d+)")  # in a traceback, whose first frame is the cell's

UNDEFINED = re.compile(r"NameError: name '(\w+)' is not defined.*")

SHOW = "__import__('IPython.display').display.display({}\n)\n"
"""Shows the value of an expression."""

FINISH = "(lambda module: module and module.finish())(__import__('sys').modules.get('report.charts.drawing'))"
"""What is drawn beside the cells is there before the kernel ends, whichever cell waits for it."""

Output = dict[str, str]
"""An output of a cell: MIME type to text, or `stdout` or `stderr` to what was printed there."""


class CellError(Exception):
    """A cell raised; `line` counts from the code's first line. A `final` one ends the render: the kernel has died."""

    def __init__(self, text: str, line: int = 1, final: bool = False) -> None:
        super().__init__(text)
        self.line, self.final = line, final

    @property
    def name(self) -> str | None:
        """The name that is not defined, if that is what is wrong."""
        found = UNDEFINED.fullmatch(str(self))
        return found[1] if found else None

    def left_out(self, place: str, what: str) -> str:
        """Return the sentence that stands in the place of what failed. Raise UserError where the render has to end."""
        if self.final:
            raise UserError(f"{place}: {self}") from self
        line = f"{place}: {what}{self}"
        if os.environ.get(failures.STRICT):
            raise failures.StrictError(line) from self
        return failures.noted_as(line, line)


class Kernel:
    """A Jupyter kernel under this very Python; it reads none of the user's specifications and start-up files."""

    def __init__(self, directory: Path, environment: dict[str, str], stack: ExitStack) -> None:
        # Imported late: most renders run no code.
        from jupyter_client.kernelspec import KernelSpecManager
        from jupyter_client.manager import KernelManager

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
                    raise CellError("the Jupyter kernel died; was it out of memory?", final=True) from None
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
                line = FAILED_LINE.search("".join(content["traceback"]))
                is_input = content["ename"] == UserError.__name__  # a damaged table, say
                error = CellError(f"{content['ename']}: {content['evalue']}", int(line[1]) if line else 1, is_input)
            elif kind == "status" and content["execution_state"] == "idle":
                break
        if error:
            raise error
        return outputs


class Memory:
    """What the last render made, by what it was made from. What a render does not ask for is forgotten."""

    def __init__(self, project: Project, data: Path) -> None:
        self._file = project.root / MEMORY
        self.state = _state(project, data)
        self.known: dict[str, Any] = {}
        self.kept: dict[str, Any] = {}
        if not os.environ.get(FORCED):
            with suppress(OSError, ValueError):
                self.known = dict(json.loads(self._file.read_text("utf-8")))

    def key(self, *made_from: str) -> str:
        """Return by what to know that which is made from these texts and the project's files."""
        return _digest(self.state, *made_from)

    def save(self) -> None:
        """Keep all for the next render, unless something could not be computed."""
        if failures.any_noted():
            return
        with suppress(OSError):  # without it the next render takes longer, and that is all
            self._file.parent.mkdir(exist_ok=True)
            partial = self._file.with_name(f".{self._file.name}.{os.getpid()}")
            partial.write_text(json.dumps(self.kept), "utf-8")
            os.replace(partial, self._file)


class Session:
    """Runs a document's code in order, and in a kernel only what is not remembered."""

    def __init__(self, project: Project, data: Path, memory: Memory, stack: ExitStack) -> None:
        self._project, self._data, self._memory, self._stack = project, data, memory, stack
        self.root = project.root
        self._prepared = memory.state
        self._pending: list[str] = []
        self._entries: list[dict[str, Any]] = []
        self._kernel: Kernel | None = None
        self.lost: set[str] = set()  # the names that cells were to give, which failed

    def run(self, code: str, label: str | None = None) -> list[Output]:
        """Return the outputs of a cell, in order. Raises CellError."""
        key = _digest(self._prepared, code)
        entry = self._memory.known.get(key, {"files": None})
        is_remembered = entry["files"] is not None and entry["files"] == self._stamps(entry["files"])
        if not is_remembered:
            found = self._started().run(code)
            entry = {"outputs": found, "files": dict.fromkeys(PICTURE.findall(json.dumps(found)))}
        self._memory.kept[key] = entry
        self._entries.append(entry)
        # An expression that has a label to be shown by changes nothing that code after it sees.
        if label is None or any(not isinstance(statement, ast.Expr) for statement in ast.parse(code).body):
            self._prepared = _digest(self._prepared, "then", code)
            if is_remembered:
                self._pending.append(code)
        return list(entry["outputs"])

    def evaluate(self, expressions: Iterable[str]) -> None:
        """Have expressions that are not remembered evaluated together, at a tenth of the cost, for ``run``."""
        known = self._memory.known
        new = [each for each in dict.fromkeys(expressions) if _digest(self._prepared, each) not in known]
        if not new:
            return
        outputs: list[Output] = []
        with suppress(CellError):  # one that raises does so again when it runs alone, and its line is named
            outputs = self._started().run("".join(map(SHOW.format, new)))
        for code, output in zip(new, outputs, strict=False) if len(outputs) == len(new) else ():
            if output != {"text/plain": "None"}:  # alone it has no output
                known[_digest(self._prepared, code)] = {"outputs": [output], "files": {}}

    def _started(self) -> Kernel:
        """Return the kernel, all cells that prepare something run in it."""
        if self._kernel is None:
            self._kernel = Kernel(self._project.root, {"ROOFWRIGHT_DATA": str(self._data)}, self._stack)
        while self._pending:
            self._kernel.run(self._pending.pop(0))
        return self._kernel

    def finish(self) -> None:
        """Wait for what is drawn beside the cells, and note the files that outputs show."""
        if self._kernel:
            try:
                self._kernel.run(FINISH)
            except CellError as problem:
                raise UserError(f"a figure cannot be drawn: {problem}") from problem
        for entry in self._entries:
            entry["files"] = self._stamps(entry["files"])

    def _stamps(self, names: dict[str, Any]) -> dict[str, Any]:
        stamps: dict[str, Any] = dict.fromkeys(names)
        for name in names:
            with suppress(OSError):
                status = (self._project.root / name).stat()
                stamps[name] = [status.st_size, status.st_mtime_ns]
        return stamps


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
    for _, parts in groupby(read_source(project), type):
        between = [*parts]  # lines without a cell between them, or cells
        texts = [part for part in between if isinstance(part, Line) and part.file not in unread]
        code.evaluate(expression.strip() for line in texts for expression in _split(line)[1::2])
        for part in between:
            if isinstance(part, Line):
                lines.append(part if part.file in unread else with_values(part, code))
            elif part.opening.file not in unread:
                lines += [part.opening.beside(line) for text in _cell_texts(part, code) for line in text.split("\n")]
            elif "label" in part.options:
                lines += [part.opening.beside(text) for text in ("", f"::: {{#{part.options['label']}}}", ":::", "")]
    return lines


def _split(line: Line) -> list[str]:
    """Return the parts of a line, of which every second is an expression."""
    return [line.text] if line.is_listing else INLINE.split(line.text)


def with_values(line: Line, code: Session) -> Line:
    """Return a line with the value of each inline expression in its place, unless it is one of a listing."""
    parts = _split(line)
    if unreadable := UNREADABLE.search("".join(parts[::2])):
        form = "inline code is `{python} expression`, on one line and outside listings"
        raise line.error(f"{form}, not {unreadable[0].strip()!r}")
    for at in range(1, len(parts), 2):
        expression = parts[at].strip()
        try:
            parts[at] = as_markdown(code.run(expression, "inline"), expression, line)
        except CellError as error:
            if error.name not in code.lost:
                error.left_out(line.place, f"`{expression}` raises ")
            parts[at] = MISSING
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
    try:
        outputs = code.run(cell.code, cell.options.get("label"))
    except CellError as error:
        code.lost |= _given_names(cell.code)
        return ["", escape(error.left_out(f"{cell.opening.file}:{cell.first_line + error.line - 1}", "")), ""]
    if not cell.options["include"]:
        return []
    shown = [text for output in outputs for text in ("", _markdown(cell, output, code.root), "")]
    if caption := cell.options.get("fig-cap") or cell.options.get("tbl-cap"):
        shown = ["", f"::: {{#{cell.options['label']}}}", *shown, "", " ".join(caption.split()), ":::", ""]
    return shown


def _given_names(code: str) -> set[str]:
    """Return the names that code would give something, those of imports too; none of code that cannot be read."""
    try:
        nodes = list(ast.walk(ast.parse(code)))
    except SyntaxError:
        return set()
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    made = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return stored | made | {node.asname or node.name for node in nodes if isinstance(node, ast.alias)}


def _markdown(cell: CodeCell, output: Output, root: Path) -> str:
    if "stderr" in output:  # a warning
        return ""
    text = output.get("text/markdown", output.get("stdout") if cell.options["output"] else None)
    picture = next((kind for kind in ENDINGS if kind in output), None)
    if text is None and picture:
        return _picture(cell, output[picture], ENDINGS[picture], root)
    if text is None:
        kinds = ", ".join(sorted(output))
        raise cell.opening.error(f"the cell outputs {kinds}; return Markdown, or print it with '#| output: asis'")
    return text


def _picture(cell: CodeCell, content: str, ending: str, root: Path) -> str:
    """Write a picture into a file, and return the Markdown that shows it, its alternative text that of `fig-alt`."""
    data = content.encode() if ending == "svg" else base64.b64decode(content)
    path = PICTURES / f"cell-{hashlib.blake2b(data, digest_size=8).hexdigest()}.{ending}"
    write_file(root / path, data)
    about = cell.options.get("fig-alt") or cell.options.get("fig-cap") or "a figure"
    return f"![]({path.as_posix()}){{fig-alt={quoted(about)}}}"
