"""All printed figures beside ours, and the mark of the functions that compare a table of them."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from operator import itemgetter

from report.load.paper import Paper
from report.published.verdict import Comparison

Compared = Callable[[Paper], tuple[Comparison, ...]]

TABLES: dict[str, tuple[int, Compared]] = {}
"""The place and the function of each table of ``data/published`` that is compared."""


def compares(table: str, place: int) -> Callable[[Callable[[Paper], Iterator[Comparison]]], Compared]:
    """Mark the function that holds a table's figures against ours; its answers are kept, in the order of places."""

    def register(function: Callable[[Paper], Iterator[Comparison]]) -> Compared:
        compared = lru_cache(maxsize=8)(lambda paper: tuple(function(paper)))
        TABLES[table] = place, compared
        return compared

    return register


def compared(paper: Paper, table: str) -> tuple[Comparison, ...]:
    """Return the printed figures of a table beside ours."""
    return TABLES[table][1](paper)


def comparisons(paper: Paper) -> list[Comparison]:
    """Return all printed figures beside ours."""
    tables = sorted(TABLES.values(), key=itemgetter(0))
    return [comparison for _, figures in tables for comparison in figures(paper)]
