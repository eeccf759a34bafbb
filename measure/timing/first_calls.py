"""Time the first calls of a process one by one, without warm-up, as a hasty benchmark does."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

from measure.domain.cell import Cell
from measure.domain.models import Model
from measure.domain.words import STEP
from measure.machine import settings
from measure.machine.device import Device
from measure.timing.calls import TrainingStep, prepare, without_gradients
from measure.timing.sampling import Timing
from measure.timing.stopwatch import StagedStopwatch, Stopwatch

CALLS = 20
MEASURED = 10
"""The calls that a benchmark of this size would average."""
WARM_UPS = (0, 1, 2, 5, CALLS - MEASURED)
"""The calls that such a benchmark would leave out first."""


@dataclass(frozen=True)
class Average:
    """The mean and standard deviation (s) of ``MEASURED`` calls after some warm-up calls, as a benchmark reports."""

    warm_up: int
    mean_s: float
    deviation_s: float


def averages(latencies_s: Sequence[float]) -> list[Average]:
    """Return what a benchmark would report of these calls, for each number of warm-up calls."""
    found = []
    for number in WARM_UPS:
        measured = latencies_s[number : number + MEASURED]
        found.append(Average(number, fmean(measured), stdev(measured)))
    return found


def excess(latencies_s: Sequence[float]) -> float:
    """Return the first call over the median of the last ``MEASURED``."""
    return latencies_s[0] / median(latencies_s[-MEASURED:])


def measure(device: Device, model: Model, cell: Cell, beat: Callable[[], None]) -> Timing:
    """Time ``CALLS`` calls, each to its end on the device; a training step by its stages. Nothing ran before them.

    Call ``device.prepare`` first. Raises the exceptions of torch and ``prepare``.
    """

    def timing() -> Timing:
        call = prepare(device, model, cell)
        beat()
        device.synchronize()  # what building the network left to do
        common = call, device.synchronize
        staged = isinstance(call, TrainingStep)
        stopwatch = StagedStopwatch(*common, beat=beat, stages=call.stages) if staged else Stopwatch(*common, beat=beat)
        samples = [stopwatch.time(1) for _ in range(CALLS)]
        settings.check(call.held, model.name)
        names = call.stages if staged else ()
        stages = {name: Timing(1, tuple(each.stages[name] for each in samples)) for name in names}
        return Timing(1, tuple(samples), stages=stages)

    return timing() if cell.phase == STEP else without_gradients(timing)
