"""The section that reads the hardware counters of cells' kernels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from measure.cache.records import HardwareCounterProfile, KernelCounters
from measure.cli.quantities import latency
from measure.hardware_counters import counted_cell
from measure.hardware_counters.counted_cell import CountedCell
from measure.machine.device import Device
from measure.run.cell_tasks import LookTask
from measure.run.task import AFTER, Cache, Failure
from measure.timing.sampling import Sampling


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
        counted_cell.check(device)

    def run(self, device: Device, _sampling: Sampling, beat: Callable[[], None]) -> CountedCell:
        return counted_cell.measure(device, self.model, self.cell, beat)

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
