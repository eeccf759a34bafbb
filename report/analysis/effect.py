"""An effect: by what factor one thing differs from another, over the models or cells that were compared."""

from collections.abc import Iterable
from dataclasses import dataclass

from measure.timing.statistics import estimate_median
from report.text.quantities import significant

NARROW = 1.5
"""An interval whose ends differ by less than this factor lets a third digit stand."""


@dataclass(frozen=True)
class Effect:
    """A factor, 1 for no effect, with its 95 % interval, None of too few; ``count`` says of how many it is taken."""

    factor: float
    interval: tuple[float, float] | None
    count: int

    @property
    def size(self) -> float:
        """The distance of the factor from 1, on whichever side."""
        return max(self.factor, 1 / self.factor)

    @property
    def side(self) -> int:
        """1 where the interval lies above 1, -1 where it lies below, 0 where the effect may be none."""
        low, high = self.interval or (1.0, 1.0)
        return (low > 1) - (high < 1)

    def __str__(self) -> str:
        """Write no more digits than the interval lets stand: ``3.1 (2.0 to 6.6)``, but ``1.80 (1.72 to 1.91)``."""
        if self.interval is None:
            return significant(self.factor, 2)
        low, high = self.interval
        digits = 3 if high < NARROW * low else 2
        factor, *ends = (significant(value, digits) for value in (self.factor, low, high))
        return f"{factor} ({ends[0]} to {ends[1]})"


def median_of(factors: Iterable[float]) -> Effect:
    """Return the median of factors, with the distribution-free interval of ``measure.timing.statistics``."""
    values = [float(factor) for factor in factors]
    estimate = estimate_median(values)
    low, high = estimate.low, estimate.high
    return Effect(estimate.median, None if low is None or high is None else (low, high), len(values))
