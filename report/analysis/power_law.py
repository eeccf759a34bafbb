"""A straight line through logarithms: y grows as a power of x."""

from dataclasses import dataclass
from math import exp

import numpy as np
import pandas as pd

from report.analysis import resampling
from report.analysis.correlations import FEWEST


@dataclass(frozen=True)
class PowerLaw:
    """The line ``y = scale * x ** exponent``; the exponent's 95 % interval is None of too few models.

    ``residuals`` holds for each point, by the index of the data, the logarithm of y over the line.
    """

    exponent: float
    interval: tuple[float, float] | None
    scale: float
    residuals: pd.Series

    def at(self, x: float) -> float:
        return self.scale * x**self.exponent

    @property
    def typical_factor(self) -> float:
        """The factor, up or down, by which half of the points are farther off the line than the other half."""
        return exp(float(self.residuals.abs().median()))


def fit(x: pd.Series, y: pd.Series, models: pd.Series) -> PowerLaw | None:
    """Fit the line of least squares through the points at which both are above 0; its interval resamples models.

    It is None of fewer models than a correlation needs, or where x is the same for all.
    """
    known = (x > 0) & (y > 0)
    x, y, models = x[known], y[known], models[known]
    if models.nunique() < FEWEST or x.nunique() < 2:
        return None
    logs_x, logs_y = np.log(x.to_numpy(float)), np.log(y.to_numpy(float))
    (xx,), (xy,), _ = resampling.moments(logs_x, logs_y, np.ones((1, len(logs_x))))
    exponent = float(xy / xx)
    slopes = resampling.resampled(lambda weight: resampling.slopes(logs_x, logs_y, weight), models)
    middle = float(logs_y.mean() - exponent * logs_x.mean())
    residuals = pd.Series(logs_y - middle - exponent * logs_x, index=x.index)
    return PowerLaw(exponent, resampling.interval(slopes, models.nunique()), exp(middle), residuals)
