"""The section that measures a machine's roofs, and a processor's clock."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Self

from measure.cache.rates import is_loaded
from measure.cache.records import RoofMeasurement
from measure.cache.words import BURST, STREAM_ARRAYS, SUSTAINED, operation
from measure.machine import precisions
from measure.machine.device import Device
from measure.roofs import roofs
from measure.roofs.roofs import KernelTiming
from measure.run.task import BEFORE, Cache, Columns, Failure, Request, Task, Tier, became
from measure.timing.sampling import Sampling

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
