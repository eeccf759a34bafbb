"""Run the cells and inline code of documents in IPython, and keep the outputs until something changes.

An output depends on the code, the preparing cells before it, and the state of everything that code may read: the
project's files except prose, the data, the variables of this program and the installed packages.
"""

import ast
import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from mimetypes import guess_extension
from pathlib import Path
from typing import Any

from measure.errors import UserError
from report import failures
from report.engine.project import PICTURES, Project
from report.engine.source import CodeCell, Line, read_source
from report.files import write_file
from report.markdown import MISSING, escape, quoted

CELLS = Path(__file__).with_name("cells.py")
MEMORY = "_cache/outputs.json"
FORCED = "ROOFWRIGHT_FORCED"  # if this variable is set, all code runs
PROSE = (".qmd", ".md", ".ipynb")
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
MARKUP = re.compile(r"([`*_{}\[\]()>#+,\-.!])")

Outcome = dict[str, Any]
"""The result of a code, as `cells.py` writes it."""


class Memory:
    """The results of the last render by a digest of their origin. Results that this render does not use are dropped."""

    def __init__(self, project: Project, data: Path) -> None:
        self._file = project.root / MEMORY
        self.state = _state(project, data)
        self.old: dict[str, Any] = {}
        self.new: dict[str, Any] = {}
        if not os.environ.get(FORCED):
            with suppress(OSError, ValueError):
                self.old = dict(json.loads(self._file.read_text("utf-8")))

    def key(self, *made_from: str) -> str:
        """Return the key of a result made from these texts and the project's files."""
        return _digest(self.state, *made_from)

    def save(self) -> None:
        """Store the results for the next render, unless something could not be computed."""
        if not failures.any_noted():
            with suppress(UserError):  # without the file the next render only takes longer
                write_file(self._file, json.dumps(self.new).encode())


def execute(projects: list[Project], data: Path, memory: Memory) -> list[list[Line]]:
    """Return documents as Markdown, every line with its place. Raises UserError for code that fails.

    A figure or table becomes a div with its label. The caption is the last paragraph.
    """
    documents = [read_source(project) for project in projects]
    codes = [code for parts in documents for part in parts for code in _codes(part)]
    made, has_failed = iter(_outcomes(codes, projects[0].root, data, memory)), False

    def lines(part: Line | CodeCell) -> list[Line]:
        nonlocal has_failed
        if isinstance(part, Line):
            return [_with_values(part, made, has_failed)]
        outcome = next(made)
        has_failed = has_failed or "error" in outcome
        texts = _cell_texts(part, outcome, projects[0].root)
        return [part.opening.beside(line) for text in texts for line in text.split("\n")]

    return [[line for part in parts for line in lines(part)] for parts in documents]


def _codes(part: Line | CodeCell) -> list[tuple[str, bool]]:
    """Return the code of a cell or of a line's inline values, and whether later code depends on it."""
    if isinstance(part, Line):
        return [(expression.strip(), False) for expression in part.pieces[1::2]]
    with suppress(SyntaxError):
        shows = all(isinstance(statement, ast.Expr) for statement in ast.parse(part.code).body)
        return [(part.code, not shows or "label" not in part.options)]
    return [(part.code, True)]


def _outcomes(codes: list[tuple[str, bool]], root: Path, data: Path, memory: Memory) -> list[Outcome]:
    """Return the outcomes of codes, in order. Runs new codes, and the preparing ones before them."""
    keys, prepared = [], memory.state
    for code, prepares in codes:
        keys.append(_digest(prepared, code))
        prepared = _digest(prepared, "then", code) if prepares else prepared
    remembered = {key: memory.old[key] for key in keys if key in memory.old}
    found = {key: each for key, each in remembered.items() if each["pictures"] == _pictures(root, each)}
    last = max((at for at, key in enumerate(keys) if key not in found), default=-1)
    running = [at for at in range(last + 1) if codes[at][1] or keys[at] not in found]
    outcomes = run([codes[at][0] for at in running], root, data) if running else []
    for at, outcome in zip(running, outcomes, strict=False):
        found[keys[at]] = outcome | {"pictures": _pictures(root, outcome)}
    if len(outcomes) > len(running):
        raise UserError(f"a figure cannot be drawn: {outcomes[-1]['error']}")
    memory.new |= found
    return [found[key] for key in keys if key in found]


def run(codes: list[str], root: Path, data: Path) -> list[Outcome]:
    """Run codes in the project's folder with this Python; return the outcome of each, up to one that ends the run."""
    # NumPy's products are small here: its other threads would only wait, at a tenth of the CPU time
    environment = {"OPENBLAS_NUM_THREADS": "1", **os.environ, "ROOFWRIGHT_DATA": str(data)}
    run = subprocess.run(
        [sys.executable, str(CELLS)], input=json.dumps(codes).encode(), capture_output=True, cwd=root, env=environment
    )
    outcomes = [json.loads(line) for line in run.stdout.splitlines()]
    if run.returncode:
        last = run.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        outcomes.append({"error": f"Python died; was it out of memory? {last}".strip(), "line": 1, "is_input": True})
    return outcomes


def _pictures(root: Path, outcome: Outcome) -> list[list[int] | None]:
    """Return sizes and times of an output's pictures, None if they are gone."""
    files = [root / name for name in PICTURE.findall(json.dumps(outcome.get("outputs")))]
    return [[file.stat().st_size, file.stat().st_mtime_ns] if file.exists() else None for file in files]


def _digest(*texts: str) -> str:
    return hashlib.blake2b("\0".join(texts).encode("utf-8", "replace"), digest_size=16).hexdigest()


def _state(project: Project, data: Path) -> str:
    """Return a digest of the sizes and times of files that code may read: all but prose, hidden and generated ones."""
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


def _left_out(outcome: Outcome, place: str, expression: str = "") -> str:
    """Return a sentence in place of failed code. Raises UserError if the render has to end."""
    if outcome["is_input"]:
        raise UserError(f"{place}: {outcome['error']}")
    line = f"{place}: {expression and f'`{expression}` raises '}{outcome['error']}"
    if os.environ.get(failures.STRICT):
        raise failures.StrictError(line)
    return failures.noted_as(line, line)


def _with_values(line: Line, made: Iterator[Outcome], has_failed: bool) -> Line:
    """Replace the inline expressions of a line by their values, or a mark.

    If an earlier cell `has_failed`, undefined names are its fault and need no report.
    """
    pieces = line.pieces
    for at in range(1, len(pieces), 2):
        expression, outcome = pieces[at].strip(), next(made)
        if "error" not in outcome:
            pieces[at] = as_markdown(outcome["outputs"])
            continue
        if not (has_failed and outcome["error"].startswith("NameError")):
            _left_out(outcome, line.place, expression)
        pieces[at] = MISSING
    return line.beside("".join(pieces))


def as_markdown(outputs: list[dict[str, str]]) -> str:
    """Convert a value to Markdown by the rules of Quarto's Jupyter engine.

    A `Markdown` object is Markdown. Anything else is its `repr`; a string loses its quotes, and its markup is escaped.
    """
    value = outputs[-1] if outputs else {}
    text = value.get("text/markdown", value.get("text/plain", ""))
    is_string = "text/markdown" not in value and text[:1] in ("'", '"')
    return MARKUP.sub(r"\\\1", text[1:-1]) if is_string else text


def _cell_texts(cell: CodeCell, outcome: Outcome, root: Path) -> list[str]:
    if "error" in outcome:
        place = f"{cell.opening.file}:{cell.first_line + outcome['line'] - 1}"
        texts = ["", escape(_left_out(outcome, place)), ""]
    elif not cell.options["include"]:
        return []
    else:
        texts = [text for output in outcome["outputs"] for text in ("", _markdown(cell, output, root), "")]
    if caption := cell.options.get("fig-cap") or cell.options.get("tbl-cap"):
        texts = ["", f"::: {{#{cell.options['label']}}}", *texts, "", " ".join(caption.split()), ":::", ""]
    return texts


def _markdown(cell: CodeCell, output: dict[str, str], root: Path) -> str:
    """Convert an output to Markdown. Pictures are written to files."""
    text = output.get("text/markdown", output.get("stdout") if cell.options["output"] else None)
    if text is not None:
        return text
    kind = next((kind for kind in output if kind.startswith("image/")), None)
    if kind is None:
        kinds = ", ".join(sorted(output))
        raise cell.opening.error(f"the cell outputs {kinds}; return Markdown, or print it with '#| output: asis'")
    data = output[kind].encode() if kind == "image/svg+xml" else base64.b64decode(output[kind])
    path = PICTURES / f"cell-{hashlib.blake2b(data, digest_size=8).hexdigest()}{guess_extension(kind)}"
    write_file(root / path, data)
    about = cell.options.get("fig-alt") or cell.options.get("fig-cap") or "a figure"
    return f"![]({path.as_posix()}){{fig-alt={quoted(about)}}}"
