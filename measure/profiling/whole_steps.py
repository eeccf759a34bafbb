"""Which of the steps under torch's profiler are recorded whole: on a GPU the first ones may lack kernels.

In CUDA 12.6 Update 2 to 13.0, CUPTI, which tells the profiler of kernels, gives some of them invalid times (NVIDIA's
release notes of CUPTI, "Updates in CUDA 13.1"), and the profiler leaves out what lies outside of its session: kernels
at the beginning of a session are lost (https://github.com/pytorch/pytorch/issues/192021). Steps do the same work, so
one with fewer kernels than the last is not whole.
"""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import takewhile
from typing import TYPE_CHECKING

from measure.profiling.attribution import is_kernel
from measure.profiling.ranges import STAGE

if TYPE_CHECKING:
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
