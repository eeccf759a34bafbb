"""A conclusion: by what factor something matters, the advice that follows, and the figures that show it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, wraps

import pandas as pd

from measure.domain.statistics import CONFIDENCE
from report.analysis import available
from report.analysis.effect import Effect, median_of
from report.analysis.predictors import common_batches, comparable
from report.load.paper import Machine, Paper
from report.text.prose import capitalised, listing, number

LITTLE = 1.25
"""Up to this factor a margin is little, and the advice is the opposite."""


@dataclass(frozen=True)
class Conclusion:
    """What a reader gains, or errs by, and should do about it.

    ``effects`` are all that were estimated for it, by what each is of: a batch size, a variant, a kind of chip; empty
    where there is one alone. ``is_margin`` says that they cannot be below 1 whatever the data (a least time, a spread,
    the fastest of several) or compare two numbers: then they have a size, but there is nothing to test. ``where`` is
    the machine that it holds on, empty where it needs none. ``text`` is what follows the machine's name: the advice,
    which turns with the side of the effects, and the largest of them. ``more`` is what else a reader should know, a
    sentence or none; ``figures`` are the labels of what shows it.
    """

    topic: str
    effects: Mapping[str, Effect]
    is_margin: bool
    where: str
    text: str
    more: str
    figures: tuple[str, ...]

    @property
    def effect(self) -> Effect:
        """The largest of those that are clear of 1; without any, the largest."""
        return max(self.effects.values(), key=lambda effect: (effect.side != 0, effect.size))

    @property
    def advice(self) -> str:
        """What to do, without the numbers that say so."""
        return self.text.partition(": ")[0]

    @property
    def sentences(self) -> str:
        """All that is told, with its machine."""
        return " ".join(filter(None, (on(self.where, self.text), self.more)))


Answer = tuple[Mapping[str, Effect], str, str]
"""What a conclusion's function returns: the effects, the text and what is more of its ``Conclusion``."""

Conclude = Callable[..., Conclusion]
Mark = Callable[[Callable[..., Answer]], Conclude]

OF_PAPER: list[tuple[int, Conclude]] = []
OF_MACHINES: list[tuple[int, Conclude]] = []
"""The places and functions of the conclusions about all machines, and of those about each that figures show.

Called with the paper, the latter with a machine too, and ``confidence``, at which effects tell their intervals.
"""


def of_paper(place: int, topic: str, *figures: str, is_margin: bool = False) -> Mark:
    """Mark a conclusion that needs no machine; where effects are equally large, that with the lower place is first.

    Its function gets the paper and, unless it ``is_margin``, the confidence of its intervals.
    """

    def register(function: Callable[..., Answer]) -> Conclude:
        @wraps(function)
        def concluded(paper: Paper, *, confidence: float = CONFIDENCE) -> Conclusion:
            effects, text, more = function(paper) if is_margin else function(paper, confidence)
            return Conclusion(topic, effects, is_margin, "", text, more, figures)

        OF_PAPER.append((place, concluded))
        return concluded

    return register


def of_machine(place: int, topic: str, *figures: str, is_margin: bool = False) -> Mark:
    """Mark a conclusion about each machine that figures show.

    Its function gets the paper, the machine and, unless it ``is_margin``, the confidence of its intervals.
    """

    def register(function: Callable[..., Answer]) -> Conclude:
        margin = lru_cache(maxsize=8)(function)  # the same at every confidence

        @wraps(function)
        def concluded(paper: Paper, machine: Machine, *, confidence: float = CONFIDENCE) -> Conclusion:
            effects, text, more = margin(paper, machine) if is_margin else function(paper, machine, confidence)
            return Conclusion(topic, effects, is_margin, available.title(machine), text, more, figures)

        OF_MACHINES.append((place, concluded))
        return concluded

    return register


def on(where: str, text: str) -> str:
    """Write what holds on a machine as a sentence."""
    return f"On the {where}, {text}" if where else capitalised(text)


def by_batch(rows: pd.DataFrame, column: str, confidence: float = CONFIDENCE) -> dict[int, Effect]:
    """Return a column's median over models at each batch size, over the same models at all of them."""
    same = comparable(rows)
    return {batch: median_of(same[same.batch == batch][column], confidence) for batch in common_batches(same)}


def largest(effects: dict[int, Effect]) -> int:
    """Return the batch size with the largest effect that is clear of 1; without any, with the largest."""
    return max(effects, key=lambda batch: (effects[batch].side != 0, effects[batch].size))


def of_batches(effects: dict[int, Effect], variant: str = "") -> dict[str, Effect]:
    """Return the effects as a ``Conclusion`` keeps them."""
    before = f"{variant}, " if variant else ""
    return {f"{before}batch size {batch}": effect for batch, effect in effects.items()}


def median_at(batch: int, effects: dict[int, Effect], pairs: str = "") -> str:
    """Write the effect at a batch size: ``2.2 (1.9 to 2.4) at batch size 64 in the median of 20 models``."""
    return f"{effects[batch]} at batch size {batch} in the median of {pairs}{number(effects[batch].count, 'model')}"


def largest_median(effects: dict[int, Effect], pairs: str = "") -> str:
    """Write the largest effect so."""
    return median_at(largest(effects), effects, pairs)


def at(batches: list[int], effects: dict[int, Effect]) -> str:
    """Say where advice holds: nothing at all batch sizes, else which."""
    return "" if len(batches) == len(effects) else f" at batch size {listing([str(size) for size in batches])}"


def advised(effects: dict[int, Effect], take: str, leave: str, avoid: str, neither: str) -> str:
    """Return the advice on a choice, with the batch sizes at which it holds.

    To ``take`` it where the effect is above 1, and beside that to ``leave`` it where the effect is below; to ``avoid``
    it where the effect is below 1 and nowhere above; ``neither`` where there is none.
    """
    better, worse = on_side(effects, 1), on_side(effects, -1)
    if better:
        return f"{take}{at(better, effects)}" + (f", {leave}{at(worse, effects)}" if worse else "")
    return f"{avoid}{at(worse, effects)}" if worse else neither


def on_side(effects: dict[int, Effect], side: int) -> list[int]:
    """Return the batch sizes at which the effect is on this side."""
    return [batch for batch, effect in effects.items() if effect.side == side]
