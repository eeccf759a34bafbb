"""The list of tasks still to do: what was asked for, less what the cache holds."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from measure.cache import variants
from measure.cache.models import Model
from measure.cache.records import (
    EAGER,
    FULL_PRECISION,
    INFERENCE,
    STAGES,
    STEP,
    SUSTAINED,
    WORKLOAD,
    Ceiling,
    CounterProfile,
    Profile,
    Run,
    Workload,
    shape_name,
    stored_as,
)
from measure.cache.variants import SGD
from measure.roofs.roofs import kernels

_log = logging.getLogger(__name__)

ROUNDS = 3
"""Rounds of a cell: of fewer, the spread between processes cannot be told."""

QUICK_KERNELS = ("matmul", "fma", "stream_triad", "chain")
"""The kernels of a quick run, at their sustained pace."""

Cell = tuple[str, str, int, str, str]
"""Phase, model, batch size, precision and variant of a cell."""

QUICK_SECTIONS = ("workload", "ceilings", "inference", "training")
"""The sections of a quick run."""

USUAL_SECTIONS = (*QUICK_SECTIONS, "operators")
"""The sections of a run that names none."""

SECTIONS = (*USUAL_SECTIONS, "counters")


@dataclass(frozen=True)
class WorkloadTask:
    """Count a model at some batch sizes; ``autocast`` is the kind of device whose autocast is counted, if any."""

    model: Model
    batches: tuple[int, ...]
    precision: str
    autocast: str | None
    section = "workload"
    effort = 1.0

    @property
    def label(self) -> str:
        how = "" if self.autocast is None else f" autocast on {self.autocast}"
        return f"workload {self.model.name} {self.precision}{how}"


@dataclass(frozen=True)
class CeilingTask:
    """Measure a roof, or the clock, with one kernel at one size and pace."""

    kernel: str
    precision: str
    size: int
    pace: str
    section = "ceilings"
    effort = 4.0

    @property
    def label(self) -> str:
        return f"roof {self.kernel} {self.precision} {self.size} {self.pace}"


@dataclass(frozen=True)
class CellTask(ABC):
    """Measure something of a cell: of a model at one batch size, precision and variant."""

    model: Model
    batch: int
    precision: str
    variant: str
    section: ClassVar[str]

    @property
    @abstractmethod
    def cell(self) -> Cell:
        """What names the cell."""

    @property
    def label(self) -> str:
        how = "" if self.variant == EAGER else f" {self.variant}"
        return f"{self.model.name} batch {self.batch} {self.precision}{how}"


@dataclass(frozen=True)
class RoundTask(CellTask):
    """Measure one of several rounds of a cell.

    ``phases`` are those of the rows that it gives, last the one that its cell is known by; ``forward_passes`` says how
    much work its call is.
    """

    round: int
    phases: ClassVar[tuple[str, ...]]
    forward_passes: ClassVar[int]

    @property
    def cell(self) -> Cell:
        """What all rounds of this cell share."""
        return self.phases[-1], self.model.name, self.batch, self.precision, self.variant

    @property
    def effort(self) -> float:
        """A guess of the time relative to other tasks', for the estimate of the time left."""
        return 5.0 + 0.5 * self.forward_passes * min(self.batch, 128)

    @property
    def label(self) -> str:
        return f"{super().label}, round {self.round + 1}"


@dataclass(frozen=True)
class InferenceTask(RoundTask):
    """Measure a model's forward pass."""

    section = "inference"
    phases = (INFERENCE,)
    forward_passes = 1


@dataclass(frozen=True)
class TrainingTask(RoundTask):
    """Measure a model's training step and its stages; the variant names the optimiser, if it is not SGD."""

    section = "training"
    phases = (*STAGES, STEP)
    forward_passes = 3

    @property
    def label(self) -> str:
        return f"training {super().label}"


@dataclass(frozen=True)
class PhaseTask(CellTask):
    """Look into a model's forward pass, or into its training step."""

    phase: str

    @property
    def cell(self) -> Cell:
        return self.phase, self.model.name, self.batch, self.precision, self.variant

    @property
    def effort(self) -> float:
        """As that of a round, which runs more calls."""
        return 4.0 + (0.75 if self.phase == STEP else 0.25) * min(self.batch, 128)

    @property
    def label(self) -> str:
        return f"{self.section} of {'training ' if self.phase == STEP else ''}{super().label}"


@dataclass(frozen=True)
class ProfileTask(PhaseTask):
    """Time its operators under torch's profiler."""

    section = "operators"


@dataclass(frozen=True)
class CounterTask(PhaseTask):
    """Read the hardware counters of its kernels."""

    section = "counters"


Task = WorkloadTask | CeilingTask | InferenceTask | TrainingTask | ProfileTask | CounterTask


@dataclass(frozen=True)
class Request:
    """What a user asked for; ``training_models`` are those of ``models`` that are trained."""

    models: Sequence[Model]
    batch_sizes: Sequence[int]
    precisions: Sequence[str]
    sections: Collection[str]
    variants: Sequence[str] = (EAGER,)
    training_models: Sequence[Model] = ()
    training_batch_sizes: Sequence[int] = ()
    optimizers: Sequence[str] = (SGD,)
    rounds: int = ROUNDS
    quick: bool = False
    force: bool = False


def _ways_to_count(request: Request, device_kind: str) -> list[tuple[str, str | None]]:
    """Each precision, cast or by the device's autocast, that the request's variants ask for; each once."""
    ways = [
        (precision, device_kind if variants.AUTOCAST in variants.parts(variant) else None)
        for precision in map(stored_as, request.precisions)
        for variant in request.variants
    ]
    return list(dict.fromkeys(way for way in ways if way != (FULL_PRECISION, device_kind)))


def _batches_to_count(request: Request, model: Model) -> list[int]:
    """The batch sizes at which the request has a model run forward or trained, smallest first."""
    trained = {"training", "operators", "counters"} & set(
        request.sections
    ) and model in request.training_models
    return sorted({*request.batch_sizes, *(request.training_batch_sizes if trained else ())})


def _rounds(request: Request) -> list[InferenceTask | TrainingTask]:
    """All rounds of all cells that the request asks for."""
    rounds: list[InferenceTask | TrainingTask] = []
    if "inference" in request.sections:
        rounds += [
            InferenceTask(model, batch, precision, variant, number)
            for batch in request.batch_sizes
            for number in range(request.rounds)
            for precision in request.precisions
            for variant in request.variants
            for model in request.models
        ]
    if "training" in request.sections:
        rounds += [
            TrainingTask(model, batch, precision, variants.with_optimizer(variant, optimizer), number)
            for batch in request.training_batch_sizes
            for number in range(request.rounds)
            for precision in request.precisions
            for optimizer in request.optimizers
            for variant in request.variants
            for model in request.training_models
        ]
    return rounds


Phased = TypeVar("Phased", ProfileTask, CounterTask)


def _looks(request: Request, kind: type[Phased]) -> list[Phased]:
    """All cells that the request asks to look into in this way."""
    if kind.section not in request.sections:
        return []
    inference = [
        kind(model, batch, precision, variant, INFERENCE)
        for batch in request.batch_sizes
        for precision in request.precisions
        for variant in request.variants
        for model in request.models
    ]
    steps = [
        kind(model, batch, precision, variants.with_optimizer(variant, optimizer), STEP)
        for batch in request.training_batch_sizes
        for precision in request.precisions
        for optimizer in request.optimizers
        for variant in request.variants
        for model in request.training_models
    ]
    return inference + steps


def _is_quick(kernel: str, _precision: str, _size: int, pace: str) -> bool:
    """Whether a kernel is among the few that a roof can be read from."""
    return kernel in QUICK_KERNELS and pace == SUSTAINED


def tasks_to_do(
    request: Request,
    device_kind: str,
    environment_id: str,
    workloads: Sequence[Workload],
    ceilings: Sequence[Ceiling],
    runs: Sequence[Run],
    profiles: Sequence[Profile],
    counter_profiles: Sequence[CounterProfile],
) -> list[Task]:
    """The tasks of the request that the cache does not hold, or all of them by force.

    A cell of which a round failed is not tried again.

    First the workload, then the roofs, then the models, inference before training: all at the first batch size before
    the next, so that a run that is cut short still makes a paper; and at one batch size all of them once before any of
    them again, so that the rounds of a cell lie apart in time. Last the operators, and the counters.
    """
    counted = {tuple(getattr(row, name) for name in WORKLOAD) for row in workloads}
    roofs = {
        (row.kernel, row.precision, row.size, row.pace)
        for row in ceilings
        if row.environment_id == environment_id
    }
    ours = [row for row in runs if row.environment_id == environment_id]
    measured = {(_cell(row), row.round) for row in ours}
    hopeless = {_cell(row): row for row in ours if row.status != "ok"}
    tasks: list[Task] = []
    if "workload" in request.sections:
        for precision, autocast in _ways_to_count(request, device_kind):
            for model in request.models:
                shape = shape_name(model.input_shape)
                batches = [
                    batch
                    for batch in _batches_to_count(request, model)
                    if request.force or (model.name, shape, batch, precision, autocast) not in counted
                ]
                if batches:
                    tasks.append(WorkloadTask(model, tuple(batches), precision, autocast))
    if "ceilings" in request.sections:
        tasks += [
            CeilingTask(*kernel)
            for kernel in kernels(device_kind, request.precisions)
            if (request.force or kernel not in roofs) and (not request.quick or _is_quick(*kernel))
        ]
    rounds = _rounds(request)
    tasks += [
        task
        for task in rounds
        if request.force or (task.cell not in hopeless and (task.cell, task.round) not in measured)
    ]
    for cell in {task.cell: None for task in rounds if task.cell in hopeless and not request.force}:
        failed = hopeless[cell]
        _log.info("not tried again without --force: %s, %s (%s)", _told(cell), failed.status, failed.reason)
    for looks, rows in (
        (_looks(request, ProfileTask), profiles),
        (_looks(request, CounterTask), counter_profiles),
    ):
        seen = {_cell(row) for row in rows if row.environment_id == environment_id}
        tasks += [task for task in looks if request.force or task.cell not in seen]
    for section in request.sections:
        _log.info(
            "%s: %d to do, what else was asked for is in the cache",
            section,
            sum(task.section == section for task in tasks),
        )
    return tasks


def _told(cell: Cell) -> str:
    phase, model, batch, precision, variant = cell
    return f"{phase} of {model} batch {batch} {precision} {variant}"


def _cell(row: Run | Profile | CounterProfile) -> Cell:
    return row.phase, row.model, row.batch, row.precision, row.variant
