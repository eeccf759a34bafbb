"""The rows of a frame: one by one or at its ends, with columns as attributes, and those with some values."""

from collections import namedtuple
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pandas as pd


def each(frame: pd.DataFrame) -> Iterator[Any]:
    """Yield what ``frame.itertuples`` does, which reads text by text and compiles a class for each frame."""
    cells = frame.to_numpy(object).tolist()
    return map(_row(tuple(frame.columns))._make, ((index, *row) for index, row in zip(frame.index, cells, strict=True)))


@cache
def _row(columns: tuple[str, ...]) -> Any:
    return namedtuple("Row", ("Index", *columns), rename=True)


def matching(frame: pd.DataFrame, **values: Any) -> pd.DataFrame:
    """Return the rows with these values in their columns; None stands for any value."""
    places = np.arange(len(frame))
    for column, value in values.items():
        if value is not None:  # only the columns asked for are looked at, and of these only the rows that are left
            places = places[(frame[column].take(places) == value).to_numpy(bool)]
    return frame.take(places)


def highest(frame: pd.DataFrame, column: str) -> Any:
    """Return the row with the highest value in a column; of equal ones the first."""
    return frame.iloc[int(frame[column].to_numpy().argmax())]


def extremes(frame: pd.DataFrame, column: str) -> tuple[Any, Any]:
    """Return the rows with the lowest and the highest value in a column; of equal ones the first."""
    return frame.iloc[int(frame[column].to_numpy().argmin())], highest(frame, column)
