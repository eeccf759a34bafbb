"""Reads tables strictly: what was cut off, emptied or came from elsewhere is said, instead of being left out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from measure.cache.folders import FILE_NAMES, FILES, Workloads
from measure.cache.records import (
    Environment,
    HardwareCounterProfile,
    KernelCounters,
    KernelTime,
    OperatorTime,
    Profile,
    Run,
    Sample,
)
from measure.cache.schema import file_of
from measure.cache.table import numbered
from measure.cache.workload_records import Layer, Operator, ProgramCount, Workload
from measure.errors import UserError

NEEDS: dict[type[Any], type[Any]] = {
    Sample: Run,
    OperatorTime: Profile,
    KernelTime: Profile,
    KernelCounters: HardwareCounterProfile,
    Layer: Workload,
    Operator: Workload,
}
"""Tables of which no row is read without the row of another that it belongs to, and which that is."""

Rows = dict[type[Any], list[tuple[int, Any]]]
"""The rows of tables, each with its line."""


def check(data: Path) -> None:
    """Raise UserError for the first table of a cache, of those that are measured or counted, that is damaged."""
    read_workloads(data)
    _read({ProgramCount: file_of(ProgramCount, data)})
    tables = (data / "machines").glob("[!.]*/*.csv")
    for machine in sorted({path.parent for path in tables if path.name in FILE_NAMES}):
        read_machine(machine)


def read_workloads(data: Path) -> Rows:
    """Return the rows of the tables of workloads. Raises UserError for a damaged one."""
    workloads = Workloads(data)
    found = [
        _read({Workload: each.models_path, Layer: each.layers_path, Operator: each.operators_path})
        for each in (workloads.shared, workloads.own)
    ]
    return {record: [row for tables in found for row in tables[record]] for record in (Workload, Layer, Operator)}


def read_machine(folder: Path) -> Rows:
    """Return the rows of a machine's tables. Raises UserError for a damaged one, and where the machine is not known."""
    tables = _read({record: folder / name for record, name in FILES.items()})
    if not tables[Environment]:
        raise UserError(f"{folder / FILES[Environment]}: has no row, so the machine is not known; measure again")
    return tables


def _read(files: Mapping[type[Any], Path]) -> Rows:
    """Return the rows of tables. Raises UserError for a damaged one, and for one without a row that others need."""
    tables = {record: numbered(path, record, strict=True) for record, path in files.items()}
    for record, needed in NEEDS.items():
        if tables.get(record) and not tables[needed]:
            path = files[record]
            raise UserError(
                f"{files[needed]}: has no row, and without one the {len(tables[record])} of {path.name} are not read; "
                f"restore the file or delete {path.name}"
            )
    return tables
