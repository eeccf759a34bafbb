import math

import pandas as pd
import pytest

from report.stats.value import Value, count_of, estimated, exact, extremes, median_of, middle_share, ratio, share_of


def test_a_median_has_the_interval_of_two_order_statistics():
    # The second and the ninth of ten miss the median if at most one value lies on a side: 2 (1 + 10) / 2^10 = 2.1 %.
    found = median_of([*range(1, 11), math.nan], "s")
    assert (found.number, found.low, found.high, found.count) == (5.5, 2, 9, 10)
    assert (median_of([1.0, 3.0]).number, median_of([1.0, 3.0]).low) == (2.0, None)


def test_counts_and_shares_are_exact_and_nothing_is_missing():
    assert str(count_of(1489)) == "1,489"
    assert (share_of(3, 4).number, share_of(3, 4).low) == (0.75, 0.75)
    missing = [median_of([]), share_of(0, 0), exact(math.nan), estimated(None, "latency_s"), extremes({})[0]]
    assert all(value.is_missing for value in missing)


def test_a_row_s_interval_is_found_by_its_columns():
    row = pd.Series({"latency_s": 2.0, "latency_low_s": 1.5, "latency_high_s": 2.5, "speed_up": 1.2})
    found = estimated(row, "latency_s", "s")
    assert (found.number, found.low, found.high) == (2.0, 1.5, 2.5)
    assert estimated(row, "speed_up").low is None


def test_extremes_have_names():
    low, high = extremes({"a": 3.0, "b": 1.0, "c": float("nan")}, "s")
    assert (low.name, low.number, high.name, high.number) == ("b", 1.0, "a", 3.0)


def test_eight_in_ten_lie_between_the_ends():
    # Of 0 to 10, a tenth is left out on each side: 1 and 9.
    low, high = middle_share(range(11))
    assert (low.number, high.number) == pytest.approx((1, 9))


def test_widths_of_logarithms_add_in_squares():
    # Both ends a factor of e^0.3 and e^0.4 away: the quotient's e^0.5.
    one, other = (Value(x, low=x / math.exp(w), high=x * math.exp(w)) for x, w in ((6.0, 0.3), (2.0, 0.4)))
    found = ratio(one, other)
    assert (found.number, found.low, found.high) == pytest.approx((3.0, 3 * math.exp(-0.5), 3 * math.exp(0.5)))
    assert ratio(one, Value(None)).is_missing
