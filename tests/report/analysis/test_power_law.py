import numpy as np
import pandas as pd
import pytest
from scipy import stats

from report.analysis.power_law import fit

MODELS = pd.Series(list("abcdefgh"))


def test_points_on_a_line():
    x = pd.Series([1.0, 4, 9, 16, 25, 36, 49, 64])
    law = fit(x, 3 * x**0.5, MODELS)
    assert law.exponent == pytest.approx(0.5)
    assert law.interval == pytest.approx((0.5, 0.5))
    assert law.at(100) == pytest.approx(30)
    assert law.residuals.abs().max() < 1e-9
    assert law.typical_factor == pytest.approx(1)


def test_residuals_by_hand():
    # Logarithms to base 2: x 0 1 2 3, y 1 0 3 2; products about the means 1.5 and 1.5 are 4 * 0.75, the slope 3 / 5:
    # the line 0.6 1.2 1.8 2.4, around which y has the residuals 0.4 -1.2 1.2 -0.4.
    law = fit(pd.Series([1.0, 2, 4, 8]), pd.Series([2.0, 1, 8, 4]), MODELS[:4])
    assert law.exponent == pytest.approx(0.6)
    assert law.interval is None  # four models
    assert (law.residuals / np.log(2)).tolist() == pytest.approx([0.4, -1.2, 1.2, -0.4])
    assert law.typical_factor == pytest.approx(2**0.8)  # between 0.4 and 1.2


def test_the_exponent_agrees_with_scipy():
    rng = np.random.default_rng(3)
    x = pd.Series(rng.lognormal(size=100))
    y = x**0.7 * rng.lognormal(sigma=0.3, size=100)
    law = fit(x, y, pd.Series(range(100)).astype(str))
    line = stats.linregress(np.log(x), np.log(y))
    assert law.exponent == pytest.approx(line.slope)
    assert np.log(law.scale) == pytest.approx(line.intercept)
    reach = stats.t.ppf(0.975, 98) * line.stderr
    assert law.interval == pytest.approx((line.slope - reach, line.slope + reach), abs=0.03)


def test_residuals_keep_the_index_and_leave_out_what_has_no_logarithm():
    x = pd.Series([1.0, 2, None, 8, 16, 0], index=[3, 4, 5, 6, 7, 8])
    law = fit(x, x, pd.Series(list("abcdef"), index=x.index))
    assert law.residuals.index.tolist() == [3, 4, 6, 7]


def test_no_line():
    x = pd.Series([1.0, 2, 4, 8])
    assert fit(x, x, pd.Series(list("aabb"))) is None
    assert fit(x * 0 + 1, x, MODELS[:4]) is None
