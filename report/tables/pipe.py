"""Pipe tables in Markdown, and what stands in their cells."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pandas as pd

from report.analysis import available
from report.load.paper import Machine
from report.text.prose import escape
from report.text.quantities import SPACE, digits_to, intensity, number, place_of, si

NONE = "–"
"""Stands in a cell for what is not known or does not apply."""

NOT_MEASURED = "not measured"

COUNTED_IN, MEASURED_IN = "data/workload/models.csv", "data/machines"
"""Where models are that a long table leaves out."""

CITATION = re.compile(r"@[^;\]]+")


def _printed_width(cell: str) -> int:
    """Return about how many characters a cell takes in print: a citation is an author and a year."""
    return len(CITATION.sub("Author 2000", cell).replace("\\", ""))


def pipe(header: str, rows: Iterable[Sequence[str]]) -> str:
    """Return a pipe table. Its header is as in ``"Model | Batch > | Latency >"``, where ``>`` aligns to the right.

    Cells are Markdown on one line. Columns are as wide as their longest cell or word of the header, up to 24
    characters: pandoc shares the width of the text among the columns of a long table by the numbers of dashes.
    """
    rows = list(rows)
    names, rules = [], []
    for at, column in enumerate(header.split(" | ")):
        name = column.removesuffix(" >")
        widths = [len(word) for word in name.split()] + [_printed_width(row[at]) for row in rows]
        dashes = "-" * max(3, min(24, max(widths, default=0)))
        names.append(name)
        rules.append(":" + dashes if name == column else dashes + ":")
    return "".join("| " + " | ".join(cells) + " |\n" for cells in (names, rules, *rows))


def others(header: str, count: int, where: str) -> list[list[str]]:
    """Return the row that says how many models a table does not list, and where they are; none where it lists all."""
    text = escape(f"{number(count, 'more model')}: {where}")
    return [[text if column == "Model" else "" for column in header.split(" | ")]] if count else []


def known(value: Any, write: Callable[..., str], *arguments: Any, otherwise: str = NONE) -> str:
    """Return ``write(value, *arguments)``, or another text where the value is not known."""
    return otherwise if pd.isna(value) else write(value, *arguments)


def named(machine: Machine) -> str:
    """Return a machine's name as a cell."""
    return escape(available.title(machine))


def failure(row: Any) -> str:
    """Return what became of a cell that failed: its status, and its reason where one is recorded."""
    return escape(f"{row.status}: {row.reason}" if isinstance(row.reason, str) and row.reason else row.status)


def cited(keys: str) -> str:
    """Return keys split by ``;`` as a citation."""
    return "[" + "; ".join(f"@{key}" for key in keys.split(";")) + "]"


def quantity(value: float, unit: str, digits: int = 3) -> str:
    """Return a quantity with an SI prefix, but for a ratio, whose unit is "", and an intensity."""
    if unit in ("", "FLOP/B"):
        return intensity(value, unit, digits).rstrip(SPACE)
    return si(value, unit, digits)


def between(low: float, high: float, unit: str, place: int | None = None) -> str:
    """Return two quantities, to a place, the unit once where both have it; a narrow cell breaks before the second."""
    first, last = (quantity(value, unit, digits_to(value, place)) for value in (low, high))
    number, _, prefixed = first.partition(SPACE)
    return f"{number if last.endswith(SPACE + prefixed) else first} to {last}"


def with_interval(value: float, low: float, high: float, unit: str) -> list[str]:
    """Return a quantity and its interval, in two cells, both to the place to which the interval lets it be known."""
    place = place_of(low, high)
    return [quantity(value, unit, digits_to(value, place)), between(low, high, unit, place)]
