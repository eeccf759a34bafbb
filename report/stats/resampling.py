"""Intervals by resampling models: all rows of a model are drawn together, since they are measured on one network."""

from collections.abc import Callable
from functools import lru_cache
from math import ceil, sqrt
from statistics import NormalDist

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from measure.domain.statistics import CONFIDENCE, critical
from report.stats.value import FEWEST_MODELS

Numbers = NDArray[np.float64]

DRAWS = 1000
SEED = 0

BLOCK = 500_000
"""The most numbers an array of weights holds (4 MB, which fits a cache): resamples come in blocks of rows."""


def weights(models: pd.Series, first: int = 0, count: int = DRAWS) -> Numbers:
    """Return how often each row counts in each resample: an array of shape (resamples, rows).

    The same models are drawn the same way whatever the order and number of their rows, so differences are paired.
    """
    codes, names = pd.factorize(models, sort=True)
    return _drawn(len(names))[first : first + count].take(codes, axis=1)


@lru_cache(maxsize=4)
def _drawn(models: int) -> Numbers:
    return np.random.default_rng(SEED).multinomial(models, np.full(models, 1 / models), DRAWS).astype(float)


def resampled(statistic: Callable[[Numbers], Numbers], models: pd.Series) -> Numbers:
    """Return a number for each resample; ``statistic`` takes rows of ``weights`` and returns a number a row."""
    rows = ceil(BLOCK / len(models))
    return np.concatenate([statistic(weights(models, first, rows)) for first in range(0, DRAWS, rows)])


def moments(x: Numbers, y: Numbers, weight: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Return the sums of xx, xy and yy about the means, for each row of weights."""
    whole = weight.sum(axis=1, keepdims=True)
    dx = x - (weight * x).sum(axis=1, keepdims=True) / whole
    dy = y - (weight * y).sum(axis=1, keepdims=True) / whole
    return (weight * dx * dx).sum(axis=1), (weight * dx * dy).sum(axis=1), (weight * dy * dy).sum(axis=1)


def interval(draws: Numbers, models: int) -> tuple[float, float] | tuple[None, None]:
    """Return the 95 % interval of a number from its resamples; (None, None) below six models.

    Resamples of few models spread less than samples do. The percentiles are widened to Student's interval of a mean:
    T. C. Hesterberg, What Teachers Should Know About the Bootstrap, The American Statistician 69 (2015), 371-386 (the
    expanded percentile interval). Resamples without a value (all rows the same) are left out.
    """
    known = draws[np.isfinite(draws)]
    if models < FEWEST_MODELS or not known.size:
        return None, None
    tail = NormalDist().cdf(-sqrt(models / (models - 1)) * critical(CONFIDENCE, models - 1))
    low, high = np.quantile(known, [tail, 1 - tail])
    return float(low), float(high)
