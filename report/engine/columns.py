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
# A word of capitals and digits, such as a unit, is wider than the average of a line.
WORD_STRETCH = 1.1


def with_column_widths(table: list[Any]) -> list[Any]:
    """The content of a Table, with relative widths where it has none and its longest lines do not fit.

    A column gets the length of its longest word, and of what remains a share by how much longer its longest
    line is (CSS 2.1, 17.5.2.2).
    """
    columns = table[2]
    rows = [row for _, row in _rows(table)]
    if any(width["t"] != "ColWidthDefault" for _, width in columns):
        return table
    if any(cell[2:4] != [1, 1] for row in rows for cell in row):
        return table
    texts = [[plain_text(row[number][4]) for row in rows] for number in range(len(columns))]
    words = [WORD_STRETCH * max(_longest_word(text) for text in column) + CELL_PADDING for column in texts]
    lines = [
        max(word, max(len(text) for text in column) + CELL_PADDING)
        for word, column in zip(words, texts, strict=True)
    ]
    if sum(lines) <= LINE_CHARACTERS:
        return table
    spare = max(0.0, LINE_CHARACTERS - sum(words))
    stretch = spare / (sum(lines) - sum(words)) if sum(lines) > sum(words) else 0.0
    widths = [word + stretch * (line - word) for word, line in zip(words, lines, strict=True)]
    shares = [{"t": "ColWidth", "c": width / sum(widths)} for width in widths]
    specifications = [[alignment, share] for (alignment, _), share in zip(columns, shares, strict=True)]
    return [*table[:2], specifications, *table[3:]]


def _rows(table: list[Any]) -> list[Any]:
    (_, head), bodies = table[3], table[4]
    return [*head, *(row for _, _, more_head, body in bodies for row in [*more_head, *body])]


def _longest_word(text: str) -> int:
    return max(len(word) for word in re.split(r"[ \n-]", text))
