"""How machines differ: all that share cells, and those of one name."""

from measure.domain.values import significant
from report.analysis import fleet
from report.analysis.available import finding
from report.load.paper import BASE_PRECISION, Paper
from report.text.prose import number

ALIKE = 1.1
"""Machines that differ by no more than this factor are called alike."""


@finding
def spread(paper: Paper) -> str:
    """Say how far the fastest and the slowest machine are from the one in the middle, and how far equal names are."""
    rows = fleet.speeds(paper)
    first, last = rows.iloc[0], rows.iloc[-1]
    text = (
        f"{number(len(rows), 'machine')} share cells at {BASE_PRECISION}. The fastest, {first.folder}, runs them "
        f"{significant(first.speed)} times as fast as the median machine, the slowest, {last.folder}, "
        f"{significant(last.speed)} times."
    )
    names = rows.name.value_counts()
    if names.iloc[0] < fleet.FEWEST:
        return text
    equal = rows[rows.name == names.index[0]]
    factor, peaks = (equal[column].max() / equal[column].min() for column in ("speed", "peak"))
    text += (
        f" Of {len(equal)} that are called {names.index[0]} the fastest is {significant(factor)} times as fast as the "
        "slowest"
    )
    if peaks > 0 and factor > ALIKE:
        why = "differ, too" if peaks > ALIKE else "hardly differ"
        text += f": equal names are no equal machines; their measured peaks {why} (by a factor of {significant(peaks)})"
    return f"{text}."
