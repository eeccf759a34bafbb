"""The widths of a table's columns by the lengths of the texts in them, so that no word runs into the next column."""

import re

LINE_CHARACTERS = 105
"""Of the text width of the paper in the type of its tables (style.typ)."""

CELL_PADDING = 2.5
"""The space on both sides of a cell, in characters."""

# How wide letters are, as shares of the average character of a line of text.
NARROW, WIDE, OTHER = 0.6, 1.4, 1.1
NARROW_CHARACTERS = frozenset(" .,:;!|'’()[]/-–fijlrt\u00a0\u202f")
WIDE_CHARACTERS = frozenset("mw%@×≥≤")

BREAK = "\u200b"
"""Within a word: a line may break here."""

WORD_END = re.compile(rf"[ \n{BREAK}-]")


def fit(columns: list[list[str]]) -> bool:
    """Return whether the longest lines of all columns, given as the texts of their cells, stand beside each other."""
    return sum(_line(column) for column in columns) <= LINE_CHARACTERS


def widths(columns: list[list[str]], heads: int) -> list[float]:
    """Return the widths of columns, in characters; of each column's texts the first `heads` are its header.

    Columns that fit get the length of their longest line. Others get that of their longest word, and of what remains
    a share by how much longer their longest line is (CSS 2.1, 17.5.2.2): first the lines below the header, then the
    header, of which there is one. Together they take LINE_CHARACTERS, or more where already the words do.
    """
    words, lines = [_word(column) for column in columns], [_line(column) for column in columns]
    if sum(lines) <= LINE_CHARACTERS:
        return lines
    below = [max(word, _line(column[heads:])) for word, column in zip(words, columns, strict=True)]
    narrow, wide = (words, below) if sum(below) > LINE_CHARACTERS else (below, lines)
    spare = max(0.0, LINE_CHARACTERS - sum(narrow))
    stretch = spare / (sum(wide) - sum(narrow)) if sum(wide) > sum(narrow) else 0.0
    return [least + stretch * (most - least) for least, most in zip(narrow, wide, strict=True)]


def _word(texts: list[str]) -> float:
    """Return the length of a column's longest word, with its padding."""
    return max(length(word) for text in texts for word in WORD_END.split(text)) + CELL_PADDING


def _line(texts: list[str]) -> float:
    """Return the length of a column's longest line, with its padding."""
    return max(map(length, texts), default=0.0) + CELL_PADDING


def length(text: str) -> float:
    """Return the length of a text in characters of the average width."""
    narrow = sum(character in NARROW_CHARACTERS for character in text)
    wide = sum(character.isupper() or character in WIDE_CHARACTERS for character in text)
    return NARROW * narrow + WIDE * wide + OTHER * (len(text) - narrow - wide - text.count(BREAK))
