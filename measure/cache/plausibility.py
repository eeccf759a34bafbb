"""Check that a machine can have measured the tables that somebody hands in.

Nobody can tell a careful invention from a measurement. The checks refuse tables that are torn, in other units, from
another machine, or faster than any chip. They cover the counts of the owner's own models as well.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from math import inf
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from measure.cache.folders import FILES, Counted, Workloads, read_machine, read_workloads
from measure.cache.records import (
    ROUND,
    Environment,
    HardwareCounterProfile,
    KernelCounters,
    Profile,
    RoofMeasurement,
    Run,
    Sample,
)
from measure.cache.schema import TABLES
from measure.cache.workload_records import WORKLOAD, Workload
from measure.domain.models import OWN
from measure.domain.roofs import ARITHMETIC
from measure.domain.words import BACKWARD, FORWARD, INFERENCE, STEP, operation
from measure.errors import UserError

LONGEST_TEXT = 4000
"""Characters: names of kernels spell out the types of their arguments."""

FASTEST_FLOP_PER_S, FASTEST_BYTE_PER_S = 2e17, 1e15
"""More than ten times what any chip of ``data/chips.csv`` states."""

ABOVE_ROOF = 10
"""A model's rate is at most so many times the fastest kernel's at its precision: what remains above 1 are algorithms
that get by with fewer multiplications than are counted (Lavin and Gray 2016: up to 4 times fewer)."""

AHEAD = timedelta(days=1)
"""So far a clock may be ahead of this one."""


class Row(NamedTuple):
    """A row of a table, and where it stands."""

    path: Path
    line: int
    values: Any

    def refuse(self, what: str, column: str | None = None) -> NoReturn:
        """Raise UserError."""
        place = f"{self.path}, line {self.line}" + (f", column {column}" if column else "")
        raise UserError(f"{place}: {what}; mend the row or leave it out")


def check(folder: Path, counted: Iterable[Workload], now: datetime) -> None:
    """Raise UserError that names file, line and column of the first row that cannot have been measured.

    ``counted`` is what the models ask for, as far as that is known here.
    """
    tables: dict[type, list[Row]] = {}
    for record, rows in read_machine(folder).items():
        tables[record] = [Row(folder / FILES[record], line, values) for line, values in rows]
    for record, found in tables.items():
        for row in found:
            _check_texts(row, now)
        _check_keys(record, found)
    _check_environments(tables)
    _check_statuses(tables)
    _check_rates(tables, list(counted))


def _check_texts(row: Row, now: datetime) -> None:
    for name, value in vars(row.values).items():
        if not isinstance(value, str):
            continue
        if len(value) > LONGEST_TEXT:
            row.refuse(f"the cell has {len(value)} characters", name)
        # What a library says of an error may be in colour or have tabs; names and versions may not.
        if name != "reason" and not value.isprintable():
            row.refuse("the cell has characters that do not print", name)
        if name == "recorded_at":
            _check_time(row, value, now)


def _check_time(row: Row, text: str, now: datetime) -> None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        row.refuse(f"the cell is {text[:40]!r}, not a time such as 2026-01-31T12:00:00+00:00", "recorded_at")
    if (time if time.tzinfo else time.replace(tzinfo=UTC)) > now + AHEAD:
        row.refuse(f"the cell is {text!r}, which is to come", "recorded_at")


def _check_keys(record: type, rows: Sequence[Row]) -> None:
    first: dict[tuple[Any, ...], int] = {}
    for row in rows:
        key = _key(row.values, TABLES[record].key)
        if key in first:
            row.refuse(f"says again what line {first[key]} says, with the same {', '.join(TABLES[record].key)}")
        first[key] = row.line


def _key(values: Any, names: Sequence[str]) -> tuple[Any, ...]:
    return tuple(getattr(values, name) for name in names)


def _check_environments(tables: dict[type, list[Row]]) -> None:
    known = {row.values.environment_id for row in tables[Environment]}
    machine = tables[Environment][0].values.hardware_id
    for row in tables[Environment]:
        if row.values.hardware_id != machine:
            row.refuse("is of another machine than the first row, by its hardware_id", "hardware_id")
        if row.values.device == "cpu" and row.values.cores is None:
            row.refuse("is of a processor and does not say its cores", "cores")
        if row.values.device != "cuda" and row.values.torch is None:  # imported counters are of NVIDIA's GPUs
            row.refuse("does not say the version of torch that measured", "torch")
    for rows in tables.values():
        for row in rows:
            if row.values.environment_id not in known:
                row.refuse(
                    f"the cell is {row.values.environment_id[:40]!r}, which {FILES[Environment]} does not know",
                    "environment_id",
                )


def _check_statuses(tables: dict[type, list[Row]]) -> None:
    """Check that what is ``ok`` has numbers, and what is not has a reason."""
    sampled = {_key(row.values, ROUND) for row in tables[Sample]}
    for record in (RoofMeasurement, Run, Profile, HardwareCounterProfile):
        for row in tables[record]:
            values = row.values
            if values.status != "ok":
                if not values.reason:
                    row.refuse(f"is {values.status} without a reason", "reason")
            elif record is Run and _key(values, ROUND) not in sampled:
                row.refuse(f"is ok, and {FILES[Sample]} has no sample of it", "status")
            elif record is RoofMeasurement and not _ordered(values):
                row.refuse("is ok, and its interval does not hold its latency", "latency_s")


def _ordered(values: RoofMeasurement) -> bool:
    low, middle, high = values.latency_low_s, values.latency_s, values.latency_high_s
    return low is not None and middle is not None and high is not None and low <= middle <= high


def _check_rates(tables: dict[type, list[Row]], counted: Sequence[Workload]) -> None:
    peaks: dict[tuple[str, str], float] = {}
    for row in tables[RoofMeasurement]:
        values = row.values
        if values.status != "ok":
            continue
        flop_per_s, byte_per_s = values.flop / values.latency_s, values.byte / values.latency_s
        if flop_per_s > FASTEST_FLOP_PER_S:
            row.refuse(f"ran at {flop_per_s:.3g} {operation(values.precision)}/s, faster than any chip", "latency_s")
        if byte_per_s > FASTEST_BYTE_PER_S:
            row.refuse(f"ran at {byte_per_s:.3g} B/s, faster than any chip", "latency_s")
        if values.roof_kernel in ARITHMETIC:
            roof = (values.environment_id, values.precision)
            peaks[roof] = max(peaks.get(roof, 0.0), flop_per_s)
    shapes = {_key(row.values, ROUND): row.values.input_shape for row in tables[Run]}
    _check_flop(tables[Sample], peaks, shapes, _least_flop(counted))
    for row in tables[KernelCounters]:
        work = sum(value or 0 for name, value in vars(row.values).items() if "flop" in name)
        if work > FASTEST_FLOP_PER_S * row.values.time_s:
            row.refuse("did more FLOP in its time than any chip", "time_s")


def _check_flop(
    samples: Sequence[Row],
    peaks: dict[tuple[str, str], float],
    shapes: dict[tuple[Any, ...], str | None],
    least: dict[tuple[str, str | None, int, str], int],
) -> None:
    """Check that no model was much faster than the fastest kernel, given its least FLOP at the shape of a round."""
    for row in samples:
        values = row.values
        shape = shapes.get(_key(values, ROUND))
        rate = least.get((values.model, shape, values.batch, values.phase), 0) / values.latency_s
        peak = peaks.get((values.environment_id, values.precision), inf)
        if rate > min(ABOVE_ROOF * peak, FASTEST_FLOP_PER_S):
            name, beyond = repr(values.model[:40]), "faster than any chip"
            if rate <= FASTEST_FLOP_PER_S:
                name += f" at batch size {values.batch}"
                beyond = f"more than {ABOVE_ROOF} times the fastest kernel ({peak:.3g} FLOP/s)"
            row.refuse(f"{name} ran at {rate:.3g} FLOP/s, {beyond}", "latency_s")


def _least_flop(counted: Sequence[Workload]) -> dict[tuple[str, str | None, int, str], int]:
    """Return the FLOP of a model at an input shape and batch size in each phase, the fewest at any precision.

    Those of no shape are the fewest at any.
    """
    found: dict[tuple[str, str | None, int, str], int] = {}
    for row in counted:
        forward, backward = row.forward_flop, row.backward_flop
        whole = None if forward is None or backward is None else forward + backward
        for phase, flop in ((INFERENCE, forward), (FORWARD, forward), (BACKWARD, backward), (STEP, whole)):
            if flop is None:
                continue
            for shape in (None, row.input_shape):
                key = (row.model, shape, row.batch, phase)
                found[key] = min(found.get(key, flop), flop)
    return found


SUMMED = ("forward_flop", "forward_other_flop", "traffic_byte", "parameter_byte")
"""Columns of a model that are the sums of its layers'."""


def check_counts(folder: Path) -> list[Counted]:
    """Return the workloads that lie in a machine's folder; none where it has none.

    Raises UserError for a damaged table, for a model that is not somebody's own, and for layers that do not sum to it.
    """
    read_workloads(folder)
    workloads = Workloads(folder)
    found = workloads.of(workloads.models())
    for row, layers, _ in found:
        if row.source != OWN or ":" not in row.model:
            raise UserError(
                f"{workloads.folder}: {row.model} is not a model of the machine's owner, and is counted here; "
                "leave it out"
            )
        for column in SUMMED:
            whole = getattr(row, column)
            if layers and whole is not None and whole != sum(getattr(layer, column) for layer in layers):
                raise UserError(f"{workloads.folder}: the layers of {row.model} do not sum to its {column}")
    return found


def new(found: Sequence[Counted], known: Sequence[Workload]) -> list[Counted]:
    """Return the workloads that are not known. Raises UserError for a model that was counted otherwise here."""
    own = {row.model: row.input_shape for row in known}
    rows = {_identity(row): row for row in known}
    for row, _, _ in found:
        same = rows.get(_identity(row), row)
        if own.get(row.model, row.input_shape) != row.input_shape or _numbers(same) != _numbers(row):
            raise UserError(
                f"{row.model}: is another network here, by its counts; one of you has to rename the function, and to "
                "measure again"
            )
    return [each for each in found if _identity(each[0]) not in rows]


_identity = attrgetter(*WORKLOAD)

_numbers = attrgetter("parameter_count", "forward_flop", "traffic_byte")
