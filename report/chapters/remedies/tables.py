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
    return escape(" to ".join(value.printed() for value in values) + (f", {at}" if at else ""))


def gains(header: str, rows: Sequence[Sequence[str]]) -> display.Display:
    """Show the rows with a gain on either device, which are their last two cells."""
    return display.table(_with_gains)(header, rows)


def _with_gains(header: str, rows: Sequence[Sequence[str]]) -> str:
    found = [[*row[:-2], *(cell or NONE for cell in row[-2:])] for row in rows if any(row[-2:])]
    return markdown_table(header, display.required(found))
