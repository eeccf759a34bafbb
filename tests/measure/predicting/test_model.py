import numpy as np
import pytest
from helpers.calls import COSTS, additive

from measure.predicting.model import AT_THE_ROOF, SPREADS, Level, fit, fit_levels, likely
from measure.predicting.records import DIE, POOL, TERMS
from measure.predicting.study import parts, rows_of

EXPECTED, WIDE = np.array([1.5, 1.0]), (3.0, 3.0)
"""Coefficients that rows are to correct, and a spread that gives them little weight."""


def rows(count):
    """Times of 3 times the first term and 0.5 times the second, which no other coefficients give."""
    terms = np.array([[1.0 + k % 5, 2.0 + k % 3] for k in range(count)])
    return terms, np.zeros(count), terms @ np.array([3.0, 0.5])


def test_launches_and_the_device_overlap():
    # The device's part of 2 * 1.5 = 3 s and launches of 4 s take 5 s together
    assert likely(np.array([2.0]), np.array([[1.5]]), np.array([4.0])) == pytest.approx([5.0])


def test_the_coefficients_of_a_sum_are_found_despite_an_outlier():
    terms, launch_s, times = rows(30)
    assert fit(EXPECTED, terms, launch_s, times, WIDE)[0] == pytest.approx([3.0, 0.5], rel=5e-3)
    hidden = np.linspace(0.0, 3.0, 30)  # the launches of a host
    assert fit(EXPECTED, terms, hidden, np.hypot(times, hidden), WIDE)[0] == pytest.approx([3.0, 0.5], rel=5e-3)
    times[4] *= 10
    assert fit(EXPECTED, terms, launch_s, times, WIDE)[0] == pytest.approx([3.0, 0.5], rel=0.03)


def test_rows_that_a_host_limits_say_nothing_of_a_device():
    terms, launch_s, times = rows(30)
    launch_s[::2] = 100.0
    found, _ = fit(EXPECTED, terms, launch_s, np.where(launch_s > 0, 100.0, times), WIDE)
    assert found == pytest.approx([3.0, 0.5], rel=0.02)


def test_a_row_counts_by_its_weight():
    one, times, sure = np.ones((2, 1)), np.array([1.0, 1.1]), np.array([1.0])
    # The logarithms 0 and ln 1.1 lie within the noise: a third of the way if the first counts twice
    levels = [Level(POOL, ["", ""], *WIDE)]
    found = fit_levels(one, np.zeros(2), times, levels, np.array([2.0, 1.0]), expected=sure)
    assert np.exp(found[POOL, ""]) == pytest.approx([1.1 ** (1 / 3)], rel=1e-2)


def test_one_time_scales_all_coefficients_and_many_show_each():
    terms, launch_s, times = rows(30)
    # The second row takes 3 * 2 + 0.5 * 3 = 7.5 s; the pool's coefficients give 1.5 * 2 + 1 * 3 = 6: 1.25 times as much
    found, host = fit(EXPECTED, terms[1:2], launch_s[:1], times[1:2])
    assert (found, host) == (pytest.approx(1.25 * EXPECTED, rel=0.05), 1.0)
    assert fit(EXPECTED, *rows(300))[0] == pytest.approx([3.0, 0.5], rel=0.03)


@pytest.mark.parametrize(("arithmetic", "memory", "launches"), [(1.6, 1.6, 1.0), (1.5, 1.0, 1.0), (1.0, 1.0, 1.8)])
def test_some_times_separate_arithmetic_memory_and_host(arithmetic, memory, launches):
    """Arithmetic of 4 and 1 s, bytes of 1 and 4 s, launches of 4 and 0 s: each row shows one of the three."""
    terms, launch_s = np.zeros((6, len(TERMS))), np.array([0.0, 0.0, 4.0] * 2)
    terms[:, 0], terms[:, 3] = [4.0, 1.0, 0.5] * 2, [1.0, 4.0, 0.5] * 2
    times = np.hypot(arithmetic * terms[:, 0] + memory * terms[:, 3], launches * launch_s)
    found, host = fit(np.ones(len(TERMS)), terms, launch_s, times, has_own_host=True)
    assert (found[0], found[3]) == pytest.approx((arithmetic, memory), rel=0.1)
    assert host == pytest.approx(launches, rel=0.1)
    assert fit(np.ones(len(TERMS)), terms, launch_s, times)[1] == 1.0


def of_levels(factors, spread=SPREADS[DIE]):
    """Fit a pool and a die for each factor on its times, of 30 rows each."""
    terms, launch_s, times = rows(30)
    count = len(factors)
    labels = [f"die {at}" for at in range(count) for _ in times]
    levels = [Level(POOL, [""] * len(labels), *WIDE), Level(DIE, labels, *spread)]
    all_times = np.concatenate([factor * times for factor in factors])
    found = fit_levels(np.tile(terms, (count, 1)), np.tile(launch_s, count), all_times, levels, expected=EXPECTED)
    return {label: np.exp(logs) * (EXPECTED if level == POOL else 1) for (level, label), logs in found.items()}


def test_a_pool_is_the_middle_of_its_dies_and_each_has_a_factor():
    found = of_levels([0.8, 1.25])
    assert found[""] == pytest.approx([3.0, 0.5], rel=0.02)
    assert found["die 0"] == pytest.approx([0.8, 0.8], rel=0.02)
    assert found["die 1"] == pytest.approx([1.25, 1.25], rel=0.02)


def test_an_outlying_die_hardly_moves_its_pool():
    # Seven take the time of the pool, one takes 5 times as long: the mean of all would be 5^(1/8) = 1.22 times as long
    found = of_levels([1.0] * 7 + [5.0])
    assert 1.0 < found[""][0] / 3.0 < 1.1
    assert found["die 7"] * found[""] == pytest.approx([15.0, 2.5], rel=0.05)


def test_rows_without_a_label_say_nothing_of_its_level():
    terms, launch_s, times = rows(30)
    labels = ["slow" if at % 2 else None for at in range(30)]
    times[1::2] *= 1.5
    levels = [Level(POOL, [""] * 30, *WIDE), Level("option", labels, 0.5, 0.5)]
    found = fit_levels(terms, launch_s, times, levels, expected=EXPECTED)
    assert EXPECTED * np.exp(found[POOL, ""]) == pytest.approx([3.0, 0.5], rel=0.02)
    assert np.exp(found["option", "slow"]) == pytest.approx([1.5, 1.5], rel=0.03)


def test_untimed_layers_are_as_far_from_their_roof_as_others():
    terms, launch_s, times = parts(rows_of(additive(models=400), COSTS))
    found, _ = fit(AT_THE_ROOF, terms, launch_s, times, SPREADS[POOL])
    assert np.median(likely(found, terms, launch_s) / times) == pytest.approx(1, rel=0.01)
    assert found[TERMS.index("convolution arithmetic")] == pytest.approx(2.0, rel=0.02)
    assert 1.0 < found[TERMS.index("dense arithmetic")] < 2.0
