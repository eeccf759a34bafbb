import pytest

from measure.errors import in_short, one_line


class MuteError(Exception):
    def __str__(self):
        raise KeyError("no text")


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (ValueError("first line\nsecond line"), "ValueError: first line"),
        (RuntimeError("No kernel for 2.5 GB. Try another one."), "RuntimeError: No kernel for 2.5 GB"),
        (KeyError(), "KeyError: no message"),
        (MuteError(), "MuteError: its text cannot be read"),
        (ValueError("half a letter: \ud800"), "ValueError: half a letter: \N{REPLACEMENT CHARACTER}"),
    ],
)
def test_a_problem_in_short(problem, text):
    assert in_short(problem) == text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("two\nlines\t and \N{LINE SEPARATOR}blanks ", "two lines and blanks"),
        ("a \x1b[31mcolour\x00", "a \N{REPLACEMENT CHARACTER}[31mcolour\N{REPLACEMENT CHARACTER}"),
        ("x" * 500, "x" * 500),
        ("x" * 10_000_000, "x" * 499 + "…"),
        ("größer als ½", "größer als ½"),
    ],
)
def test_any_text_is_one_line_that_tables_and_terminals_take(text, line):
    assert one_line(text) == line
