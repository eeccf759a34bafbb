"""Check that a machine can have measured the tables that somebody hands in.

Nobody can tell a careful invention from a measurement. The checks refuse tables that are damaged, from another machine,
in other units or faster than any chip, and counts of the owner's own models that do not sum up or differ from ours.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from operator import attrgetter
from pathlib import Path
from typing import Any, NoReturn

from measure.cache.folders import FILES, Counted, Folder, Workloads
from measure.cache.records import ROUND, Environment, KernelCounters, RoofMeasurement, Run, Sample
from measure.cache.schema import TABLES
from measure.cache.workload_records import WORKLOAD, Workload
from measure.domain.models import OWN
from measure.domain.roofs import machine_roof
from measure.domain.values import si
from measure.domain.words import BACKWARD, FORWARD, INFERENCE, STEP, operation
from measure.errors import UserError

FASTEST_FLOP_PER_S, FASTEST_BYTE_PER_S = 2e17, 1e15  # over ten times any chip of ``data/chips.csv``

# The greatest rate of a model over the fastest kernel's at its precision. It may exceed 1 because some algorithms need
# fewer multiplications than are counted (Lavin and Gray 2016: up to 4 times fewer).
ABOVE_ROOF = 10

SUMMED = ("forward_flop", "forward_other_flop", "traffic_byte", "parameter_byte")  # sums of a model's layers

_round = attrgetter(*ROUND)
_identity = attrgetter(*WORKLOAD)
_numbers = attrgetter("parameter_count", "forward_flop", "traffic_byte")


@dataclass(frozen=True)
class Entry:
    """A row of a table, and its place."""

    path: Path
    line: int
    values: Any

    def refuse(self, problem: str, column: str) -> NoReturn:
        raise UserError(f"{self.path}, line {self.line}, column {column}: {problem}; correct the row or leave it out")


def check(folder: Path, counted: Iterable[Workload]) -> None:
    """Raise UserError for the first row that cannot have been measured, given the known workloads."""
    tables = {
        record: [Entry(folder / FILES[record], line, values) for line, values in rows]
        for record, rows in Folder(folder).check().items()
    }
    hardware_id = tables[Environment][0].values.hardware_id
    environments = {entry.values.environment_id for entry in tables[Environment]}
    for record, entries in tables.items():
        key = attrgetter(*TABLES[record].key)
        first: dict[Any, Entry] = {}
        for entry in entries:
            if first.setdefault(key(entry.values), entry) is not entry:
                entry.refuse(f"repeats the row in line {first[key(entry.values)].line}", TABLES[record].key[-1])
            if record is Environment and entry.values.hardware_id != hardware_id:
                entry.refuse("is of another machine than the first row", "hardware_id")
            if entry.values.environment_id not in environments:
                entry.refuse(f"{FILES[Environment]} has no {entry.values.environment_id[:40]!r}", "environment_id")
    sampled = {_round(entry.values) for entry in tables[Sample]}
    for entry in tables[Run]:
        if entry.values.status == "ok" and _round(entry.values) not in sampled:
            entry.refuse(f"is ok, and {FILES[Sample]} has no sample of it", "status")
    _check_roofs([entry for entry in tables[RoofMeasurement] if entry.values.status == "ok"])
    measured = [entry.values for entry in tables[RoofMeasurement]]
    roofs = {name: machine_roof(row for row in measured if row.environment_id == name) for name in environments}
    shapes = {_round(entry.values): entry.values.input_shape for entry in tables[Run]}
    least_flop = _least_flop(counted)
    for entry in tables[Sample]:
        row = entry.values
        rate = least_flop.get((row.model, shapes.get(_round(row)), row.batch, row.phase), 0) / row.latency_s
        limit = min(ABOVE_ROOF * roofs[row.environment_id].flop_per_s.get(row.precision, inf), FASTEST_FLOP_PER_S)
        if rate > limit:
            model = f"{row.model[:40]!r} at batch size {row.batch}"
            entry.refuse(
                f"{model} ran at {si(rate, 'FLOP/s')}, more than the plausible {si(limit, 'FLOP/s')}", "latency_s"
            )
    for entry in tables[KernelCounters]:
        flop = sum(value or 0 for name, value in vars(entry.values).items() if name.endswith("_flop"))
        if flop > FASTEST_FLOP_PER_S * entry.values.time_s:
            entry.refuse("did more FLOP in its time than any chip", "time_s")


def _check_roofs(entries: Iterable[Entry]) -> None:
    """Check the intervals and rates of roof kernels."""
    for entry in entries:
        row: RoofMeasurement = entry.values
        low, latency_s, high = row.latency_low_s, row.latency_s, row.latency_high_s
        if low is None or latency_s is None or high is None or not low <= latency_s <= high:
            entry.refuse("is ok, and its interval does not hold its latency", "latency_s")
        flop_per_s, byte_per_s = row.flop / latency_s, row.byte / latency_s
        if flop_per_s > FASTEST_FLOP_PER_S:
            entry.refuse(f"ran at {si(flop_per_s, f'{operation(row.precision)}/s')}, faster than any chip", "latency_s")
        if byte_per_s > FASTEST_BYTE_PER_S:
            entry.refuse(f"ran at {si(byte_per_s, 'B/s')}, faster than any chip", "latency_s")


def _least_flop(counted: Iterable[Workload]) -> dict[tuple[str, str | None, int, str], int]:
    """Return the fewest FLOP at any precision by model, input shape (None: any), batch size and phase."""
    least: dict[tuple[str, str | None, int, str], int] = {}
    for row in counted:
        forward, backward = row.forward_flop, row.backward_flop
        step = None if forward is None or backward is None else forward + backward
        for phase, flop in ((INFERENCE, forward), (FORWARD, forward), (BACKWARD, backward), (STEP, step)):
            for shape in (None, row.input_shape):
                if flop is not None:
                    key = (row.model, shape, row.batch, phase)
                    least[key] = min(least.get(key, flop), flop)
    return least


def check_counts(folder: Path) -> list[Counted]:
    """Return the workloads in a machine's folder, if any.

    Raises UserError for a damaged table, a model that is not the owner's, and layers that do not sum to their model.
    """
    workloads = Workloads(folder)
    for each in workloads.folders():
        each.check()
    found = workloads.of(workloads.rows(Workload))
    for row, layers, _ in found:
        if row.source != OWN or ":" not in row.model:
            raise UserError(f"{workloads.folder}: {row.model} is not a model of the machine's owner; leave it out")
        for column in SUMMED:
            whole = getattr(row, column)
            if layers and whole is not None and whole != sum(getattr(layer, column) for layer in layers):
                raise UserError(
                    f"{workloads.folder}: the layers of {row.model} do not sum to its {column}; count again"
                )
    return found


def new(found: Sequence[Counted], known: Sequence[Workload]) -> list[Counted]:
    """Return the unknown workloads. Raises UserError for a model whose counts here differ."""
    shapes = {row.model: row.input_shape for row in known}
    rows = {_identity(row): row for row in known}
    for row, _, _ in found:
        same = rows.get(_identity(row), row)
        if shapes.get(row.model, row.input_shape) != row.input_shape or _numbers(same) != _numbers(row):
            raise UserError(
                f"{row.model}: is another network here, by its counts; one of you must rename the function and measure "
                "again"
            )
    return [each for each in found if _identity(each[0]) not in rows]
