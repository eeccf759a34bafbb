"""How two quantities go together over models: Spearman's rank correlation and power laws, with their intervals.

Intervals resample models: all rows of a model are drawn together, since they are measured on one network.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from math import ceil, sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from measure.domain.statistics import CONFIDENCE, FEWEST_MODELS, critical
from report.stats.summary import median_of
from report.stats.value import Value

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


def _blocks(models: tuple[str, ...]) -> Iterator[Numbers]:
    """Yield all resamples as rows of ``weights``, a block at a time."""
    rows = ceil(BLOCK / len(models))
    return (weights(pd.Series(models), first, rows) for first in range(0, DRAWS, rows))


class Deviations(NamedTuple):
    """Values about their mean, for each row of weights: ``distance`` and ``weighted`` distance, and the sum of squares.

    All values may be the same for each row, or an array of shape (resamples, values).
    """

    distance: Numbers
    weighted: Numbers
    squares: Numbers

    @classmethod
    def of(cls, values: Numbers, weight: Numbers) -> "Deviations":
        mean = (weight * values).sum(axis=1, keepdims=True) / weight.sum(axis=1, keepdims=True)
        distance = values - mean
        weighted = weight * distance
        return cls(distance, weighted, (weighted * distance).sum(axis=1))

    def times(self, other: "Deviations") -> Numbers:
        """Return the sum of products with other values, for each row of weights."""
        return np.asarray((self.weighted * other.distance).sum(axis=1))


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


FEWEST = 3  # the fewest models of a correlation or a line: with two, rho is 1 or -1 whatever they are


def rank_correlation(x: pd.Series, y: pd.Series, models: pd.Series) -> Value:
    """Return Spearman's rho over the rows in which both are known; its interval resamples ``models``.

    Missing below ``FEWEST`` models, and where x or y is the same in all rows.
    """
    known = x.notna() & y.notna()
    x, y, models = x[known], y[known], models[known]
    count = models.nunique()
    if count < FEWEST or x.nunique() < 2 or y.nunique() < 2:
        return Value(None, count=count)
    first, second = (tuple(values.to_numpy(float).tolist()) for values in (x, y))
    return _rank_correlation(first, second, tuple(models))


@cache  # figures and tables ask for what the text did
def _rank_correlation(x: tuple[float, ...], y: tuple[float, ...], models: tuple[str, ...]) -> Value:
    (rho,) = spearman(np.array(x), np.array(y), np.ones((1, len(x))))
    draws = [_correlation(*both) for both in zip(_ranked(x, models), _ranked(y, models), strict=True)]
    count = len(set(models))
    low, high = interval(np.concatenate(draws), count)
    return Value(float(rho), low=low, high=high, count=count)


@lru_cache(maxsize=8)  # each predictor is held against several
def _ranked(values: tuple[float, ...], models: tuple[str, ...]) -> list[Deviations]:
    """Return the ranks of values in all resamples, a block of these at a time."""
    return [Deviations.of(ranks(np.array(values), weight), weight) for weight in _blocks(models)]


def spearman(x: Numbers, y: Numbers, weight: Numbers) -> Numbers:
    """Return the linear correlation of ranks for each row of weights; 0 where nothing varies. Source: Spearman 1904."""
    return _correlation(*(Deviations.of(ranks(values, weight), weight) for values in (x, y)))


def _correlation(x: Deviations, y: Deviations) -> Numbers:
    xy, spread = x.times(y), np.sqrt(x.squares * y.squares)
    return np.divide(xy, spread, out=np.zeros_like(xy), where=spread > 1e-9)


def ranks(values: Numbers, weight: Numbers) -> Numbers:
    """Return the ranks of values that count ``weight`` times, for each row of weights; ties share their mean rank."""
    distinct, first = np.unique(np.sort(values), return_index=True)
    counts = np.add.reduceat(weight.take(np.argsort(values), axis=1), first, axis=1)
    return (np.cumsum(counts, axis=1) - counts / 2 + 0.5).take(np.searchsorted(distinct, values), axis=1)


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
    exponent = _exponent(tuple(of_x.tolist()), tuple(of_y.tolist()), tuple(models))
    slope = exponent.number or 0.0
    middle = float(of_y.mean() - slope * of_x.mean())
    factors = pd.Series(np.exp(of_y - middle - slope * of_x), index=x.index)
    return PowerLaw(exponent, float(np.exp(middle)), factors)


@cache  # figures and tables ask for what the text did
def _exponent(x: tuple[float, ...], y: tuple[float, ...], models: tuple[str, ...]) -> Value:
    """Return the slope of the line of least squares, with the interval that resamples ``models``."""

    def slope(weight: Numbers) -> Numbers:
        across, up = (Deviations.of(np.array(values), weight) for values in (x, y))
        return np.divide(
            across.times(up), across.squares, out=np.full(len(weight), np.nan), where=across.squares > 1e-9
        )

    (found,) = slope(np.ones((1, len(x))))
    count = len(set(models))
    low, high = interval(np.concatenate([*map(slope, _blocks(models))]), count)
    return Value(float(found), low=low, high=high, count=count)
