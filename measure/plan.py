"""The list of tasks still to do: what was asked for, less what the cache holds."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from measure.catalog import Model
from measure.ceilings import kernels
from measure.records import (
    EAGER,
    FULL_PRECISION,
    INFERENCE,
    WORKLOAD,
    Ceiling,
    Run,
    Workload,
    shape_name,
)

SECTIONS = ("workload", "ceilings", "inference")


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
    """Measure a roof, or the clock, with one kernel at one size."""

    kernel: str
    precision: str
    size: int
    section = "ceilings"
    effort = 4.0

    @property
    def label(self) -> str:
        return f"roof {self.kernel} {self.precision} {self.size}"


@dataclass(frozen=True)
class InferenceTask:
    """Measure a model's forward pass."""

    model: Model
    batch: int
    precision: str
    section = "inference"

    @property
    def effort(self) -> float:
        """A guess of the time relative to other tasks', for the estimate of the time left."""
        return 5.0 + 0.5 * min(self.batch, 128)

    @property
    def label(self) -> str:
        return f"{self.model.name} batch {self.batch} {self.precision}"


Task = WorkloadTask | CeilingTask | InferenceTask


@dataclass(frozen=True)
class Request:
    """What a user asked for."""

    models: Sequence[Model]
    batch_sizes: Sequence[int]
    precisions: Sequence[str]
    sections: Collection[str]
    force: bool = False
    autocast: bool = False


def tasks_to_do(
    request: Request,
    device_kind: str,
    environment_id: str,
    workloads: Sequence[Workload],
    ceilings: Sequence[Ceiling],
    runs: Sequence[Run],
) -> list[Task]:
    """The tasks of the request that the cache does not hold, or all of them by force.

    First the workload, then the roofs, then the models: all at the first batch size before the next, so that a run
    that is cut short still makes a paper.
    """
    counted = {tuple(getattr(row, name) for name in WORKLOAD) for row in workloads}
    roofs = {
        (row.kernel, row.precision, row.size) for row in ceilings if row.environment_id == environment_id
    }
    cells = {
        (row.model, row.batch, row.precision)
        for row in runs
        if row.environment_id == environment_id and (row.phase, row.variant) == (INFERENCE, EAGER)
    }
    tasks: list[Task] = []
    if "workload" in request.sections:
        for precision in request.precisions:
            autocast = device_kind if request.autocast and precision != FULL_PRECISION else None
            for model in request.models:
                shape = shape_name(model.input_shape)
                batches = [
                    batch
                    for batch in request.batch_sizes
                    if request.force or (model.name, shape, batch, precision, autocast) not in counted
                ]
                if batches:
                    tasks.append(WorkloadTask(model, tuple(batches), precision, autocast))
    if "ceilings" in request.sections:
        tasks += [
            CeilingTask(*kernel)
            for kernel in kernels(device_kind, request.precisions)
            if request.force or kernel not in roofs
        ]
    if "inference" in request.sections:
        tasks += [
            InferenceTask(model, batch, precision)
            for precision in request.precisions
            for batch in request.batch_sizes
            for model in request.models
            if request.force or (model.name, batch, precision) not in cells
        ]
    return tasks
