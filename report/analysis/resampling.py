"""Intervals by resampling models: the cells of a model are measured on one network, and so are no points apart."""

from collections.abc import Callable
from functools import cache, lru_cache
from math import ceil, sqrt
from statistics import NormalDist

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from measure.domain.statistics import CONFIDENCE, critical

Numbers = NDArray[np.float64]

DRAWS = 1000
SEED = 0

BLOCK = 500_000
"""So many numbers an array holds at most, 4 MB, which caches keep: resamples come in blocks of their rows."""

FEWEST = 5
"""The models that an interval needs: even a perfect order of four comes by chance once in twelve times (2 of 4!)."""


def weights(models: pd.Series, first: int = 0, count: int = DRAWS) -> Numbers:
    """Return how often each point counts in each resample, or in so many: an array of a row each, and a column a point.

    As many models as there are get drawn with replacement, each with all its points. The same models are drawn the
    same way whatever the order and number of their points, so that differences between resamples are paired.
    """
    codes, names = pd.factorize(models, sort=True)
    return _drawn(len(names))[first : first + count].take(codes, axis=1)


def resampled(statistic: Callable[[Numbers], Numbers], models: pd.Series) -> Numbers:
    """Return a number of each resample; ``statistic`` takes rows of ``weights`` and returns a number a row."""
    rows = ceil(BLOCK / len(models))
    return np.concatenate([statistic(weights(models, first, rows)) for first in range(0, DRAWS, rows)])


@lru_cache(maxsize=4)
def _drawn(models: int) -> Numbers:
    """Return how often each model is drawn in each resample."""
    return np.random.default_rng(SEED).multinomial(models, np.full(models, 1 / models), DRAWS).astype(float)


def moments(x: Numbers, y: Numbers, weight: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Return the sums of squares of x, of products, and of squares of y about their means, for each row of weights."""
    whole = weight.sum(axis=1, keepdims=True)
    dx = x - (weight * x).sum(axis=1, keepdims=True) / whole
    dy = y - (weight * y).sum(axis=1, keepdims=True) / whole
    return (weight * dx * dx).sum(axis=1), (weight * dx * dy).sum(axis=1), (weight * dy * dy).sum(axis=1)


def slopes(x: Numbers, y: Numbers, weight: Numbers) -> Numbers:
    """Return the slope of the line of least squares for each row of weights, NaN where x is the same for all."""
    xx, xy, _ = moments(x, y, weight)
    return np.divide(xy, xx, out=np.full_like(xy, np.nan), where=xx > 1e-9)


@cache
def _tail(models: int, confidence: float) -> float:
    """Return the probability beyond each end of an interval's percentiles.

    Resamples of few models spread less than samples do. The percentiles are widened to what Student's interval of a
    mean would have: T. C. Hesterberg, What Teachers Should Know About the Bootstrap, The American Statistician 69
    (2015), 371-386 (the expanded percentile interval).
    """
    return NormalDist().cdf(-sqrt(models / (models - 1)) * critical(confidence, models - 1))


def interval(draws: Numbers, models: int, confidence: float = CONFIDENCE) -> tuple[float, float] | None:
    """Return the interval of a number from its resamples; None of fewer than ``FEWEST`` models.

    Resamples in which the number has no value (all points the same) are left out. Above a confidence of 95 % there is
    none either where fewer than one of the resamples is expected beyond its ends: their own extremes would be told.
    """
    known = draws[np.isfinite(draws)]
    if models < FEWEST or not known.size:
        return None
    tail = _tail(models, confidence)
    if confidence > CONFIDENCE and tail * known.size < 1:
        return None
    low, high = np.quantile(known, [tail, 1 - tail])
    return float(low), float(high)
