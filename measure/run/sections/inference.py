"""The section that times models' forward passes."""

from collections.abc import Callable
from dataclasses import dataclass

from measure.cache.words import INFERENCE
from measure.machine.devices import Device
from measure.run.cell_tasks import RoundTask
from measure.timing import inference
from measure.timing.sampling import Sampling, Timing


@dataclass(frozen=True)
class InferenceTask(RoundTask):
    """Measure a model's forward pass."""

    section, order = "inference", 3
    help = "time the models' forward passes"
    phases = (INFERENCE,)
    forward_passes = 1

    def run(self, device: Device, sampling: Sampling, beat: Callable[[], None]) -> Timing:
        return inference.measure(device, self.model, self.cell, sampling, beat)

    def timing(self, result: Timing, phase: str) -> Timing:
        return result
