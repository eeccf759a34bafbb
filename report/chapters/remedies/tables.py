"""The table of remedies: its words stand in the chapter."""

from collections.abc import Sequence

from report import display
from report.markdown import escape
from report.markdown_table import NONE, markdown_table
from report.stats.value import Value


def gain(*values: Value, at: str = "") -> str:
    """Return a gain with its interval, or the least and the most, and where it holds; empty if one is missing."""
    if any(value.is_missing for value in values):
        return ""
    return escape(" to ".join(map(_short, values)) + (f", {at}" if at else ""))


def _short(value: Value) -> str:
    """Print a gain with at most three digits, and the ends of its interval likewise."""
    low, high = value.low, value.high
    if low is None or high is None or low == high:
        return str(value)
    number = f"{value}"
    is_longer = len(value.printed().split(" ")[0]) > len(number)
    return value.printed() if not is_longer else f"{number} ({Value(low)}–{Value(high)})"


def gains(header: str, rows: Sequence[Sequence[str]]) -> display.Display:
    """Show the rows with a gain on either device, which are their last two cells."""
    return display.table(_with_gains)(header, rows)


def _with_gains(header: str, rows: Sequence[Sequence[str]]) -> str:
    found = [[*row[:-2], *(cell or NONE for cell in row[-2:])] for row in rows if any(row[-2:])]
    return markdown_table(header, display.required(found))
