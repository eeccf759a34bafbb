"""A conclusion: by what factor something matters, the advice that follows, and the figures that show it."""

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from measure.statistics import estimate_median
from report.predictors import common_batches
from report.quantities import listing, number, significant

LITTLE = 1.25
"""Up to this factor an effect that cannot be below 1 is little, and the advice is the opposite."""

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
        """How far the factor is from 1, on whichever side."""
        return max(self.factor, 1 / self.factor)

    @property
    def side(self) -> int:
        """1 where the interval lies above 1, -1 where it lies below, 0 where the effect may be none."""
        low, high = self.interval or (1.0, 1.0)
        return (low > 1) - (high < 1)

    def __str__(self) -> str:
        """With no more digits than the interval lets stand: ``3.1 (2.0 to 6.6)``, but ``1.80 (1.72 to 1.91)``."""
        if self.interval is None:
            return significant(self.factor, 2)
        low, high = self.interval
        digits = 3 if high < NARROW * low else 2
        factor, *ends = (significant(value, digits) for value in (self.factor, low, high))
        return f"{factor} ({ends[0]} to {ends[1]})"


@dataclass(frozen=True)
class Conclusion:
    """What a reader gains, or errs by, and should do about it.

    ``where`` is the machine that it holds on, empty where it needs none. ``text`` is what follows the machine's name:
    the advice, with its numbers, which turns with the side of the effect. ``brief`` is the clause of the abstract,
    ``figures`` the labels of what shows it.
    """

    topic: str
    effect: Effect
    where: str
    text: str
    brief: str
    figures: tuple[str, ...]

    @property
    def sentences(self) -> str:
        """The text with its machine."""
        return on(self.where, self.text)


def on(where: str, text: str) -> str:
    """What holds on a machine, as a sentence."""
    return f"On the {where}, {text}" if where else f"{text[:1].upper()}{text[1:]}"


def median_of(factors: Iterable[float]) -> Effect:
    """The median of factors, with the distribution-free interval of ``measure.statistics``."""
    values = [float(factor) for factor in factors]
    estimate = estimate_median(values)
    if estimate.low is None or estimate.high is None:
        return Effect(estimate.median, None, len(values))
    return Effect(estimate.median, (estimate.low, estimate.high), len(values))


def by_batch(rows: pd.DataFrame, column: str) -> dict[int, Effect]:
    """The median of a column over the models at each batch size that at least half as many have as the commonest."""
    return {batch: median_of(rows[rows.batch == batch][column]) for batch in common_batches(rows)}


def largest(effects: dict[int, Effect]) -> int:
    """Of the batch sizes with the most models that with the largest effect, where one has any; else the first."""
    most = max(effect.count for effect in effects.values())
    known = {batch: effect for batch, effect in effects.items() if effect.count == most}
    return max(known, key=lambda batch: (known[batch].side != 0, known[batch].size))


def told(effects: dict[int, Effect], of: str = "") -> str:
    """Effects by batch size: ``1.8 (1.6 to 2.0) in the median of 24 models at batch size 1 and 2.2 of 20 at 64``."""
    parts: list[str] = []
    for batch, effect in effects.items():
        if not parts:
            parts.append(
                f"{effect} in the median of {of}{number(effect.count, 'model')} at batch size {batch}"
            )
        else:
            parts.append(f"{effect} of {effect.count} at {batch}")
    return listing(parts)


def at(batches: list[int], effects: dict[int, Effect]) -> str:
    """Where advice holds: empty at all batch sizes, else which."""
    return (
        "" if len(batches) == len(effects) else f" at batch size {listing([str(batch) for batch in batches])}"
    )


def on_side(effects: dict[int, Effect], side: int) -> list[int]:
    """The batch sizes at which the effect is on this side."""
    return [batch for batch, effect in effects.items() if effect.side == side]
