"""The tables that people write, read with what takes more than one row or the bibliography to check."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from measure.cache.schema import TABLES
from measure.cache.table import numbered
from measure.errors import UserError, quote
from measure.published import records
from measure.published.records import FlopPerCycle, model_numbers
from report.engine.project import read_text
from report.paper import frames

Record = TypeVar("Record")

ENTRY = re.compile(r"^\s*@(?!comment|string|preamble)\w+\s*\{\s*([^,\s]+)\s*,", re.IGNORECASE | re.MULTILINE)

PROCESSOR = attrgetter("vendor", "family", "vector_extension", "precision")
CITING = ("source", "study")  # the columns that hold keys of the bibliography, joined by ``;``


def read_keys(*paths: Path) -> frozenset[str]:
    """Return the citation keys of all entries. Raises UserError if a file cannot be read."""
    return frozenset(key for path in paths for key in ENTRY.findall(read_text(path)))


def read(path: Path, record: type[Record], keys: frozenset[str]) -> list[tuple[int, Record]]:
    """Return the rows of a table, each with its line; ``keys`` are the bibliography's. No file is an empty table.

    Raises UserError naming file, line and column where a cell is not what its column holds or names a key that the
    bibliography has not, and file and line of a row that stands there twice.
    """
    rows, facts = numbered(path, record), TABLES[record]
    citing = [name for name in CITING if name in facts.columns]
    key_of, lines = attrgetter(*facts.key) if facts.key else None, dict[Any, int]()
    for line, row in rows:
        for name in citing:
            for cited in getattr(row, name).split(";"):
                if cited not in keys:
                    raise UserError(
                        f"{path}, line {line}, column {name}: {quote(cited)} is not in the bibliography; add its entry "
                        "to bib/references.bib, in a paper of your own to own.bib"
                    )
        first = lines.setdefault(key_of(row), line) if key_of else line
        if first != line:
            key = quote(" ".join(str(getattr(row, name)) for name in facts.key))
            raise UserError(f"{path}, line {line}: {key} stands in line {first} already; delete one of the two")
    return rows


def checked_frame(path: Path, record: type, keys: frozenset[str]) -> pd.DataFrame:
    """Return what ``read`` gives as a frame; texts that are not known are empty."""
    rows, facts = frames.read_frame(record, path), TABLES[record]
    cited = {key for name in CITING if name in rows for text in rows[name].dropna().unique() for key in text.split(";")}
    if not cited <= keys or (facts.key and rows.duplicated([*facts.key]).any()):
        read(path, record, keys)  # raises
    texts = [name for name, column in facts.columns.items() if column.type is str]
    return frames.compact(rows.fillna(dict.fromkeys(texts, "")))


def frame(rows: Iterable[tuple[int, Any]], record: type) -> pd.DataFrame:
    """Return what ``read`` gives as a frame, its numbers as floats.

    Beside a number as printed stands ``<column>_rounding``: half the unit of its last digit.
    """
    facts = TABLES[record].columns
    table = frames.frame([row for _, row in rows], record)
    for name, column in facts.items():
        if column.type is Decimal:
            table[f"{name}_rounding"] = table[name].map(_rounding).astype(float)
        if column.type is not str:
            table[name] = table[name].astype(float)
    return table


def _rounding(number: Decimal | None) -> float | None:
    return None if number is None else 0.5 * 10.0 ** int(number.as_tuple().exponent)


def flop_per_cycle(path: Path, keys: frozenset[str]) -> tuple[FlopPerCycle, ...]:
    """Return the FLOP per cycle of a core by family of processors: ``data/flop_per_cycle.csv``.

    Raises UserError as ``read`` does, and for two rows about the same processor.
    """
    rows: dict[int, FlopPerCycle] = {}
    for number, row in read(path, FlopPerCycle, keys):
        for line, other in rows.items():
            if share_model(row, other):
                raise UserError(
                    f"{path}, line {number}, column models: a model of {row.models} stands in line {line} already, "
                    f"with {row.vector_extension} at {row.precision}; delete it from one of the two"
                )
        rows[number] = row
    return tuple(rows.values())


def share_model(row: FlopPerCycle, other: FlopPerCycle) -> bool:
    """Return whether two rows speak of the same processor."""
    is_same = PROCESSOR(row) == PROCESSOR(other)
    return is_same and not model_numbers(row.models).isdisjoint(model_numbers(other.models))


@dataclass(frozen=True, eq=False)
class Published:
    """What studies printed, errors included: the tables of ``data/published``."""

    chips: pd.DataFrame
    models: pd.DataFrame
    training: pd.DataFrame
    training_steps: pd.DataFrame
    step_estimates: pd.DataFrame
    counting_suites: pd.DataFrame


def published(folder: Path, keys: frozenset[str]) -> Published:
    wanted = (
        records.PrintedChip, records.PrintedModel, records.PrintedTraining, records.PrintedStep,
        records.PrintedEstimate, records.CountedSuite,
    )  # fmt: skip
    return Published(*(frame(read(folder / TABLES[record].name, record, keys), record) for record in wanted))
