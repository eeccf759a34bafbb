"""Pipe tables in Markdown, and their cells."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pandas as pd

from report.markdown import NOTHING, escape
from report.stats.value import Name, Value

NONE = "–"  # in a cell without a value
CITATION = re.compile(r"(?<!\\)@[^;\]]+")  # a citation, which is printed as an author and a year
AUTHOR_AND_YEAR = "Longauthor 2000"

LONGEST_WORD = 40  # characters; a longer one may break, so that no column is wider
WORD = re.compile(rf"(?<!\S)(?:\\.|[^\s\\@$\[\]`]){{{LONGEST_WORD + 1},}}(?!\S)")
CHARACTER = re.compile(r"\\.|.")

LINE_CHARACTERS, CELL_PADDING = 118, 2.5
"""The text width in characters of a table's type (style.typ), and the space on both sides of a cell."""
BREAK = "\u200b"  # allows a line to break inside a word


def column_widths(columns: list[list[str]]) -> list[float]:
    """Return the widths in characters of columns, given as the texts of their cells: their longest lines if all fit.

    Else each column gets its longest word, and a share of the rest in proportion to the excess of its longest line
    (CSS 2.1, 17.5.2.2). Their sum is LINE_CHARACTERS, or more if the words need it.
    """
    lines = [max(map(len, column), default=0) + CELL_PADDING for column in columns]
    ends = f"[ {BREAK}-]"
    words = [max((len(word) for text in column for word in re.split(ends, text)), default=0) for column in columns]
    least = [word + CELL_PADDING for word in words]
    if sum(lines) <= LINE_CHARACTERS:
        return lines
    stretch = max(0.0, LINE_CHARACTERS - sum(least)) / max(1.0, sum(lines) - sum(least))
    return [word + stretch * (line - word) for word, line in zip(least, lines, strict=True)]


def _printed(cell: str) -> str:
    """Return roughly the printed text of a cell."""
    return CITATION.sub(AUTHOR_AND_YEAR, cell).replace(NOTHING, "").replace("\\", "")


def _with_breaks(cell: str) -> str:
    """Allow breaks in words longer than ``LONGEST_WORD``."""

    def broken(word: re.Match[str]) -> str:
        characters = CHARACTER.findall(word[0])
        parts = ("".join(characters[at : at + LONGEST_WORD]) for at in range(0, len(characters), LONGEST_WORD))
        return BREAK.join(parts)

    return WORD.sub(broken, cell)


def _text(cell: Any) -> str:
    return escape(str(cell)) if isinstance(cell, Value | Name) else str(cell)


def markdown_table(header: str, rows: Iterable[Sequence[Any]]) -> str:
    """Return a pipe table. In a header such as ``"Model | Batch > | Latency >"``, ``>`` aligns to the right.

    Cells are Markdown on one line, or a Value, which prints as a number or a dash. If a table has long lines, pandoc
    sets the widths of its columns in proportion to the dashes below the header. Columns that do not fit get enough
    dashes to make that line a long one.
    """
    titles = header.split(" | ")
    names = [title.removesuffix(" >") for title in titles]
    lines = [[_with_breaks(cell) for cell in line] for line in (names, *(map(_text, row) for row in rows))]
    widths = column_widths([[_printed(line[at]) for line in lines] for at in range(len(names))])
    rules = []
    scale = 2 if sum(widths) >= LINE_CHARACTERS else 1
    for title, width in zip(titles, widths, strict=True):
        dashes = "-" * max(3, round(scale * width) - 1)  # a colon counts, too
        rules.append(dashes + ":" if title.endswith(" >") else ":" + dashes)
    return "".join("| " + " | ".join(cells) + " |\n" for cells in (lines[0], rules, *lines[1:]))


def known(value: Any, write: Callable[..., str], *arguments: Any, otherwise: str = NONE) -> str:
    """Return ``write(value, *arguments)``, or another text for a missing value."""
    return otherwise if pd.isna(value) else write(value, *arguments)


def cited(keys: str) -> str:
    """Return keys joined by ``;`` as a citation."""
    return "[" + "; ".join(f"@{key}" for key in keys.split(";")) + "]"
