"""Rank correlations with intervals: whether one quantity orders the models as another does."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from measure.domain.values import SPACE
from report.analysis import resampling
from report.analysis.resampling import Numbers

FEWEST = 3
"""The models that a coefficient needs: that of two is 1 or -1, whatever they are."""

BLOCKS = 4
"""Of a square of pairs half is needed: the narrower its blocks, the less beyond that is computed."""

Method = Callable[[Numbers, Numbers, Numbers], Numbers]
"""From values of two quantities, and how often each point counts (rows), to a coefficient a row."""


def written(value: float, interval: tuple[float, float] | None) -> str:
    """Write a coefficient or an exponent with its interval: ``0.93 (0.85 to 0.97)``."""
    numbers = [f"{number:.2f}".replace("-", "−") for number in (value, *(interval or ()))]
    return numbers[0] if interval is None else f"{numbers[0]} ({numbers[1]}{SPACE}to{SPACE}{numbers[2]})"


@dataclass(frozen=True)
class Correlation:
    """A rank correlation with its 95 % interval (None of too few models), of so many points of so many models."""

    value: float
    interval: tuple[float, float] | None
    points: int
    models: int

    def __str__(self) -> str:
        return written(self.value, self.interval)

    @property
    def settled(self) -> bool:
        """True where it can be told apart from zero."""
        return self.interval is not None and (self.interval[0] > 0 or self.interval[1] < 0)


def ranks(values: Numbers, weight: Numbers) -> Numbers:
    """Return the ranks of values of which each counts so often, equal ones sharing the mean of theirs."""
    distinct, counts = _counted(values, weight)
    return (np.cumsum(counts, axis=1) - counts / 2 + 0.5).take(np.searchsorted(distinct, values), axis=1)


def _counted(values: Numbers, weight: Numbers) -> tuple[Numbers, Numbers]:
    """Return the distinct values in ascending order, and how often each of them counts."""
    distinct, first = np.unique(np.sort(values), return_index=True)
    ordered = weight.take(np.argsort(values), axis=1)
    return distinct, ordered if len(distinct) == len(values) else np.add.reduceat(ordered, first, axis=1)


def _ratio(above: Numbers, below: Numbers) -> Numbers:
    """Return a quotient, 0 where nothing varies: a resample in which one of two is the same for all shows no order."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 1e-9)


def spearman(x: Numbers, y: Numbers, weight: Numbers) -> Numbers:
    """Return the linear correlation of ranks. Source: Spearman 1904."""
    xx, xy, yy = resampling.moments(ranks(x, weight), ranks(y, weight), weight)
    return _ratio(xy, np.sqrt(xx * yy))


def kendall(x: Numbers, y: Numbers, weight: Numbers) -> Numbers:
    """Return pairs in the same order less pairs in opposite order, over the pairs; tau-b where there are ties.

    Source: M. G. Kendall, The treatment of ties in ranking problems, Biometrika 33 (1945), 239-251.
    """
    # Whole numbers below 2 ** 24 are exact at single precision, at which all of this takes half as long
    counts = weight.astype(np.float32)
    (of_x, of_y), columns = (_places(x), _places(y)), ceil(resampling.BLOCK / BLOCKS / len(x))
    ordered = np.zeros(len(weight))
    for start in range(0, len(x), columns):
        # A pair's two orders are the same: those with a point of an earlier block count for both
        block, until = slice(start, start + columns), slice(0, start + columns)
        order = np.sign(of_x[until, None] - of_x[block])
        order *= np.sign(of_y[until, None] - of_y[block])
        order[:start] *= 2
        ordered += ((counts[:, until] @ order) * counts[:, block]).sum(axis=1, dtype=float)
    return _ratio(ordered, np.sqrt(_untied(x, weight) * _untied(y, weight)))


def _places(values: Numbers) -> NDArray[np.float32]:
    """Return the place of each value among the distinct ones: their order at single precision."""
    return np.unique(values, return_inverse=True)[1].astype(np.float32)


def _untied(values: Numbers, weight: Numbers) -> Numbers:
    """Return how many ordered pairs of points have different values."""
    counts = weight if len(np.unique(values)) == len(values) else _counted(values, weight)[1]
    return weight.sum(axis=1) ** 2 - (counts**2).sum(axis=1)


METHODS: dict[str, Method] = {"Spearman": spearman, "Kendall": kendall}


def correlation(x: pd.Series, y: pd.Series, models: pd.Series, method: Method = spearman) -> Correlation | None:
    """Return the coefficient of the points at which both are known.

    None of fewer than ``FEWEST`` models, or where one of the two is the same for all.
    """
    known = x.notna() & y.notna()
    x, y, models = x[known], y[known], models[known]
    count = models.nunique()
    if count < FEWEST or x.nunique() < 2 or y.nunique() < 2:
        return None
    first, second = x.to_numpy(float), y.to_numpy(float)
    (value,) = method(first, second, np.ones((1, len(first))))
    draws = resampling.resampled(lambda weight: method(first, second, weight), models)
    return Correlation(float(value), resampling.interval(draws, count), len(first), count)


def advantage(x: pd.Series, other: pd.Series, y: pd.Series, models: pd.Series) -> tuple[float, float] | None:
    """Return the 95 % interval of how much higher x is correlated with y than another is, over the same resamples.

    None where one of the three has no spread, or of too few models.
    """
    known = x.notna() & other.notna() & y.notna()
    x, other, y, models = x[known], other[known], y[known], models[known]
    if min(x.nunique(), other.nunique(), y.nunique()) < 2:
        return None
    first, second, target = (values.to_numpy(float) for values in (x, other, y))
    gaps = resampling.resampled(
        lambda weight: spearman(first, target, weight) - spearman(second, target, weight), models
    )
    return resampling.interval(gaps, models.nunique())
