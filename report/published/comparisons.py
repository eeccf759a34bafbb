"""All printed figures beside ours."""

from functools import lru_cache
from types import ModuleType

from report.load.paper import Paper
from report.published import chips, estimates, models, steps, training
from report.published.verdict import Comparison

TABLES = (chips, models, training, steps, estimates)
"""The modules that compare, in the chapter's order."""


@lru_cache(maxsize=32)
def compared(paper: Paper, table: ModuleType) -> tuple[Comparison, ...]:
    """The printed figures of one of ``TABLES``."""
    return tuple(table.comparisons(paper))


def comparisons(paper: Paper) -> list[Comparison]:
    """All printed figures."""
    return [comparison for table in TABLES for comparison in compared(paper, table)]
