"""The cache of a run: which rows count, and how the outcome of a task becomes rows, or a few words."""

from collections.abc import Collection
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from measure.cache.folders import MachineFolder, Workloads
from measure.cache.project import own_folder
from measure.cache.traces import MEASURED
from measure.counting import count
from measure.domain import records
from measure.domain.cell import Cell
from measure.domain.chips import fold_name
from measure.domain.model_work import uncounted_names
from measure.domain.names import model_name
from measure.domain.records import Environment, Profile, RoofMeasurement, Run, Sample
from measure.domain.roofs import is_loaded
from measure.domain.statistics import estimate_median
from measure.domain.values import latency, now, si
from measure.domain.words import EAGER, STAGES, STEP, STREAM_ARRAYS, operation, shape_name
from measure.errors import UserError
from measure.machine.environment import folder_name, version
from measure.profiling.ncu_csv import CountedCell
from measure.profiling.profile import CellProfile
from measure.roofs.roofs import KernelTiming, flop_and_byte
from measure.run.tasks import KILLED, CellTask, Failure, RoofTask, RoundTask, Task, WorkloadTask, roof_key
from measure.timing.sampling import Timing
from measure.traces import store as traces
from measure.traces.store import TraceRows

Columns = dict[str, Any]


@dataclass(frozen=True)
class RunCache:
    """The tables of one run on one machine, called a session. ``seed`` decides the order of its cells."""

    workloads: Workloads
    folder: MachineFolder
    environment: Environment
    seed: int = 0
    session: str = field(default_factory=now)  # when it began
    version: str = field(default_factory=version)

    def rows(self, record: type[Any]) -> list[Any]:
        """Return the rows of a table that this environment measured."""
        return self.folder.rows_in(self.environment, record)

    def tried(self, record: type[Any]) -> list[Any]:
        """Return the same rows without the failures to try again.

        These are tasks that were killed in an earlier session, and failures of another version of this program.
        """
        return [
            row
            for row in self.rows(record)
            if row.status == "ok"
            or row.session == self.session
            or (row.status != KILLED.status and row.version == self.version)
        ]

    def key(self, cell: Cell) -> Columns:
        """Return the columns that identify the cell of a row."""
        return {"environment_id": self.environment.environment_id, **cell._asdict()}

    def signature(self, outcome: Any) -> Columns:
        """Return the columns of how a row's task ended, with the time, session and version."""
        status = asdict(outcome) if isinstance(outcome, Failure) else {"status": "ok", "reason": None}
        return {**status, "recorded_at": now(), "session": self.session, "seed": self.seed, "version": self.version}

    def places(self, tasks: Collection[Task]) -> list[str]:
        return sorted({str(self.folder.folder if task.is_of_machine else self.workloads.folder) for task in tasks})


def machine_folder(data: Path, name: str | None, environment: Environment) -> MachineFolder:
    """Return this machine's folder: of that name, else one that is not the project's (``own_folder``).

    Raises UserError if another machine measured into the folder of that name.
    """
    folder = MachineFolder(data, name or own_folder(data, folder_name(environment)))
    if folder.folder.is_file():
        raise UserError(f"--machine: {folder.folder} is a file; name a folder")
    others = {row.name for row in folder.rows(Environment) if row.hardware_id != environment.hardware_id}
    if others:
        raise UserError(f"--machine: {folder.folder} holds another machine ({others.pop()}); choose another name")
    return folder


def store_counts(workloads: Workloads, task: WorkloadTask, outcome: list[count.Count] | Failure) -> None:
    if isinstance(outcome, Failure):
        why = (task.precision, task.autocast, outcome.status, outcome.reason)
        outcome = [count.not_counted(task.model, batch, *why) for batch in task.batches]
    workloads.put(outcome)


def describe_counts(_task: WorkloadTask, result: list[count.Count]) -> str:
    first = result[0].workload
    if first.forward_flop:
        work = si(first.forward_flop / first.batch, "FLOP")
    else:
        other_flop = first.forward_other_flop or 0
        work = f"no products, {si(other_flop / first.batch, 'FLOP')} of other arithmetic"
    missing = uncounted_names(first)
    left_out = f", without {', '.join(missing)}" if missing else ""
    path = ", on one run's path" if first.path else ""
    reason = f"; {first.reason}" if first.reason else ""
    return f"{work} an input{path}{left_out}{reason}"


def store_roof(cache: RunCache, task: RoofTask, outcome: KernelTiming | Failure) -> None:
    """Write the kernel's row, unless other programs disturbed it more than an earlier one."""
    timing = KernelTiming() if isinstance(outcome, Failure) else outcome
    flop, byte = flop_and_byte(task.roof_kernel, task.precision, task.size)
    columns = {**task.columns, **timing._asdict(), "flop": flop, "byte": byte}
    row = RoofMeasurement(cache.environment.environment_id, **columns, **cache.signature(outcome))
    same = [each for each in cache.rows(RoofMeasurement) if roof_key(each) == roof_key(row)]
    calmer = [each for each in same if each.status == "ok" and (each.load or 0.0) <= (row.load or 0.0)]
    if not is_loaded(row) or not calmer:
        cache.folder.put_roof_measurements([row])


def describe_roof(task: RoofTask, result: KernelTiming) -> str:
    assert result.latency_s is not None
    flop, byte = flop_and_byte(task.roof_kernel, task.precision, task.size)
    if task.roof_kernel == "chain":
        return f"{task.size / result.latency_s / 1e9:.3f} additions/ns"
    if task.roof_kernel == "idle":
        return "no energy counted" if result.energy_j is None else si(result.energy_j / result.latency_s, "W")
    if task.roof_kernel in STREAM_ARRAYS:
        return si(byte / result.latency_s, "B/s")
    return si(flop / result.latency_s, f"{operation(task.precision)}/s")


def _cell_columns(cache: RunCache, task: CellTask, outcome: Any) -> Columns:
    """Return the columns that every row of a cell has: its key, signature, input shape and code."""
    of_model = {"input_shape": shape_name(task.model.input_shape), "code": task.model.code}
    return {**cache.key(task.cell), **cache.signature(outcome), **of_model}


def store_round(cache: RunCache, task: RoundTask, outcome: Timing | Failure) -> None:
    """Write a row for a forward pass; for a training step and each of its stages."""
    rows: list[tuple[Run, list[Sample]]] = []
    columns = {**_cell_columns(cache, task, outcome), "round": task.round, "target": task.target}
    for phase in (*STAGES, STEP) if task.cell.phase == STEP else (task.cell.phase,):
        run, samples = Run(**{**columns, "phase": phase}), []
        if not isinstance(outcome, Failure):
            timing = outcome.stages.get(phase, outcome)
            run = replace(run, flags=";".join(timing.flags) or None, peak_byte=timing.peak_byte)
            key = {**cache.key(task.cell._replace(phase=phase)), "round": task.round, "block": timing.block}
            key |= asdict(timing.conditions)
            for index, timed in enumerate(timing.samples):
                samples.append(Sample(**key, sample=index, latency_s=timed.latency_s, event_s=timed.event_s))
        rows.append((run, samples))
    *stages, whole = rows
    cache.folder.put_run(*whole, stages)


def describe_round(_task: RoundTask, result: Timing) -> str:
    estimate = estimate_median(result.latencies_s)
    width = estimate.relative_half_width
    spread = "no interval" if width is None else f"±{100 * width:.1f} %"
    return f"{latency(estimate.median)} ({spread}, {len(result.samples)} samples)"


def store_profile(cache: RunCache, task: CellTask, outcome: CellProfile | Failure) -> None:
    row, key = _cell_columns(cache, task, outcome), cache.key(task.cell)
    operators: list[records.OperatorTime] = []
    kernels: list[records.KernelTime] = []
    if not isinstance(outcome, Failure):
        row |= {name: getattr(outcome, name) for name in ("steps", "plain_s", "profiled_s", "busy_s", "load")}
        row |= outcome.system_use._asdict() if outcome.system_use else {}
        operators = [records.OperatorTime(**key, **each._asdict()) for each in outcome.operators]
        kernels = [records.KernelTime(**key, **each._asdict()) for each in outcome.kernels]
        if outcome.trace is not None:
            _store_trace(cache, task.cell, outcome.trace)
    cache.folder.put_profile(Profile(**row), operators, kernels)


def _store_trace(cache: RunCache, cell: Cell, rows: TraceRows) -> None:
    """Store the last steps as an imported trace is stored, for all readers of traces."""
    data, environment = cache.workloads.data, cache.environment
    variant = [] if cell.variant == EAGER else [cell.variant]
    columns: Columns = {
        "network": ", ".join([model_name(cell.model), f"batch {cell.batch}", cell.precision, cell.phase, *variant]),
        "chip": traces.chip_names(data).get(fold_name(environment.name)),
        "device_name": environment.name,
        "capability": environment.capability,
        "memory_byte": environment.memory_byte,
        "torch": environment.torch,
        "source": f"{MEASURED}{cache.folder.name}",
        "version": cache.version,
    }
    traces.put(data, rows._replace(devices=[replace(row, **columns) for row in rows.devices]))


def describe_profile(_task: CellTask, result: CellProfile) -> str:
    share = sum(each.time_s for each in result.operators) / result.profiled_s
    return f"{latency(result.plain_s)}, profiled {latency(result.profiled_s)}, {share:.0%} of it in operators"


def store_counters(cache: RunCache, task: CellTask, outcome: CountedCell | Failure) -> None:
    row, key = _cell_columns(cache, task, outcome), cache.key(task.cell)
    kernels: list[records.KernelCounters] = []
    if not isinstance(outcome, Failure):
        row |= {name: getattr(outcome, name) for name in ("tool", "steps", "capability", "tensor_gap")}
        kernels = [records.KernelCounters(**key, **each._asdict()) for each in outcome.kernels]
    cache.folder.put_hardware_counters(records.HardwareCounterProfile(**row), kernels)


def describe_counters(_task: CellTask, result: CountedCell) -> str:
    kernels = result.kernels
    return f"{sum(each.calls for each in kernels)} kernels, {latency(sum(each.time_s for each in kernels))}"
