"""Values that summarise many models: medians with intervals, shares, ranges, extremes."""

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

import numpy as np
import pandas as pd

from measure.domain.statistics import Estimate, order_statistic_ranks
from report.paper.roofs import quotient
from report.stats.value import Value


def median_of(values: Iterable[float] | pd.Series, unit: str = "", counted: str = "models") -> Value:
    """Return the median with the interval between two order statistics that covers it with 95 %.

    The interval is exact for any distribution (Conover, Practical Nonparametric Statistics, 3.2). Unknown values are
    left out; without any the value is missing.
    """
    known = sorted(float(value) for value in values if pd.notna(value) and isfinite(float(value)))
    if not known:
        return Value(None, unit, count=0, counted=counted)
    ranks = order_statistic_ranks(len(known))
    low, high = (None, None) if ranks is None else (known[ranks[0]], known[ranks[1]])
    return Value(float(np.median(known)), unit, low, high, len(known), counted)


def count_of(number: float, counted: str = "things") -> Value:
    return Value(int(number), counted=counted, count=int(number))


def share_of(part: int, whole: int, counted: str = "things") -> Value:
    """Return a part of a whole as a share, exact; missing without a whole."""
    return Value(part / whole, "%", part / whole, part / whole, whole, counted) if whole else Value(None, "%")


def exact(number: Any, unit: str = "", name: str = "") -> Value:
    """Return a number without error: a count, a datasheet's rate. Missing if it is None or NaN."""
    if number is None or pd.isna(number):
        return Value(None, unit, name=name)
    return Value(int(number) if isinstance(number, int | np.integer) else float(number), unit, name=name)


ENDINGS = ("_flop_per_s", "_byte_per_s", "_flop_per_byte", "_per_s", "_s")
"""The units of columns, which follow the ends of an interval."""


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


def extremes(values: Mapping[str, float] | pd.Series, unit: str = "", counted: str = "things") -> tuple[Value, Value]:
    """Return the lowest and the highest of named numbers, each with its name."""
    known = {str(name): float(value) for name, value in values.items() if pd.notna(value)}
    if not known:
        return Value(None, unit), Value(None, unit)
    names = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
    low, high = (Value(known[name], unit, count=len(known), counted=counted, name=name) for name in names)
    return low, high


def middle_share(values: Iterable[float], share: float = 0.8, unit: str = "") -> tuple[Value, Value]:
    """Return the quantiles between which this share of the values lies."""
    known = [value for value in values if pd.notna(value)]
    if not known:
        return Value(None, unit), Value(None, unit)
    low, high = np.quantile(known, [(1 - share) / 2, (1 + share) / 2])
    return Value(float(low), unit, count=len(known)), Value(float(high), unit, count=len(known))


def ratio(dividend: Value, divisor: Value, unit: str = "") -> Value:
    """Return the quotient of two independent values above 0, with the interval of ``report.paper.roofs.quotient``."""
    if dividend.number is None or not divisor.number:
        return Value(None, unit)
    is_bounded = all(end is not None and end > 0 for side in (dividend, divisor) for end in (side.low, side.high))
    above, below = (
        Estimate(float(side.number or 0), side.low if is_bounded else None, side.high if is_bounded else None)
        for side in (dividend, divisor)
    )
    found = quotient(above, below)
    return Value(found.median, unit, found.low, found.high, counted="samples")
