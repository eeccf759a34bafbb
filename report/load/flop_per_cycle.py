"""FLOP per cycle of a core by family of processors: ``data/flop_per_cycle.csv``, checked and read."""

from pathlib import Path

from measure.cache.hand_kept import FlopPerCycle, model_numbers
from measure.errors import UserError
from report.load import hand_tables


def read(path: Path, keys: frozenset[str]) -> tuple[FlopPerCycle, ...]:
    """Return the rows of the table; ``keys`` are the bibliography's. A file that is not there is an empty table.

    Raises UserError naming file, line and column where a cell is wrong, and for two rows about the same processor.
    """
    rows: dict[int, FlopPerCycle] = {}
    for number, row in hand_tables.read(path, FlopPerCycle, keys):
        for line, other in rows.items():
            if _same_processor(row, other):
                raise UserError(
                    f"{path}, line {number}, column models: a model of {row.models} stands in line {line} already, "
                    f"with {row.vector_extension} at {row.precision}; delete it from one of the two"
                )
        rows[number] = row
    return tuple(rows.values())


def _same_processor(row: FlopPerCycle, other: FlopPerCycle) -> bool:
    """Return whether two rows tell the same of the same model."""
    told = ("vendor", "family", "vector_extension", "precision")
    same = all(getattr(row, name) == getattr(other, name) for name in told)
    return same and not model_numbers(row.models).isdisjoint(model_numbers(other.models))
