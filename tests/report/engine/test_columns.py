import json
from pathlib import Path

import pytest

from report.engine.columns import CELL_PADDING, LINE_CHARACTERS, with_column_widths
from report.engine.pandoc import run_pandoc


def table(*rows):
    width = len(rows[0])
    lines = ["| " + " | ".join(row) + " |" for row in (rows[0], ["---"] * width, *rows[1:])]
    arguments = ["--from=markdown", "--to=json", "--columns=100000"]
    (block,) = json.loads(run_pandoc(arguments, "\n".join(lines), Path()))["blocks"]
    return block["c"]


def shares(content):
    return [width["c"] for _, width in content[2]]


def test_a_table_that_fits_is_left_alone():
    content = table(["a", "b"], ["1", "2"])
    assert with_column_widths(content) == content


def test_long_lines_share_what_the_words_leave():
    """Words of 20 and 5 characters, lines of 20 and 205: the second column gets all that is left."""
    content = with_column_widths(table(["x" * 20, "word"], ["1", "abcde " * 34 + "f"]))
    first = (20 * 1.1 + CELL_PADDING) / LINE_CHARACTERS
    assert shares(content) == pytest.approx([first, 1 - first])


def test_words_that_do_not_fit_share_by_their_length():
    content = with_column_widths(table(["x" * 100, "y" * 300], ["1", "2"]))
    # Words of 100 and 300 characters: 100 * 1.1 + 2.5 and 300 * 1.1 + 2.5.
    assert shares(content) == pytest.approx([112.5 / 445, 332.5 / 445])


def test_a_header_gets_what_its_column_leaves():
    """Words of 40, 40 and 8, lines below of as many: of the 105 characters the header of 27 gets what they leave."""
    content = with_column_widths(
        table(["a", "b", "one two three seven header"], ["x" * 40, "y" * 40, "12345678"])
    )
    wide = 40 * 1.1 + CELL_PADDING
    assert shares(content) == pytest.approx([wide / LINE_CHARACTERS] * 2 + [1 - 2 * wide / LINE_CHARACTERS])


def test_given_widths_stay():
    content = table(["x" * 100, "y" * 300], ["1", "2"])
    for (_, width), share in zip(content[2], [0.5, 0.5], strict=True):
        width.update(t="ColWidth", c=share)
    assert shares(with_column_widths(content)) == [0.5, 0.5]


def test_capitals_are_wider_than_other_letters_and_some_letters_narrower():
    """Words of 50 letters: capitals 1.4, i 0.6, x 1.1 of the average character, and the padding of 2.5."""
    content = with_column_widths(table(["A" * 50, "i" * 50, "x" * 50], ["1", "2", "3"]))
    whole = 70 + 30 + 55 + 3 * 2.5
    assert shares(content) == pytest.approx([72.5 / whole, 32.5 / whole, 57.5 / whole])
