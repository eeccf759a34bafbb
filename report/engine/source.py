"""The text of a document: lines with their places, includes resolved, cells apart from prose, chapters by name."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from measure.errors import UserError, unknown
from report.engine.project import SETTINGS_FILE, Project, read_settings, read_text

INCLUDE = re.compile(r"^\s*\{\{<\s*include\s+(?P<path>\S+)\s*>\}\}\s*$")
SHORTCODE = re.compile(r"\{\{<\s*(?P<name>\S*)")
FENCE = re.compile(r"^(?P<indent>\s*)(?P<ticks>`{3,}|~{3,})\s*(?P<info>[^`]*?)\s*$")
INLINE = re.compile(r"(?<!`)`\{python\}[ \t]([^`]+)`")
UNREADABLE = re.compile(r"`\{+(\w+)\}+\s")
OPTION = re.compile(r"^#\s*\| ?")
OPTIONS = {
    "label": r"[\w.:-]+", "fig-cap": (str,), "fig-alt": (str,), "tbl-cap": (str,), "include": (bool,),
    "output": "asis",
}  # fmt: skip
FILTER = Path("report/engine/missing.lua")


@dataclass(frozen=True)
class Line:
    """One line of Markdown and where it comes from: a file relative to the root, a number from 1."""

    text: str
    file: str
    number: int
    has_values: bool = True  #: its inline code is run: it stands in no listing, nor in a chapter that is left out

    @property
    def place(self) -> str:
        """`file:line`, as error messages name it."""
        return f"{self.file}:{self.number}"

    @property
    def pieces(self) -> list[str]:
        """The parts of the text, of which every second is an expression."""
        return INLINE.split(self.text) if self.has_values else [self.text]

    def error(self, problem: str) -> UserError:
        """Return the error that something is wrong here."""
        return UserError(f"{self.place}: {problem}")

    def beside(self, text: str) -> "Line":
        """Return another text that comes from the same place."""
        return replace(self, text=text)


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

    A chapter that is left out has no cell: it is there for `missing.lua`, which takes it out and knows its labels by
    then. Raise UserError, with file and line, for an include that is not there or goes round in a circle, other
    shortcodes, a cell in another language, with a wrong option or a wrong caption, and a fence that is never closed.
    """
    unread, parts = left_out(project), list[Line | CodeCell]()
    block, closing = list[Line](), re.compile("")
    for line in _lines(project, project.document, project.body_line, []):
        fence = None if block else FENCE.match(line.text)
        if fence:
            block, closing = [line], re.compile(rf"^\s*{fence['ticks'][0]}{{{len(fence['ticks'])},}}\s*$")
            is_cell = re.match(r"\{\w", fence["info"]) is not None
            if is_cell and (fence["indent"] or fence["info"] != "{python}"):
                raise line.error("a cell begins with ```{python} at the left margin, its options in '#|' lines")
        elif not block:
            parts.append(replace(_checked(line), has_values=False) if line.file in unread else _checked(line))
        elif not closing.match(line.text):
            block.append(line)
        else:
            if not is_cell:
                parts += [_checked(replace(each, has_values=False)) for each in (*block, line)]
            elif (cell := _cell(block)) and line.file not in unread:
                parts.append(cell)
            elif label := cell.options.get("label"):
                parts += [replace(line, text=text) for text in ("", f"::: {{#{label}}}", ":::", "")]
            block = []
    if block:
        raise block[0].error("this code block is never closed")
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


def _checked(line: Line) -> Line:
    if unreadable := UNREADABLE.search("".join(line.pieces[::2])):
        form = "inline code is `{python} expression`, on one line and outside listings"
        raise line.error(f"{form}, not {unreadable[0].strip()!r}")
    return line


def _cell(block: list[Line]) -> CodeCell:
    opening, *lines = block
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
    if dropped and FILTER not in map(Path, project.settings["filters"]):
        raise UserError(f"{SETTINGS_FILE}: to leave chapters out, add {FILTER} to its filters, with at: pre-ast")
    for name, file in dropped.items():
        if not re.search(rf"(?m)^# .*\{{#sec-{re.escape(name)}[ }}]", read_text(project.root / file)):
            raise UserError(f"{file}:1: to be left out, a chapter needs a heading '# Title {{#sec-{name}}}'")
    return set(dropped.values())
