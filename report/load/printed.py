"""What published studies printed, as printed, errors included: ``data/published``, checked and read."""

from dataclasses import dataclass, fields
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import pandas as pd

from measure.errors import UserError
from report.load.hand_tables import read_lines


@dataclass(frozen=True)
class Columns:
    """The columns of a table: texts, numbers (in SI units), those that may be empty, those with a fixed choice."""

    texts: tuple[str, ...]
    numbers: tuple[str, ...] = ()
    may_be_empty: frozenset[str] = frozenset()
    choices: tuple[tuple[str, tuple[str, ...]], ...] = ()


LATENCY, FLOP = "latency", "flop"
"""The quantities of ``training``."""

BACKWARD_TO_FORWARD, FORWARD_TO_BACKWARD = "backward/forward", "forward/backward"
"""Which way round a study prints a ratio."""

TABLES = {
    "chips": Columns(
        ("study", "chip", "precision", "printed", "chip_key"),
        ("peak_flop_per_s", "bandwidth_byte_per_s"),
        frozenset({"precision", "chip_key"}),
    ),
    "models": Columns(
        ("study", "model", "model_key"),
        ("flop", "footprint_byte", "intensity_flop_per_byte"),
        frozenset({"model_key"}),
    ),
    "training": Columns(
        ("study", "model", "quantity", "ratio_means"),
        ("batch", "forward", "backward", "ratio_as_printed"),
        frozenset({"batch", "forward", "backward"}),
        (("quantity", (LATENCY, FLOP)), ("ratio_means", (BACKWARD_TO_FORWARD, FORWARD_TO_BACKWARD))),
    ),
    "training_steps": Columns(
        ("study", "model", "gpu", "chip_key", "model_key"),
        ("batch", "dram_byte_per_s", "time_s", "flop_per_s", "intensity_flop_per_byte"),
    ),
    "step_estimates": Columns(
        ("study", "model", "gpu", "chip_key", "model_key"),
        ("flop", "peak_flop_per_s", "time_s_as_printed"),
    ),
    "claims": Columns(("id", "study", "claim")),
}
"""The tables by the names of their files: see ``Published``."""


@dataclass(frozen=True, eq=False)
class Published:
    """The tables but that of training steps, with ``<column>_rounding`` beside each number: half its last digit's unit.

    One row of ``chips`` is a chip's roof, of ``models`` a model's forward pass of one input, of ``training`` the
    forward beside the backward pass, of ``step_estimates`` the theoretical time of a step, of ``claims`` a sentence
    that data can confirm or refute. ``chip_key`` is the chip in ``data/chips.csv`` and ``model_key`` the built-in
    model that is meant.
    """

    chips: pd.DataFrame
    models: pd.DataFrame
    training: pd.DataFrame
    step_estimates: pd.DataFrame
    claims: pd.DataFrame


def read(folder: Path, keys: frozenset[str]) -> Published:
    """The tables of a folder; ``keys`` are the bibliography's. A file that is not there is an empty table.

    Raises UserError naming file, line and column where a cell does not parse, a study is not in the bibliography, or
    a claim's id stands twice.
    """
    names = [field.name for field in fields(Published)]
    return Published(*(_table(folder / f"{name}.csv", TABLES[name], keys) for name in names))


def training_steps(path: Path, keys: frozenset[str]) -> pd.DataFrame:
    """One row is a training step on a GPU, counted by hardware counters: rates, time and intensity as printed.

    Like the tables of ``read``.
    """
    return _table(path, TABLES["training_steps"], keys)


def _table(path: Path, columns: Columns, keys: frozenset[str]) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    header = [*columns.texts, *columns.numbers]
    if path.exists():
        lines = read_lines(path)
        _, found = next(lines, (1, []))
        if sorted(found) != sorted(header):
            missing = [name for name in header if name not in found]
            wrong = f"{missing[0]!r} is missing" if missing else f"{found[-1]!r} is one too many"
            raise UserError(f"{path}, line 1: the column {wrong}; restore the file")
        for line, cells in lines:
            rows.append(_row(f"{path}, line {line}", found, cells, columns, keys))
            if "id" in found and rows[-1]["id"] in {row["id"] for row in rows[:-1]}:
                raise UserError(
                    f"{path}, line {line}: the id {rows[-1]['id']!r} stands above already; give another"
                )
    rounded = [f"{name}_rounding" for name in columns.numbers]
    frame = pd.DataFrame(rows, columns=[*header, *rounded])
    return frame.astype(dict.fromkeys([*columns.numbers, *rounded], float))


def _row(
    place: str, header: list[str], cells: list[str], columns: Columns, keys: frozenset[str]
) -> dict[str, Any]:
    if len(cells) != len(header):
        raise UserError(f"{place}: {len(cells)} cells where the header has {len(header)}; mend the line")
    row: dict[str, Any] = {}
    for name, text in zip(header, cells, strict=True):
        try:
            row |= _cell(name, text.strip(), columns)
        except ValueError as problem:
            raise UserError(f"{place}, column {name}: {problem}; mend the cell") from None
    if row["study"] not in keys:
        raise UserError(
            f"{place}: the study {row['study']!r} is not in the bibliography; add its entry to bib/references.bib"
        )
    return row


def _cell(name: str, text: str, columns: Columns) -> dict[str, Any]:
    """A cell's value, and a number's rounding. Raises ValueError saying what it is instead."""
    if not text and name not in columns.may_be_empty:
        raise ValueError("the cell is empty")
    if name in columns.texts:
        allowed = dict(columns.choices).get(name)
        if allowed and text not in allowed:
            raise ValueError(f"{text!r} is not one of {', '.join(allowed)}")
        return {name: text}
    if not text:
        return {name: None, f"{name}_rounding": None}
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text!r} is no number") from None
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or number <= 0:
        raise ValueError(f"{text} is no positive number")
    return {name: float(number), f"{name}_rounding": 0.5 * 10.0**exponent}
