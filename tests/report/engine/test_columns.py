import pytest

from report.engine.columns import BREAK, CELL_PADDING, LINE_CHARACTERS, fit, length, widths


def test_lengths():
    """An x is 1.1, m 1.4, i 0.6, a capital 1.4 of the average character; where a line may break nothing is drawn."""
    assert length("xmiX") == pytest.approx(1.1 + 1.4 + 0.6 + 1.4)
    assert length(f"x{BREAK}x") == pytest.approx(2.2)


def test_columns_that_fit_have_their_longest_line():
    columns = [["x", "xxxx xxxx"], ["xx", "x"]]
    assert fit(columns)
    # eight x and a blank; two x
    assert widths(columns, heads=1) == pytest.approx([8.8 + 0.6 + CELL_PADDING, 2.2 + CELL_PADDING])


def test_a_word_that_may_break_needs_the_room_of_its_longest_part():
    long = ["x", "y " * 60 + "z"]
    first, second = widths([["h", f"{'x' * 40}{BREAK}{'x' * 30}"], long], heads=1)
    assert first >= 40 * 1.1 + CELL_PADDING
    assert first + second == pytest.approx(LINE_CHARACTERS)
    assert not fit([["h", "x" * 70], long])


def test_columns_of_nothing():
    assert widths([[""], ["", ""]], heads=1) == [CELL_PADDING, CELL_PADDING]
