"""Exponential growth over the years: a straight line through the logarithms, by least squares."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import expm1, log, log1p, sqrt
from statistics import fmean, linear_regression

from measure.domain.statistics import CONFIDENCE, critical


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


def fit(years: Sequence[float], values: Sequence[float], confidence: float = CONFIDENCE) -> Growth:
    """Return the growth of positive values, with an interval that takes their logarithms' errors as normal.

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
    reach = critical(confidence, freedom) * error
    return Growth(expm1(slope), expm1(slope - reach), expm1(slope + reach), len(values))
