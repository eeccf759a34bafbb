"""A conclusion: by what factor something matters, the advice that follows, and the figures that show it."""

from dataclasses import dataclass

import pandas as pd

from report.analysis.effect import Effect, median_of
from report.analysis.predictors import common_batches
from report.text.quantities import listing, number

LITTLE = 1.25
"""Up to this factor an effect that cannot be below 1 is little, and the advice is the opposite."""


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


def advised(effects: dict[int, Effect], take: str, leave: str, avoid: str, neither: str) -> str:
    """The advice on a choice, with the batch sizes at which it holds.

    To ``take`` it where the effect is above 1, and beside that to ``leave`` it where the effect is below; to ``avoid``
    it where the effect is below 1 and nowhere above; ``neither`` where there is none.
    """
    better, worse = on_side(effects, 1), on_side(effects, -1)
    if better:
        return f"{take}{at(better, effects)}" + (f", {leave}{at(worse, effects)}" if worse else "")
    return f"{avoid}{at(worse, effects)}" if worse else neither


def on_side(effects: dict[int, Effect], side: int) -> list[int]:
    """The batch sizes at which the effect is on this side."""
    return [batch for batch, effect in effects.items() if effect.side == side]
