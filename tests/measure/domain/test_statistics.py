from itertools import accumulate
from math import exp, inf, sqrt
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from measure.domain import statistics
from measure.domain.statistics import Estimate, critical, estimate_median, estimate_rounds, is_drifting
from measure.domain.words import TARGET

SECONDS = st.floats(1e-6, 1e4)


def test_ranks_are_those_of_the_sign_test():
    ranks = {
        **dict.fromkeys(range(1, 6)),  # the extremes of five miss the median with 2 / 2**5 = 0.0625 > 0.05
        6: (0, 5),  # 2 * 1 / 64 = 0.031; with the next rank 2 * (1 + 6) / 64 = 0.22
        9: (1, 7),  # 2 * (1 + 9) / 512 = 0.039; next 2 * (1 + 9 + 36) / 512 = 0.18
        20: (5, 14),  # tables of the sign test: the 6th and 15th of 20 values, 95.9 %
    }
    assert {count: statistics.order_statistic_ranks(count) for count in ranks} == ranks


def test_a_median_lies_between_values():
    assert estimate_median([3.0, 1.0, 2.0]) == Estimate(2.0, None, None)
    assert estimate_median([4.0, 1.0, 2.0, 3.0]).relative_half_width is None
    values = [9.0, 1.0, 5.0, 3.0, 7.0, 11.0]
    # (5 + 7) / 2; one round has the interval of its own median
    assert estimate_median(values) == estimate_rounds([values]) == Estimate(6.0, 1.0, 11.0)
    assert estimate_median(values).relative_half_width == (11 - 1) / 2 / 6


@given(st.lists(SECONDS, min_size=1, max_size=60), st.sampled_from([0.5, 0.6827, 0.95, 0.99]))
def test_an_interval_is_made_of_values_and_grows_with_confidence(values, confidence):
    estimate, wider = estimate_median(values, confidence), estimate_median(values, confidence + (1 - confidence) / 2)
    assert estimate.median == median(values)
    if wider.low is not None:
        assert wider.low <= estimate.low <= estimate.median <= estimate.high <= wider.high
    if estimate.low is not None:
        assert {estimate.low, estimate.high} <= set(values)
        low, high = statistics.order_statistic_ranks(len(values), confidence)
        assert low == len(values) - 1 - high


@given(st.lists(st.lists(SECONDS, min_size=1, max_size=8), min_size=3, max_size=9), st.floats(1e-3, 1e3))
def test_the_interval_of_rounds_has_their_median_in_it(rounds, factor):
    estimate = estimate_rounds(rounds)
    assert estimate.low <= estimate.median <= estimate.high
    assert estimate.median == median(map(median, rounds))
    scaled = estimate_rounds([[factor * value for value in values] for values in rounds])
    assert (scaled.low, scaled.high) == pytest.approx((factor * estimate.low, factor * estimate.high))
    assert estimate_rounds(rounds[::-1]).low == pytest.approx(estimate.low)


@pytest.mark.parametrize(
    ("rounds", "low", "middle", "high"),
    [
        # Logarithms 0, 2d and d with d = ln 1.1 = 0.09531: mean d, standard deviation d. Student's quantile p of 2
        # degrees of freedom is (2p - 1) sqrt(1 / (2p (1 - p))), at 0.98 0.96 * sqrt(1 / 0.0392) = 4.8487; so
        # d ± 4.8487 * 0.09531 / sqrt(3) = d ± 0.26681.
        ([[1.0], [1.21], [1.1]], 1.1 * exp(-0.26681), 1.1, 1.1 * exp(0.26681)),
        # Rounds that agree leave one standard error of their samples. Of three values, the extremes enclose the median
        # with 1 - 2/8 = 75 %, enough for its 68 %: ln 0.9 * sqrt(4) / 4.
        ([[0.9, 1.0, 1.2]] * 4, 0.9**0.5, 1.0, 1.2**0.5),
        # Two values have no interval of one standard error, and take the others'. The mean of n rounds of equal
        # error s has the error s / sqrt(n): ln 0.9 / sqrt(4), as if all four rounds had three samples.
        ([[0.9, 1.0, 1.2]] * 2 + [[1.0, 1.0]] * 2, 0.9**0.5, 1.0, 1.2**0.5),
    ],
)
def test_rounds_have_the_t_interval_of_their_medians_logarithms(rounds, low, middle, high):
    estimate = estimate_rounds(rounds)
    assert (estimate.low, estimate.median, estimate.high) == pytest.approx((low, middle, high), rel=1e-4)


def test_two_rounds_have_no_interval():
    assert estimate_rounds([[1.0, 1.0, 2.0], [3.0]]) == Estimate(2.0, None, None)


def logs_of_rounds(generator, kind, spread):
    """Logarithms of a cell's nine rounds, and their true median over the time of the first 1 to 9 rounds."""
    normal = generator.standard_normal(9)
    if kind == "normal":
        return spread * normal, [0.0] * 9
    if kind == "heavy tails":
        return spread * generator.standard_t(3, 9) / sqrt(3), [0.0] * 9
    if kind == "spikes":
        # A round in ten is slower by 10 to 50 %: the median of all is the 0.5 / 0.9 = 0.5556 quantile of the others
        # where spikes lie above them, 0.13971 standard deviations above their middle.
        return spread * (normal - 0.13971) + (generator.random(9) < 0.1) * generator.uniform(0.1, 0.5, 9), [0.0] * 9
    # The host gets slower and faster over some three rounds; a round of the cell comes at any time of its block.
    moments, keeps = 9 * 20, exp(-1 / 60)
    steps = generator.standard_normal(moments) * sqrt(1 - keeps**2)
    steps[0] = generator.standard_normal()
    drift = np.array(list(accumulate(steps, lambda before, step: keeps * before + step)))
    taken = drift[np.arange(9) * 20 + generator.integers(20, size=9)]
    return spread * (0.8 * taken + 0.6 * normal), spread * 0.8 * np.cumsum(drift)[19::20] / (np.arange(1, 10) * 20)


@pytest.mark.parametrize("kind", ["normal", "heavy tails", "spikes", "drift"])
def test_the_interval_covers_the_median_when_rounds_are_added(kind):
    generator, spread, repeats, covered = np.random.default_rng(1), 0.05, 1000, 0
    for _ in range(repeats):
        logs, medians = logs_of_rounds(generator, kind, spread)
        for count in range(3, 10):
            estimate = estimate_rounds([[exp(value)] for value in logs[:count]])
            if estimate.relative_half_width <= TARGET:
                break
        covered += estimate.low <= exp(medians[count - 1]) <= estimate.high
    # 93 to 97 %, and two standard deviations of a thousand repeats, sqrt(0.05 * 0.95 / 1000) = 0.7 % each
    assert 0.93 - 0.014 <= covered / repeats <= 0.97 + 0.014


@pytest.mark.parametrize(
    ("values", "tolerance", "drifts"),
    [
        ([1.0 + 0.01 * step for step in range(10)], 0.02, True),  # the halves' medians are 1.02 and 1.07
        ([1.0 + 0.01 * step for step in range(10)], 0.05, False),
        ([1.0 - 0.01 * step for step in range(10)], 0.02, True),
        # Kendall's score of n = 5 reaches 10 at most, with a standard deviation of sqrt(5 * 4 * 15 / 18) = 4.08:
        # (10 - 1) / 4.08 = 2.2 is below the normal distribution's 2.576 for 1 %. Six reach 15: 14 / 5.32 = 2.63.
        ([1.0, 2.0, 3.0, 4.0, 5.0], 0.02, False),
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 0.02, True),
        ([9.0, *map(float, range(1, 9)), 10.0], 0.02, False),  # 45 pairs, 8 of them fall: 29 - 1 = 2.504 times 11.18
        ([1.0], 0.02, False),
    ],
)
def test_a_drift_is_more_than_chance_and_than_the_tolerance(values, tolerance, drifts):
    assert is_drifting(values, tolerance) == drifts


def test_critical_values_agree_with_the_published_table():
    # The table of Student's distribution in Abramowitz and Stegun, 26.10, two-sided.
    table = {
        (0.95, 1): 12.706, (0.95, 2): 4.303, (0.95, 3): 3.182, (0.95, 5): 2.571, (0.95, 10): 2.228, (0.95, 30): 2.042,
        (0.95, 120): 1.980, (0.95, inf): 1.960, (0.99, 4): 4.604, (0.90, 7): 1.895,
    }  # fmt: skip
    assert {each: critical(*each) for each in table} == pytest.approx(table, abs=6e-4)
    assert statistics.two_sided_p(2.0, inf) == pytest.approx(0.0455003, rel=1e-5)
    assert statistics.two_sided_p(-4.604, 4) == pytest.approx(0.01, rel=1e-3)
