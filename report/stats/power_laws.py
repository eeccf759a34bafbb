"""A straight line through logarithms: y grows as a power of x."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from report.stats.correlations import FEWEST
from report.stats.resampling import Numbers, interval, moments, resampled
from report.stats.summary import median_of
from report.stats.value import Value


@dataclass(frozen=True)
class PowerLaw:
    """The line ``y = scale * x ** exponent``. ``factors`` holds y over the line, by the index of the data."""

    exponent: Value
    scale: float
    factors: pd.Series

    def at(self, x: float) -> float:
        """Return y on the line."""
        return float(self.scale * x ** (self.exponent.number or 0.0))

    @property
    def typical_factor(self) -> Value:
        """The typical distance of a point from the line, up or down, as a factor of at least 1."""
        return median_of(np.exp(np.log(self.factors).abs()))

    def growth(self, times: float) -> Value:
        """Return the factor by which y grows when x grows by a factor."""
        ends = (self.exponent.number, self.exponent.low, self.exponent.high)
        number, low, high = (None if end is None else float(times**end) for end in ends)
        return Value(number, "", low, high, self.exponent.count)


def fit_power_law(x: pd.Series, y: pd.Series, models: pd.Series) -> PowerLaw | None:
    """Fit the line of least squares through the points at which both are above 0; its interval resamples ``models``.

    None below ``FEWEST`` models, and where x is the same in all rows.
    """
    known = (x > 0) & (y > 0)
    x, y, models = x[known], y[known], models[known]
    if models.nunique() < FEWEST or x.nunique() < 2:
        return None
    of_x, of_y = np.log(x.to_numpy(float)), np.log(y.to_numpy(float))

    def slope(weight: Numbers) -> Numbers:
        xx, xy, _ = moments(of_x, of_y, weight)
        return np.divide(xy, xx, out=np.full_like(xy, np.nan), where=xx > 1e-9)

    exponent = float(slope(np.ones((1, len(x))))[0])
    low, high = interval(resampled(slope, models), models.nunique())
    middle = float(of_y.mean() - exponent * of_x.mean())
    factors = pd.Series(np.exp(of_y - middle - exponent * of_x), index=x.index)
    return PowerLaw(Value(exponent, low=low, high=high, count=models.nunique()), float(np.exp(middle)), factors)
