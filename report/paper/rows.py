"""The rows of a frame: one by one or at its ends, with columns as attributes, and those with some values."""

from collections.abc import Iterator
from typing import Any

import pandas as pd


def each(frame: pd.DataFrame) -> Iterator[Any]:
    yield from frame.itertuples()


def matching(frame: pd.DataFrame, **values: Any) -> pd.DataFrame:
    """Return the rows with these values in their columns; None stands for any value."""
    for column, value in values.items():
        if value is not None:
            frame = frame[frame[column] == value]
    return frame


def highest(frame: pd.DataFrame, column: str) -> Any:
    """Return the row with the highest value in a column; of equal ones the first."""
    return frame.iloc[int(frame[column].to_numpy().argmax())]


def extremes(frame: pd.DataFrame, column: str) -> tuple[Any, Any]:
    """Return the rows with the lowest and the highest value in a column; of equal ones the first."""
    return frame.iloc[int(frame[column].to_numpy().argmin())], highest(frame, column)
