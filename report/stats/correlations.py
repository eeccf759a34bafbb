"""Spearman's rank correlation and power laws over models, with intervals.

Intervals resample models. All rows of a model are drawn together: they come from one network.
"""

from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from measure.domain.statistics import CONFIDENCE, FEWEST_MODELS, critical
from report.stats.value import Value, median_of

Numbers = NDArray[np.float64]

DRAWS = 1000
SEED = 0


@lru_cache(maxsize=16)
def weights(models: tuple[str, ...]) -> Numbers:
    """Return how often each row counts in each resample: an array of shape (rows, resamples).

    The draws of a model depend on the set of models alone, not on the rows, so differences are paired.
    """
    codes, names = pd.factorize(np.array(models, object), sort=True)
    drawn = np.random.default_rng(SEED).multinomial(len(names), np.full(len(names), 1 / len(names)), DRAWS)
    return drawn.T.astype(float).take(codes, axis=0)


def interval(draws: Numbers, models: int) -> tuple[float, float] | tuple[None, None]:
    """Return the 95 % interval from a number's resamples; (None, None) below six models.

    Resamples of few models spread less than samples do. The percentiles are widened to Student's interval of a mean:
    T. C. Hesterberg, What Teachers Should Know About the Bootstrap, The American Statistician 69 (2015), 371-386 (the
    expanded percentile interval). Resamples without a value (all rows equal) are dropped.
    """
    valid = draws[np.isfinite(draws)]
    if models < FEWEST_MODELS or not valid.size:
        return None, None
    tail = NormalDist().cdf(-sqrt(models / (models - 1)) * critical(CONFIDENCE, models - 1))
    low, high = np.quantile(valid, [tail, 1 - tail])
    return float(low), float(high)


FEWEST = 3  # the fewest models of a correlation or a line: two give rho = 1 or -1


def rank_correlation(x: pd.Series, y: pd.Series, models: pd.Series) -> Value:
    """Return Spearman's rho over rows with both values; the interval resamples ``models``.

    Missing below ``FEWEST`` models and for a constant x or y.
    """
    first, second = x.to_numpy(float), y.to_numpy(float)
    valid = ~(np.isnan(first) | np.isnan(second))
    first, second, names = (values[valid] for values in (first, second, models.to_numpy(object)))
    count = len(set(names))
    if count < FEWEST or np.ptp(first) == 0 or np.ptp(second) == 0:
        return Value(None, count=count)
    return _rank_correlation(tuple(first.tolist()), tuple(second.tolist()), tuple(names))


@cache  # figures and tables reuse the text's results
def _rank_correlation(x: tuple[float, ...], y: tuple[float, ...], models: tuple[str, ...]) -> Value:
    found, count = _correlation(_ranked(x, models), _ranked(y, models)), len(set(models))
    low, high = interval(found[1:], count)
    return Value(float(found[0]), low=low, high=high, count=count)


class Ranks(NamedTuple):
    """Centred ranks of each resample: ``distance``, ``weighted`` distance and the sum of squares."""

    distance: Numbers
    weighted: Numbers
    squares: Numbers

    @classmethod
    def of(cls, values: Numbers, weight: Numbers) -> "Ranks":
        distance = ranks(values, weight) - (weight.sum(axis=0) + 1) / 2
        weighted = weight * distance
        return cls(distance, weighted, np.einsum("ij,ij->j", weighted, distance))


@lru_cache(maxsize=64)  # each predictor is compared with several
def _ranked(values: tuple[float, ...], models: tuple[str, ...]) -> Ranks:
    """Return the ranks among all rows first, then the ranks in each resample."""
    return Ranks.of(np.array(values), np.hstack([np.ones((len(models), 1)), weights(models)]))


def spearman(x: Numbers, y: Numbers, weight: Numbers) -> Numbers:
    """Return the correlation of ranks in each resample; 0 for constant ranks. Source: Spearman 1904."""
    return _correlation(Ranks.of(x, weight), Ranks.of(y, weight))


def _correlation(x: Ranks, y: Ranks) -> Numbers:
    xy, spread = np.einsum("ij,ij->j", x.weighted, y.distance), np.sqrt(x.squares * y.squares)
    return np.divide(xy, spread, out=np.zeros_like(xy), where=spread > 1e-9)


def ranks(values: Numbers, weight: Numbers) -> Numbers:
    """Return the ranks of values with these weights, for each resample; ties share their mean rank."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    summed = weight.take(np.argsort(values), axis=0)
    for before, row in pairwise(summed):
        row += before  # four times as fast as cumsum down the rows
    last = summed.take(np.cumsum(counts) - 1, axis=0)
    twice = last + 1  # a value's first rank plus its last
    twice[1:] += last[:-1]
    return (twice / 2).take(places, axis=0)


@dataclass(frozen=True)
class PowerLaw:
    """The line ``y = scale * x ** exponent``. ``factors`` is y over the line, by the index of the data."""

    exponent: Value
    scale: float
    factors: pd.Series

    def at(self, x: float) -> float:
        return float(self.scale * x ** (self.exponent.number or 0.0))

    @property
    def typical_factor(self) -> Value:
        """The median distance of points from the line, up or down, as a factor of at least 1."""
        return median_of(np.exp(np.log(self.factors).abs()))

    def growth(self, times: float) -> Value:
        """Return the growth of y when x grows ``times``-fold."""
        ends = (self.exponent.number, self.exponent.low, self.exponent.high)
        number, low, high = (None if end is None else float(times**end) for end in ends)
        return Value(number, "", low, high, self.exponent.count)


def fit_power_law(x: pd.Series, y: pd.Series, models: pd.Series) -> PowerLaw | None:
    """Fit least squares to the points with x and y above 0; the interval resamples ``models``.

    None below ``FEWEST`` models and for a constant x.
    """
    valid = (x > 0) & (y > 0)
    x, y, models = x[valid], y[valid], models[valid]
    if models.nunique() < FEWEST or x.nunique() < 2:
        return None
    of_x, of_y = np.log(x.to_numpy(float)), np.log(y.to_numpy(float))
    exponent = _exponent(tuple(of_x.tolist()), tuple(of_y.tolist()), tuple(models))
    slope = exponent.number or 0.0
    middle = float(of_y.mean() - slope * of_x.mean())
    factors = pd.Series(np.exp(of_y - middle - slope * of_x), index=x.index)
    return PowerLaw(exponent, float(np.exp(middle)), factors)


@cache  # figures and tables reuse the text's results
def _exponent(x: tuple[float, ...], y: tuple[float, ...], models: tuple[str, ...]) -> Value:
    """Return the slope of the least-squares line; its interval resamples ``models``."""
    across, up = (np.array(values) - np.mean(values) for values in (x, y))
    products = np.stack([np.ones(len(x)), across, up, across * across, across * up])

    def slope(weight: Numbers) -> Numbers:
        count, sum_x, sum_y, xx, xy = products @ weight
        spread = xx - sum_x**2 / count
        return np.divide(xy - sum_x * sum_y / count, spread, out=np.full_like(xy, np.nan), where=spread > 1e-9)

    (found,) = slope(np.ones((len(x), 1)))
    count = len(set(models))
    low, high = interval(slope(weights(models)), count)
    return Value(float(found), low=low, high=high, count=count)
