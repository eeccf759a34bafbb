"""A cell under torch's profiler: what operators, and on a GPU kernels, of a forward pass or a step take by module.

Which of the steps under torch's profiler are recorded whole: on a GPU the first ones may lack kernels.

In CUDA 12.6 Update 2 to 13.0, CUPTI, which tells the profiler of kernels, gives some of them invalid times (NVIDIA's
release notes of CUPTI, "Updates in CUDA 13.1"), and the profiler leaves out what lies outside of its session: kernels
at the beginning of a session are lost (https://github.com/pytorch/pytorch/issues/192021). Steps do the same work, so
one with fewer kernels than the last is not whole.

What a call asks of the operating system's kernel: the time it takes there, and the page faults that it causes.

Memory that an allocator gives back to the system comes again page by page, each with a fault that the kernel serves by
clearing the page: on a processor, operators with large outputs may spend more time on that than on arithmetic.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from math import ceil
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

from measure.domain import variants
from measure.domain.latency import Cell
from measure.domain.models import Model
from measure.domain.words import BACKWARD, FORWARD, INFERENCE, STEP, UPDATE
from measure.machine.device import Device
from measure.machine.sensors import load_since
from measure.profiling.attribution import (
    STAGE,
    AttributedKernel,
    AttributedTime,
    ModuleRanges,
    attribute,
    busy_s,
    is_kernel,
    launched,
)
from measure.timing import forward, training
from measure.timing.sampling import Sampling, sample
from measure.timing.stopwatch import Stopwatch, run_first_call

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.autograd.profiler_util import FunctionEvent

FEWEST = 2
"""So many steps must agree: a single one may have lost kernels too."""


def recorded_whole(events: "Iterable[FunctionEvent]", first_stage: str) -> "tuple[list[FunctionEvent], int]":
    """Return the events of the steps that are whole, and how many steps these are: the last, and those before it.

    A step begins with the range of its first stage. Kernels are counted with the operators that launched them, on the
    host's clock, since their own times may be off; they run in the order of the steps. Steps without kernels, as a
    processor's are, are whole.

    Raises NotImplementedError where fewer than two steps agree, or one before them has more kernels.
    """
    on_host: list[FunctionEvent] = []
    kernels: list[FunctionEvent] = []
    for event in events:
        if event.device_type.name == "CPU":
            on_host.append(event)
        elif is_kernel(event):
            kernels.append(event)
    starts = sorted(event.time_range.start for event in on_host if event.name == STAGE + first_stage)
    launched = [0] * len(starts)
    for event in on_host:
        step = bisect_right(starts, event.time_range.start) - 1
        if step >= 0:
            launched[step] += len(event.kernels)
    whole = len(list(takewhile(lambda count: count == launched[-1], reversed(launched))))
    if whole < FEWEST or max(launched) > launched[-1]:
        raise NotImplementedError(
            f"torch's profiler saw {', '.join(map(str, launched))} kernels in steps of the same work: it loses some, "
            "or the model chooses them by its data"
        )
    before = len(starts) - whole
    kernels.sort(key=lambda kernel: kernel.time_range.start)
    later = [event for event in on_host if event.time_range.start >= starts[before]]
    return [*later, *kernels[sum(launched[:before]) :]], whole


class SystemUse(NamedTuple):
    """Of one call: the processors' time in the system's kernel (s), of all threads together, and the page faults.

    Faults are the minor ones, which no disk is read for.
    """

    system_s: float
    page_faults: float


class Observed:
    """A call that keeps what each time it is called asks of the kernel, on behalf of the whole process."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._uses: list[SystemUse] = []

    def __call__(self) -> None:
        opening = _so_far()
        self._call()
        closing = _so_far()
        if opening is not None and closing is not None:
            self._uses.append(SystemUse(*(end - begin for begin, end in zip(opening, closing, strict=True))))

    def use(self) -> SystemUse | None:
        """Return the mean of all calls but the first, which sets up; None if there is none, or the system is silent."""
        later = self._uses[1:]
        return SystemUse(*map(fmean, zip(*later, strict=True))) if later else None


def _so_far() -> SystemUse | None:
    try:
        import resource
    except ImportError:  # on Windows
        return None
    used = resource.getrusage(resource.RUSAGE_SELF)
    return SystemUse(used.ru_stime, used.ru_minflt)


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

        run_first_call(once, cell.variant, device, beat)
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
