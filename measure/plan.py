"""The list of tasks still to do: what was asked for, less what the cache holds."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from measure.catalog import Model
from measure.ceilings import kernels
from measure.records import EAGER, INFERENCE, Ceiling, Run, Workload

SECTIONS = ("workload", "ceilings", "inference")


@dataclass(frozen=True)
class WorkloadTask:
    """Count a model's forward pass at some batch sizes."""

    model: Model
    batches: tuple[int, ...]
    section = "workload"
    effort = 1.0

    @property
    def label(self) -> str:
        return f"workload {self.model.name}"


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
    counted = {(row.model, row.input_shape, row.batch) for row in workloads}
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
        for model in request.models:
            shape = "x".join(map(str, model.input_shape))
            batches = [
                b for b in request.batch_sizes if request.force or (model.name, shape, b) not in counted
            ]
            if batches:
                tasks.append(WorkloadTask(model, tuple(batches)))
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
