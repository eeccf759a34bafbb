from argparse import ArgumentTypeError

import pytest

from measure.verbs.flags import parse_count, parse_percent, parse_time


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        *((parse_time, *row) for row in (("90s", 90), ("10m", 600), ("1h30m", 5400), (" 45", 45), ("1h1s", 3601))),
        *((parse_time, text, None) for text in ("", "m", "10x", "1m1h", "1.5h", "0s", "٣m")),
        *((parse_percent, *row) for row in (("5%", 0.05), (" 2.5 %", 0.025))),
        *((parse_percent, text, None) for text in ("", "5", "-5%", "1e2%", "٣%", "9" * 400 + "%")),
    ],
)
def test_times_and_percentages(parse, text, value):
    if value is None:
        with pytest.raises(ArgumentTypeError, match=r" is not a .*; use "):
            parse(text)
    else:
        assert parse(text) == value


@pytest.mark.parametrize("text", ["1000000000", "0", "1e3", "-1", "٣"])
def test_a_count_has_nine_digits(text):
    with pytest.raises(ArgumentTypeError, match=r"use a whole number, 1 to 999999999$"):
        parse_count(text)
    assert parse_count("999999999") == 999_999_999
