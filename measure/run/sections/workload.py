"""The section that counts what models ask for."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from measure.cache import variants
from measure.cache.models import Model
from measure.cache.words import FULL_PRECISION, shape_name, stored_as
from measure.cache.workload_records import WORKLOAD
from measure.cli.quantities import si
from measure.counting import count
from measure.machine.device import Device
from measure.models import catalog
from measure.run.task import KILLED, Cache, Columns, Failure, Request, Task, Tier
from measure.timing.sampling import Sampling


@dataclass(frozen=True)
class WorkloadTask(Task):
    """Count a model at some batch sizes; ``autocast`` is the kind of device whose autocast is counted, if any."""

    model: Model
    batches: tuple[int, ...]
    precision: str
    autocast: str | None

    section, order = "workload", 1
    help = "count FLOP and bytes"
    is_of_machine = False
    effort = 1.0

    @classmethod
    def missing(cls, request: Request, cache: Cache) -> list[Self]:
        rows = () if request.force else cache.workloads.models()
        counted = {tuple(getattr(row, name) for name in WORKLOAD) for row in rows if row.status != KILLED.status}
        tasks = []
        for precision, autocast in _ways(request, cache.environment.device):
            for model in request.models:
                named = (model.name, shape_name(model.input_shape))
                batches = tuple(
                    batch for batch in _batches(request, model) if (*named, batch, precision, autocast) not in counted
                )
                if batches:
                    tasks.append(cls(model, batches, precision, autocast))
        return tasks

    @property
    def label(self) -> str:
        how = "" if self.autocast is None else f" autocast on {self.autocast}"
        return f"workload {self.model.name} {self.precision}{how}"

    def tier(self, request: Request) -> Tier:
        return Tier.COUNTS if request.rank(self.model) < 2 else Tier.FIRST_CELLS

    @property
    def libraries(self) -> tuple[str, ...]:
        return (*super().libraries, *catalog.imported_by(self.model))

    @property
    def columns(self) -> Columns:
        return {
            "model": self.model.name,
            "batch_sizes": self.batches,
            "precision": self.precision,
            "autocast": self.autocast,
        }

    def run(self, _device: Device, _sampling: Sampling, beat: Callable[[], None]) -> list[count.Count]:
        return count.count_all(self.model, self.batches, self.precision, self.autocast, beat)

    def store(self, cache: Cache, outcome: list[count.Count] | Failure) -> None:
        if isinstance(outcome, Failure):
            why = (outcome.status, outcome.reason)
            outcome = [
                count.not_counted(self.model, batch, self.precision, self.autocast, *why) for batch in self.batches
            ]
        cache.workloads.put(outcome)

    def summary(self, result: list[count.Count]) -> str:
        first = result[0].workload
        assert first.forward_flop is not None
        return f"{si(first.forward_flop / first.batch, 'FLOP')} an input"


def _ways(request: Request, device_kind: str) -> list[tuple[str, str | None]]:
    """Return each precision, cast or by the device's autocast, that the request's variants ask for; each once."""
    ways = [
        (precision, device_kind if variants.is_autocast(variant) else None)
        for precision in map(stored_as, request.precisions)
        for variant in request.variants
    ]
    return list(dict.fromkeys(way for way in ways if way != (FULL_PRECISION, device_kind)))


def _batches(request: Request, model: Model) -> list[int]:
    """Return the batch sizes at which the request has a model run forward or trained, smallest first."""
    trains = any(Task.sections[name].trains for name in request.sections)
    trained = trains and model in request.training_models
    return sorted({*request.batch_sizes, *(request.training_batch_sizes if trained else ())})
