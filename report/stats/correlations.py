"""Spearman's rank correlation with an interval: whether one quantity orders the models as another does."""

import numpy as np
import pandas as pd

from report.stats.resampling import Numbers, interval, moments, resampled
from report.stats.value import Value

FEWEST = 3
"""The fewest models of a correlation: with two it is 1 or -1, whatever they are."""


def rank_correlation(x: pd.Series, y: pd.Series, models: pd.Series) -> Value:
    """Return Spearman's rho over the rows in which both are known; its interval resamples ``models``.

    Missing below ``FEWEST`` models, and where x or y is the same in all rows.
    """
    known = x.notna() & y.notna()
    x, y, models = x[known], y[known], models[known]
    count = models.nunique()
    if count < FEWEST or x.nunique() < 2 or y.nunique() < 2:
        return Value(None, count=count)
    first, second = x.to_numpy(float), y.to_numpy(float)
    (rho,) = spearman(first, second, np.ones((1, len(first))))
    low, high = interval(resampled(lambda weight: spearman(first, second, weight), models), count)
    return Value(float(rho), low=low, high=high, count=count)


def spearman(x: Numbers, y: Numbers, weight: Numbers) -> Numbers:
    """Return the linear correlation of ranks for each row of weights; 0 where nothing varies. Source: Spearman 1904."""
    xx, xy, yy = moments(ranks(x, weight), ranks(y, weight), weight)
    spread = np.sqrt(xx * yy)
    return np.divide(xy, spread, out=np.zeros_like(xy), where=spread > 1e-9)


def ranks(values: Numbers, weight: Numbers) -> Numbers:
    """Return the ranks of values that count ``weight`` times, for each row of weights; ties share their mean rank."""
    distinct, first = np.unique(np.sort(values), return_index=True)
    counts = np.add.reduceat(weight.take(np.argsort(values), axis=1), first, axis=1)
    return (np.cumsum(counts, axis=1) - counts / 2 + 0.5).take(np.searchsorted(distinct, values), axis=1)
