"""The section that measures a machine's roofs, and a processor's clock."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Self

from measure.cache.records import RoofMeasurement
from measure.cache.words import EIGHT_BITS, STREAM_ARRAYS, SUSTAINED, operation
from measure.machine import precisions
from measure.machine.device import Device
from measure.roofs import roofs
from measure.roofs.roofs import KernelTiming
from measure.run.task import BEFORE, Cache, Columns, Failure, Request, Task, Tier, became
from measure.timing.sampling import Sampling

QUICK_ROOF_KERNELS = ("matmul", "fma", "stream_triad", "chain")
"""The roof kernels of a quick run, at their sustained pace: those that a roof can be read from."""


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
        rows = () if request.force else cache.tried(cache.folder.roof_measurements())
        known = {(row.roof_kernel, row.precision, row.size, row.pace, row.round) for row in rows}
        asked = precisions.of_products(cache.environment, request.precisions)
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
        if self.round:
            return Tier.ROUNDS
        is_of_cache = self.roof_kernel in STREAM_ARRAYS and self.round is None
        is_models_roof = not is_of_cache and self.precision not in EIGHT_BITS  # no model runs at eight bits
        return Tier.COARSE if self.is_quick_kernel and is_models_roof else Tier.REST

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
        row = {**self.columns, **became(outcome), **timing._asdict(), **cache.signature(), "flop": flop, "byte": byte}
        cache.folder.put_roof_measurements([RoofMeasurement(environment_id=cache.environment.environment_id, **row)])

    def summary(self, result: KernelTiming) -> str:
        assert result.latency_s is not None
        flop, byte = roofs.flop_and_byte(self.roof_kernel, self.precision, self.size)
        if self.roof_kernel == "chain":
            return f"{self.size / result.latency_s / 1e9:.3f} additions/ns"
        if self.roof_kernel in STREAM_ARRAYS:
            return f"{byte / result.latency_s / 1e9:.1f} GB/s"
        return f"{flop / result.latency_s / 1e9:.1f} G{operation(self.precision)}/s"
