"""Numbers with units and intervals, printed to the digits that the interval allows; medians, ratios, extremes."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from math import isfinite
from typing import Any

import numpy as np
import pandas as pd

from measure.domain.statistics import FEWEST_MODELS, Estimate, order_statistic_ranks, quotient
from measure.domain.values import PREFIXES, SPACE, prefix_step, significant
from report.markdown import MISSING, Markup, Prose, escape, quoted

PREFIXED = ("s", "B", "B/s", "FLOP", "FLOP/s", "OP", "OP/s", "W", "J", "J/FLOP", "J/B", "Hz")
"""The units with SI prefixes. Ratios, intensities and throughputs have none, so they compare at a glance."""

MOST_SPAN = 3  # a value is missing if its interval spans a larger factor


def place_of(low: float, high: float) -> int | None:
    """Return the power of ten of a value's last certain digit; None if the interval has no width.

    The rule of the Particle Data Group (Review of Particle Physics, Introduction, 5.3) for half the interval: two
    digits if its first three are at most 354, one digit up to 949; larger ones round up to 1000.
    """
    half = (Decimal(repr(float(high))) - Decimal(repr(float(low)))) / 2
    if half <= 0:
        return None
    first_three = int(half.scaleb(2 - half.adjusted()))
    return half.adjusted() - (1 if first_three <= 354 else 0)


def digits_to(value: float, place: int | None) -> int:
    """Return how many significant digits a value has down to a place, at most 6; 3 if the place is None."""
    return 3 if place is None else min(max(1, Decimal(repr(float(value))).adjusted() - place + 1), 6)


@dataclass(frozen=True)
class Source:
    """The source of a value: a table below ``data/``, its rows, the command that measures them (None: by hand)."""

    table: str
    rows: str = "all"
    command: str | None = None


@dataclass(frozen=True)
class Value:
    """A number in SI base units (a share for ``%``) with its 95 % interval and number of samples.

    ``number`` is None if nothing was measured; a NaN or infinite number or end makes it None. The interval is None if
    there are too few samples for one, and has zero width for counts. ``counted`` is the noun of ``count``: models,
    machines, samples, devices. ``name`` is the model, chip or machine of an extreme. ``key`` is the name in
    ``facts.json``. ``origin`` tells in a reader's paper whose machine measured it: ``own`` or ``reference``, else
    neither.
    """

    number: float | None
    unit: str = ""
    low: float | None = None
    high: float | None = None
    count: int | None = None
    counted: str = "models"
    name: str = ""
    source: Source | None = None
    key: str = field(default="", compare=False)
    origin: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not all(isfinite(each) for each in (self.number, self.low, self.high) if each is not None):
            for name in ("number", "low", "high"):
                object.__setattr__(self, name, None)
        if not isinstance(self.name, Markup):  # inline code may print the name alone
            is_missing = self.number is None and not self.name
            object.__setattr__(self, "name", Markup(missing_span(self.source)) if is_missing else Prose(self.name))

    @property
    def is_missing(self) -> bool:
        """True without a number, below 6 models, and for an interval wider than a factor of 3."""
        if self.number is None or (self.counted == "models" and self.count is not None and self.count < FEWEST_MODELS):
            return True
        if self.low is None or self.high is None or self.low <= 0 <= self.high:
            return False
        near, far = sorted((abs(self.low), abs(self.high)))
        return far > MOST_SPAN * near

    def side(self, below: str, about: str, above: str, of: float = 1.0) -> Markup:
        """Choose a word by the interval: ``about`` if it contains ``of`` or is unknown. Marks a missing value."""
        if self.is_missing or self.number is None:
            return Markup(self._repr_markdown_())
        if self.low is None or self.high is None or self.low <= of <= self.high:
            return Markup(about)
        return Markup(below if self.high < of else above)

    def above(self, of: float = 1.0) -> bool:
        """Return whether the whole interval lies above a number; False for a missing value."""
        return not self.is_missing and self.low is not None and self.low > of

    def below(self, of: float = 1.0) -> bool:
        """Return whether the whole interval lies below a number; False for a missing value."""
        return not self.is_missing and self.high is not None and self.high < of

    def __str__(self) -> str:
        return self.printed(has_interval=False)

    def _repr_markdown_(self) -> str:
        """Format for inline code. A filter drops the paragraph of a missing value and lists its command."""
        if self.is_missing:
            return missing_span(self.source)
        return self._as_markdown(str(self))

    def _as_markdown(self, text: str) -> str:
        """Mark a fact's text for the page's scripts and for ``badges.lua``."""
        origin = f" .of-{self.origin}" if self.origin else ""
        return f'[{escape(text)}]{{.value{origin} key="{self.key}"}}' if self.key else escape(text)

    @property
    def interval(self) -> Markup:
        """The value with its interval, for tables and inline code."""
        return Markup(missing_span(self.source) if self.is_missing else self._as_markdown(self.printed()))

    def printed(self, has_interval: bool = True) -> str:
        if self.number is None or self.is_missing:
            return "–"
        place = None if self.low is None or self.high is None else place_of(self.low, self.high)
        if not has_interval and place is not None:  # prose needs no more digits
            place = max(place, _share_place(self.number) if self.unit == "%" else _adjusted(self.number) - 2)
        power, prefix = 0, ""
        if self.unit == "%":
            power = 2
        elif self.unit in PREFIXED:
            step = prefix_step(self.number, digits_to(self.number, place))
            power, prefix = -3 * step, PREFIXES[step]
        elif isinstance(self.number, int):
            return f"{self.number:,}{SPACE}{self.unit}".rstrip(SPACE)
        if self.unit == "%" and place is None:
            place = _share_place(self.number)
        text = _to_place(self.number, power, place)
        if has_interval and self.low != self.high and place is not None:
            low, high = (_to_place(end, power, place) for end in (self.low or 0.0, self.high or 0.0))
            text += f" ({low}{' to ' if '−' in low else '–'}{high})"
        return f"{text}{SPACE}{prefix}{self.unit}".rstrip(SPACE)


def _adjusted(number: float) -> int:
    return Decimal(repr(float(number))).adjusted()


def _share_place(share: float) -> int:
    """Return the place of whole per cent; finer below 10 % (two digits) and near 100 % (one digit of the rest)."""
    rest = 1 - abs(share)
    return min(-2, _adjusted(rest) if 0 < rest < 0.5 else _adjusted(share) - 1 if share else -2)


def _to_place(number: float, power: int, place: int | None) -> str:
    """Round a number to a place and scale it by a power of ten; three digits if the place is None."""
    exact = Decimal(repr(float(number)))
    if place is None:
        text = significant(float(exact.scaleb(power)), 3)
    else:
        place = max(place, exact.adjusted() - 5)  # six digits at most
        rounded = exact.quantize(Decimal((0, (1,), place)), ROUND_HALF_UP).scaleb(power)
        text = f"{rounded or rounded.copy_abs():f}"  # zero has no sign
    return text.replace("-", "−")


@dataclass(frozen=True)
class Name:
    """The name of a machine, chip, model or setting that the data decide. None if nothing was measured."""

    text: str | None
    source: Source | None = None
    key: str = field(default="", compare=False)

    @property
    def is_missing(self) -> bool:
        return not self.text

    def __str__(self) -> str:
        return self.text or "–"

    def _repr_markdown_(self) -> str:
        return missing_span(self.source) if self.is_missing else escape(str(self))


def missing_span(source: Source | None) -> str:
    """Return the mark of a missing value for ``missing.lua``, with the command that measures it and the machine."""
    if not (source and source.command):
        return MISSING
    machine = re.match(r"machines/([^/*]+)/", source.table)
    return f"[–]{{.missing command={quoted(source.command)}{f' machine={quoted(machine[1])}' if machine else ''}}}"


NOTHING = Value(None)
CLOSE, ROUGH = 0.8, 0.4  # rank correlations: orders agree closely above the first, roughly above the second


def waits_for(intensity: Value, ridge: Value) -> Markup:
    """Name the bound of a piece of work: ``at the ridge`` if the intervals overlap.

    A value without an interval counts as exact, like counted work. Marks a missing value.
    """
    ends = []
    for value in (intensity, ridge):
        if value.number is None or value.is_missing:
            return Markup(missing_span(value.source))
        ends += [value.number if end is None else end for end in (value.low, value.high)]
    least, most, first, last = ends
    return Markup("memory-bound" if most < first else "compute-bound" if least > last else "at the ridge")


def agreement(rho: Value) -> Markup:
    """Rate how well two orders agree by the lower end of the interval: the least that the data support."""
    if rho.number is None:
        return Markup(missing_span(rho.source))
    low = -1.0 if rho.low is None else rho.low
    return Markup("closely" if low > CLOSE else "roughly" if low > ROUGH else "not told by so few")


def median_of(values: Iterable[float] | pd.Series, unit: str = "", counted: str = "models") -> Value:
    """Return the median and its 95 % interval between two order statistics.

    The interval is exact for any distribution (Conover, Practical Nonparametric Statistics, 3.2). NaN is dropped;
    without values the median is missing.
    """
    numbers = sorted(float(value) for value in values if pd.notna(value) and isfinite(float(value)))
    if not numbers:
        return Value(None, unit, count=0, counted=counted)
    ranks = order_statistic_ranks(len(numbers))
    low, high = (None, None) if ranks is None else (numbers[ranks[0]], numbers[ranks[1]])
    return Value(float(np.median(numbers)), unit, low, high, len(numbers), counted)


def count_of(number: float | None, counted: str = "things") -> Value:
    return NOTHING if number is None else Value(int(number), counted=counted, count=int(number))


def exact(number: Any, unit: str = "", name: str = "") -> Value:
    """Return an exact number: a count, a datasheet's rate. Missing if it is None or NaN."""
    if number is None or pd.isna(number):
        return Value(None, unit, name=name)
    return Value(int(number) if isinstance(number, int | np.integer) else float(number), unit, name=name)


ENDINGS = ("_flop_per_s", "_byte_per_s", "_flop_per_byte", "_per_s", "_s")
"""The units of columns, written after the ends of an interval."""


def estimated(row: Any, column: str, unit: str = "", name: str = "") -> Value:
    """Return a row's value with the interval in the columns ``<column>_low`` and ``_high``; missing for None.

    A latency's interval is in ``latency_low_s`` and ``latency_high_s``.
    """
    if row is None or pd.isna(getattr(row, column)):
        return Value(None, unit, name=name)
    ending = next((each for each in ENDINGS if column.endswith(each)), "")
    stem = column.removesuffix(ending)
    ends = (getattr(row, f"{stem}{side}{ending}", None) for side in ("_low", "_high"))
    least, most = (None if end is None or pd.isna(end) else float(end) for end in ends)
    return Value(float(getattr(row, column)), unit, least, most, counted="samples", name=name)


def extremes(values: Mapping[str, float] | pd.Series, unit: str = "", fewest: int = 1) -> tuple[Value, Value]:
    """Return the lowest and the highest of named numbers with their names; missing below ``fewest`` numbers."""
    numbers = {str(name): float(value) for name, value in values.items() if pd.notna(value) and isfinite(value)}
    if len(numbers) < fewest:
        return Value(None, unit), Value(None, unit)
    names = min(numbers, key=numbers.__getitem__), max(numbers, key=numbers.__getitem__)
    low, high = (Value(numbers[name], unit, count=len(numbers), counted="things", name=name) for name in names)
    return low, high


def ratio(dividend: Value, divisor: Value) -> Value:
    """Return the quotient of two independent values above 0, with its interval."""
    if dividend.number is None or not divisor.number:
        return NOTHING
    is_bounded = all(end is not None and end > 0 for side in (dividend, divisor) for end in (side.low, side.high))
    above, below = (
        Estimate(float(side.number or 0), side.low if is_bounded else None, side.high if is_bounded else None)
        for side in (dividend, divisor)
    )
    found = quotient(above, below)
    return Value(found.median, "", found.low, found.high, counted="samples")
