"""Profile a cell with torch's profiler: the time of operators, and on a GPU of kernels, by module and stage.

On a GPU the first steps may lack kernels: from CUDA 12.6 Update 2 to 13.0 CUPTI gives some of them invalid times
(NVIDIA's release notes of CUPTI, "Updates in CUDA 13.1"), and the profiler drops events outside its session
(https://github.com/pytorch/pytorch/issues/192021).
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from math import ceil
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

from measure.cache.scratch import scratch
from measure.domain import variants
from measure.domain.cell import Cell
from measure.domain.models import Model
from measure.domain.words import INFERENCE
from measure.machine import settings
from measure.machine.device import Device
from measure.machine.sensors import load_since
from measure.profiling.attribution import AttributedKernel, AttributedTime, ModuleRanges, attribute
from measure.timing.calls import prepare
from measure.timing.sampling import Sampling, sample
from measure.timing.stopwatch import Stopwatch, run_first_call
from measure.traces import reading
from measure.traces.matching import STAGE, Match, match, nest
from measure.traces.reading import Range, Trace
from measure.traces.store import TraceLabels, TraceRows, device_rows

if TYPE_CHECKING:
    from torch.profiler import profile

PLAIN = Sampling(target=0.05, least_s=0.5, limit_s=2.0)
PROFILED_S, FEWEST_STEPS, MOST_STEPS = 1.0, 3, 20  # how long the profiled steps last together, within these limits
STORED_STEPS = 3  # the last steps, stored as a trace


class SystemUse(NamedTuple):
    """A call's use of the operating system, which takes time to hand out memory page by page."""

    system_s: float  # in the system's kernel, over all threads
    page_faults: float  # minor ones


class SystemMeter:
    """Wraps a call and records this process's use of the system during it."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._uses: list[SystemUse] = []

    def __call__(self) -> None:
        try:
            import resource
        except ImportError:  # on Windows
            self._call()
            return
        opening = resource.getrusage(resource.RUSAGE_SELF)
        self._call()
        closing = resource.getrusage(resource.RUSAGE_SELF)
        self._uses.append(SystemUse(closing.ru_stime - opening.ru_stime, closing.ru_minflt - opening.ru_minflt))

    def use(self) -> SystemUse | None:
        """Return the mean over all calls but the first, which sets up; None without one and on Windows."""
        later = self._uses[1:]
        return SystemUse(*map(fmean, zip(*later, strict=True))) if later else None


@dataclass(frozen=True)
class CellProfile:
    """The operators and kernels of a call, as means of ``steps`` profiled calls. Times include synchronisation."""

    steps: int
    plain_s: float  # the median without the profiler
    profiled_s: float  # the mean with it
    operators: tuple[AttributedTime, ...]
    busy_s: float | None = None  # the device's working time within ``profiled_s``
    kernels: tuple[AttributedKernel, ...] = ()  # only on a GPU
    system_use: SystemUse | None = None  # of a plain call
    load: float | None = None  # the share of the cores that other programs used during plain calls
    trace: TraceRows | None = None  # the last steps as the tables of a trace, only on a GPU


def plain_sampling(sampling: Sampling) -> Sampling:
    """Return the sampling of plain calls in a run that samples its rounds with ``sampling``."""
    return replace(PLAIN, warm_up_s=min(PLAIN.warm_up_s, sampling.warm_up_s))


def measure(device: Device, model: Model, cell: Cell, sampling: Sampling, beat: Callable[[], None]) -> CellProfile:
    """Profile inference or a training step; ``sampling`` is the rounds'. Call ``device.prepare`` first.

    Raises NotImplementedError for a variant that hides the modules of its operators, and if torch's profiler does not
    see or loses the device's kernels. Also raises as ``calls.prepare`` and torch do.
    """
    import torch
    from torch._C._profiler import _RecordFunctionFast
    from torch.profiler import ProfilerActivity, profile

    for part in variants.parts_of(cell.variant):
        if part.unprofiled:
            raise NotImplementedError(part.unprofiled)
    is_gpu = device.kind == "cuda"
    if device.is_asynchronous and not is_gpu:
        raise NotImplementedError(f"torch's profiler does not see the kernels of {device.kind}")

    def step(around: Callable[[str], AbstractContextManager[object]] = nullcontext) -> None:
        for place, (stage, run) in enumerate(call.stages.items()):
            if place:
                beat()
            with around(STAGE + stage):
                run()

    with torch.inference_mode(cell.phase == INFERENCE):
        call = prepare(device, model, cell)
        beat()
        run_first_call(call, cell.variant, device, beat)
        meter, sensors = SystemMeter(step), device.sensors()
        opening = sensors.read()
        plain = Stopwatch(meter, device.synchronize, beat=beat)  # warms the cell up too
        plain_s = median(sample(plain, plain_sampling(sampling)).latencies_s)
        load = load_since(opening, sensors)
        steps = min(max(ceil(PROFILED_S / plain_s), FEWEST_STEPS), MOST_STEPS)
        stopwatch = Stopwatch(partial(step, _RecordFunctionFast), device.synchronize, beat=beat)
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if is_gpu else [])]
        with profile(activities=activities):  # a process's first profile is slow
            torch.zeros(1, device=device.torch_name).add_(1.0)
            device.synchronize()
        latencies_s = []
        # Shapes slow the host down, and only the trace of a GPU needs them.
        with ModuleRanges(call.network) as ranges, profile(activities=activities, record_shapes=is_gpu) as profiler:
            for number in range(steps):
                with _RecordFunctionFast(f"ProfilerStep#{number}"):
                    latencies_s.append(stopwatch.time(1).latency_s)
        settings.check(call.held, model.name)
    beat()
    trace = read_recording(profiler)
    whole, operators, kernels, busy_s = attribute_whole_steps(trace, ranges, by_kernels=is_gpu)
    if is_gpu and not kernels:
        raise NotImplementedError(
            "torch's profiler saw no kernel of this GPU: NVIDIA's CUPTI (AMD: roctracer) is missing or sees none, as "
            "in WSL 2 or a container; measure with --force once it does"
        )
    beat()
    rows = rows_of(trace, {each.number for each in whole[-STORED_STEPS:]}) if is_gpu else None
    profiled_s = fmean(latencies_s[-len(whole) :])
    return CellProfile(len(whole), plain_s, profiled_s, operators, busy_s, kernels, meter.use(), load, rows)


def rows_of(trace: Trace, steps: Collection[int]) -> TraceRows:
    """Return these steps of a trace as rows of its tables. The machine still has to fill in chip and network."""
    from measure.traces.summary import summarise  # imports torch, which a plan does without

    found = summarise(trace)
    return TraceRows(
        device_rows(found, {}, TraceLabels()),
        [row for row in found.steps if row.step in steps],
        [row for row in found.operators if row.step in steps],
    )


def read_recording(profiler: "profile") -> Trace:
    """Return a profiler's recording, by way of a file: traces have one reader."""
    with scratch() as folder:
        path = folder / "trace.json"
        profiler.export_chrome_trace(str(path))
        (trace,) = reading.read(path)
        return trace


def attribute_whole_steps(
    trace: Trace, ranges: ModuleRanges, by_kernels: bool
) -> tuple[list[Range], tuple[AttributedTime, ...], tuple[AttributedKernel, ...], float]:
    """Return the whole steps, and ``attribute`` of them. Raises as ``find_whole_steps`` does."""
    matches = match(trace, nest(trace.operators))
    whole = find_whole_steps(sorted(trace.steps), matches)
    numbers = {each.number for each in whole}
    later = [each for each in trace.operators if each.start >= whole[0].start]
    of_steps = [each for each in matches if each.step in numbers]
    return whole, *attribute(later, of_steps, ranges, len(whole), by_kernels)


def find_whole_steps(steps: Sequence[Range], matches: Collection[Match]) -> list[Range]:
    """Return the last step and the steps before it with as many kernels.

    A kernel counts for the step that launched it, since its own time may be wrong. Steps do the same work, so one with
    fewer kernels is incomplete. Raises NotImplementedError if fewer than two steps agree, or an earlier one has more
    kernels.
    """
    by_step = Counter(each.step for each in matches)
    launched = [by_step[each.number] for each in steps]
    whole = len(list(takewhile(lambda count: count == launched[-1], reversed(launched))))
    if whole < 2 or max(launched) > launched[-1]:  # a single step may have lost kernels too
        raise NotImplementedError(
            f"torch's profiler saw {', '.join(map(str, launched))} kernels in steps of the same work: it loses some, "
            "or the model chooses them by its data"
        )
    return list(steps[-whole:])
