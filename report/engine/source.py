"""The text of a document: its lines with their places, with includes resolved and cells apart from prose."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from measure.errors import UserError
from report.engine.project import Project, read_text

INCLUDE = re.compile(r"^\s*\{\{<\s*include\s+(?P<path>\S+)\s*>\}\}\s*$")
SHORTCODE = re.compile(r"\{\{<\s*(?P<name>\S*)")
FENCE = re.compile(r"^(?P<indent>\s*)(?P<ticks>`{3,}|~{3,})\s*(?P<info>.*?)\s*$")
CELL = re.compile(r"^\{(?P<language>\w[\w.-]*)(?P<rest>.*)\}$")
INLINE = re.compile(r"(?<!`)`\{python\}[ \t]([^`]+)`")


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

    def error(self, problem: str) -> UserError:
        """Return the error that something is wrong here."""
        return UserError(f"{self.place}: {problem}")

    def beside(self, text: str) -> "Line":
        """Return another text that comes from the same place."""
        return replace(self, text=text)


class Places:
    """The lines of the assembled document, searched for what was found wrong in the document tree."""

    def __init__(self, lines: list[Line]) -> None:
        self._lines = lines
        # charts and their script, by far the longest lines, hold no place
        self._searched = [line for line in lines if not line.text.startswith("<script")]

    def of(self, text: str, nth: int = 0) -> str:
        """Return `file:line` of the `nth` line, from 0, that holds `text` as a whole word; if none, of the first."""
        word = re.compile(rf"(?<![\w-]){re.escape(text)}(?![\w-])")
        # the first test is quick
        found = [line for line in self._searched if text in line.text and word.search(line.text)]
        if nth < len(found):
            return found[nth].place
        return (found or self._lines)[0].place

    def error(self, text: str, problem: str, nth: int = 0) -> UserError:
        """Return the error that something is wrong with `text`, which names its place."""
        return UserError(f"{self.of(text, nth)}: {problem}")

    def at(self, number: int) -> str:
        """Return `file:line` of the assembled document's line `number`, from 1."""
        return self._lines[min(number, len(self._lines)) - 1].place


@dataclass(frozen=True)
class TextBlock:
    """Markdown between two cells; `listing` marks the lines inside a fenced code block."""

    lines: list[Line]
    listing: list[bool]


@dataclass(frozen=True)
class CodeBlock:
    """A `{python}` block, options included; `opening` is the line of its fence."""

    opening: Line
    lines: list[Line]


def read_source(project: Project, file: str | None = None) -> list[TextBlock | CodeBlock]:
    """Return the blocks of the document, or of one `file` of it, in order, with included files in their places.

    Raise UserError, with file and line, for an include that is not there or goes round in a circle, a
    shortcode other than `include`, a cell in another language and a fence that is never closed.
    """
    if file:
        return list(_blocks(list(_lines(project, file, 1, [project.document]))))
    return list(_blocks(list(_lines(project, project.document, project.body_line, []))))


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
        if path:
            if path in [*parents, file]:
                raise line.error(f"{path} includes itself")
            if not (project.root / path).is_file():
                raise line.error(f"the included file {path} is not there; restore it")
            yield from _lines(project, path, 1, [*parents, file])
            yield line.beside("")
            continue
        shortcode = SHORTCODE.search(text)
        if shortcode:
            raise line.error(
                f"unknown shortcode '{shortcode['name']}'; the embedded engine knows 'include', alone on its line"
            )
        yield line


def _blocks(lines: list[Line]) -> Iterator[TextBlock | CodeBlock]:
    prose = TextBlock([], [])
    position = 0
    while position < len(lines):
        line = lines[position]
        fence = FENCE.match(line.text)
        if fence and "`" in fence["info"]:  # code within a line
            fence = None
        end = _closing(lines, position, fence) if fence else position
        cell = CELL.match(fence["info"]) if fence else None
        if fence and cell:
            _check_cell(line, fence, cell)
            yield prose
            prose = TextBlock([], [])
            yield CodeBlock(line, lines[position + 1 : end])
        else:
            prose.lines.extend(lines[position : end + 1])
            prose.listing.extend([fence is not None] * (end + 1 - position))
        position = end + 1
    yield prose


def _closing(lines: list[Line], opening: int, fence: re.Match[str]) -> int:
    closing = re.compile(rf"^\s*{re.escape(fence['ticks'][0])}{{{len(fence['ticks'])},}}\s*$")
    for position in range(opening + 1, len(lines)):
        if closing.match(lines[position].text):
            return position
    raise lines[opening].error("this code block is never closed")


def _check_cell(line: Line, fence: re.Match[str], cell: re.Match[str]) -> None:
    if cell["language"] != "python":
        raise line.error(
            f"a cell in '{cell['language']}'; the embedded engine runs {{python}} cells "
            f"(a listing is written ```{cell['language']})"
        )
    if cell["rest"].strip():
        raise line.error("options of a cell belong in '#|' lines below its fence")
    if fence["indent"]:
        raise line.error("a cell must begin at the left margin")
