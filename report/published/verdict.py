"""Printed figures beside ours, and what follows, by rule."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from measure.domain.values import significant
from report.load.paper import Paper
from report.published.agreement import Measured, near
from report.text.prose import percent

AGREES, DIFFERS, UNDECIDED, NOT_COMPARABLE = "agrees", "differs", "undecided", "not comparable"


@dataclass(frozen=True)
class Verdict:
    """``outcome`` is one of the four above; ``reason`` the rest of the sentence.

    A figure is ``UNDECIDED`` where only the interval of ours holds it, ``NOT_COMPARABLE`` where nothing of ours means
    the same or stands beside it. Not ``explained`` is a difference that no rule gives a reason for.
    """

    outcome: str
    reason: str
    explained: bool = True

    def __str__(self) -> str:
        joint = " " if self.outcome in (AGREES, DIFFERS) else " because "
        return f"{self.outcome}{joint}{self.reason}"

    @property
    def what(self) -> str:
        """The rest of a sentence about a figure: ``is the sparse peak``, ``is undecided because ...``."""
        verb = "is " if self.outcome in (UNDECIDED, NOT_COMPARABLE) else ""
        return verb + str(self).replace("differs because it is", "is")

    def names(self, reason: str) -> bool:
        """Return whether this is the reason of a difference, and not only what lies nearest to it."""
        return self.explained and reason in self.reason


@dataclass(frozen=True)
class Comparison:
    """A printed figure: whose (``study``, a key of the bibliography), of what, and what we have beside it.

    ``ours`` is None where there is nothing; where it was measured, ``machine`` is on what, and ``interval`` stands if
    there were samples enough. ``unit`` is that of both, "" of a ratio.
    """

    study: str
    subject: str
    quantity: str
    unit: str
    printed: float
    ours: float | None
    verdict: Verdict
    interval: tuple[float, float] | None = None
    machine: str = ""

    @property
    def ratio(self) -> float | None:
        """Printed over ours."""
        return self.printed / self.ours if self.ours else None

    @property
    def cause(self) -> tuple[Any, ...]:
        """What makes it differ, to be counted once: a study's reason, or one figure that it prints again and again."""
        if self.verdict.explained:
            return self.study, self.verdict.reason
        return self.study, self.quantity, self.printed


def by_cause(found: Iterable[Comparison]) -> dict[tuple[Any, ...], list[Comparison]]:
    """Return the figures that differ, by what makes them differ."""
    grouped: dict[tuple[Any, ...], list[Comparison]] = {}
    for comparison in found:
        if comparison.verdict.outcome == DIFFERS:
            grouped.setdefault(comparison.cause, []).append(comparison)
    return grouped


def printed(row: Any, column: str) -> tuple[float, float]:
    """Return what a row prints in a column, and its rounding."""
    return getattr(row, column), getattr(row, f"{column}_rounding")


def judge(printed: float, rounding: float, ours: float | None, others: Mapping[str, float]) -> Verdict:
    """Return the verdict on a printed figure: it is ours, or one of ``others`` (what each would be), or neither.

    Of several others that fit, the first: they come in the order of their likelihood. Without ours a figure that is
    one of the others differs all the same: it is not what it is called.
    """
    if ours is not None and near(printed, rounding, ours):
        return _agreement(printed, ours)
    for name, value in others.items():
        if near(printed, rounding, value):
            return Verdict(DIFFERS, f"because it is {name}")
    if ours is None:
        return Verdict(NOT_COMPARABLE, "nothing of ours means the same")
    return _unexplained(printed, ours, others)


def judge_measured(printed: float, rounding: float, ours: Measured, reason: str = "") -> Verdict:
    """Return the verdict on a printed figure beside a measured one; ``reason`` is why two may differ, if it is known.

    Undecided where only the interval holds the printed figure, or where one round of few samples has none.
    """
    holds = ours.is_printed(printed, rounding)
    if holds:
        return _agreement(printed, ours.value)
    if holds is None:
        return Verdict(UNDECIDED, "our interval holds it" if ours.interval else "ours has too few samples")
    return Verdict(DIFFERS, reason) if reason else _unexplained(printed, ours.value, {})


def _agreement(printed: float, ours: float) -> Verdict:
    off = abs(printed / ours - 1)
    return Verdict(AGREES, "exactly" if off == 0 else f"within {percent(max(off, 0.0001), 2)}")


def _unexplained(printed: float, ours: float, others: Mapping[str, float]) -> Verdict:
    """Return the verdict on a difference without a reason, with what lies nearest, if it is nearer than ours."""
    reason = f"by a factor of {significant(printed / ours)}, for no reason known here"
    off = {name: abs(printed / value - 1) for name, value in others.items() if value}
    nearest = min(off, key=lambda name: off[name], default="")
    if nearest and off[nearest] < abs(printed / ours - 1):
        reason += f"; the nearest is {nearest}, {percent(off[nearest])} off"
    return Verdict(DIFFERS, reason, explained=False)


Compare = Callable[[Paper], Iterator[Comparison]]

TABLES: dict[str, tuple[int, Compare]] = {}
"""The place and the function of each table of ``data/published`` that is compared."""


def compares(table: str, place: int) -> Callable[[Compare], Compare]:
    """Mark the function that holds a table's figures against ours; places give the chapter's order."""

    def register(function: Compare) -> Compare:
        TABLES[table] = place, function
        return function

    return register


@lru_cache(maxsize=32)
def compared(paper: Paper, table: str) -> tuple[Comparison, ...]:
    """Return the printed figures of a table beside ours."""
    return tuple(TABLES[table][1](paper))


def comparisons(paper: Paper) -> list[Comparison]:
    """Return all printed figures beside ours."""
    names = sorted(TABLES, key=lambda table: TABLES[table][0])
    return [comparison for table in names for comparison in compared(paper, table)]
