"""The text of a document: its lines with their places, includes resolved, cells told from prose."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from measure.errors import UserError
from report.engine.project import Project, read_text

INCLUDE = re.compile(r"^\s*\{\{<\s*include\s+(?P<path>\S+)\s*>\}\}\s*$")
SHORTCODE = re.compile(r"\{\{<\s*(?P<name>\S*)")
FENCE = re.compile(r"^(?P<indent>\s*)(?P<ticks>`{3,}|~{3,})\s*(?P<info>.*?)\s*$")
CELL = re.compile(r"^\{(?P<language>\w[\w.-]*)(?P<rest>.*)\}$")


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

    def beside(self, text: str) -> Line:
        """Another text that comes from the same place."""
        return Line(text, self.file, self.number)


@dataclass(frozen=True)
class Prose:
    """Markdown between two cells; `listing` marks the lines inside a fenced code block."""

    lines: list[Line]
    listing: list[bool]


@dataclass(frozen=True)
class CodeBlock:
    """A `{python}` block, options included; `opening` is the line of its fence."""

    opening: Line
    lines: list[Line]


def read_source(project: Project) -> list[Prose | CodeBlock]:
    """The document's blocks in order, with the files it includes in their places.

    Raises UserError, with file and line, for an include that is not there or goes round in a circle, a
    shortcode other than `include`, a cell in another language and a fence that is never closed.
    """
    return list(_blocks(list(_lines(project, project.document, project.body_line, []))))


def included(text: str) -> str | None:
    """The file that a line includes, if it does; as in Quarto relative to the root, in nested includes too."""
    include = INCLUDE.match(text)
    return include["path"].strip("\"'").removeprefix("/") if include else None


def _lines(project: Project, file: str, first: int, parents: list[str]) -> Iterator[Line]:
    texts = read_text(project.root / file).split("\n")
    if parents and texts[0].rstrip() == "---":
        raise UserError(f"{file}:1: an included file has no front matter; put it into {project.document}")
    for number, text in enumerate(texts[first - 1 :], first):
        line = Line(text.rstrip("\r"), file, number)
        path = included(text)
        if path:
            if path in [*parents, file]:
                raise UserError(f"{line.place}: {path} includes itself")
            if not (project.root / path).is_file():
                raise UserError(f"{line.place}: the included file {path} is not there; restore it")
            yield from _lines(project, path, 1, [*parents, file])
            yield line.beside("")
            continue
        shortcode = SHORTCODE.search(text)
        if shortcode:
            raise UserError(
                f"{line.place}: unknown shortcode '{shortcode['name']}'; the embedded engine knows 'include', "
                "alone on its line"
            )
        yield line


def _blocks(lines: list[Line]) -> Iterator[Prose | CodeBlock]:
    prose, listing = [], []
    position = 0
    while position < len(lines):
        line = lines[position]
        fence = FENCE.match(line.text)
        if not fence or "`" in fence["info"]:
            prose.append(line)
            listing.append(False)
            position += 1
            continue
        end = _closing(lines, position, fence)
        cell = CELL.match(fence["info"])
        if cell:
            _check_cell(line, fence, cell)
            yield Prose(prose, listing)
            prose, listing = [], []
            yield CodeBlock(line, lines[position + 1 : end])
        else:
            prose += lines[position : end + 1]
            listing += [True] * (end + 1 - position)
        position = end + 1
    yield Prose(prose, listing)


def _closing(lines: list[Line], opening: int, fence: re.Match[str]) -> int:
    closing = re.compile(rf"^\s*{re.escape(fence['ticks'][0])}{{{len(fence['ticks'])},}}\s*$")
    for position in range(opening + 1, len(lines)):
        if closing.match(lines[position].text):
            return position
    raise UserError(f"{lines[opening].place}: this code block is never closed")


def _check_cell(line: Line, fence: re.Match[str], cell: re.Match[str]) -> None:
    if cell["language"] != "python":
        raise UserError(
            f"{line.place}: a cell in '{cell['language']}'; the embedded engine runs {{python}} cells "
            f"(a listing is written ```{cell['language']})"
        )
    if cell["rest"].strip():
        raise UserError(f"{line.place}: options of a cell stand in '#|' lines below its fence")
    if fence["indent"]:
        raise UserError(f"{line.place}: a cell must begin at the left margin")
