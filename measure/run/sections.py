"""The section that counts what models ask for.

The section that measures a machine's roofs, and a processor's clock.

The sections that time rounds of cells: models' forward passes, and training steps.

The section that times the operators of cells under torch's profiler.

The section that reads the hardware counters of cells' kernels.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import inf
from typing import Any, Self

from measure.cache.records import (
    HardwareCounterProfile,
    KernelCounters,
    KernelTime,
    OperatorTime,
    Profile,
    RoofMeasurement,
)
from measure.cache.workload_records import WORKLOAD
from measure.counting import count
from measure.domain import precisions, variants
from measure.domain.models import Model
from measure.domain.roofs import is_loaded
from measure.domain.values import latency, si
from measure.domain.words import (
    BURST,
    FULL_PRECISION,
    INFERENCE,
    STAGES,
    STEP,
    STREAM_ARRAYS,
    SUSTAINED,
    operation,
    shape_name,
    stored_as,
)
from measure.machine.device import Device
from measure.models import catalog
from measure.profiling import ncu, profile
from measure.profiling.ncu import CountedCell
from measure.profiling.profile import Profiled
from measure.roofs import roofs
from measure.roofs.roofs import KernelTiming
from measure.run.cell_tasks import LookTask, RoundTask
from measure.run.task import AFTER, BEFORE, KILLED, Cache, Columns, Failure, Request, Task, Tier, became
from measure.timing import forward, training
from measure.timing.sampling import Sampling, Timing
from measure.timing.training import StepTiming


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


QUICK_ROOF_KERNELS = ("matmul", "fma", "stream_triad", "chain")
"""The roof kernels of a quick run, at their sustained pace: those that a roof can be read from."""


def _key(kernel: Any) -> tuple[str, str, int, str | None, int | None]:
    """Return what tells a kernel of a task or of a row from the machine's others."""
    return kernel.roof_kernel, kernel.precision, kernel.size, kernel.pace, kernel.round


@dataclass(frozen=True)
class RoofTask(Task):
    """Measure a roof, or the clock, with one roof kernel at one size and pace."""

    roof_kernel: str
    precision: str
    size: int
    pace: str
    round: int | None = None

    section, order = "roofs", 2
    help = "measure the roofs, and a processor's clock"
    effort = 4.0

    @classmethod
    def missing(cls, request: Request, cache: Cache) -> list[Self]:
        """Return the kernels to time. One that was timed beside other programs' work is timed again."""
        rows = () if request.force else cache.tried(cache.folder.roof_measurements())
        known = {_key(row) for row in rows if not is_loaded(row)}
        asked = precisions.product_precisions(cache.environment, request.precisions)
        listed = roofs.roof_kernels(cache.environment.device, asked)
        tasks = [cls(*each) for each in listed if each not in known]
        return [task for task in tasks if task.is_quick_kernel] if request.quick else tasks

    @property
    def is_quick_kernel(self) -> bool:
        """Whether a quick run has it too."""
        return self.roof_kernel in QUICK_ROOF_KERNELS and self.pace == SUSTAINED

    @property
    def block(self) -> int:
        """Later rounds come with the cells' later ones."""
        return self.round or BEFORE

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

    def store(self, cache: Cache, outcome: KernelTiming | Failure) -> None:
        timing = KernelTiming() if isinstance(outcome, Failure) else outcome
        flop, byte = roofs.flop_and_byte(self.roof_kernel, self.precision, self.size)
        columns = {**self.columns, **became(outcome), **timing._asdict(), "flop": flop, "byte": byte}
        row = RoofMeasurement(cache.environment.environment_id, **columns, **cache.signature())
        known = {_key(each): each for each in cache.rows(cache.folder.roof_measurements()) if each.status == "ok"}
        before = known.get(_key(row))
        if before is None or not is_loaded(row) or (before.load or 0.0) > (row.load or 0.0):
            cache.folder.put_roof_measurements([row])

    def summary(self, result: KernelTiming) -> str:
        assert result.latency_s is not None
        flop, byte = roofs.flop_and_byte(self.roof_kernel, self.precision, self.size)
        if self.roof_kernel == "chain":
            return f"{self.size / result.latency_s / 1e9:.3f} additions/ns"
        if self.roof_kernel in STREAM_ARRAYS:
            return f"{byte / result.latency_s / 1e9:.1f} GB/s"
        return f"{flop / result.latency_s / 1e9:.1f} G{operation(self.precision)}/s"


@dataclass(frozen=True)
class InferenceTask(RoundTask):
    """Measure a model's forward pass."""

    section, order = "inference", 3
    help = "time the models' forward passes"
    phases = (INFERENCE,)
    forward_passes = 1

    def run(self, device: Device, sampling: Sampling, beat: Callable[[], None]) -> Timing:
        return forward.measure(device, self.model, self.cell, sampling, beat)

    def timing(self, result: Timing, phase: str) -> Timing:
        return result

    def first_tier(self, request: Request) -> Tier:
        if self.cell.batch == min(request.batch_sizes):
            return Tier.FIRST_CELLS
        return Tier.SECOND_CELLS if self.cell.batch == request.second_batch else Tier.OTHER_CELLS


@dataclass(frozen=True)
class TrainingTask(RoundTask):
    """Measure a model's training step and its stages; the variant names the optimiser, if it is not SGD."""

    section, order = "training", 4
    help = "time training steps: forward, backward, optimiser"
    trains = True
    phases = (*STAGES, STEP)
    forward_passes = 3

    def run(self, device: Device, sampling: Sampling, beat: Callable[[], None]) -> StepTiming:
        return training.measure(device, self.model, self.cell, sampling, beat)

    def timing(self, result: StepTiming, phase: str) -> Timing:
        return result.phases[phase]

    def first_tier(self, request: Request) -> Tier:
        is_first = self.model in request.leading and self.cell.batch == min(request.training_batch_sizes)
        return Tier.STEPS if is_first else Tier.OTHER_CELLS

    def peak_byte(self, result: StepTiming) -> int | None:
        return result.peak_byte


SHORT_BUDGET_S = 600.0
"""Shorter budgets begin with profiles at the smallest batch size."""


@dataclass(frozen=True)
class ProfileTask(LookTask):
    """Time its operators under torch's profiler."""

    section, order = "operators", 5
    help = "time each operator of both under torch's profiler"

    block = 0  # in the same sitting as a plain round of its cell

    @classmethod
    def missing(cls, request: Request, cache: Cache) -> list[Self]:
        tasks = super().missing(request, cache)
        return [task for task in tasks if task.tier(request) == Tier.PROFILES] if request.quick else tasks

    def tier(self, request: Request) -> Tier:
        """Begin with one profile of inference a model, and one of a training step of the leading models.

        Inference is profiled at the smallest batch size in a quick run or a short budget, else at one that fills most
        devices: a profile of a large batch takes long.
        """
        if not request.is_base(self.cell):
            return Tier.REST
        is_leading = self.model in request.leading
        if self.cell.phase != INFERENCE:
            is_first = self.cell.batch == min(request.training_batch_sizes)
            return Tier.PROFILES if is_leading and is_first else Tier.REST
        is_short = request.quick or (request.budget_s or inf) < SHORT_BUDGET_S
        batch = min(request.batch_sizes) if is_short else request.second_batch or min(request.batch_sizes)
        if self.cell.batch != batch:
            return Tier.REST
        return Tier.PROFILES if is_leading else Tier.OTHER_CELLS

    @classmethod
    def looked_into(cls, cache: Cache) -> Sequence[Profile]:
        return cache.folder.profiles()

    def run(self, device: Device, sampling: Sampling, beat: Callable[[], None]) -> Profiled:
        return profile.measure(device, self.model, self.cell, sampling, beat)

    def store(self, cache: Cache, outcome: Profiled | Failure) -> None:
        row, key = cache.row(self.model, self.cell, outcome), cache.key(self.cell)
        if isinstance(outcome, Failure):
            cache.folder.put_profile(Profile(**row), [])
            return
        use = outcome.system_use._asdict() if outcome.system_use else {}
        cache.folder.put_profile(
            Profile(
                **row,
                **use,
                steps=outcome.steps,
                plain_s=outcome.plain_s,
                profiled_s=outcome.profiled_s,
                busy_s=outcome.busy_s,
                load=outcome.load,
            ),
            [OperatorTime(**key, **each._asdict()) for each in outcome.operators],
            [KernelTime(**key, **each._asdict()) for each in outcome.kernels],
        )

    def summary(self, result: Profiled) -> str:
        share = sum(each.time_s for each in result.operators) / result.profiled_s
        times = f"{latency(result.plain_s)}, profiled {latency(result.profiled_s)}"
        return f"{times}, {share:.0%} of it in operators"


@dataclass(frozen=True)
class HardwareCounterTask(LookTask):
    """Read the hardware counters of its kernels."""

    section, order = "hardware-counters", 6
    help = "read an NVIDIA GPU's hardware counters for both, with Nsight Compute's ncu"
    is_usual = False
    cluster_gap = "counters are read on one machine at a time"

    block = AFTER

    @classmethod
    def looked_into(cls, cache: Cache) -> Sequence[HardwareCounterProfile]:
        return cache.folder.hardware_counter_profiles()

    @classmethod
    def check(cls, device: Device) -> None:
        ncu.check(device)

    def run(self, device: Device, _sampling: Sampling, beat: Callable[[], None]) -> CountedCell:
        return ncu.measure(device, self.model, self.cell, beat)

    def store(self, cache: Cache, outcome: CountedCell | Failure) -> None:
        row, key = cache.row(self.model, self.cell, outcome), cache.key(self.cell)
        if isinstance(outcome, Failure):
            cache.folder.put_hardware_counters(HardwareCounterProfile(**row), [])
            return
        counted = outcome.counted
        row |= {"tool": outcome.tool, "steps": outcome.steps}
        row |= {"capability": counted.capability, "tensor_gap": counted.tensor_gap}
        kernels = [KernelCounters(**key, **each._asdict()) for each in counted.kernels]
        cache.folder.put_hardware_counters(HardwareCounterProfile(**row), kernels)

    def summary(self, result: CountedCell) -> str:
        kernels = result.counted.kernels
        calls, time_s = sum(each.calls for each in kernels), sum(each.time_s for each in kernels)
        return f"{calls} kernels, {latency(time_s)}"


SECTIONS: dict[str, type[Task]] = dict(sorted(Task.sections.items(), key=lambda pair: pair[1].order))
"""All sections by name, in the order of a plan."""
