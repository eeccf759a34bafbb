"""All printed figures beside ours, and the mark of the functions that compare a table of them."""

from collections.abc import Callable, Iterator
from functools import lru_cache

from report.load.paper import Paper
from report.published.verdict import Comparison

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
