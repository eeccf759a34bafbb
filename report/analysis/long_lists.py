"""Lists of models too long to print: those at the ends of an order and some evenly from between stand for all."""

from collections.abc import Sequence, Sized
from typing import TypeVar

import pandas as pd

from report.text.frame_rows import of_models
from report.text.prose import number

ROWS = 60
"""So many rows fill a page, of a figure with a row a model as of a table."""

LINES = 30
"""So many lines can be followed in a figure, and have room for their names beside it."""

ALWAYS = 24
"""So many models are listed in every table, however many rows each has: as many as are built in."""

Item = TypeVar("Item")


def evenly(ordered: Sequence[Item], most: int = ROWS) -> list[Item]:
    """Return so many of these at most: the first, the last, and some evenly from between."""
    if len(ordered) <= most:
        return list(ordered)
    return [ordered[round(step * (len(ordered) - 1) / (most - 1))] for step in range(most)]


def left_out(shown: Sized, ordered: Sized, noun: str = "model") -> str:
    """Say how many models, or others, a figure shows of those that it could; nothing where it shows all."""
    if len(shown) == len(ordered):
        return ""
    count = number(len(ordered), noun)
    return f"Shown are {len(shown)} of {count}: the first, the last and some evenly from between."


def listed(rows: pd.DataFrame, column: str) -> tuple[pd.DataFrame, int]:
    """Return the rows of as many models as a table lists, evenly in the order of a column, and how many it leaves out.

    A model counts by its median; those without a value come last.
    """
    models = of_models(rows, column).sort_values(kind="stable").index.tolist()
    shown = evenly(models, max(ALWAYS, ROWS * len(models) // max(len(rows), 1)))
    return rows[rows.model.isin(shown)], len(models) - len(shown)
