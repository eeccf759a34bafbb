"""From the profiler's events to the kernels that each operator launches, and to the time in which the device works.

A kernel belongs to the operator, of those that no other one calls, in whose call it was launched, and so to that
operator's module and stage (``measure/profiling/attribution.py``). Copies and fills of memory, which the device does
without a program of its own, are kernels here.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from measure.profiling.attribution import attribution_of, mean_of_step
from measure.profiling.ranges import ModuleRanges

if TYPE_CHECKING:
    from torch.autograd.profiler_util import FunctionEvent, Kernel


class AttributedKernel(NamedTuple):
    """A kernel of an operator in one module and stage of a step: its calls in one step, and their time together (s)."""

    stage: str
    path: str | None
    operator: str
    kernel: str
    calls: int
    time_s: float


def launched(events: "Iterable[FunctionEvent]", ranges: ModuleRanges, steps: int) -> list[AttributedKernel]:
    """Return the kernels of some steps, as means of one step, as they were first launched."""
    times_us: dict[tuple[str, str | None, str, str], list[float]] = defaultdict(list)
    for event in events:
        if place := attribution_of(event, ranges):
            for kernel in _kernels_of(event):
                times_us[*place, kernel.name].append(kernel.duration)
    return [AttributedKernel(*key, *mean_of_step(times, steps)) for key, times in times_us.items()]


def _kernels_of(event: "FunctionEvent") -> "Iterator[Kernel]":
    """Yield the kernels that an operator launched, itself or by what it calls."""
    yield from event.kernels
    for child in event.cpu_children:
        yield from _kernels_of(child)


def busy_s(events: "Iterable[FunctionEvent]", ranges: ModuleRanges, steps: int, by_kernels: bool) -> float:
    """Return the time of one step in which the device works, one thing or several at once.

    With ``by_kernels`` that is when a kernel runs, otherwise when an operator does, within a stage of a step.
    """
    spans = [
        (event.time_range.start, event.time_range.end)
        for event in events
        if (_is_kernel(event) if by_kernels else attribution_of(event, ranges) is not None)
    ]
    return covered(spans) / steps / 1e6


def _is_kernel(event: "FunctionEvent") -> bool:
    """Return whether an event is on the device, and not one of our ranges as the device sees them."""
    return event.device_type.name != "CPU" and not event.is_user_annotation


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Return the length that the spans, from start to end, cover together; what several cover counts once."""
    length, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        length += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return length
