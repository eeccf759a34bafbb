"""The paper's statistics from their sources, on NumPy and SciPy.

Intervals of medians are by order statistics (H. A. David, H. N. Nagaraja, Order Statistics, 3rd edition, 2003, section
7.1). Between rounds they are Student's on logarithms, with the two corrections of T. C. Hesterberg, What Teachers
Should Know About the Bootstrap, The American Statistician 69 (2015), 371-386; his expanded percentiles are those of
resampled models. Effects are selected as by Y. Benjamini and Y. Hochberg, Journal of the Royal Statistical Society B 57
(1995), 289-300.

The paper resamples with a fixed seed. For its digits the same draws are made here: ``DRAWS`` multinomial ones of
NumPy's default generator from ``SEED``, of the models sorted by name.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, nan, sqrt

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

Numbers = NDArray[np.float64]
Ends = tuple[float, float]

CONFIDENCE = 0.95
CONFIDENCE_OF_ROUNDS = 0.96
ONE_STANDARD_ERROR = 0.6827
"""The confidences of ``docs/method.md``: usual, between rounds, and the least between rounds."""

DRAWS, SEED = 1000, 0
FEWEST_MODELS = 5
"""So many models have a resampled interval."""


@dataclass(frozen=True)
class Estimate:
    """A median and the ends of its interval, which are not numbers where there are too few values."""

    median: float
    low: float
    high: float


def median_ends(values: ArrayLike, confidence: float = CONFIDENCE) -> Ends | None:
    """Return the two values that enclose the median: of the symmetric pairs of ranks the narrowest that may.

    The pair that leaves out k values at each end misses the median with twice the probability that at most k of all
    values lie below it, each with one half. None where the extremes, k = 0, miss too often.
    """
    ordered = np.sort(np.asarray(values, float))
    count = len(ordered)
    misses = 2 * stats.binom.cdf(np.arange(count // 2), count, 0.5)
    fitting = int((misses <= 1 - confidence).sum())
    return (float(ordered[fitting - 1]), float(ordered[count - fitting])) if fitting else None


def middle_of(values: ArrayLike) -> float:
    return float(np.median(np.asarray(values, float)))


def of_one_round(values: ArrayLike) -> Estimate:
    return Estimate(middle_of(values), *(median_ends(values) or (nan, nan)))


def of_rounds(rounds: Sequence[ArrayLike]) -> Estimate:
    """Return the median of the rounds' medians, with Student's interval of the mean of their logarithms.

    On neither side is it narrower than one standard error of what the samples leave open: that of a mean of independent
    rounds, each with the mean square of the widths of the rounds that have at least three samples.
    """
    if len(rounds) == 1:
        return of_one_round(rounds[0])
    medians = np.array([middle_of(values) for values in rounds])
    count, middle, logs = len(rounds), float(np.median(medians)), np.log(medians)
    half = stats.t.ppf((1 + CONFIDENCE_OF_ROUNDS) / 2, count - 1) * stats.sem(logs)
    ends = [median_ends(values, ONE_STANDARD_ERROR) or (nan, nan) for values in rounds]
    widths = np.log(ends) - logs[:, None]
    widths = widths[np.isfinite(widths).all(axis=1)]
    inner = np.sqrt(np.square(widths).sum(axis=0) / max(len(widths), 1) / count)
    low, high = np.exp(logs.mean() - max(half, inner[0])), np.exp(logs.mean() + max(half, inner[1]))
    return Estimate(middle, min(middle, float(low)), max(middle, float(high)))


def drawn(models: int) -> NDArray[np.int64]:
    """Return how often each of so many models is in each resample, a row a resample."""
    return np.random.default_rng(SEED).multinomial(models, [1 / models] * models, DRAWS)


def resampled_ends(draws: Numbers, models: int, confidence: float) -> Ends | None:
    """Return Hesterberg's expanded percentiles of a number's resamples.

    None of too few models, and above 95 % where fewer than one resample is expected beyond each end.
    """
    known = draws[np.isfinite(draws)]
    if models < FEWEST_MODELS or not known.size:
        return None
    beyond = stats.norm.cdf(-sqrt(models / (models - 1)) * stats.t.ppf((1 + confidence) / 2, models - 1))
    if confidence > CONFIDENCE and beyond * known.size < 1:
        return None
    low, high = np.quantile(known, [beyond, 1 - beyond])
    return float(low), float(high)


@dataclass(frozen=True)
class Effect:
    """A factor of so many models or chips, and the ends of its interval at a confidence, None where there is none."""

    factor: float
    count: int
    ends: Callable[[float], Ends | None]

    @property
    def size(self) -> float:
        """The factor, or its inverse where that is larger."""
        return max(self.factor, 1 / self.factor)

    def side(self, confidence: float) -> int:
        """Return 1 where the interval lies above one, -1 where below, 0 where it holds one or there is none."""
        low, high = self.ends(confidence) or (-inf, inf)
        return int(low > 1) - int(high < 1)


def of_median(factors: ArrayLike) -> Effect:
    """Return the effect that is the median of factors."""
    values = np.asarray(factors, float)
    return Effect(middle_of(values), len(values), lambda confidence: median_ends(values, confidence))


def of_pairs(values: "pd.Series[float]") -> Effect:
    """Return the median factor between the values of two models, which are the index; models are resampled.

    A pair counts as often as its two models together, and a model is no pair with itself.
    """
    logs = np.log(values.sort_index().to_numpy(float))
    count = len(logs)
    one, other = np.triu_indices(count, 1)
    apart = np.abs(logs[one] - logs[other])
    times = (row[one] * row[other] for row in drawn(count))
    draws = np.array([np.median(np.repeat(apart, often)) if often.any() else nan for often in times])
    return _from_logarithms(float(np.median(apart)), draws, count)


def typical_error(x: Numbers, y: Numbers) -> float:
    """Return the median distance of logarithms from their line of least squares; not a number where x is the same."""
    if np.square(x - x.mean()).sum() <= 1e-9:
        return nan
    slope, intercept = np.polyfit(x, y, 1)
    return float(np.median(np.abs(y - intercept - slope * x)))


def of_errors(near: "pd.Series[float]", far: "pd.Series[float]", y: "pd.Series[float]") -> Effect:
    """Return the typical error of y from the line through one quantity over that from the line through another.

    ``near`` is that of the divisor. The index of all is the models, which are resampled; lines are fitted anew.
    """
    quantities = [np.log(each.sort_index().to_numpy(float)) for each in (near, far, y)]

    def over(*logs: Numbers) -> float:
        return typical_error(logs[1], logs[2]) - typical_error(logs[0], logs[2])

    count = len(y)
    draws = np.array([over(*(np.repeat(logs, often) for logs in quantities)) for often in drawn(count)])
    return _from_logarithms(over(*quantities), draws, count)


def _from_logarithms(middle: float, draws: Numbers, count: int) -> Effect:
    def ends(confidence: float) -> Ends | None:
        found = resampled_ends(draws, count, confidence)
        return None if found is None else (float(np.exp(found[0])), float(np.exp(found[1])))

    return Effect(float(np.exp(middle)), count, ends)


def yearly_growth(years: ArrayLike, values: ArrayLike, confidence: float) -> Estimate:
    """Return the factor by which positive values grow in a year, by least squares through their logarithms."""
    line = stats.linregress(np.asarray(years, float), np.log(np.asarray(values, float)))
    half = stats.t.ppf((1 + confidence) / 2, len(np.asarray(values)) - 2) * line.stderr
    return Estimate(*(float(np.exp(line.slope + off)) for off in (0.0, -half, half)))


def told_at(tested: Sequence[Effect]) -> float:
    """Return the confidence at which the clear ones of so many tested effects are told: 1 - R * 5 % / m of m.

    R is the largest number of which at least as many are clear of one at that confidence; 1 where there is none.
    """
    alpha, most = 1 - CONFIDENCE, len(tested)
    for picked in range(most, 1, -1):
        confidence = 1 - picked * alpha / most
        if sum(effect.side(confidence) != 0 for effect in tested) >= picked:
            return confidence
    return 1 - alpha / max(most, 1)
