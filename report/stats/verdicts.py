"""The paper's six words of verdict, each decided by an interval."""

from report.markdown import Markup
from report.stats.value import Value, missing_span

CLOSE, ROUGH = 0.8, 0.4
"""Rank correlations: two orders agree closely above the first, roughly above the second."""


def bound(intensity: Value, ridge: Value) -> Markup:
    """Say what bounds a piece of work: ``at the ridge`` if the intervals meet.

    A value without an interval is taken as exact, as counted work is. Of a missing value nothing is said.
    """
    ends = []
    for value in (intensity, ridge):
        if value.number is None or value.is_missing:
            return Markup(missing_span(value.source))
        ends += [value.number if end is None else end for end in (value.low, value.high)]
    least, most, first, last = ends
    return Markup("memory-bound" if most < first else "compute-bound" if least > last else "at the ridge")


def agreement(rho: Value) -> Markup:
    """Say how well two orders agree, by the lower end of a rank correlation: the least that the data bear out."""
    if rho.number is None:
        return Markup(missing_span(rho.source))
    low = -1.0 if rho.low is None else rho.low
    return Markup("closely" if low > CLOSE else "roughly" if low > ROUGH else "not told by so few")
