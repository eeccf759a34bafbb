"""Exponential growth over the years: a straight line through the logarithms, by least squares."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import atan, cos, expm1, log, log1p, pi, sin, sqrt
from statistics import fmean, linear_regression


@dataclass(frozen=True)
class Growth:
    """Growth per year as a share (0.25 is 25 % a year) with its confidence interval, from ``count`` points."""

    rate: float
    low: float
    high: float
    count: int

    @property
    def doubling_years(self) -> float:
        """The years in which a quantity that grows at the rate doubles."""
        return log(2) / log1p(self.rate)


def fit(years: Sequence[float], values: Sequence[float], confidence: float = 0.95) -> Growth:
    """The growth of positive values, with an interval that takes their logarithms' errors as normal, of one size.

    Raises ValueError for fewer than three points: two lie on a line whatever their error.
    """
    freedom = len(values) - 2
    if freedom < 1:
        raise ValueError("a rate of growth with an interval needs at least three points")
    logs = [log(value) for value in values]
    slope, intercept = linear_regression(years, logs)
    residual = sum((at - intercept - slope * year) ** 2 for year, at in zip(years, logs, strict=True))
    middle = fmean(years)
    error = sqrt(residual / freedom / sum((year - middle) ** 2 for year in years))
    reach = student_t(confidence, freedom) * error
    return Growth(expm1(slope), expm1(slope - reach), expm1(slope + reach), len(values))


def student_t(confidence: float, freedom: int) -> float:
    """The t for which Student's distribution lies between -t and t with this probability."""
    low, high = 0.0, 1.0
    while _within(high, freedom) < confidence:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < confidence else (low, middle)
    return high


def _within(t: float, freedom: int) -> float:
    """The probability between -t and t. Source: Abramowitz and Stegun 1964, 26.7.3 and 26.7.4."""
    angle, odd = atan(t / sqrt(freedom)), freedom % 2
    term, total = cos(angle) ** odd, 0.0
    for power in range(odd, freedom - 1, 2):
        total += term
        term *= (power + 1) / (power + 2) * cos(angle) ** 2
    return 2 / pi * (angle + sin(angle) * total) if odd else sin(angle) * total
