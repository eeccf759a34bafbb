"""Read a document: lines with their places, includes resolved, cells apart from prose, chapters by name."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from measure.errors import UserError, unknown
from report.engine.project import SETTINGS_FILE, Project, read_settings
from report.files import read_text

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


@dataclass(frozen=True)
class Line:
    """One line of Markdown and where it comes from: a file relative to the root, a number from 1."""

    text: str
    file: str
    number: int

    @property
    def place(self) -> str:
        """`file:line`, as error messages name it."""
        return f"{self.file}:{self.number}"

    @property
    def pieces(self) -> list[str]:
        """The parts of the text; every second one is an expression. Raises UserError for other inline code."""
        pieces = INLINE.split(self.text)
        if unreadable := UNREADABLE.search("".join(pieces[::2])):
            raise self.error(f"inline code is `{{python}} expression`, on one line, not {unreadable[0].strip()!r}")
        return pieces

    def error(self, problem: str) -> UserError:
        return UserError(f"{self.place}: {problem}")

    def beside(self, text: str) -> "Line":
        """Return another text from the same place."""
        return replace(self, text=text)


@dataclass(frozen=True)
class CodeCell:
    """Python code, and the options of its output. `opening` is the fence; the code starts at line `first_line`."""

    opening: Line
    first_line: int
    code: str
    options: dict[str, Any]


def read_source(project: Project) -> list[Line | CodeCell]:
    """Return the document's lines and cells in order, with included files in their places.

    Raises UserError, with file and line, for a missing or circular include, another shortcode, a cell in another
    language or with a wrong option, and an open fence.
    """
    parts, block = list[Line | CodeCell](), list[Line]()
    is_cell, closing = False, re.compile("")
    for line in _lines(project, project.document, project.body_line, []):
        fence = None if block else FENCE.match(line.text)
        if fence:
            is_cell = re.match(r"\{\w", fence["info"]) is not None
            if is_cell and (fence["indent"] or fence["info"] != "{python}"):
                raise line.error("a cell begins with ```{python} at the left margin, its options in '#|' lines")
            closing = re.compile(rf"^\s*{fence['ticks'][0]}{{{len(fence['ticks'])},}}\s*$")
        if not fence and not block:
            parts.append(line)
            continue
        block.append(line)
        if not fence and closing.match(line.text):
            parts += [_cell(block)] if is_cell else block
            block = []
    if block:
        raise block[0].error("this code block is never closed")
    return parts


def included(text: str) -> str | None:
    """Return the file that a line includes, if any. As in Quarto its path is relative to the root."""
    include = INCLUDE.match(text)
    return include["path"].strip("\"'").removeprefix("/") if include else None


def left_out(project: Project) -> set[str]:
    """Return the files of the chapters that a reader left out.

    A chapter is an included file, called by its name. `missing.lua` words the references to left-out chapters. Under
    Quarto it also removes them, by the labels `sec-NAME` of their headings. Raises UserError for an unknown chapter.
    """
    texts = read_text(project.root / project.document).split("\n")[project.body_line - 1 :]
    chapters = {Path(file).stem: file for text in texts if (file := included(text))}
    chosen = project.chosen("chapters") if chapters else []  # a document without includes has none
    for name in chosen:
        if name not in chapters:
            raise unknown(f"--chapters, or roofwright: chapters in {SETTINGS_FILE}", name, chapters)
    return {file for name, file in chapters.items() if chosen and name not in chosen}


def _lines(project: Project, file: str, first: int, parents: list[str]) -> Iterator[Line]:
    skipped = set() if parents else left_out(project)
    for number, text in enumerate(read_text(project.root / file).split("\n")[first - 1 :], first):
        line = Line(text.rstrip("\r"), file, number)
        path = included(text)
        if path in skipped:
            continue
        if path:
            if path in [*parents, file] or not (project.root / path).is_file():
                raise line.error(f"the included file {path} is not there, or includes itself")
            yield from _lines(project, path, 1, [*parents, file])
            yield line.beside("")
        elif shortcode := SHORTCODE.search(text):
            raise line.error(f"unknown shortcode '{shortcode['name']}'; only 'include' is known, alone on its line")
        else:
            yield line


def _cell(block: list[Line]) -> CodeCell:
    opening, *lines, _closing = block
    options = [OPTION.sub("", line.text) for line in takewhile(lambda line: OPTION.match(line.text), lines)]
    given = read_settings("\n".join(options), opening.file, opening.number + 1, OPTIONS)
    label = given.get("label", "")
    for prefix, caption in (("fig", "fig-cap"), ("tbl", "tbl-cap")):
        if label.startswith(f"{prefix}-") != (caption in given):
            raise opening.error(f"a label '{prefix}-…' and '{caption}' go together, here the label is '{label}'")
    code = "\n".join(line.text for line in lines[len(options) :])
    first = opening.number + len(options) + 1
    return CodeCell(opening, first, code, {"include": True, "output": "", **given})
