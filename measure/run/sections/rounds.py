"""The sections that time rounds of cells: models' forward passes, and training steps."""

from collections.abc import Callable
from dataclasses import dataclass

from measure.cache.words import INFERENCE, STAGES, STEP
from measure.machine.device import Device
from measure.run.cell_tasks import RoundTask
from measure.run.task import Request, Tier
from measure.timing import forward, training
from measure.timing.sampling import Sampling, Timing
from measure.timing.training import StepTiming


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
