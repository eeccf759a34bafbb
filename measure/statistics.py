"""Pure estimators for repeated timings."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from statistics import median


@dataclass(frozen=True)
class Estimate:
    """A median and its confidence interval, in the unit of the values; no interval where there are too few."""

    median: float
    low: float | None
    high: float | None

    @property
    def relative_half_width(self) -> float | None:
        """Half the interval's width over the median; None where there is no interval."""
        if self.low is None or self.high is None:
            return None
        return (self.high - self.low) / 2 / self.median


def order_statistic_ranks(count: int, confidence: float = 0.95) -> tuple[int, int] | None:
    """Ranks (from 0) of the two sorted values that enclose the median with at least this confidence.

    The number of values below the median is binomial(count, 1/2) whatever the distribution, so the symmetric pair
    of ranks (k, count-1-k) misses the median with probability 2 * P(X <= k). None where even the extremes are too
    narrow: at 95 % below six values. Source: H. A. David, H. N. Nagaraja, Order Statistics, section 7.1.
    """
    below = 0.0
    best = None
    for rank in range(count // 2):
        below += comb(count, rank) / 2**count
        if 2 * below > 1 - confidence:
            break
        best = (rank, count - 1 - rank)
    return best


def estimate_median(values: Sequence[float], confidence: float = 0.95) -> Estimate:
    """The median with its distribution-free interval. Raises ValueError for no values."""
    if not values:
        raise ValueError("a median needs at least one value")
    ranks = order_statistic_ranks(len(values), confidence)
    if ranks is None:
        return Estimate(median(values), None, None)
    ordered = sorted(values)
    return Estimate(median(values), ordered[ranks[0]], ordered[ranks[1]])
