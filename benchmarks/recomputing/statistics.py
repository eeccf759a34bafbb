"""The statistics of ``docs/method.md`` from their sources, on NumPy and SciPy.

Intervals of medians are by order statistics (David and Nagaraja, Order Statistics, 2003, 7.1). Between rounds they are
Student's on logarithms, corrected as in T. C. Hesterberg, The American Statistician 69 (2015), 371-386; so are the
percentiles of resampled models. Resampling takes the paper's seed and generator: other draws have other digits.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

Numbers = NDArray[np.float64]

CONFIDENCE, OF_ROUNDS, ONE_ERROR = 0.95, 0.96, 0.6827
"""The confidence of intervals, of intervals between rounds, and of one standard error."""

DRAWS, SEED = 1000, 0


class Found(NamedTuple):
    """A recomputed number, and the ends of its interval if it has one."""

    number: float
    low: float | None = None
    high: float | None = None


def median_ends(values: ArrayLike, confidence: float = CONFIDENCE) -> tuple[float, float] | None:
    """Return the narrowest symmetric pair of order statistics that covers the median; None of too few values.

    The pair that leaves out k values at each end misses the median with twice the probability that at most k of all
    values lie below it.
    """
    ordered = np.sort(np.asarray(values, float))
    misses = 2 * stats.binom.cdf(np.arange(len(ordered) // 2), len(ordered), 0.5)
    fitting = int((misses <= 1 - confidence).sum())
    return (float(ordered[fitting - 1]), float(ordered[-fitting])) if fitting else None


def median_of(values: ArrayLike) -> Found:
    present = np.asarray(values, float)
    present = present[np.isfinite(present)]
    return Found(float(np.median(present)), *(median_ends(present) or (None, None)))


def of_rounds(rounds: Sequence[ArrayLike]) -> Found:
    """Return the median of the rounds' medians with Student's interval of the mean of their logarithms.

    It is never narrower than one standard error from the samples within rounds.
    """
    if len(rounds) == 1:
        return median_of(rounds[0])
    medians = np.array([np.median(values) for values in rounds])
    if len(rounds) == 2:
        return Found(float(medians.mean()))
    count, middle, logs = len(rounds), float(np.median(medians)), np.log(medians)
    half = stats.t.ppf((1 + OF_ROUNDS) / 2, count - 1) * stats.sem(logs)
    widths = np.log([median_ends(values, ONE_ERROR) or (np.nan, np.nan) for values in rounds]) - logs[:, None]
    widths = widths[np.isfinite(widths).all(axis=1)]
    inner = np.sqrt(np.square(widths).sum(axis=0) / max(len(widths), 1) / count)
    low, high = np.exp(logs.mean() - max(half, inner[0])), np.exp(logs.mean() + max(half, inner[1]))
    return Found(middle, min(middle, float(low)), max(middle, float(high)))


def of_cells(rows: pd.DataFrame, key: list[str], column: str) -> pd.DataFrame:
    """One row is a cell: ``number``, ``low`` and ``high`` of a column over its rounds."""
    grouped = rows.groupby([*key, "round"])[column].agg(list).groupby(level=key).agg(list)
    found = [of_rounds(rounds) for rounds in grouped]
    return pd.DataFrame(found, index=grouped.index, columns=Found._fields).astype(float).reset_index()


def quotient(one: Found, other: Found) -> Found:
    """Return the quotient of two independent numbers: the widths of their logarithms add in squares."""
    number = one.number / other.number
    ends = (one.low, one.high, other.low, other.high)
    if any(end is None or not np.isfinite(end) for end in ends):
        return Found(number)
    a, b, c, d = np.log(np.array(ends, float))
    p, q = np.log(one.number), np.log(other.number)
    below, above = np.hypot(p - a, d - q), np.hypot(b - p, q - c)
    return Found(number, number * float(np.exp(-below)), number * float(np.exp(above)))


def rank_correlation(x: pd.Series, y: pd.Series, models: pd.Series) -> Found:
    """Return Spearman's rho; its interval resamples models, all rows of one together."""
    present = x.notna() & y.notna()
    first, second, names = x[present].to_numpy(float), y[present].to_numpy(float), models[present]
    rho = float(stats.spearmanr(first, second).statistic)
    return Found(rho, *_resampled(lambda chosen: _correlation(first[chosen], second[chosen]), names))


def slope(x: pd.Series, y: pd.Series, models: pd.Series) -> Found:
    """Return the slope of the least-squares line; its interval resamples models."""
    first, second = x.to_numpy(float), y.to_numpy(float)
    return Found(_slope(first, second), *_resampled(lambda chosen: _slope(first[chosen], second[chosen]), models))


def _resampled(statistic: Callable[[Any], float], models: Any) -> tuple[float, float]:
    codes, distinct = pd.factorize(models, sort=True)
    count = len(distinct)
    draws = np.random.default_rng(SEED).multinomial(count, np.full(count, 1 / count), DRAWS)
    resamples = [statistic(np.repeat(np.arange(len(codes)), draw[codes])) for draw in draws]
    tail = stats.norm.cdf(-np.sqrt(count / (count - 1)) * stats.t.ppf((1 + CONFIDENCE) / 2, count - 1))
    low, high = np.quantile(resamples, [tail, 1 - tail])
    return float(low), float(high)


def _slope(x: Numbers, y: Numbers) -> float:
    return float(np.cov(x, y)[0, 1] / x.var(ddof=1))


def _correlation(x: Numbers, y: Numbers) -> float:
    ranks = stats.rankdata([x, y], axis=1)
    return float(np.corrcoef(ranks)[0, 1])
