"""The sections that measure cells: rounds of inference and training, profiles, and hardware counters."""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import asdict, dataclass, replace
from math import inf
from typing import Any, ClassVar, Self

from measure.cache.traces import MEASURED
from measure.domain import variants
from measure.domain.cell import Cell
from measure.domain.chips import fold_name
from measure.domain.latency import disturbed_rounds, round_of
from measure.domain.models import Model
from measure.domain.names import model_name
from measure.domain.records import (
    HardwareCounterProfile,
    KernelCounters,
    KernelTime,
    OperatorTime,
    Profile,
    Run,
    Sample,
)
from measure.domain.statistics import estimate_median, estimate_rounds
from measure.domain.values import latency
from measure.domain.words import EAGER, INFERENCE, STAGES, STEP, TARGET, same_shape, shape_name
from measure.machine.device import Device
from measure.models import catalog
from measure.profiling import ncu, profile
from measure.profiling.ncu_csv import CountedCell
from measure.profiling.profile import CellProfile
from measure.run.request import Request
from measure.run.task import AFTER, Columns, Failure, RunCache, Task, Tier
from measure.timing import calls
from measure.timing.sampling import Sampling, Timing
from measure.timing.variant_setup import process_variables
from measure.traces import store as traces
from measure.traces.store import TraceRows

_log = logging.getLogger(__name__)

SHORT_BUDGET_S = 600.0  # shorter budgets begin with profiles at the smallest batch size


@dataclass(frozen=True)
class CellTask(Task):
    """Measure something of a cell, in a process of its own unless ``process`` says otherwise."""

    model: Model
    cell: Cell

    @property
    def label(self) -> str:
        return self.cell.label

    @property
    def variables(self) -> dict[str, str]:
        return process_variables(self.cell.variant)

    @property
    def libraries(self) -> tuple[str, ...]:
        return (*super().libraries, *catalog.imported_by(self.model))

    def process(self, device_kind: str) -> Hashable:
        return None

    @property
    def columns(self) -> Columns:
        named = self.cell._asdict()
        return {"model": self.model.name, "batch_sizes": [named.pop("batch")], **named}

    def row(self, cache: RunCache, cell: Cell, outcome: Any) -> Columns:
        """Return the columns that every row of a cell has: its key, status, signature, input shape and code."""
        of_model = {"input_shape": shape_name(self.model.input_shape), "code": self.model.code}
        return {**cache.key(cell), **cache.signature(outcome), **of_model}


def _rows_of(cells: Iterable[tuple[Model, Cell]], rows: Iterable[Any]) -> list[Any]:
    """Keep the rows of these cells that were measured of the models as they are: their input shape and code."""
    models = {cell: model for model, cell in cells}
    found = []
    for row in rows:
        model = models.get(Cell.of(row))
        if model and row.code == model.code and same_shape(shape_name(model.input_shape), row.input_shape):
            found.append(row)
    return found


@dataclass(frozen=True)
class RoundTask(CellTask):
    """Measure one of several rounds of a cell."""

    round: int
    target: float = TARGET
    phases: ClassVar[tuple[str, ...]]  # of the rows that it writes; the last is the cell's

    @classmethod
    def missing(cls, request: Request, cache: RunCache) -> list[Self]:
        """Return the rounds to do. A cell with a failed round is not tried again.

        Cells of one model, batch size and phase get equally many rounds, so that comparisons of precisions or variants
        compare rounds of the same blocks. With ``request.force``, all rounds are done again.
        """
        cells = request.cells(cls.phases[-1])
        measured: dict[Cell, set[int]] = defaultdict(set)
        failed: dict[Cell, Run] = {}
        rows = _rows_of(cells, cache.tried(cache.folder.rows(Run)))
        for row in rows:
            measured[Cell.of(row)].add(row.round)
            if row.status != "ok":
                failed[Cell.of(row)] = row
        if request.force:
            most = {cell: max([request.rounds, *(number + 1 for number in measured[cell])]) for _, cell in cells}
            return [cls(model, cell, number, request.target) for model, cell in cells for number in range(most[cell])]
        for cell, row in failed.items():
            _log.info("not tried again without --force: %s, %s (%s)", cell.describe(), row.status, row.reason)
        wanted = _rounds_wanted(request, [cell for _, cell in cells if cell not in failed], measured, cache)
        return [
            cls(model, cell, number, request.target)
            for model, cell in cells
            for number in range(wanted.get(cell, 0))
            if number not in measured[cell]
        ]

    @property
    def block(self) -> int:
        return self.round

    def tier(self, request: Request) -> Tier:
        batch = self.cell.batch
        if self.round:
            return Tier.ROUNDS if self.round < request.rounds else Tier.MORE_ROUNDS
        if not request.is_base(self.cell):
            return Tier.OTHER_CELLS
        if self.cell.phase == STEP:
            is_first = self.model in request.leading and batch == min(request.training_batch_sizes)
            return Tier.STEPS if is_first else Tier.OTHER_CELLS
        if batch == min(request.batch_sizes):
            return Tier.FIRST_CELLS
        if request.has_named_batches:
            return Tier.NAMED_CELLS
        return Tier.SECOND_CELLS if batch == request.second_batch else Tier.OTHER_CELLS

    def process(self, device_kind: str) -> Hashable:
        """Share a process between the batch sizes of a round on a GPU, where a process takes seconds to begin."""
        if device_kind != "cuda" or variants.first_call_s(self.cell.variant):  # which sets each batch size up
            return None
        return self.model, self.cell.precision, self.cell.variant, self.round

    @property
    def label(self) -> str:
        return f"{super().label}, round {self.round + 1}"

    @property
    def columns(self) -> Columns:
        return {**super().columns, "round": self.round}

    def run(self, device: Device, sampling: Sampling, beat: Callable[[], None]) -> Timing:
        return calls.measure(device, self.model, self.cell, sampling, beat)

    def store(self, cache: RunCache, outcome: Any) -> None:
        rows: list[tuple[Run, list[Sample]]] = []
        for phase in self.phases:
            cell, samples = self.cell._replace(phase=phase), []
            run = Run(**self.row(cache, cell, outcome), round=self.round, target=self.target)
            if not isinstance(outcome, Failure):
                timing = outcome.stages.get(phase, outcome)
                run = replace(run, flags=";".join(timing.flags) or None, peak_byte=timing.peak_byte)
                key = {**cache.key(cell), "round": self.round, "block": timing.block}
                for index, timed in enumerate(timing.samples):
                    times = {"latency_s": timed.latency_s, "event_s": timed.event_s, **asdict(timed.conditions)}
                    samples.append(Sample(**key, sample=index, **times))
            rows.append((run, samples))
        *stages, whole = rows
        cache.folder.put_run(*whole, stages)

    def summary(self, result: Any) -> str:
        estimate = estimate_median(result.latencies_s)
        width = estimate.relative_half_width
        spread = "no interval" if width is None else f"±{100 * width:.1f} %"
        return f"{latency(estimate.median)} ({spread}, {len(result.samples)} samples)"


def _rounds_wanted(request: Request, cells: list[Cell], done: dict[Cell, set[int]], cache: RunCache) -> dict[Cell, int]:
    """Return how many rounds each cell should have, ``request.most_rounds`` at most.

    Rounds that other programs disturbed are made up for, as the latency leaves them out. One more follows if an
    interval of the cell's group is too wide.
    """
    groups: dict[tuple[str, int, str], list[Cell]] = defaultdict(list)
    for cell in cells:
        groups[cell.model, cell.batch, cell.phase].append(cell)
    runs = cache.rows(cache.folder.rows(Run))
    disturbed = disturbed_rounds(runs)
    in_vain = [run for run in runs if round_of(run) in disturbed]
    lost = Counter(Cell.of(run) for run in in_vain if run.round in done.get(Cell.of(run), ()))
    complete: list[Cell] = []  # cells that may need another round
    wanted: dict[Cell, int] = {}
    for group in groups.values():
        counts = {len(done[cell]) for cell in group}
        undisturbed = min(request.rounds + max(lost[cell] for cell in group), request.most_rounds)
        rounds = max(request.rounds, undisturbed, *counts)
        wanted |= dict.fromkeys(group, rounds)
        if counts == {rounds} and rounds < request.most_rounds:
            complete += group
    chosen = set(complete)
    of_chosen = [run for run in runs if Cell.of(run) in chosen]
    rounds_of = cache.folder.rounds(of_chosen) if of_chosen else {}
    for cell in complete:
        latencies = rounds_of[cell].latencies if cell in rounds_of else ()
        width = estimate_rounds(latencies).relative_half_width if latencies else None
        if width is None or width > request.target:
            wanted |= dict.fromkeys(groups[cell.model, cell.batch, cell.phase], len(done[cell]) + 1)
    return wanted


class InferenceTask(RoundTask):
    section = "inference"
    help = "time the models' forward passes"
    phases = (INFERENCE,)


class TrainingTask(RoundTask):
    section = "training"
    help = "time training steps: forward, backward, optimiser"
    trains = True
    phases = (*STAGES, STEP)


class InspectionTask(CellTask):
    """Inspect a model's forward pass or training step once."""

    trains = True
    record: ClassVar[type[Any]]  # has a row for each inspected cell

    @classmethod
    def missing(cls, request: Request, cache: RunCache) -> list[Self]:
        cells = [pair for phase in (INFERENCE, STEP) for pair in request.cells(phase)]
        rows = [] if request.force else cache.tried(cache.folder.rows(cls.record))
        seen = set(map(Cell.of, _rows_of(cells, rows)))
        return [cls(model, cell) for model, cell in cells if cell not in seen]

    @property
    def label(self) -> str:
        return f"{self.section.replace('-', ' ')} of {super().label}"


class ProfileTask(InspectionTask):
    section = "operators"
    help = "time each operator of both under torch's profiler"
    block = 0  # in the same session as a plain round of its cell
    record = Profile

    @classmethod
    def missing(cls, request: Request, cache: RunCache) -> list[Self]:
        tasks = super().missing(request, cache)
        return [task for task in tasks if task.tier(request) == Tier.PROFILES] if request.quick else tasks

    def tier(self, request: Request) -> Tier:
        """Begin with a profile of inference of each model, and one of a training step of each leading model."""
        if self.cell.phase != INFERENCE:
            batch = min(request.training_batch_sizes)
        elif request.quick or (request.budget_s or inf) < SHORT_BUDGET_S:  # a profile of a large batch takes long
            batch = min(request.batch_sizes)
        else:
            batch = request.second_batch or min(request.batch_sizes)
        if self.cell.batch != batch or not request.is_base(self.cell):
            return Tier.REST
        if self.model in request.leading:
            return Tier.PROFILES
        return Tier.OTHER_CELLS if self.cell.phase == INFERENCE else Tier.REST

    def run(self, device: Device, sampling: Sampling, beat: Callable[[], None]) -> CellProfile:
        return profile.measure(device, self.model, self.cell, sampling, beat)

    def store(self, cache: RunCache, outcome: CellProfile | Failure) -> None:
        row, key = self.row(cache, self.cell, outcome), cache.key(self.cell)
        operators: list[OperatorTime] = []
        kernels: list[KernelTime] = []
        if not isinstance(outcome, Failure):
            row |= {name: getattr(outcome, name) for name in ("steps", "plain_s", "profiled_s", "busy_s", "load")}
            row |= outcome.system_use._asdict() if outcome.system_use else {}
            operators = [OperatorTime(**key, **each._asdict()) for each in outcome.operators]
            kernels = [KernelTime(**key, **each._asdict()) for each in outcome.kernels]
            if outcome.trace is not None:
                self._put_trace(cache, outcome.trace)
        cache.folder.put_profile(Profile(**row), operators, kernels)

    def _put_trace(self, cache: RunCache, rows: TraceRows) -> None:
        """Store the last steps as an imported trace is stored, so that all that reads traces reads them."""
        data, environment, cell = cache.workloads.data, cache.environment, self.cell
        variant = [] if cell.variant == EAGER else [cell.variant]
        network = ", ".join([model_name(cell.model), f"batch {cell.batch}", cell.precision, cell.phase, *variant])
        chip = traces.chip_names(data).get(fold_name(environment.name))
        devices = [
            replace(
                row,
                network=network,
                chip=chip,
                device_name=environment.name,
                capability=environment.capability,
                memory_byte=environment.memory_byte,
                torch=environment.torch,
                source=f"{MEASURED}{cache.folder.name}",
                version=cache.version,
            )
            for row in rows.devices
        ]
        traces.put(data, rows._replace(devices=devices))

    def summary(self, result: CellProfile) -> str:
        share = sum(each.time_s for each in result.operators) / result.profiled_s
        return f"{latency(result.plain_s)}, profiled {latency(result.profiled_s)}, {share:.0%} of it in operators"


class HardwareCounterTask(InspectionTask):
    section = "hardware-counters"
    help = "read an NVIDIA GPU's hardware counters for both, with Nsight Compute's ncu"
    block = AFTER
    record = HardwareCounterProfile

    def run(self, device: Device, _sampling: Sampling, beat: Callable[[], None]) -> CountedCell:
        return ncu.measure(device, self.model, self.cell, beat)

    def store(self, cache: RunCache, outcome: CountedCell | Failure) -> None:
        row, key = self.row(cache, self.cell, outcome), cache.key(self.cell)
        kernels: list[KernelCounters] = []
        if not isinstance(outcome, Failure):
            row |= {name: getattr(outcome, name) for name in ("tool", "steps", "capability", "tensor_gap")}
            kernels = [KernelCounters(**key, **each._asdict()) for each in outcome.kernels]
        cache.folder.put_hardware_counters(HardwareCounterProfile(**row), kernels)

    def summary(self, result: CountedCell) -> str:
        kernels = result.kernels
        return f"{sum(each.calls for each in kernels)} kernels, {latency(sum(each.time_s for each in kernels))}"
