"""Printed figures beside ours, and what follows, by rule."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import isnan
from typing import Any

from report.load.paper import Paper
from report.text.quantities import percent, significant

AGREES, DIFFERS, OPEN = "agrees", "differs", "cannot be compared"

TOLERANCE = 0.01
"""Up to this share two figures agree, where that is more than the printed one's rounding."""

MEASURED_TOLERANCE = 0.1
"""The same of ratios of times, measured on different machines."""


@dataclass(frozen=True)
class Verdict:
    """``outcome`` is one of ``AGREES``, ``DIFFERS`` and ``OPEN``; ``reason`` the rest of the sentence.

    Not ``explained`` is a difference that no rule gives a reason for.
    """

    outcome: str
    reason: str
    explained: bool = True

    def __str__(self) -> str:
        joint = {AGREES: " ", DIFFERS: " ", OPEN: " because "}[self.outcome]
        return f"{self.outcome}{joint}{self.reason}"

    @property
    def what(self) -> str:
        """The rest of a sentence about a figure: ``is the sparse peak``, ``agrees within 1 %``."""
        return str(self).replace("differs because it is", "is")


def interval_between(one: float, other: float) -> tuple[float, float] | None:
    """Return an interval's ends, the lower first; None where they are not known: one round of few samples has none."""
    return None if isnan(one) or isnan(other) else (min(one, other), max(one, other))


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


def near(printed: float, rounding: float, value: float, tolerance: float = TOLERANCE) -> bool:
    """Return whether a value is the printed one within its rounding, or within a tolerance."""
    return abs(printed - value) <= max(rounding, tolerance * abs(value))


def printed(row: Any, column: str) -> tuple[float, float]:
    """Return what a row prints in a column, and its rounding."""
    return getattr(row, column), getattr(row, f"{column}_rounding")


def judge(
    printed: float, rounding: float, ours: float | None, others: Mapping[str, float], tolerance: float = TOLERANCE
) -> Verdict:
    """Return the verdict on a printed figure: it is ours, or one of ``others`` (what each would be), or neither.

    Of several others that fit, the first: they come in the order of their likelihood. Without ours a figure that is
    one of the others differs all the same: it is not what it is called.
    """
    if ours is not None and near(printed, rounding, ours, tolerance):
        off = abs(printed / ours - 1)
        return Verdict(AGREES, "exactly" if off == 0 else f"within {percent(max(off, 0.0001), 2)}")
    for name, value in others.items():
        if near(printed, rounding, value, tolerance):
            return Verdict(DIFFERS, f"because it is {name}")
    if ours is None:
        return Verdict(OPEN, "nothing of ours means the same")
    return Verdict(DIFFERS, f"by a factor of {significant(printed / ours)}, for no reason known here", explained=False)


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
