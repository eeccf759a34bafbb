import pytest

from report.analysis.growth import Growth, fit


def test_points_on_a_line_have_a_rate_and_no_spread():
    # Twice as much every two years: 2 ** (1 / 2) - 1 a year.
    growth = fit([2010, 2012, 2014], [3.0, 6.0, 12.0])
    assert [growth.low, growth.rate, growth.high] == pytest.approx([2**0.5 - 1] * 3)
    assert growth.count == 3
    assert growth.doubling_years == pytest.approx(2)


def test_the_interval_by_hand():
    # Logarithms to base e: 0, 1, 1 in years 0, 1, 2. Slope 1/2; residuals -1/6, 1/3, -1/6, squares' sum 1/6; one
    # degree of freedom; sum of squared distances of years 2: standard error sqrt(1/12); t = 12.706.
    e = 2.718281828459045
    growth = fit([0, 1, 2], [1, e, e])
    assert growth.rate == pytest.approx(e**0.5 - 1)
    assert growth.low == pytest.approx(e ** (0.5 - 12.7062 / 12**0.5) - 1, rel=1e-3)
    assert growth.high == pytest.approx(e ** (0.5 + 12.7062 / 12**0.5) - 1, rel=1e-3)


def test_shrinking_halves():
    assert Growth(-0.5, -0.6, -0.4, 3).doubling_years == pytest.approx(-1)


def test_two_points_have_no_interval():
    with pytest.raises(ValueError, match="three points"):
        fit([2010, 2012], [1, 2])
