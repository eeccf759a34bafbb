import numpy as np
import pandas as pd
import pytest
from scipy import stats

from report.stats.correlations import fit_power_law

MODELS = pd.Series(list("abcdefgh"))


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


def test_factors_keep_the_index_and_leave_out_what_has_no_logarithm():
    x = pd.Series([1.0, 2, None, 8, 16, 0], index=[3, 4, 5, 6, 7, 8])
    law = fit_power_law(x, x, pd.Series(list("abcdef"), index=x.index))
    assert law.factors.index.tolist() == [3, 4, 6, 7]


def test_no_line():
    x = pd.Series([1.0, 2, 4, 8])
    assert fit_power_law(x, x, pd.Series(list("aabb"))) is None
    assert fit_power_law(x * 0 + 1, x, MODELS[:4]) is None
