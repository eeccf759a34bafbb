"""The paper: a PDF set by Typst."""

import json
import re
from pathlib import Path
from typing import Any

import typst

from measure.errors import UserError
from report.engine.blocks import Picture, with_pictures
from report.engine.pandoc import Element, div, plain, plain_text, raw_block, raw_inline, transform
from report.engine.project import Project
from report.engine.source import Places

FULL_WIDTH = 656
"""Pixels of a picture that takes the whole line; one that is wider is made smaller."""

WIDTH = re.compile(r'^[^>]*?<svg\b[^>]*?(?<![\w-])width="([\d.]+)(?:px)?"')


# Of the text width of the paper in the type of its tables (style.typ).
LINE_CHARACTERS = 105
# The space on both sides of a cell, in characters.
CELL_PADDING = 2.5
# How wide letters are, as shares of the average character of a line of text.
NARROW, WIDE, OTHER = 0.6, 1.4, 1.1
NARROW_CHARACTERS = frozenset(" .,:;!|'’()[]/-–fijlrt\u00a0\u202f")
WIDE_CHARACTERS = frozenset("mw%@×≥≤")


def paper_blocks(blocks: list[Element], project: Project, places: Places) -> list[Element]:
    """Return the document's blocks with calls of the template's functions for what pandoc does not write."""

    def picture(image: Picture) -> Element:
        # JSON's strings are Typst's, as far as paths and sentences go.
        path, alternative = (json.dumps(text, ensure_ascii=False) for text in (image.path, image.alternative))
        width = image.width or _share_of_line(project.root / image.path)
        return raw_inline("typst", f"#box(image({path}, width: {width}, alt: {alternative}))")

    blocks = transform(blocks, _floating)
    return list(transform(with_pictures(blocks, project.root, places, picture), _called))


def _share_of_line(picture: Path) -> str:
    """Return the width of a picture that has none given: all have one scale, so that their letters have one size."""
    width = WIDTH.search(picture.read_text("utf-8")) if picture.suffix == ".svg" else None
    return f"{min(100, 100 * float(width[1]) / FULL_WIDTH):.4g}%" if width else "auto"


def _floating(element: Element) -> list[Element] | None:
    """Let a figure stand at the top or bottom of a page; a sentence in place of one stays in the text."""
    if element["t"] != "Figure" or not _holds_picture(element):
        return None
    return [raw_block("typst", "#[#set figure(placement: auto)"), element, raw_block("typst", "]")]


def _holds_picture(node: Any) -> bool:
    if isinstance(node, dict):
        return node.get("t") == "Image" or _holds_picture(node.get("c"))
    return isinstance(node, list) and any(map(_holds_picture, node))


def _called(element: Element) -> list[Element] | None:
    if element["t"] == "Div" and "callout" in element["c"][0][1]:
        (identifier, classes, _), (title, body) = element["c"]
        opening = raw_inline("typst", f'#callout("{classes[1]}")[')
        label = f" <{identifier}>" if identifier else ""
        heading = plain([opening, *title["c"][1][0]["c"], raw_inline("typst", "][")])
        return [heading, div(body["c"][1]), raw_block("typst", f"]{label}")]
    if element["t"] == "Table":
        return [{"t": "Table", "c": with_column_widths(element["c"])}]
    if element["t"] == "Span" and "equation" in element["c"][0][1]:
        (identifier, _, _), (formula, number) = element["c"]
        call = f'#numbered-equation("{number["c"][1][0]["c"]}", {_spoken(formula)})['
        return [raw_inline("typst", call), formula, raw_inline("typst", f" <{identifier}>]")]
    if element["t"] == "Math":
        return [raw_inline("typst", f"#spoken({_spoken(element)})["), element, raw_inline("typst", "]")]
    return None


def _spoken(formula: Element) -> str:
    """Return a formula's alternative text, its TeX, as a string of Typst."""
    return json.dumps(" ".join(formula["c"][1].split()), ensure_ascii=False)


def with_column_widths(table: list[Any]) -> list[Any]:
    """Return the content of a Table, with relative widths where it has none and its longest lines do not fit.

    Typst gives the columns of a table that is too wide equal shares, and words that do not fit then run into the
    next column.

    A column gets the length of its longest word, and of what remains a share by how much longer its longest
    line is (CSS 2.1, 17.5.2.2): first the lines below its header, then the header, of which there is one.
    """
    columns = table[2]
    rows = [row for _, row in _rows(table)]
    if any(width["t"] != "ColWidthDefault" for _, width in columns):
        return table
    if any(cell[2:4] != [1, 1] for row in rows for cell in row):
        return table
    texts = [[plain_text(row[number][4]) for row in rows] for number in range(len(columns))]
    words = [max(map(_longest_word, column)) + CELL_PADDING for column in texts]
    below = [_line(word, column[len(table[3][1]) :]) for word, column in zip(words, texts, strict=True)]
    lines = [_line(word, column) for word, column in zip(words, texts, strict=True)]
    if sum(lines) <= LINE_CHARACTERS:
        return table
    narrow, wide = (words, below) if sum(below) > LINE_CHARACTERS else (below, lines)
    spare = max(0.0, LINE_CHARACTERS - sum(narrow))
    stretch = spare / (sum(wide) - sum(narrow)) if sum(wide) > sum(narrow) else 0.0
    widths = [least + stretch * (most - least) for least, most in zip(narrow, wide, strict=True)]
    shares = [{"t": "ColWidth", "c": width / sum(widths)} for width in widths]
    specifications = [[alignment, share] for (alignment, _), share in zip(columns, shares, strict=True)]
    return [*table[:2], specifications, *table[3:]]


def _rows(table: list[Any]) -> list[Any]:
    (_, head), bodies = table[3], table[4]
    return [*head, *(row for _, _, more_head, body in bodies for row in [*more_head, *body])]


def _line(word: float, texts: list[str]) -> float:
    """Return the length of a column's longest line, which is no less than its longest word."""
    return max([word, *(_length(text) + CELL_PADDING for text in texts)])


def _longest_word(text: str) -> float:
    return max(map(_length, re.split(r"[ \n-]", text)))


def _length(text: str) -> float:
    """Return the length of a text in characters of the average width."""
    narrow = sum(character in NARROW_CHARACTERS for character in text)
    wide = sum(character.isupper() or character in WIDE_CHARACTERS for character in text)
    return NARROW * narrow + WIDE * wide + OTHER * (len(text) - narrow - wide)


def paper_arguments(project: Project, temporary: Path) -> list[str]:
    """Return pandoc's arguments for the Typst source."""
    header = temporary / "header.typ"
    header.write_text("\n".join(project.header_texts("typst")), "utf-8")
    return [
        "--to=typst",
        f"--template={Path(__file__).parent / 'resources' / 'paper.typ'}",
        f"--include-in-header={header}",
        f"--variable=papersize:{project.format('typst').get('papersize', 'a4')}",
    ]


def compile_paper(text: str, project: Project) -> bytes:
    """Return the PDF of a Typst source; fonts are the project's and those in the typst package.

    It is tagged for readers who listen (PDF/UA-1, ISO 14289-1), which Typst refuses to a picture or formula without
    an alternative text.
    """
    try:
        compiler = typst.Compiler(root=str(project.root), font_paths=project.font_folders, ignore_system_fonts=True)
        pdf = compiler.compile(text.encode(), format="pdf", pdf_standards="ua-1")
    except typst.TypstError as error:
        raise UserError(f"Typst stops: {error.message} {' '.join(error.hints)}".rstrip()) from error
    assert isinstance(pdf, bytes)  # Lists are for images, a page each.
    return pdf
