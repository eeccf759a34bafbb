"""The tables of the cache as frames, and the rows of a frame.

pandas parses large tables, ten times as fast as the cache's own parser.
"""

import io
from collections import namedtuple
from collections.abc import Collection, Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from measure.cache import table
from measure.cache.folders import PARENTS, Folder
from measure.cache.table import Columns
from measure.domain.schema import TABLES, Column

LARGE, LARGEST_KEPT = 100_000, 50_000_000
"""The least size in bytes of tables that pandas parses, and the largest of tables that stay in memory."""


TEXT = object
"""The type of texts in frames: comparing and selecting pandas' own type takes several times as long."""

READ_EXACTLY: Any = {"float_precision": "round_trip"} if int(pd.__version__.partition(".")[0]) < 3 else {}
"""Read numbers as Python does: pandas 3 does by default, earlier versions are an ulp off."""


def read_frame(record: type, *paths: Path) -> pd.DataFrame:
    """Join the tables in some files; an empty frame has the columns too.

    Raises UserError as ``measure.cache`` does.
    """
    found = [_parsed(path, record) for path in paths]
    read = [
        frame_of(table.columns(path, record), record) if rows is None else rows
        for path, rows in zip(paths, found, strict=True)
    ]
    filled = [rows for rows in read if len(rows)] or read[:1]
    return pd.concat(filled, ignore_index=True) if len(filled) > 1 else filled[0].copy(deep=False)


def committed(folder: Folder, record: type, rows: Collection[Any]) -> pd.DataFrame:
    """Return the rows of a child table that belong to ``rows``."""
    found, key = read_frame(record, folder.paths[record]), [*TABLES[PARENTS[record]].key]
    owners = pd.DataFrame([[getattr(row, name) for name in key] for row in rows], columns=key)
    return found.merge(owners, on=key) if len(found) and len(owners) else found.iloc[:0]


def frame(rows: Collection[Any], record: type) -> pd.DataFrame:
    """Return records as a frame; an empty one has the columns too."""
    return frame_of({name: [getattr(row, name) for row in rows] for name in TABLES[record].columns}, record)


def frame_of(columns: Columns, record: type) -> pd.DataFrame:
    facts = TABLES[record].columns
    kinds: Any = {name: TEXT if not cells or facts[name].type is str else None for name, cells in columns.items()}
    return pd.DataFrame({name: pd.Series(cells, dtype=kinds[name]) for name, cells in columns.items()})


def compact(frame: pd.DataFrame) -> pd.DataFrame:
    """Defragment a frame that grew column by column: row selection is faster, and pandas does not warn."""
    return frame.copy()


def quick_columns(path: Path, record: type) -> Columns | None:
    """Return a large table by column; None if the cache's own parser has to read it."""
    found = _parsed(path, record)
    if found is None:
        return None
    columns = {}
    for name, column in TABLES[record].columns.items():
        present, cells = found[name].notna(), found[name].tolist()
        kind: Any = column.type
        columns[name] = cells if present.all() else [kind(cell) if cell == cell else None for cell in cells]
    return columns


table.quick = quick_columns


def _parsed(path: Path, record: type) -> pd.DataFrame | None:
    """Return a large table as a frame; None for content that pandas might read differently or fail to reject."""
    try:
        status = path.stat()
        if status.st_size < LARGE or hasattr(record, "problem"):  # ``problem`` checks whole rows
            return None
        parse = _parse if status.st_size <= LARGEST_KEPT else _parse.__wrapped__
        return parse(path, record, (status.st_ino, status.st_size, status.st_mtime_ns))
    except OSError:
        return None


@lru_cache(maxsize=32)
def _parse(path: Path, record: type, _state: tuple[int, ...]) -> pd.DataFrame | None:
    columns, content = TABLES[record].columns, path.read_bytes()
    end = content.rfind(b"\n") + 1
    if not TABLES[record].by_hand:
        content = content[:end]  # without a torn line
    commas = (content.count(b"\n") + (len(content) > end)) * (len(columns) - 1)
    is_plain = content.startswith(",".join(columns).encode() + b"\n") and content.count(b",") == commas
    if not is_plain or b'"' in content or b"\r" in content:
        return None
    kinds: Any = {
        name: TEXT if column.type is str else float if column.type is int and column.optional else column.type
        for name, column in columns.items()
    }
    try:
        rows = pd.read_csv(
            io.BytesIO(content), dtype=kinds, keep_default_na=False, na_values="", skip_blank_lines=False,
            **READ_EXACTLY,
        )  # fmt: skip
        for name, column in columns.items():
            for text in _decisive_texts(rows[name], column):
                column.value(text)
                if text != text.strip():  # as in a table written by hand
                    return None
    except (TypeError, ValueError):
        return None
    return compact(rows.fillna({name: column.empty for name, column in columns.items() if column.empty is not None}))


def _decisive_texts(cells: pd.Series, column: Column) -> Iterator[str]:
    """Yield texts that decide if a column is valid: distinct texts, the extremes of numbers, an empty text.

    Raises ValueError for a fraction in a column of whole numbers.
    """
    found = cells.to_numpy()
    if column.type is str:
        yield from ("" if text != text else text for text in set(found))  # NaN is an empty text
        return
    present = found[~np.isnan(found)]
    if len(present) < len(found):
        yield ""
    if len(present):
        ends = present.min(), present.max()
        if column.type is int and present.dtype == float:
            if (present % 1).any():
                raise ValueError
            ends = int(ends[0]), int(ends[1])
        yield from map(str, ends)


def each(frame: pd.DataFrame) -> Iterator[Any]:
    """Yield rows like ``frame.itertuples``, but faster: it reads texts one by one and compiles a class per frame."""
    cells = frame.to_numpy(object).tolist()
    return map(_row(tuple(frame.columns))._make, ((index, *row) for index, row in zip(frame.index, cells, strict=True)))


@cache
def _row(columns: tuple[str, ...]) -> Any:
    return namedtuple("Row", ("Index", *columns), rename=True)


def matching(frame: pd.DataFrame, **values: Any) -> pd.DataFrame:
    """Return the rows with these values; None matches any value."""
    places = None
    for column, value in values.items():
        if value is not None:  # compare the given columns only, on the remaining rows
            cells = frame[column].to_numpy()
            places = np.flatnonzero(cells == value) if places is None else places[cells[places] == value]
    return frame.copy() if places is None else frame.take(places)


def spread(frame: pd.DataFrame, most: int) -> pd.DataFrame:
    """Return ``most`` rows at even steps, first and last included; all rows if there are fewer."""
    last = len(frame) - 1
    return frame if last < most else frame.iloc[[round(at * last / (most - 1)) for at in range(most)]]


def highest(frame: pd.DataFrame, column: str) -> Any:
    """Return the first row with the highest value in a column."""
    return frame.iloc[int(frame[column].to_numpy().argmax())]


def extremes(frame: pd.DataFrame, column: str) -> tuple[Any, Any]:
    """Return the first rows with the lowest and the highest value in a column."""
    return frame.iloc[int(frame[column].to_numpy().argmin())], highest(frame, column)


QUANTILES = {"low": 0.1, "quarter": 0.25, "median": 0.5, "three_quarters": 0.75, "high": 0.9}


def quantiles(rows: pd.DataFrame, key: str, column: str, counted: str, fewest: int) -> pd.DataFrame:
    """Return a row for each value of ``key`` with at least ``fewest`` rows: how many it has, and ``QUANTILES``."""
    found = [
        {key: value, counted: len(part)} | {name: float(part[column].quantile(at)) for name, at in QUANTILES.items()}
        for value, part in rows.groupby(key) if len(part) >= fewest
    ]  # fmt: skip
    return pd.DataFrame(found, columns=[key, counted, *QUANTILES])
