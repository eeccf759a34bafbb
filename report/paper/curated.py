"""Hand-kept tables with citations in their rows."""

import re
from decimal import Decimal
from math import nan
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from measure.cache.table import numbered
from measure.domain.schema import TABLES
from measure.errors import UserError, quote
from measure.published.records import FlopPerCycle, model_numbers
from report.files import read_text
from report.paper.frames import compact, read_frame

Record = TypeVar("Record")

ENTRY = re.compile(r"^\s*@(?!comment|string|preamble)\w+\s*\{\s*([^,\s]+)\s*,", re.IGNORECASE | re.MULTILINE)
CITING = "source"  # the column that holds keys of the bibliography, joined by ``;``
PROCESSOR = attrgetter("vendor", "family", "vector_extension", "precision")


def read_keys(*paths: Path) -> frozenset[str]:
    """Return all citation keys. Raises UserError if a file cannot be read."""
    return frozenset(key for path in paths for key in ENTRY.findall(read_text(path)))


def read(path: Path, record: type[Record], keys: frozenset[str]) -> list[tuple[int, Record]]:
    """Return the rows of a table, each with its line; ``keys`` are the bibliography's. A missing file has no rows.

    Raises UserError with file, line and column of an invalid cell or unknown key, or the lines of duplicate rows.
    """
    rows, facts = numbered(path, record), TABLES[record]
    lines: dict[Any, int] = {}
    for line, row in rows:
        for cited in getattr(row, CITING).split(";") if CITING in facts.columns else ():
            if cited not in keys:
                raise UserError(
                    f"{path}, line {line}, column {CITING}: {quote(cited)} is not in the bibliography; add its entry "
                    "to bib/references.bib, in a paper of your own to own.bib"
                )
        key = tuple(getattr(row, name) for name in facts.key)
        if key and lines.setdefault(key, line) != line:
            named = quote(" ".join(map(str, key)))
            raise UserError(f"{path}, line {line}: duplicate of line {lines[key]}: {named}; delete one of the two")
    return rows


def frame(path: Path, record: type, keys: frozenset[str]) -> pd.DataFrame:
    """Return the rows of a table as a frame; raises UserError as ``read`` does. Unknown texts are empty.

    Printed numbers become floats; ``<column>_rounding`` is half a unit of the last digit.
    """
    rows, facts = read_frame(record, path), TABLES[record]
    texts = rows[CITING].dropna().unique() if CITING in rows else ()
    cited = {key for text in texts for key in text.split(";")}
    if not cited <= keys or (facts.key and rows.duplicated([*facts.key]).any()):
        read(path, record, keys)  # raises
    for name, column in facts.columns.items():
        if column.type is Decimal:
            digits = [nan if cell is None else int(cell.as_tuple().exponent) for cell in rows[name]]
            rows[f"{name}_rounding"] = 0.5 * 10.0 ** np.array(digits, float)
            rows[name] = rows[name].astype(float)
    empty = {name: "" for name, column in facts.columns.items() if column.type is str}
    return compact(rows.fillna(empty))


def flop_per_cycle(path: Path, keys: frozenset[str]) -> list[FlopPerCycle]:
    """Return the FLOP per cycle of a core by family of processors. Raises UserError as ``read`` does, and for two rows
    about the same processor.
    """
    rows = read(path, FlopPerCycle, keys)
    for place, (line, row) in enumerate(rows):
        for other_line, other in rows[:place]:
            if share_model(row, other):
                raise UserError(
                    f"{path}, line {line}, column models: line {other_line} names a model of {row.models} too, "
                    f"with {row.vector_extension} at {row.precision}; delete it from one of the two"
                )
    return [row for _, row in rows]


def share_model(row: FlopPerCycle, other: FlopPerCycle) -> bool:
    """Return whether two rows describe the same processor."""
    numbers = (row.models, other.models), (row.steppings, other.steppings)
    return PROCESSOR(row) == PROCESSOR(other) and all(
        "" in pair or model_numbers(pair[0]) & model_numbers(pair[1]) for pair in numbers
    )
