"""Check that a machine can have measured the tables that somebody hands in.

The checks cannot find a careful invention. They refuse tables that are damaged, mixed from several machines, in other
units or faster than any chip, and counts of own models that do not sum up or differ from ours.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from math import inf
from operator import attrgetter
from pathlib import Path
from typing import Any, NoReturn

from measure.cache.folders import FILES, Counted, Folder, committed
from measure.domain.groups import bus_byte_per_s
from measure.domain.models import OWN
from measure.domain.records import (
    ROUND,
    CollectiveMeasurement,
    DataParallelStep,
    Environment,
    KernelCounters,
    RoofMeasurement,
    Run,
    Sample,
)
from measure.domain.roofs import machine_roof
from measure.domain.schema import TABLES
from measure.domain.values import si
from measure.domain.words import BACKWARD, FORWARD, INFERENCE, STEP, operation
from measure.domain.workload_records import WORKLOAD, Layer, Operator, Workload
from measure.errors import UserError, quote

FASTEST_FLOP_PER_S, FASTEST_BYTE_PER_S = 2e17, 1e15  # over ten times any chip of ``data/chips.csv``

NO_INTERVAL = "is ok, and its interval does not hold its latency"

# The greatest rate of a model over the fastest kernel's at its precision. It may exceed 1 because some algorithms need
# fewer multiplications than are counted (Lavin and Gray 2016: up to 4 times fewer).
ABOVE_ROOF = 10
SUMMED = ("forward_flop", "forward_other_flop", "traffic_byte", "parameter_byte")  # sums of a model's layers

_round = attrgetter(*ROUND)
_identity = attrgetter(*WORKLOAD)
_numbers = attrgetter("parameter_count", "forward_flop", "traffic_byte")


def check(folder: Path, here: Sequence[Workload]) -> tuple[dict[type[Any], list[Any]], list[Counted]]:
    """Return the committed rows of a machine's folder by record, and its workloads that are not counted ``here``.

    Raises UserError for the first row that cannot have been measured, or for a wrong count.
    """
    counted, tables, refuse = _check_counts(folder, here), Folder(folder).check(), partial(_refuse, folder)
    hardware_id = tables[Environment][0][1].hardware_id
    environments = {row.environment_id for _, row in tables[Environment]}
    for record, entries in tables.items():
        key = attrgetter(*TABLES[record].key)
        lines: dict[Any, int] = {}
        for line, row in entries:
            first = lines.setdefault(key(row), line)
            if first != line:
                refuse(record, line, TABLES[record].key[-1], f"repeats the row in line {first}")
            if record is Environment and row.hardware_id != hardware_id:
                refuse(record, line, "hardware_id", "is of another machine than the first row")
            if row.environment_id not in environments:
                refuse(record, line, "environment_id", f"{FILES[Environment]} has no {quote(row.environment_id)}")
    sampled = {_round(row) for _, row in tables[Sample]}
    for line, row in tables[Run]:
        if row.status == "ok" and _round(row) not in sampled:
            refuse(Run, line, "status", f"is ok, and {FILES[Sample]} has no sample of it")
    for line, row in tables[RoofMeasurement]:
        if row.status == "ok" and (problem := _roof_problem(row)):
            refuse(RoofMeasurement, line, "latency_s", problem)
    for record in (CollectiveMeasurement, DataParallelStep):
        for line, row in tables[record]:
            if row.status == "ok" and (problem := _group_problem(row)):
                refuse(record, line, "latency_s", problem)
    measured = [row for _, row in tables[RoofMeasurement]]
    roofs = {name: machine_roof(row for row in measured if row.environment_id == name) for name in environments}
    shapes = {_round(row): row.input_shape for _, row in tables[Run]}
    least_flop = _least_flop([*here, *(row for row, _, _ in counted)])
    for line, row in tables[Sample]:
        rate = least_flop.get((row.model, shapes.get(_round(row)), row.batch, row.phase), 0) / row.latency_s
        limit = min(ABOVE_ROOF * roofs[row.environment_id].flop_per_s.get(row.precision, inf), FASTEST_FLOP_PER_S)
        if rate > limit:
            ran = f"{quote(row.model)} at batch size {row.batch} ran at {si(rate, 'FLOP/s')}"
            refuse(Sample, line, "latency_s", f"{ran}, more than the plausible {si(limit, 'FLOP/s')}")
    for line, row in tables[KernelCounters]:
        flop = sum(value or 0 for name, value in vars(row).items() if name.endswith("_flop"))
        if flop > FASTEST_FLOP_PER_S * row.time_s:
            refuse(KernelCounters, line, "time_s", "did more FLOP in its time than any chip")
    counted_here = set(map(_identity, here))
    return committed(tables), [each for each in counted if _identity(each[0]) not in counted_here]


def _roof_problem(row: RoofMeasurement) -> str:
    """Return the problem of a roof kernel's interval or rates, or an empty text."""
    latency_s = row.latency_s
    if latency_s is None or not _is_in_interval(row):
        return NO_INTERVAL
    if row.flop > FASTEST_FLOP_PER_S * latency_s:
        return f"ran at {si(row.flop / latency_s, f'{operation(row.precision)}/s')}, faster than any chip"
    if row.byte > FASTEST_BYTE_PER_S * latency_s:
        return f"ran at {si(row.byte / latency_s, 'B/s')}, faster than any chip"
    return ""


def _is_in_interval(row: Any) -> bool:
    low, latency_s, high = row.latency_low_s, row.latency_s, row.latency_high_s
    return None not in (low, latency_s, high) and bool(low <= latency_s <= high)


def _group_problem(row: Any) -> str:
    """Return the problem of a collective or a data-parallel step, or an empty text."""
    if row.sample_count is None or not _is_in_interval(row):
        return NO_INTERVAL
    if isinstance(row, CollectiveMeasurement):
        rate = bus_byte_per_s(row.collective, row.processes, row.message_byte, row.latency_s or 0.0)
        if rate > FASTEST_BYTE_PER_S:
            return f"ran at {si(rate, 'B/s')} of bus bandwidth, faster than any link"
    return ""


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


def _check_counts(folder: Path, here: Sequence[Workload]) -> list[Counted]:
    """Return all workloads. Raises UserError unless each model is the owner's, the sum of its layers, and as here."""
    refuse = partial(_refuse, folder / "workload", Workload)
    shapes = {row.model: row.input_shape for row in here}
    numbers = {_identity(row): _numbers(row) for row in here}
    tables = Folder(folder / "workload", (Workload, Layer, Operator)).check()
    parts = defaultdict[Any, list[Any]](list)
    for record, rows in committed(tables).items():
        for part in rows:
            parts[record, _identity(part)].append(part)
    for line, row in tables[Workload]:
        if row.source != OWN or ":" not in row.model:
            refuse(line, "model", f"{quote(row.model)} is not a model of the machine's owner")
        layers = parts[Layer, _identity(row)]
        for column in SUMMED:
            whole = getattr(row, column)
            if layers and whole is not None and whole != sum(getattr(layer, column) for layer in layers):
                refuse(line, column, f"is not the sum of the layers of {quote(row.model)}")
        own = row.input_shape, _numbers(row)
        if (shapes.get(row.model, own[0]), numbers.get(_identity(row), own[1])) != own:
            remedy = "one of you must rename the function and measure again"
            raise UserError(f"{row.model}: is another network here, by its counts; {remedy}")
    return [(row, parts[Layer, _identity(row)], parts[Operator, _identity(row)]) for _, row in tables[Workload]]


def _refuse(folder: Path, record: type, line: int, column: str, problem: str) -> NoReturn:
    place = f"{folder / TABLES[record].name}, line {line}, column {column}"
    raise UserError(f"{place}: {problem}; correct the row or leave it out")
