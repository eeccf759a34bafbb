"""The memory that a step allocates and frees, as torch's profiler records it.

The profiler sees the CPU's allocator and the CUDA caching allocator, not what a library allocates past them.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from measure.machine.device import Device


@dataclass(eq=False)
class Allocation:
    """Memory alive from ``start_ns`` to ``end_ns``, None if it outlives the trace.

    ``operators`` are the profiler's events of the operators that were running, outermost first.
    """

    byte: int
    start_ns: int
    end_ns: int | None = None
    operators: tuple[Any, ...] = ()


def peak(allocations: Sequence[Allocation]) -> tuple[int, list[Allocation]]:
    """Return the most bytes alive at once, and the allocations alive then."""
    changes = [(each.start_ns, each.byte, each) for each in allocations]
    changes += [(each.end_ns, -each.byte, each) for each in allocations if each.end_ns is not None]
    byte, peak_byte, alive, alive_at_peak = 0, 0, dict[Allocation, None](), list[Allocation]()
    for _, change, allocation in sorted(changes, key=itemgetter(0, 1)):  # at the same time, releases come first
        byte += change
        if change < 0:
            del alive[allocation]
            continue
        alive[allocation] = None
        if byte > peak_byte:
            peak_byte, alive_at_peak = byte, list(alive)
    return peak_byte, alive_at_peak


def measure_peak_byte(step: Callable[[], object], resident: Iterable[Any], device: Device) -> int:
    """Return the most memory allocated during a step that has run before, workspace included.

    ``resident`` are the tensors that outlive a step. An Apple GPU gives an upper bound: the memory from Metal's driver.
    """
    import torch

    if device.kind == "cuda":
        torch.cuda.reset_peak_memory_stats(device.torch_name)
        step()
        return int(torch.cuda.max_memory_allocated(device.torch_name))
    if device.kind == "mps":  # has no peak counter, but torch keeps the memory that a step frees
        torch.mps.empty_cache()  # drops what earlier steps left
        step()
        device.synchronize()
        return int(torch.mps.driver_allocated_memory())
    return peak(trace(step, device.kind))[0] + sum(tensor.numel() * tensor.element_size() for tensor in resident)


def trace(step: Callable[[], object], device_kind: str) -> list[Allocation]:
    """Run the step and return its allocations on a ``cpu`` or ``cuda`` device."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else it reports each start and stop
    from torch._C._profiler import _EventType
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    changes: list[tuple[Any, tuple[Any, ...]]] = []

    def collect(events: Iterable[Any], operators: tuple[Any, ...]) -> None:
        for event in events:
            if event.tag == _EventType.Allocation and event.extra_fields.device.type == device_kind:
                changes.append((event, operators))
            collect(event.children, (*operators, event) if event.tag == _EventType.TorchOp else operators)

    collect(profiler.profiler.kineto_results.experimental_event_tree(), ())
    allocations: list[Allocation] = []
    alive: dict[int, Allocation] = {}
    for event, operators in sorted(changes, key=lambda pair: pair[0].start_time_ns):
        address, byte = event.extra_fields.ptr, event.extra_fields.alloc_size
        if byte > 0:
            alive[address] = Allocation(byte, event.start_time_ns, None, operators)
            allocations.append(alive[address])
        elif address in alive:  # else it was allocated before the trace
            alive.pop(address).end_ns = event.start_time_ns
    return allocations
