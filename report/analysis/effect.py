"""An effect: by what factor one thing differs from another, over the models or cells that were compared."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from measure.domain.statistics import CONFIDENCE, estimate_median
from measure.domain.values import significant

Interval = tuple[float, float]

NARROW = 1.5
"""An interval whose ends differ by less than this factor lets a third digit stand."""

MOST_DIGITS = 4
"""So many tell an interval's end from 1."""


@dataclass(frozen=True)
class Effect:
    """A factor, 1 for no effect, of ``count`` models or cells.

    ``interval_at`` returns the interval of a confidence, None where there are too few for it; ``interval`` is that of
    this effect's own ``confidence``.
    """

    factor: float
    interval_at: Callable[[float], Interval | None] = field(repr=False, compare=False)
    count: int
    confidence: float = CONFIDENCE

    @property
    def interval(self) -> Interval | None:
        return self.interval_at(self.confidence)

    def at(self, confidence: float) -> "Effect":
        """Return the same effect with its interval at another confidence."""
        return replace(self, confidence=confidence)

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
        return with_interval(self.factor, self.interval)


def with_interval(factor: float, interval: Interval | None) -> str:
    """Write no more digits than the interval lets stand: ``3.1 (2.0 to 6.6)``, but ``1.80 (1.72 to 1.91)``."""
    if interval is None:
        return significant(factor, 2)
    low, high = interval
    digits = 3 if high < NARROW * low else 2
    return f"{significant(factor, digits)} ({_end(low, digits)} to {_end(high, digits)})"


def _end(value: float, digits: int) -> str:
    """Write an end of an interval, with the digits that tell it from 1: on which side it lies is what matters."""
    told = (significant(value, more) for more in range(digits, MOST_DIGITS + 1))
    return next((text for text in told if value == 1 or float(text) != 1), significant(value, digits))


def median_of(factors: Iterable[float], confidence: float = CONFIDENCE) -> Effect:
    """Return the median of factors, with the distribution-free interval of ``measure.domain.statistics``."""
    values = [float(factor) for factor in factors]

    def interval_at(confidence: float) -> Interval | None:
        estimate = estimate_median(values, confidence)
        return None if estimate.low is None or estimate.high is None else (estimate.low, estimate.high)

    return Effect(estimate_median(values).median, interval_at, len(values), confidence)


def adjusted_confidence(tested: Sequence[Effect]) -> float:
    """Return the confidence to tell intervals at, when the clear ones among so many tested effects are picked out.

    Whoever tests many effects and tells those whose 95 % intervals leave out 1 tells chance too. Of m tested, the
    largest number R is picked whose intervals leave out 1 at a confidence of 1 - R · 5 % / m (Y. Benjamini and
    Y. Hochberg, Controlling the False Discovery Rate, Journal of the Royal Statistical Society B 57 (1995), 289-300).
    At that confidence at most 5 % of the intervals that are told are expected to miss (Y. Benjamini and D. Yekutieli,
    False Discovery Rate-Adjusted Multiple Confidence Intervals for Selected Parameters, Journal of the American
    Statistical Association 100 (2005), 71-81). Where none is clear, it is that of one (R = 1).
    """

    def confidence(picked: int) -> float:
        return 1 - picked * (1 - CONFIDENCE) / len(tested)

    for picked in range(len(tested), 0, -1):
        if sum(effect.at(confidence(picked)).side != 0 for effect in tested) >= picked:
            return confidence(picked)
    return confidence(1) if tested else CONFIDENCE
