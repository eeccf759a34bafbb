import random

import pytest

from measure.statistics import estimate_median, order_statistic_ranks


def test_median_of_an_odd_and_an_even_count():
    assert estimate_median([3.0, 1.0, 2.0]).median == 2.0
    assert estimate_median([4.0, 1.0, 2.0, 3.0]).median == 2.5  # (2 + 3) / 2


def test_no_values_have_no_median():
    with pytest.raises(ValueError, match="at least one"):
        estimate_median([])


@pytest.mark.parametrize("count", range(1, 6))
def test_fewer_than_six_samples_have_no_95_percent_interval(count):
    # Even the extremes of five values miss the median with probability 2 / 2**5 = 0.0625 > 0.05.
    assert order_statistic_ranks(count) is None
    estimate = estimate_median([1.0] * count)
    assert estimate.low is None
    assert estimate.relative_half_width is None


@pytest.mark.parametrize(
    ("count", "ranks"),
    [
        (6, (0, 5)),  # 2 * 1 / 64 = 0.031; with the next rank 2 * (1 + 6) / 64 = 0.22
        (9, (1, 7)),  # 2 * (1 + 9) / 512 = 0.039; next 2 * (1 + 9 + 36) / 512 = 0.18
        (20, (5, 14)),  # tables of the sign test: the 6th and 15th of 20 values, 95.9 %
    ],
)
def test_ranks_are_those_of_the_sign_test(count, ranks):
    assert order_statistic_ranks(count) == ranks


def test_interval_is_made_of_values():
    estimate = estimate_median([9.0, 1.0, 5.0, 3.0, 7.0, 11.0])
    assert (estimate.low, estimate.high) == (1.0, 11.0)
    assert estimate.relative_half_width == pytest.approx((11 - 1) / 2 / 6)  # the median is (5 + 7) / 2


def test_interval_covers_the_median_of_a_skewed_distribution():
    # Latencies have a long right tail. The exponential's median is ln 2.
    generator = random.Random(1)
    covered = 0
    for _ in range(2000):
        estimate = estimate_median([generator.expovariate(1.0) for _ in range(15)])
        assert estimate.low is not None
        assert estimate.high is not None
        covered += estimate.low <= 0.6931 <= estimate.high
    # 15 values: ranks (3, 11), 2 * (1 + 15 + 105 + 455) / 2**15 = 0.0352 missed, so 1930 of 2000 expected.
    # The standard deviation is sqrt(2000 * 0.965 * 0.035) = 8.2; five of them are allowed.
    assert abs(covered - 1930) < 41
