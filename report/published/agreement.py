"""When two figures agree: one tolerance for all, and the interval of a figure that was measured."""

from dataclasses import dataclass
from math import isnan
from typing import Any

from measure.domain.statistics import Estimate
from measure.domain.values import significant
from report.analysis.effect import Effect, with_interval
from report.load.roofs import quotient
from report.text.prose import change, percent

TOLERANCE = 0.01
"""Up to this share two figures agree, where that is more than the printed one's rounding."""

BINARY = 1e-9
"""A share by which a limit is exceeded only because decimal fractions are not exact in binary."""


def margin(rounding: float, value: float) -> float:
    """Return by how much a printed figure may be off a value: its rounding, or the tolerance if that is more."""
    return max(rounding, TOLERANCE * abs(value)) * (1 + BINARY)


def near(printed: float, rounding: float, value: float) -> bool:
    """Return whether a value is the printed one within its rounding, or within the tolerance."""
    return abs(printed - value) <= margin(rounding, value)


def interval_between(one: float, other: float) -> tuple[float, float] | None:
    """Return an interval's ends, the lower first; None where they are not known: one round of few samples has none."""
    return None if isnan(one) or isnan(other) else (min(one, other), max(one, other))


@dataclass(frozen=True)
class Measured:
    """A figure with its 95 % interval, None of too few samples; both ends of what is counted are the figure."""

    value: float
    interval: tuple[float, float] | None

    def over(self, other: "Measured") -> "Measured":
        """Return the quotient of two independent figures; without an interval where this one is 0."""
        if self.value == 0:
            return Measured(0.0, None)
        found = quotient(self._estimate, other._estimate)
        return Measured(found.median, None if found.low is None or found.high is None else (found.low, found.high))

    @property
    def _estimate(self) -> Estimate:
        return Estimate(self.value, *(self.interval or (None, None)))

    def above(self, value: float) -> bool | None:
        """Return whether the figure lies above a value; None where the interval holds the value or is not known."""
        if self.interval is None or self.interval[0] <= value <= self.interval[1]:
            return None
        return self.interval[0] > value

    def meets(self, low: float, high: float) -> bool | None:
        """Return whether the interval meets a range, whose ends are known within the tolerance.

        A figure without an interval may meet the range itself; if it does not, nothing is decided.
        """
        least, most = self.interval or (self.value, self.value)
        if least <= high + margin(0, high) and most >= low - margin(0, low):
            return True
        return None if self.interval is None else False

    def is_printed(self, printed: float, rounding: float) -> bool | None:
        """Return whether the figure is the printed one; None where only the interval holds it, or there is none."""
        if near(printed, rounding, self.value):
            return True
        off = margin(rounding, self.value)
        apart = self.interval is not None and (self.interval[0] > printed + off or self.interval[1] < printed - off)
        return False if apart else None

    def __str__(self) -> str:
        exact = self.interval == (self.value, self.value)
        return significant(self.value) if exact else with_interval(self.value, self.interval)

    @property
    def share(self) -> str:
        """The figure as a percentage, with its interval."""
        return change(self.value, *self.interval) if self.interval else percent(self.value)


def counted(value: Any) -> Measured:
    """Return a figure that is exact."""
    return Measured(float(value), (float(value), float(value)))


def of_effect(effect: Effect) -> Measured:
    return Measured(effect.factor, effect.interval)


def latency(row: Any, what: str = "latency") -> Measured:
    """Return the measured time (s) of a row: its latency, or a stage's."""
    middle, low, high = (float(row[f"{what}{end}_s"]) for end in ("", "_low", "_high"))
    return Measured(middle, interval_between(low, high))


def together(holds: list[bool | None]) -> bool | None:
    """Return whether all hold: one that fails decides, else one that is open leaves the whole open."""
    return False if False in holds else None if None in holds else True
