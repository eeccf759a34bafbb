from math import exp, log, sqrt

import numpy as np
import pandas as pd
import pytest
from recomputing import statistics
from recomputing.statistics import Effect


def test_an_interval_of_a_median_is_the_narrowest_pair_of_ranks_that_misses_seldom_enough():
    # Both ends of 6 miss the median with 2 / 2^6 = 3.1 %, those of 5 with 6.3 %
    assert statistics.median_ends([6, 1, 2, 5, 4, 3]) == (1, 6)
    assert statistics.median_ends([1, 2, 3, 4, 5]) is None
    # Of 10 the second and ninth with 2 (1 + 10) / 2^10 = 2.1 %, the third and eighth with 10.9 %
    assert statistics.median_ends(range(1, 11)) == (2, 9)
    assert statistics.median_ends(range(1, 11), 0.89) == (3, 8)


def test_an_interval_between_rounds_is_students_on_logarithms():
    # Logarithms 0, ln 2 and 2 ln 2 deviate by ln 2; t of 2 degrees at 96 % is 0.96 √(2 / (1 - 0.96²)) = 4.8487
    reach = exp(4.8487 * log(2) / sqrt(3))
    found = statistics.of_rounds([[1], [2], [4]])
    assert (found.median, found.low, found.high) == pytest.approx((2, 2 / reach, 2 * reach), rel=1e-4)


def test_rounds_that_agree_by_luck_keep_what_their_samples_leave_open():
    # The extremes of three are one standard error apart from 2 by a factor of 2; of two rounds √2 ln 2 / 2 is left
    found = statistics.of_rounds([[1, 2, 4], [4, 2, 1]])
    reach = exp(log(2) / sqrt(2))
    assert (found.median, found.low, found.high) == pytest.approx((2, 2 / reach, 2 * reach))


def test_expanded_percentiles_are_wider_than_plain_ones():
    # Φ(-√(5/4) 2.7764) = Φ(-3.1042) = 0.00095 beyond each end, for 2.5 % of plain percentiles
    low, high = statistics.resampled_ends(np.linspace(0, 1, 1001), 5, 0.95)
    assert (low, high) == pytest.approx((0.00095, 0.99905), abs=1e-5)
    assert statistics.resampled_ends(np.linspace(0, 1, 1001), 4, 0.95) is None


def test_resamples_beyond_whose_ends_nothing_is_expected_have_no_interval():
    assert statistics.resampled_ends(np.linspace(0, 1, 1000), 5, 0.96) is None  # 1000 · 0.0007 < 1


def test_the_distance_of_models_is_the_median_over_pairs():
    # 2 / 1, 8 / 2 and 8 / 1
    effect = statistics.of_pairs(pd.Series([1.0, 8.0, 2.0], ["a", "b", "c"]))
    assert effect.factor == pytest.approx(4)
    assert effect.ends(0.95) is None


def test_a_typical_error_is_the_median_distance_from_the_line():
    # The line through (0, 0), (1, 1) and (2, 5) has slope 5/2 and passes (1, 2): off by 1/2, 1 and 1/2
    assert statistics.typical_error(np.array([0.0, 1, 2]), np.array([0.0, 1, 5])) == pytest.approx(0.5)
    assert np.isnan(statistics.typical_error(np.array([1.0, 1]), np.array([0.0, 1])))


def test_errors_of_two_predictors_are_compared_by_their_lines():
    models = list("abcdef")
    exact = pd.Series([1.0, 2, 4, 8, 16, 32], models)
    worse = pd.Series([2.0, 1, 8, 4, 32, 16], models)
    effect = statistics.of_errors(exact, worse, 3 * exact)
    # Logarithms to base 2 of the worse one are 1 0 3 2 5 4 for 0 to 5: the slope s is 14.5 / 17.5 = 0.8286, and two
    # points each are off by 1.5 - 2.5 s = -0.5714, by 0.5 + 0.5 s = 0.9143 and by 2.5 - 1.5 s = 1.2571
    assert effect.factor == pytest.approx(2**0.914286, rel=1e-5)
    assert effect.count == 6


def test_growth_is_the_line_through_logarithms():
    # By ln 2 a year; that the middle is off by 0.3 leaves residuals of -0.1, 0.2 and -0.1. Student's t of one degree
    # at 95 % is 12.7062.
    found = statistics.yearly_growth([2000, 2001, 2002], [1, 2 * exp(0.3), 4], 0.95)
    error = sqrt((0.1**2 + 0.2**2 + 0.1**2) / 1 / 2)
    assert found.median == pytest.approx(2)
    assert found.high == pytest.approx(2 * exp(12.7062 * error), rel=1e-4)


def test_tested_effects_are_told_at_the_confidence_of_those_that_are_clear():
    def clear_up_to(most):
        return Effect(2, 9, lambda confidence: (1.5, 2.5) if confidence <= most else (0.5, 2.5))

    # Of 4, R = 4, 3 and 2 ask for more at 95, 96.25 and 97.5 % than the two or one that are clear; R = 1 at 98.75 %
    effects = [clear_up_to(0.99), clear_up_to(0.96), clear_up_to(0), clear_up_to(0)]
    assert statistics.told_at(effects) == pytest.approx(0.9875)
    # R = 2 of 4 at 97.5 %
    assert statistics.told_at([clear_up_to(0.98), *effects[:1], *effects[2:]]) == pytest.approx(0.975)
