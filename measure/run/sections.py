"""All sections of a run: the counts of models, the roofs of the machine, and the sections of cells."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import product
from operator import attrgetter
from typing import Self

from measure.counting import count
from measure.domain import precisions, variants
from measure.domain.latency import TimedCell
from measure.domain.model_work import uncounted_names
from measure.domain.models import Model
from measure.domain.records import RoofMeasurement, Run
from measure.domain.roofs import flop_per_s, is_loaded, machine_roof
from measure.domain.values import si
from measure.domain.words import (
    BURST,
    EAGER,
    FULL_PRECISION,
    INFERENCE,
    ROOF_KERNELS,
    STREAM_ARRAYS,
    SUSTAINED,
    operation,
    shape_name,
    stored_as,
)
from measure.domain.workload_records import WORKLOAD, Workload
from measure.machine.device import Device
from measure.models import catalog
from measure.roofs import roofs
from measure.roofs.roofs import KernelTiming
from measure.run.cell_tasks import HardwareCounterTask, InferenceTask, ProfileTask, TrainingTask
from measure.run.request import Request
from measure.run.task import BEFORE, KILLED, Columns, Failure, RunCache, Task, Tier
from measure.timing.sampling import Sampling


@dataclass(frozen=True)
class WorkloadTask(Task):
    """Count a model at some batch sizes. ``autocast`` is the device kind whose autocast is counted, or None."""

    model: Model
    batches: tuple[int, ...]
    precision: str
    autocast: str | None

    section = "workload"
    help = "count FLOP and bytes"
    is_of_machine = False

    @classmethod
    def missing(cls, request: Request, cache: RunCache) -> list[Self]:
        """Return what to count: also what other formulas counted, or failed to, and what an own model ran before."""
        codes = {model.name: model.code for model in request.models}
        rows = () if request.force else cache.workloads.rows(Workload)
        counted = {
            attrgetter(*WORKLOAD)(row)
            for row in rows
            if row.status != KILLED.status and row.counting == count.VERSION and row.code == codes.get(row.model)
        }
        kind = cache.environment.device
        autocasts = [kind if variants.is_autocast(variant) else None for variant in request.variants]
        ways = dict.fromkeys(product(map(stored_as, request.precisions), autocasts))
        ways.pop((FULL_PRECISION, kind), None)
        trains = any(SECTIONS[name].trains for name in request.sections)
        tasks = []
        for (precision, autocast), model in product(ways, request.models):
            trained = trains and model in request.training_models
            batches = sorted({*request.batch_sizes, *(request.training_batch_sizes if trained else ())})
            named = (model.name, shape_name(model.input_shape))
            left = tuple(batch for batch in batches if (*named, batch, precision, autocast) not in counted)
            if left:
                tasks.append(cls(model, left, precision, autocast))
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
        named = {"model": self.model.name, "batch_sizes": self.batches}
        return {**named, "precision": self.precision, "autocast": self.autocast}

    def run(self, _device: Device, _sampling: Sampling, beat: Callable[[], None]) -> list[count.Count]:
        return count.count_all(self.model, self.batches, self.precision, self.autocast, beat)

    def store(self, cache: RunCache, outcome: list[count.Count] | Failure) -> None:
        if isinstance(outcome, Failure):
            why = (self.precision, self.autocast, outcome.status, outcome.reason)
            outcome = [count.not_counted(self.model, batch, *why) for batch in self.batches]
        cache.workloads.put(outcome)

    def summary(self, result: list[count.Count]) -> str:
        first = result[0].workload
        assert first.forward_flop is not None
        assert first.forward_other_flop is not None
        if first.forward_flop:
            work = si(first.forward_flop / first.batch, "FLOP")
        else:
            work = f"no products, {si(first.forward_other_flop / first.batch, 'FLOP')} of other arithmetic"
        missing = uncounted_names(first)
        left_out = f", without {', '.join(missing)}" if missing else ""
        path = ", on one run's path" if first.path else ""
        reason = f"; {first.reason}" if first.reason else ""
        return f"{work} an input{path}{left_out}{reason}"


_key = attrgetter("roof_kernel", "precision", "size", "pace", "round")  # identifies a task or row on its machine


@dataclass(frozen=True)
class RoofTask(Task):
    """Time one roof kernel at one size and pace: it gives a roof or the clock."""

    roof_kernel: str
    precision: str
    size: int
    pace: str
    round: int | None = None

    section = "roofs"
    help = "measure the roofs, and a processor's clock"

    @classmethod
    def missing(cls, request: Request, cache: RunCache) -> list[Self]:
        """Return the kernels to time. A kernel timed while other programs were busy is timed again.

        So is one that a network outran in a later round: other programs may have slowed it unseen.
        """
        rows = () if request.force else cache.tried(cache.folder.rows(RoofMeasurement))
        timed = {_key(row) for row in rows if not is_loaded(row)}
        if timed:
            last = max((row.recorded_at for row in cache.rows(cache.folder.rows(Run))), default="")
            timed -= {_key(row) for _, _, row in cells_above_roof(cache) if (row.recorded_at or "") < last}
        asked = precisions.product_precisions(cache.environment, request.precisions)
        tasks = [cls(*each) for each in roofs.roof_kernels(cache.environment.device, asked)]
        return [task for task in tasks if _key(task) not in timed and (task.is_quick_kernel or not request.quick)]

    @property
    def is_quick_kernel(self) -> bool:
        return ROOF_KERNELS[self.roof_kernel].is_quick and self.pace == SUSTAINED

    @property
    def block(self) -> int:
        return self.round or BEFORE  # later rounds come with the cells' later ones

    def tier(self, request: Request) -> Tier:
        if _key(self) in roofs.first_kernels(request.device_kind, tuple(request.precisions)):
            return Tier.FIRST_ROOF
        if self.round and self.is_quick_kernel:
            return Tier.ROUNDS
        is_of_cache = self.roof_kernel in STREAM_ARRAYS and self.round is None
        is_of_no_model = self.roof_kernel == "matmul" and self.precision not in request.precisions
        return Tier.REST if self.pace == BURST or is_of_cache or is_of_no_model else Tier.ROOFS

    @property
    def label(self) -> str:
        number = "" if self.round is None else f", round {self.round + 1}"
        return f"roof {self.roof_kernel} {self.precision} {self.size} {self.pace}{number}"

    @property
    def columns(self) -> Columns:
        return asdict(self)

    def run(self, device: Device, _sampling: Sampling, beat: Callable[[], None]) -> KernelTiming:
        return roofs.measure(device, self.roof_kernel, self.precision, self.size, self.pace, beat)

    def store(self, cache: RunCache, outcome: KernelTiming | Failure) -> None:
        """Write the kernel's row, unless other programs disturbed it more than an earlier one."""
        timing = KernelTiming() if isinstance(outcome, Failure) else outcome
        flop, byte = roofs.flop_and_byte(self.roof_kernel, self.precision, self.size)
        columns = {**self.columns, **timing._asdict(), "flop": flop, "byte": byte}
        row = RoofMeasurement(cache.environment.environment_id, **columns, **cache.signature(outcome))
        same = [each for each in cache.rows(cache.folder.rows(RoofMeasurement)) if _key(each) == _key(row)]
        calmer = [each for each in same if each.status == "ok" and (each.load or 0.0) <= (row.load or 0.0)]
        if not is_loaded(row) or not calmer:
            cache.folder.put_roof_measurements([row])

    def summary(self, result: KernelTiming) -> str:
        assert result.latency_s is not None
        flop, byte = roofs.flop_and_byte(self.roof_kernel, self.precision, self.size)
        if self.roof_kernel == "chain":
            return f"{self.size / result.latency_s / 1e9:.3f} additions/ns"
        if self.roof_kernel in STREAM_ARRAYS:
            return si(byte / result.latency_s, "B/s")
        return si(flop / result.latency_s, f"{operation(self.precision)}/s")


def cells_above_roof(cache: RunCache) -> list[tuple[TimedCell, float, RoofMeasurement]]:
    """Return the cells that ran faster than any kernel at their precision, with their rate (FLOP/s) and that kernel."""
    roof = machine_roof(cache.rows(cache.folder.rows(RoofMeasurement))).arithmetic
    counted = {attrgetter(*WORKLOAD)(row): row.forward_flop for row in cache.workloads.rows(Workload)} if roof else {}
    found = []
    for cell in cache.folder.cells(cache.environment) if roof else ():
        key = (cell.model, cell.input_shape, cell.batch, stored_as(cell.precision), None)
        flop, row = counted.get(key), roof.get(cell.precision)
        if flop and row and cell.latency_s and (cell.phase, cell.variant) == (INFERENCE, EAGER):
            rate = flop / cell.latency_s
            if rate > flop_per_s(row):
                found.append((cell, rate, row))
    return found


_IN_ORDER = (WorkloadTask, RoofTask, InferenceTask, TrainingTask, ProfileTask, HardwareCounterTask)
SECTIONS: dict[str, type[Task]] = {each.section: each for each in _IN_ORDER}
USUAL_SECTIONS = tuple(name for name in SECTIONS if name != HardwareCounterTask.section)  # of a run that names none
