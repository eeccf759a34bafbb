"""What cells and inline expressions gave at the last render: where nothing but prose has changed, no code runs.

An output is that of the code, of the cells before it that prepare something, and of the state of everything that code
may read: the project's files but its prose, the data, the variables of this program and the installed packages.
"""

import ast
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from measure.errors import UserError
from report import failures
from report.engine.jupyter_kernel import CellError, JupyterKernel, Output, jupyter_kernel
from report.engine.project import Project

FOLDER = "_cache"
"""Lies in the project; it can be deleted at any time."""

FORCED = "ROOFWRIGHT_FORCED"
"""Where this variable is set, all code runs."""

PROSE = (".qmd", ".md", ".ipynb")
FILE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
"""A picture in Markdown."""

# What is drawn beside the cells is there before the kernel ends, whichever cell waits for it.
FINISH = "(lambda module: module and module.finish() and None)(__import__('sys').modules.get('report.charts.drawing'))"


def prepares(code: str, label: str | None) -> bool:
    """Return whether code may change what code after it sees: all but expressions that have a label to be shown by."""
    return label is None or any(not isinstance(statement, ast.Expr) for statement in ast.parse(code).body)


class Session:
    """Runs a document's code in order, and in a kernel only what is not remembered."""

    def __init__(self, project: Project, data: Path, state: str, known: dict[str, Any], stack: ExitStack) -> None:
        self._project, self._data, self._known, self._stack = project, data, known, stack
        self._prepared = state
        self._pending: list[str] = []
        self._kernel: JupyterKernel | None = None
        self.kept: dict[str, Any] = {}

    def run(self, code: str, label: str | None = None) -> list[Output]:
        """Return the outputs of a cell, in order. Raises CellError."""
        key = self._key("cell", code)
        is_preparing = prepares(code, label)
        if is_preparing:
            self._prepared = _digest(self._prepared, code)
        found = self._remembered(key)
        if found is None:
            found = [asdict(output) for output in self._started().run(code)]
            self._keep(key, found)
        elif is_preparing:
            self._pending.append(code)
        return [Output(**output) for output in found]

    def evaluate(self, expression: str) -> dict[str, str]:
        """Return the value of an expression as MIME type to text. Raises CellError."""
        key = self._key("expression", expression)
        found = self._remembered(key)
        if found is None:
            found = self._started().evaluate(expression)
            self._keep(key, found)
        return dict(found)

    def finish(self) -> None:
        """Wait for what is drawn beside the cells, and note the files that outputs show.

        Raises UserError for a picture that cannot be drawn, where that ends the render.
        """
        if self._kernel:
            try:
                self._kernel.evaluate(FINISH)
            except CellError as problem:
                raise UserError(f"a figure cannot be drawn: {problem}") from problem
        for entry in self.kept.values():
            entry["files"] = {name: self._stamp(name) for name in entry["files"]}

    def _key(self, kind: str, code: str) -> str:
        return _digest(self._prepared, kind, code)

    def _remembered(self, key: str) -> Any:
        entry = self._known.get(key)
        if entry is None or any(stamp != self._stamp(name) for name, stamp in entry["files"].items()):
            return None
        self.kept[key] = entry
        return entry["value"]

    def _keep(self, key: str, value: Any) -> None:
        self.kept[key] = {"value": value, "files": dict.fromkeys(FILE.findall("\n".join(_texts(value))))}

    def _stamp(self, name: str) -> list[int] | None:
        with suppress(OSError):
            status = (self._project.root / name).stat()
            return [status.st_size, status.st_mtime_ns]
        return None

    def _started(self) -> JupyterKernel:
        """Return the kernel, in which all cells ran that prepare something for the code at hand."""
        if self._kernel is None:
            environment = {"ROOFWRIGHT_DATA": str(self._data)}
            self._kernel = self._stack.enter_context(jupyter_kernel(self._project.root, environment))
        for code in self._pending:
            self._kernel.run(code)
        self._pending.clear()
        return self._kernel


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts of an expression's value, or of a cell's outputs."""
    for each in [value] if isinstance(value, dict) else value:
        yield from each["data"].values() if "data" in each else each.values()


@contextmanager
def session(project: Project, data: Path) -> Iterator[Session]:
    """Yield what runs a document's code; keep its outputs once all of it has run and nothing of it failed."""
    file = project.root / FOLDER / "outputs.json"
    known = {} if os.environ.get(FORCED) else _read(file)
    with ExitStack() as stack:
        running = Session(project, data, state(project, data), known, stack)
        yield running
        running.finish()
    if not failures.any_noted():
        _write(file, running.kept)


def _read(file: Path) -> dict[str, Any]:
    """Return what is remembered; nothing where the file is not there or not whole."""
    try:
        found = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(file: Path, kept: dict[str, Any]) -> None:
    """Keep outputs where that is possible: without them the next render takes longer, and that is all."""
    with suppress(OSError):
        file.parent.mkdir(exist_ok=True)
        partial = file.with_name(f".{file.name}.{os.getpid()}")
        partial.write_text(json.dumps(kept, separators=(",", ":")), "utf-8")
        os.replace(partial, file)


def _digest(*texts: str) -> str:
    return hashlib.blake2b("\0".join(texts).encode("utf-8", "replace"), digest_size=16).hexdigest()


def state(project: Project, data: Path) -> str:
    """Return a digest of what code may read: files by their sizes and times."""
    variables = [f"{name}={value}" for name, value in sorted(os.environ.items()) if _is_of_ours(name)]
    packages = sorted(path.name for folder in sys.path for path in _listed(folder) if path.name.endswith(".dist-info"))
    folders = [project.root, data, *(Path(__file__).parents[2] / name for name in ("measure", "report"))]
    files = [line for folder in folders for line in sorted(_files(folder))]
    return _digest(sys.version, *variables, *packages, *files)


def _is_of_ours(name: str) -> bool:
    return name.startswith("ROOFWRIGHT_") and name not in (failures.FILE, FORCED)


def _listed(folder: str) -> Iterable[Path]:
    return Path(folder).iterdir() if folder and Path(folder).is_dir() else ()


def _files(folder: Path) -> Iterator[str]:
    """Yield the files below a folder that are neither prose nor made by a render, hidden, or of other projects."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith((".", "_")) and entry.name != "_quarto.yml" and entry.is_dir():
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _files(Path(entry.path))
            elif not entry.name.endswith(PROSE) and not entry.name.startswith("."):
                status = entry.stat()
                yield f"{entry.path} {status.st_size} {status.st_mtime_ns}"
