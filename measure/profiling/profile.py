"""A cell under torch's profiler: what operators, and on a GPU kernels, of a forward pass or a step take by module."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from statistics import fmean, median
from typing import TYPE_CHECKING

from measure.cache import variants
from measure.cache.models import Model
from measure.cache.records import Cell
from measure.cache.words import BACKWARD, FORWARD, INFERENCE, STEP, UPDATE
from measure.machine.device import Device
from measure.machine.sensors import load_since
from measure.profiling.attribution import AttributedKernel, AttributedTime, attribute, busy_s, launched
from measure.profiling.ranges import STAGE, ModuleRanges
from measure.profiling.system_use import Observed, SystemUse
from measure.profiling.whole_steps import recorded_whole
from measure.timing import first_call, forward, training
from measure.timing.sampling import Sampling, sample
from measure.timing.stopwatch import Stopwatch

if TYPE_CHECKING:
    import torch
    from torch import nn

PLAIN = Sampling(target=0.05, least_s=0.5, limit_s=2.0)
"""How a cell is timed without the profiler, to warm it up and to say what the profiler costs.

It warms up for as long as a round does: the first seconds of a process are slower where its memory is new to it.
"""

PROFILED_S = 1.0
FEWEST_STEPS, MOST_STEPS = 3, 20
"""The steps under the profiler last about ``PROFILED_S``, but there are at least and at most so many."""

UNSEEN = (
    "torch's profiler saw no kernel of this GPU: NVIDIA's CUPTI is missing or sees none (on AMD's GPUs roctracer), as "
    "may be so in WSL 2 or a container; measure with --force once it does"
)
"""Why a GPU has no profile where its operators ran and no kernel was recorded."""


@dataclass(frozen=True)
class Profiled:
    """The times of operators and kernels in ``steps`` calls under the profiler, means of one; what a call takes (s).

    ``plain_s`` is the median without the profiler, ``profiled_s`` the mean under it: with the host's clock, the device
    synchronised. What a profiled call takes besides its operators is the framework, the ranges that name the modules,
    and the profiler itself. In ``busy_s`` of it the device worked. There are kernels on a GPU only. ``system_use`` is
    what a plain call asks of the host's operating system, if that says so. ``load`` is the share of the cores that
    other programs used while the plain calls ran.
    """

    steps: int
    plain_s: float
    profiled_s: float
    operators: tuple[AttributedTime, ...]
    busy_s: float | None = None
    kernels: tuple[AttributedKernel, ...] = ()
    system_use: SystemUse | None = None
    load: float | None = None


def plain_sampling(sampling: Sampling) -> Sampling:
    """Return how a cell is timed without the profiler in a run whose rounds are sampled so."""
    return replace(PLAIN, warm_up_s=min(PLAIN.warm_up_s, sampling.warm_up_s))


def measure(device: Device, model: Model, cell: Cell, sampling: Sampling, beat: Callable[[], None]) -> Profiled:
    """Profile inference or a training step, after ``device.prepare``; ``sampling`` is that of the run's rounds.

    Raises NotImplementedError, with a reason, for a variant whose operators say nothing of its modules and for a device
    whose kernels torch's profiler does not see or loses; what ``forward.prepare`` does; and whatever torch raises where
    it does not fit or is not supported.
    """
    import torch

    _refuse(device, cell.variant)
    with torch.inference_mode(cell.phase == INFERENCE):
        if cell.phase == STEP:
            step = training.prepare(device, model, cell)
            network = step.network
            stages = {FORWARD: step.forward, BACKWARD: step.backward, UPDATE: step.update}
        else:
            call = forward.prepare(device, model, cell)
            network, stages = call.network, {INFERENCE: call}
        beat()

        def once() -> None:
            for stage in stages.values():
                stage()

        first_call.make(once, cell.variant, device, beat)
        return profile(network, stages, device, plain_sampling(sampling), beat)


def _refuse(device: Device, variant: str) -> None:
    for each in variants.joined_in(variant):
        if each.unprofiled:
            raise NotImplementedError(each.unprofiled)
    if device.is_asynchronous and device.kind != "cuda":
        raise NotImplementedError(f"torch's profiler does not see the kernels of {device.kind}")


def profile(
    network: "nn.Module",
    stages: Mapping[str, Callable[[], object]],
    device: Device,
    plain: Sampling,
    beat: Callable[[], None],
) -> Profiled:
    """Time plain steps, which warm up, then some under the profiler; a step runs its stages one after another."""
    import torch

    def step(around: Callable[[str], AbstractContextManager[object]] = nullcontext) -> None:
        for place, (stage, run) in enumerate(stages.items()):
            if place:
                beat()
            with around(STAGE + stage):
                run()

    step_in_ranges = partial(step, torch.profiler.record_function)
    observed, sensors = Observed(step), device.sensors()
    opening = sensors.read()
    plain_s = median(sample(Stopwatch(observed, device.synchronize, beat=beat), plain).latencies_s)
    load = load_since(opening, sensors)
    steps = min(max(ceil(PROFILED_S / plain_s), FEWEST_STEPS), MOST_STEPS)
    stopwatch = Stopwatch(step_in_ranges, device.synchronize, beat=beat)
    with _profiler(device):  # what a process sets up once for its first profile is no part of the step
        torch.zeros(1, device=device.torch_name).add_(1.0)
        device.synchronize()
    with ModuleRanges(network) as ranges, _profiler(device) as profiler:
        latencies_s = [stopwatch.time(1).latency_s for _ in range(steps)]
    beat()
    events, steps = recorded_whole(profiler.events(), next(iter(stages)))
    on_gpu = device.kind == "cuda"
    kernels = tuple(launched(events, ranges, steps)) if on_gpu else ()
    if on_gpu and not kernels:
        raise NotImplementedError(UNSEEN)
    return Profiled(
        steps,
        plain_s,
        fmean(latencies_s[-steps:]),
        tuple(attribute(events, ranges, steps, by_kernels=on_gpu)),
        busy_s(events, ranges, steps, by_kernels=on_gpu),
        kernels,
        observed.use(),
        load,
    )


def _profiler(device: Device) -> "torch.profiler.profile":
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    kernels = [ProfilerActivity.CUDA] if device.kind == "cuda" else []
    return record(activities=[ProfilerActivity.CPU, *kernels])
