"""Tables in Markdown."""

import pytest

from report.markdown_table import CELL_PADDING, LINE_CHARACTERS, column_widths, markdown_table


def test_column_widths():
    """The padding is 2.5 characters a column. Words of 20 and 5 characters, lines of 20 and 204.

    Columns that fit are as wide as their longest lines. Else the second gets what the first leaves, and where already
    the words do not fit each is as wide as its longest word.
    """
    assert column_widths([["abc", "a b"], ["a"]]) == [3 + CELL_PADDING, 1 + CELL_PADDING]
    first = 20 + CELL_PADDING
    assert column_widths([["x" * 20], ["abcd " * 41]]) == pytest.approx([first, LINE_CHARACTERS - first])
    assert column_widths([["x" * 100], ["y" * 300]]) == [102.5, 302.5]


def test_the_header_line_is_long_enough_for_wide_columns():
    """A column of 40 and its padding fits; 4 columns of that take 170 of 118, and so does each line alone."""
    narrow = markdown_table("A", [["x" * 40]])
    assert narrow.split("\n")[1] == "| :" + "-" * 41 + " |"  # round(42.5) is 42, with the colon
    rows = [["x " * 20 if row == column else "x" for column in range(4)] for row in range(4)]
    rule = markdown_table("A | B | C | D", rows).split("\n")[1]
    assert len(rule) > 160  # editions.lua
