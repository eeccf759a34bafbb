"""FLOP per cycle of a core by family of processors: ``data/flop_per_cycle.csv``, checked and read."""

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from measure.cache.records import VECTOR_EXTENSIONS, Environment
from measure.errors import UserError
from report.load.chips import PRECISIONS
from report.load.hand_tables import read_lines

RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")


@dataclass(frozen=True)
class FlopPerCycle:
    """What one core of a microarchitecture does in a cycle at most, by fused multiply-adds where it has them.

    ``vendor`` and ``family`` are as processors say them (on Arm implementer and architecture), ``models`` numbers and
    ranges split by ``;`` (on Arm the part). ``vector_extension`` is the one that this rate takes.
    """

    vendor: str
    family: int
    models: str
    microarchitecture: str
    vector_extension: str
    precision: str
    flop_per_cycle: int
    source: str
    note: str

    def fits(self, environment: Environment) -> bool:
        """Whether the processor is of this family and shows this vector extension."""
        return (
            (self.vendor, self.family) == (environment.cpu_vendor, environment.cpu_family)
            and environment.cpu_model in model_numbers(self.models)
            and self.vector_extension in (environment.vector_extension or "").split()
        )


def model_numbers(text: str) -> set[int]:
    """The numbers in ``1;4-7``. Raises ValueError for another text, or a range that runs backwards."""
    numbers: set[int] = set()
    for part in text.split(";"):
        match = RANGE.fullmatch(part)
        if match is None or int(match[1]) > int(match[2] or match[1]):
            raise ValueError(f"is {text!r}, not model numbers such as 1;4-7")
        numbers |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
    return numbers


COLUMNS = tuple(field.name for field in fields(FlopPerCycle))
CHOICES = {"vector_extension": VECTOR_EXTENSIONS, "precision": PRECISIONS}


def read(path: Path, keys: frozenset[str]) -> tuple[FlopPerCycle, ...]:
    """The rows of the table; ``keys`` are the bibliography's. A file that is not there is an empty table.

    Raises UserError naming file, line and column where a cell is wrong, and for two rows about the same processor.
    """
    if not path.exists():
        return ()
    rows: dict[int, FlopPerCycle] = {}
    lines = read_lines(path)
    _, header = next(lines, (1, []))
    if tuple(header) != COLUMNS:
        raise UserError(f"{path}, line 1: the columns must be {', '.join(COLUMNS)}; mend the header")
    for number, cells in lines:
        place = f"{path}, line {number}"
        row = _row(place, [cell.strip() for cell in cells], keys)
        for line, other in rows.items():
            if _same_processor(row, other):
                raise UserError(
                    f"{place}, column models: a model of {row.models} stands in line {line} already, with "
                    f"{row.vector_extension} at {row.precision}; delete it from one of the two"
                )
        rows[number] = row
    return tuple(rows.values())


def _row(place: str, cells: list[str], keys: frozenset[str]) -> FlopPerCycle:
    if len(cells) != len(COLUMNS):
        raise UserError(
            f"{place}: {len(cells)} cells where the header has {len(COLUMNS)}; mend the line or delete it"
        )
    values = {}
    for name, text in zip(COLUMNS, cells, strict=True):
        try:
            values[name] = _cell(name, text, keys)
        except ValueError as problem:
            raise UserError(
                f"{place}, column {name}: the cell {problem}; mend the line or delete it"
            ) from None
    return FlopPerCycle(**values)


def _cell(name: str, text: str, keys: frozenset[str]) -> Any:
    """The value of a cell. Raises ValueError saying what it is instead."""
    if text == "" and name != "note":
        raise ValueError("is empty")
    if name in CHOICES and text not in CHOICES[name]:
        raise ValueError(f"is {text!r}, not one of {', '.join(CHOICES[name])}")
    if name == "models":
        model_numbers(text)
    if name == "source":
        for key in text.split(";"):
            if key not in keys:
                raise ValueError(f"names {key!r}, which has no entry in bib/references.bib")
    if name in ("family", "flop_per_cycle"):
        if not re.fullmatch(r"[1-9]\d{0,4}", text):
            raise ValueError(f"is {text!r}, not a whole number from 1 to 99999")
        return int(text)
    return text


def _same_processor(row: FlopPerCycle, other: FlopPerCycle) -> bool:
    """Whether two rows tell the same of the same model."""
    told = ("vendor", "family", "vector_extension", "precision")
    same = all(getattr(row, name) == getattr(other, name) for name in told)
    return same and not model_numbers(row.models).isdisjoint(model_numbers(other.models))
