"""The tables, in Markdown: functions from the paper's frames to a pipe table, or to the sentence in its place."""

import re
from collections.abc import Sequence

from report.text.quantities import (
    SPACE,
    digits_to,
    intensity,
    place_of,
    si,
)

LEFT, RIGHT = "left", "right"
NONE = "–"
"""Stands in a cell for what is not known or does not apply."""


CITATION = re.compile(r"@[^;\]]+")


def _printed_width(cell: str) -> int:
    """About how many characters a cell takes in print: a citation is an author and a year."""
    return len(CITATION.sub("Author 2000", cell).replace("\\", ""))


def pipe(header: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]]) -> str:
    """A pipe table. ``header`` holds names and alignments; cells are Markdown on one line.

    Columns are as wide as their longest cell or word of the header, up to 24 characters: pandoc shares the width of
    the text among the columns of a long table by the numbers of dashes.
    """
    rules = []
    for at, (name, side) in enumerate(header):
        widths = [len(word) for word in name.split()] + [_printed_width(row[at]) for row in rows]
        dashes = "-" * max(3, min(24, max(widths, default=0)))
        rules.append(":" + dashes if side == LEFT else dashes + ":")
    lines = [[name for name, _ in header], rules, *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def cited(keys: str) -> str:
    """Keys split by ``;`` as a citation."""
    return "[" + "; ".join(f"@{key}" for key in keys.split(";")) + "]"


def quantity(value: float, unit: str, digits: int = 3) -> str:
    """With an SI prefix, but for a ratio, whose unit is "", and an intensity."""
    if unit in ("", "FLOP/B"):
        return intensity(value, unit, digits).rstrip(SPACE)
    return si(value, unit, digits)


def between(low: float, high: float, unit: str, place: int | None = None) -> str:
    """Two quantities, to a place, the unit once where both have the same; a narrow cell may break before the second."""
    first, last = (quantity(value, unit, digits_to(value, place)) for value in (low, high))
    number, _, prefixed = first.partition(SPACE)
    return f"{number if last.endswith(SPACE + prefixed) else first} to {last}"


def with_interval(value: float, low: float, high: float, unit: str) -> list[str]:
    """A quantity and its interval, in two cells, both to the place to which the interval lets it be known."""
    place = place_of(low, high)
    return [quantity(value, unit, digits_to(value, place)), between(low, high, unit, place)]
