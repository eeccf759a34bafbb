"""Widths of a table's columns in the paper, by the rule that browsers have for a page.

Typst gives the columns of a table that is too wide equal shares, and words that do not fit then run into the
next column.
"""

from __future__ import annotations

import re
from typing import Any

from report.engine.pandoc import plain_text

# Of the text width of the paper in the type of its tables (style.typ).
LINE_CHARACTERS = 105
# The space on both sides of a cell, in characters.
CELL_PADDING = 2.5
# How wide letters are, as shares of the average character of a line of text.
NARROW, WIDE, OTHER = 0.6, 1.4, 1.1
NARROW_CHARACTERS = frozenset(" .,:;!|'’()[]/-–fijlrt\u00a0\u202f")
WIDE_CHARACTERS = frozenset("mw%@×≥≤")


def with_column_widths(table: list[Any]) -> list[Any]:
    """The content of a Table, with relative widths where it has none and its longest lines do not fit.

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
    """The length of a column's longest line, which is no less than its longest word."""
    return max([word, *(_length(text) + CELL_PADDING for text in texts)])


def _longest_word(text: str) -> float:
    return max(map(_length, re.split(r"[ \n-]", text)))


def _length(text: str) -> float:
    """In characters of the average width."""
    return sum(map(_width, text))


def _width(character: str) -> float:
    if character in NARROW_CHARACTERS:
        return NARROW
    return WIDE if character.isupper() or character in WIDE_CHARACTERS else OTHER
