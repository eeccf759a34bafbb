import math

import numpy as np
import pandas as pd
import pytest

from measure.domain.values import SPACE
from report.stats.value import (
    Name,
    Source,
    Value,
    agreement,
    count_of,
    digits_to,
    estimated,
    exact,
    extremes,
    median_of,
    ratio,
    waits_for,
)


def test_digits_to_a_place():
    assert [digits_to(value, -2) for value in (12.34, 0.05, 0.004)] == [4, 1, 1]
    assert digits_to(1.0, -16) == 6  # the ends of the interval differ by a few bits


@pytest.mark.parametrize(
    ("value", "text", "with_interval"),
    [
        # Half of the interval is 0.135. Its first three digits are at most 354: two digits, hundredths.
        (Value(1.8512, low=1.71, high=1.98), "1.85", "1.85 (1.71–1.98)"),
        # 1.45 ms is 145 in its first digits: two of them, 0.1 ms.
        (Value(0.04561, "s", 0.0441, 0.0470), "45.6 ms", "45.6 (44.1–47.0) ms"),
        # 22.5e9 is 225: two digits, 1e9, which is 1 G.
        (Value(101.7e9, "B/s", 80e9, 125e9), "102 GB/s", "102 (80–125) GB/s"),
        # 0.065 is 650: one digit, hundredths, which is 1 %.
        (Value(0.258, "%", 0.2, 0.33), "26 %", "26 (20–33) %"),
        # 0.2 is 200: two digits, hundredths. The interval reaches below 0, so a dash would read as a minus.
        (Value(0.1, low=-0.1, high=0.3), "0.10", "0.10 (−0.10 to 0.30)"),
        # 0.034 is less than 0.0354: two digits
        (Value(1.0, low=0.966, high=1.034), "1.00", "1.000 (0.966–1.034)"),
        # 0.4 is more than 0.354: one digit; 0.96 counts as 1.00: two.
        (Value(9.1, low=8.7, high=9.5), "9.1", "9.1 (8.7–9.5)"),
        (Value(0.1, low=-0.86, high=1.06), "0.1", "0.1 (−0.9 to 1.1)"),
        # Zero has no sign.
        (Value(-0.02, low=-0.86, high=0.84), "0.0", "0.0 (−0.9 to 0.8)"),
        (Value(999.6e6, "B"), "1.00 GB", "1.00 GB"),
        # 1e8 is 100: two digits, 1e7. To these 996 M is 1.00 G.
        (Value(996e6, "B", 896e6, 1096e6), "1.00 GB", "1.00 (0.90–1.10) GB"),
        (Value(0.4567, "%"), "46 %", "46 %"),
        (Value(2.934), "2.93", "2.93"),
        (Value(295.3, "FLOP/B"), "295 FLOP/B", "295 FLOP/B"),
        (Value(4089, "networks", 4089, 4089), "4,089 networks", "4,089 networks"),
        (Value(26), "26", "26"),
        # Three digits in prose and six with the interval, however narrow it is.
        (Value(1.23456789, low=1.234567, high=1.234568), "1.23", "1.23457 (1.23457–1.23457)"),
        # A share in whole per cent; two digits below 10 %; one digit of the rest to 100 %: 0.31 % of 99.69 %.
        (Value(0.71634, "%", 0.7161, 0.7165), "72 %", "71.634 (71.610–71.650) %"),
        (Value(0.0374, "%"), "3.7 %", "3.7 %"),
        (Value(0.9969, "%"), "99.7 %", "99.7 %"),
        (Value(1.0843, "%"), "108 %", "108 %"),
    ],
)
def test_a_value_prints_the_digits_that_its_interval_allows(value, text, with_interval):
    assert [each.replace(SPACE, " ") for each in (str(value), value.printed())] == [text, with_interval]


@pytest.mark.parametrize(
    ("value", "of", "word"),
    [
        (Value(0.9, low=0.8, high=0.99), 1, "less"),
        (Value(0.9, low=0.8, high=1.0), 1, "as much"),  # the interval reaches 1
        (Value(1.2, low=1.1, high=1.3), 1, "more"),
        (Value(1.2), 1, "as much"),  # no interval: nothing is certain
        (Value(2, low=2, high=2), 1, "more"),  # a count
        (Value(2.4, low=2.1, high=2.7), 2, "more"),
        (Value(2.4, low=2.1, high=2.7), 3, "less"),
    ],
)
def test_the_interval_chooses_the_word_and_proves_a_claim(value, of, word):
    assert value.side("less", "as much", "more", of=of) == word
    assert (value.below(of), value.above(of)) == (word == "less", word == "more")
    assert not Value(None).above(0.0)


@pytest.mark.parametrize(
    ("value", "is_missing"),
    [
        (Value(None), True),
        (Value(2.0, low=1.0, high=3.0), False),  # a factor of 3
        (Value(2.0, low=1.0, high=3.1), True),
        (Value(-2.0, low=-3.1, high=-1.0), True),
        (Value(0.1, low=-0.5, high=0.7), False),  # about nothing: a factor has no meaning
        (Value(2.0, count=6), False),
        (Value(2.0, count=5), True),
        (Value(2.0, count=1, counted="machines"), False),
    ],
)
def test_what_is_too_uncertain_is_missing(value, is_missing):
    assert value.is_missing == is_missing
    assert (str(value) == "–") == is_missing


def test_a_value_with_a_key_is_a_span_that_the_page_explains():
    assert Value(2.5, low=2.4, high=2.6, key="a.b")._repr_markdown_() == '[2\\.50]{.value key="a.b"}'
    assert Value(26)._repr_markdown_() == "26"
    assert Name("ResNet-18")._repr_markdown_() == r"ResNet\-18"
    assert Value(None)._repr_markdown_() == Name(None)._repr_markdown_() == "[–]{.missing}"
    missing = Value(None, source=Source("runs.csv", command="python -m measure --sections training"))
    span = '[–]{.missing command="python -m measure --sections training"}'
    assert missing._repr_markdown_() == span
    for table, folder in (("machines/cpu/runs.csv", ' machine="cpu"'), ("machines/*/runs.csv", "")):
        of_machines = Value(None, source=Source(table, command="measure"))
        assert of_machines._repr_markdown_() == f'[–]{{.missing command="measure"{folder}}}'
    # A sentence that holds only a word that depends on it goes as well.
    assert missing.side("less", "as much", "more") == waits_for(Value(3.0), missing) == span
    assert ".missing" in waits_for(missing, Value(3.0))
    assert ".missing" in agreement(Value(None))


RIDGE = Value(5.0, "FLOP/B", 4.0, 6.0)


@pytest.mark.parametrize(
    ("intensity", "ridge", "word"),
    [
        (Value(3.0, low=2.0, high=3.9), RIDGE, "memory-bound"),
        (Value(3.0, low=2.0, high=4.0), RIDGE, "at the ridge"),  # the intervals touch
        (Value(7.0, low=6.0, high=9.0), RIDGE, "at the ridge"),
        (Value(7.0, low=6.1, high=9.0), RIDGE, "compute-bound"),
        # Without intervals the numbers decide
        (Value(3.9), Value(4.0), "memory-bound"),
        (Value(4.0), Value(4.0), "at the ridge"),
        (Value(6.5), RIDGE, "compute-bound"),
    ],
)
def test_a_bound_is_told_only_if_the_intervals_do_not_meet(intensity, ridge, word):
    assert waits_for(intensity, ridge) == word


@pytest.mark.parametrize(
    ("low", "word"),
    [(0.81, "closely"), (0.8, "roughly"), (0.45, "roughly"), (0.4, "not told by so few"), (-0.1, "not told by so few"),
     (None, "not told by so few")],
)  # fmt: skip
def test_agreement_says_the_least_that_the_interval_bears_out(low, word):
    assert agreement(Value(0.9, low=low, high=None if low is None else 0.95, counted="samples")) == word


def test_a_median_has_the_interval_of_two_order_statistics():
    # The second and the ninth of ten miss the median if at most one value lies on a side: 2 (1 + 10) / 2^10 = 2.1 %.
    found = median_of([*range(1, 11), math.nan], "s")
    assert (found.number, found.low, found.high, found.count) == (5.5, 2, 9, 10)
    assert (median_of([1.0, 3.0]).number, median_of([1.0, 3.0]).low) == (2.0, None)


def test_counts_are_exact_and_nothing_is_missing():
    assert str(count_of(1489)) == "1,489"
    missing = [median_of([]), exact(math.nan), estimated(None, "latency_s"), extremes({})[0]]
    assert all(value.is_missing for value in missing)


def test_a_row_s_interval_is_found_by_its_columns():
    row = pd.Series({"latency_s": 2.0, "latency_low_s": 1.5, "latency_high_s": 2.5, "speed_up": 1.2})
    found = estimated(row, "latency_s", "s")
    assert (found.number, found.low, found.high) == (2.0, 1.5, 2.5)
    assert estimated(row, "speed_up").low is None


def test_extremes_have_names():
    low, high = extremes({"a": 3.0, "b": 1.0, "c": float("nan")}, "s")
    assert (low.name, low.number, high.name, high.number) == ("b", 1.0, "a", 3.0)
    assert all(value.is_missing for value in extremes({"a": 3.0}, fewest=2))


def test_widths_of_logarithms_add_in_squares():
    # Both ends a factor of e^0.3 and e^0.4 away: the quotient's e^0.5.
    one, other = (Value(x, low=x / math.exp(w), high=x * math.exp(w)) for x, w in ((6.0, 0.3), (2.0, 0.4)))
    found = ratio(one, other)
    assert (found.number, found.low, found.high) == pytest.approx((3.0, 3 * math.exp(-0.5), 3 * math.exp(0.5)))
    assert ratio(one, Value(None)).is_missing


def same(one, other):
    """Whether two values are equal, and their numbers of one type: a whole number prints in full."""
    return one == other and type(one.number) is type(other.number)


def test_every_maker_of_a_value_says_what_it_counts():
    assert same(count_of(3.0, "machines"), Value(3, count=3, counted="machines"))
    assert same(count_of(3), Value(3, count=3, counted="things"))
    assert count_of(None).number is None
    for whole in (3, np.int64(3)):
        assert same(exact(whole, "B", "net"), Value(3, "B", name="net"))
    assert same(exact(np.float64(2.5), "s"), Value(2.5, "s"))
    for nothing in (None, math.nan):
        assert exact(nothing, "s", "net") == Value(None, "s", name="net")
    assert median_of([], "s", "chips") == Value(None, "s", count=0, counted="chips")
    assert median_of([1.0, math.inf], "s", "chips") == Value(1.0, "s", count=1, counted="chips")
    assert median_of(range(6)).counted == "models"
    low, high = extremes({"a": 3.0, "b": 1.0, "c": math.inf}, "s")
    assert low == Value(1.0, "s", count=2, counted="things", name="b")
    assert high == Value(3.0, "s", count=2, counted="things", name="a")
    assert extremes({"a": 3.0}, "s", fewest=2) == (Value(None, "s"), Value(None, "s"))
    assert extremes({"a": 3.0, "b": 3.0}, fewest=2)[0].number == 3.0


@pytest.mark.parametrize(
    ("column", "low", "high"),
    [
        ("peak_flop_per_s", "peak_low_flop_per_s", "peak_high_flop_per_s"),
        ("stream_byte_per_s", "stream_low_byte_per_s", "stream_high_byte_per_s"),
        ("ridge_flop_per_byte", "ridge_low_flop_per_byte", "ridge_high_flop_per_byte"),
        ("rate_per_s", "rate_low_per_s", "rate_high_per_s"),
        ("gain", "gain_low", "gain_high"),
    ],
)
def test_the_unit_of_a_column_follows_the_end_of_the_interval(column, low, high):
    row = pd.Series({column: 2.0, low: 1.5, high: 2.5})
    assert estimated(row, column, "1/s", "net") == Value(2.0, "1/s", 1.5, 2.5, counted="samples", name="net")
    row[high] = math.nan
    assert estimated(row, column, "1/s", "net") == Value(2.0, "1/s", 1.5, None, counted="samples", name="net")
    row[column] = math.nan
    for nothing in (row, None):
        assert estimated(nothing, column, "1/s", "net") == Value(None, "1/s", name="net")


@pytest.mark.parametrize("ends", [(math.inf, 1.0, 2.0), (1.5, -math.inf, 2.0), (1.5, 1.0, math.nan), (math.nan,)])
def test_a_number_without_an_end_is_no_number(ends):
    number, *interval = ends
    found = Value(number, "s", *interval, count=9)
    assert (found.number, found.low, found.high, found.unit, found.count) == (None, None, None, "s", 9)
    assert (found.is_missing, str(found), found.printed()) == (True, "–", "–")


def test_a_quotient_of_intervals_that_reach_nothing_has_none():
    whole = Value(2.0, low=1.0, high=3.0)
    for other in (Value(2.0, low=0.0, high=3.0), Value(2.0, low=-1.0, high=3.0), Value(2.0)):
        for found in (ratio(whole, other), ratio(other, whole)):
            assert (found.number, found.low, found.high) == (1.0, None, None)
    assert ratio(whole, Value(0.0)).number is None
    assert ratio(Value(0.0), whole).number == 0.0
    assert (ratio(whole, whole).unit, ratio(whole, whole).counted) == ("", "samples")
