"""The text of a document: lines with their places, includes resolved, cells apart from prose, chapters by name."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from measure.errors import UserError, unknown
from report.engine.project import SETTINGS_FILE, Project, Schema, read_settings, read_text

INCLUDE = re.compile(r"^\s*\{\{<\s*include\s+(?P<path>\S+)\s*>\}\}\s*$")
SHORTCODE = re.compile(r"\{\{<\s*(?P<name>\S*)")
FENCE = re.compile(r"^(?P<indent>\s*)(?P<ticks>`{3,}|~{3,})\s*(?P<info>[^`]*?)\s*$")
INLINE = re.compile(r"(?<!`)`\{python\}[ \t]([^`]+)`")
OPTION = re.compile(r"^#\s*\| ?")
OPTIONS: Schema = {
    "label": re.compile(r"[\w.:-]+"), "fig-cap": str, "fig-alt": str, "tbl-cap": str, "include": bool,
    "output": {"asis"},
}  # fmt: skip
FILTER = Path("report/engine/missing.lua")


@dataclass(frozen=True)
class Line:
    """One line of Markdown and where it comes from: a file relative to the root, a number from 1."""

    text: str
    file: str
    number: int
    is_listing: bool = False  #: it stands in a fenced code block

    @property
    def place(self) -> str:
        """`file:line`, as error messages name it."""
        return f"{self.file}:{self.number}"

    def error(self, problem: str) -> UserError:
        """Return the error that something is wrong here."""
        return UserError(f"{self.place}: {problem}")

    def beside(self, text: str) -> "Line":
        """Return another text that comes from the same place."""
        return replace(self, text=text)


class Places:
    """The lines of the assembled document, searched for what was found wrong in the document tree."""

    def __init__(self, lines: list[Line]) -> None:
        self.lines = lines

    def of(self, text: str) -> str:
        """Return `file:line` of the last line that holds `text` as a whole word; if none does, of the first line."""
        word = re.compile(rf"(?<![\w-]){re.escape(text)}(?![\w-])")
        for line in reversed(self.lines):
            if text in line.text and not line.text.startswith("<script") and word.search(line.text):
                return line.place
        return self.lines[0].place

    def error(self, text: str, problem: str) -> UserError:
        """Return the error that something is wrong with `text`, which names its place."""
        return UserError(f"{self.of(text)}: {problem}")


@dataclass(frozen=True)
class CodeCell:
    """Python code to run, and by which options its output enters the document.

    `opening` is the fence's line, `first_line` the number of the code's first line in the same file.
    """

    opening: Line
    first_line: int
    code: str
    options: dict[str, Any]


def read_source(project: Project) -> list[Line | CodeCell]:
    """Return the document's lines and cells in order, with included files in their places.

    Raise UserError, with file and line, for an include that is not there or goes round in a circle, other shortcodes,
    a cell in another language, with a wrong option or a wrong caption, and a fence that is never closed.
    """
    lines = list(_lines(project, project.document, project.body_line, []))
    parts: list[Line | CodeCell] = []
    at = 0
    while at < len(lines):
        fence = FENCE.match(lines[at].text)
        end = _closing(lines, at, fence["ticks"]) if fence else at
        if fence and re.match(r"\{\w", fence["info"]):
            if fence["indent"] or fence["info"] != "{python}":
                raise lines[at].error("a cell begins with ```{python} at the left margin, its options in '#|' lines")
            parts.append(_cell(lines[at], lines[at + 1 : end]))
        else:
            parts += [replace(line, is_listing=fence is not None) for line in lines[at : end + 1]]
        at = end + 1
    return parts


def included(text: str) -> str | None:
    """Return the file that a line includes, if it does; as in Quarto relative to the root, in nested includes too."""
    include = INCLUDE.match(text)
    return include["path"].strip("\"'").removeprefix("/") if include else None


def _lines(project: Project, file: str, first: int, parents: list[str]) -> Iterator[Line]:
    texts = read_text(project.root / file).split("\n")
    if parents and texts[0].rstrip() == "---":
        raise UserError(f"{file}:1: an included file has no front matter; put it into {project.document}")
    for number, text in enumerate(texts[first - 1 :], first):
        line = Line(text.rstrip("\r"), file, number)
        path = included(text)
        shortcode = SHORTCODE.search(text)
        if path:
            if path in [*parents, file]:
                raise line.error(f"{path} includes itself")
            if not (project.root / path).is_file():
                raise line.error(f"the included file {path} is not there; restore it")
            yield from _lines(project, path, 1, [*parents, file])
            yield line.beside("")
        elif shortcode:
            raise line.error(f"unknown shortcode '{shortcode['name']}'; only 'include' is known, alone on its line")
        else:
            yield line


def _closing(lines: list[Line], opening: int, ticks: str) -> int:
    closing = re.compile(rf"^\s*{re.escape(ticks[0])}{{{len(ticks)},}}\s*$")
    for at in range(opening + 1, len(lines)):
        if closing.match(lines[at].text):
            return at
    raise lines[opening].error("this code block is never closed")


def _cell(opening: Line, lines: list[Line]) -> CodeCell:
    options = [OPTION.sub("", line.text) for line in takewhile(lambda line: OPTION.match(line.text), lines)]
    given = read_settings("\n".join(options), opening.file, opening.number + 1, OPTIONS)
    label = given.get("label", "")
    for prefix, caption in (("fig", "fig-cap"), ("tbl", "tbl-cap")):
        if label.startswith(f"{prefix}-") != (caption in given):
            raise opening.error(f"a label '{prefix}-…' and '{caption}' go together, here the label is '{label}'")
        if "`{python}" in given.get(caption, ""):
            raise opening.error(f"'{caption}' cannot hold inline code; options are read as they stand")
    code = "\n".join(line.text for line in lines[len(options) :])
    first = opening.number + len(options) + 1
    return CodeCell(opening, first, code, {"include": True, "output": "", **given})


def left_out(project: Project) -> set[str]:
    """Return the files of the chapters that are not chosen; none where no choice was made.

    A chapter is a file that the document includes, called by that file's name; its heading's label is `sec-NAME`, by
    which `missing.lua` takes it out. Raise UserError for a chosen name that is not a chapter and for a missing label.
    """
    texts = read_text(project.root / project.document).split("\n")[project.body_line - 1 :]
    known = {Path(file).stem: file for text in texts if (file := included(text))}
    chosen = project.chosen("chapters") if known else []  # a document of one piece has none to choose
    for name in chosen:
        if name not in known:
            raise unknown(f"--chapters, or roofwright: chapters in {SETTINGS_FILE}", name, known)
    dropped = {name: file for name, file in known.items() if chosen and name not in chosen}
    if dropped and FILTER not in map(Path, project.filters):
        raise UserError(f"{SETTINGS_FILE}: to leave chapters out, add {FILTER} to its filters, with at: pre-ast")
    for name, file in dropped.items():
        if not re.search(rf"(?m)^# .*\{{#sec-{re.escape(name)}[ }}]", read_text(project.root / file)):
            raise UserError(f"{file}:1: to be left out, a chapter needs a heading '# Title {{#sec-{name}}}'")
    return set(dropped.values())
