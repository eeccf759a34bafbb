import numpy as np
import pandas as pd
import pytest
from scipy import stats

from report.stats.correlations import DRAWS, fit_power_law, interval, rank_correlation, ranks, spearman, weights

RNG = np.random.default_rng(7)
MODELS = pd.Series(list("abcdefgh"))


def test_spearman_by_hand():
    x, y, once = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 3.0, 2.0, 4.0]), np.ones((4, 1))
    assert spearman(x, y, once) == pytest.approx([1 - 6 * 2 / (4 * 15)])
    assert spearman(x, -(x**3), once) == pytest.approx([-1])
    assert spearman(x, x, np.array([[0.0, 4.0, 0.0, 0.0]]).T).tolist() == [0]  # a resample of one point shows no order


def test_weights_are_repetitions():
    x, y = RNG.normal(size=(2, 12)).round(1)
    weight = RNG.integers(0, 4, size=(20, 12))
    found, placed = spearman(x, y, weight.T.astype(float)), ranks(x, weight.T.astype(float)).T
    for at, counts in enumerate(weight):
        many_x, many_y = np.repeat(x, counts), np.repeat(y, counts)
        assert np.repeat(placed[at], counts) == pytest.approx(stats.rankdata(many_x))
        assert found[at] == pytest.approx(stats.spearmanr(many_x, many_y).statistic)


def test_the_interval_is_near_a_parametric_one():
    x = RNG.normal(size=80)
    y = x + 0.7 * RNG.normal(size=80)
    found = rank_correlation(pd.Series(x), pd.Series(y), pd.Series(range(80)).astype(str))
    fisher = stats.pearsonr(stats.rankdata(x), stats.rankdata(y)).confidence_interval()
    assert (found.low, found.high) == pytest.approx((fisher.low, fisher.high), abs=0.05)


def test_rows_with_an_unknown_value_are_left_out():
    x, y = pd.Series([1.0, 2, 3, None, 5, 6, 7, 0]), pd.Series([1.0, 2, 3, 0, 5, 6, None, 8])
    found = rank_correlation(x, y, MODELS)
    # 1 2 3 5 6 0 against 1 2 3 5 6 8: ranks 2 3 4 5 6 1 and 1 2 3 4 5 6, the squares sum to 5 + 25
    assert (found.number, found.count) == (pytest.approx(1 - 6 * 30 / (6 * 35)), 6)


def test_too_few_models_or_no_spread():
    x = pd.Series([1.0, 2, 3, 4])
    for first, second, models in ((x, x, "aabb"), (x, x * 0, "abcd"), (x * 0, x, "abcd")):
        assert rank_correlation(first, second, pd.Series(list(models))).number is None
    for models in ("aabc", "abcd"):  # three models have an order, but too few for an interval
        few = rank_correlation(x, x, pd.Series(list(models)))
        assert (few.number, few.low) == (pytest.approx(1), None)


def test_a_model_is_drawn_with_all_its_rows():
    drawn = weights(("b", "a", "b", "c", "a"))
    b, a, again_b, c, again_a = drawn
    assert drawn.shape == (5, DRAWS)
    assert (a == again_a).all()
    assert (b == again_b).all()
    assert (a + b + c == 3).all()
    assert (weights(("a", "b", "c")) == drawn[[1, 0, 3]]).all()  # paired


@pytest.mark.parametrize(
    ("models", "below"),
    # Phi of minus sqrt(n / (n - 1)) t: 2.571 sqrt(6/5) = 2.816; 2.069 sqrt(24/23) = 2.113; towards 1.96
    [(6, 0.00243), (24, 0.0173), (100_000, 0.025)],
)
def test_intervals_of_few_models_are_wider_than_percentiles(models, below):
    assert interval(np.linspace(0, 1, 100_001), models) == pytest.approx((below, 1 - below), abs=2e-5)


def test_no_interval_of_five_models_or_without_a_value():
    assert interval(np.linspace(0, 1, 11), 5) == (None, None)
    assert interval(np.full(11, np.nan), 9) == (None, None)
    assert interval(np.array([np.nan, 3.0, np.nan, 3.0]), 9) == (3.0, 3.0)


def test_points_on_a_line():
    x = pd.Series([1.0, 4, 9, 16, 25, 36, 49, 64])
    law = fit_power_law(x, 3 * x**0.5, MODELS)
    exponent = law.exponent
    assert (exponent.number, exponent.low, exponent.high, exponent.count) == pytest.approx((0.5, 0.5, 0.5, 8))
    assert law.at(100) == pytest.approx(30)
    growth = law.growth(4)
    assert (growth.number, growth.low, growth.high, growth.count) == pytest.approx((2, 2, 2, 8))
    assert law.factors.tolist() == pytest.approx([1] * 8)
    assert law.typical_factor.number == pytest.approx(1)


def test_factors_by_hand():
    # Logarithms to base 2: x 0 1 2 3, y 1 0 3 2; products about the means 1.5 and 1.5 are 4 * 0.75, the slope 3 / 5:
    # the line 0.6 1.2 1.8 2.4, around which y has the residuals 0.4 -1.2 1.2 -0.4
    law = fit_power_law(pd.Series([1.0, 2, 4, 8]), pd.Series([2.0, 1, 8, 4]), MODELS[:4])
    assert (law.exponent.number, law.exponent.low) == (pytest.approx(0.6), None)  # four models have no interval
    assert np.log2(law.factors).tolist() == pytest.approx([0.4, -1.2, 1.2, -0.4])
    assert law.typical_factor.number == pytest.approx((2**0.4 + 2**1.2) / 2)  # the median of 2^0.4 (twice) and 2^1.2


def test_the_exponent_agrees_with_scipy():
    rng = np.random.default_rng(3)
    x = pd.Series(rng.lognormal(size=100))
    y = x**0.7 * rng.lognormal(sigma=0.3, size=100)
    law = fit_power_law(x, y, pd.Series(range(100)).astype(str))
    line = stats.linregress(np.log(x), np.log(y))
    assert law.exponent.number == pytest.approx(line.slope)
    assert np.log(law.scale) == pytest.approx(line.intercept)
    reach = stats.t.ppf(0.975, 98) * line.stderr
    ends = (line.slope - reach, line.slope + reach)
    assert (law.exponent.low, law.exponent.high) == pytest.approx(ends, abs=0.03)


def test_no_logarithm_is_left_out_and_few_models_have_no_line():
    x = pd.Series([1.0, 2, None, 8, 16, 0], index=[3, 4, 5, 6, 7, 8])
    law = fit_power_law(x, x, pd.Series(list("abcdef"), index=x.index))
    assert law.factors.index.tolist() == [3, 4, 6, 7]
    x = pd.Series([1.0, 2, 4, 8])
    assert fit_power_law(x, x, pd.Series(list("aabb"))) is None
    assert fit_power_law(x * 0 + 1, x, MODELS[:4]) is None
