"""What a step allocates and when it frees it, seen by torch's profiler at the allocator.

The profiler notes every allocation and release of the CPU's allocator and of the CUDA caching allocator, and the
operators within which they happen. Memory that an operator allocates and frees again before it returns is that
operator's workspace: columns of a convolution, copies in a library's own layout. An operator here is one that has
kernels; one that only calls others (``linear``, ``dropout``) hides nothing that these give back.

What threads of a library allocate past torch's allocator is not seen.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from measure.machine.device import Device

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Allocation:
    """Memory from ``start_ns`` until ``end_ns``, None if it outlived the trace; ``operator`` made it, if one did."""

    byte: int
    start_ns: int
    end_ns: int | None = None
    operator: str | None = None
    is_workspace: bool = False


def peak(allocations: Iterable[Allocation]) -> tuple[int, list[Allocation]]:
    """Return the most bytes alive at once, and the allocations that were alive then."""
    changes = []
    for allocation in allocations:
        changes.append((allocation.start_ns, allocation.byte, allocation))
        if allocation.end_ns is not None:
            changes.append((allocation.end_ns, -allocation.byte, allocation))
    byte = peak_byte = 0
    alive: dict[int, Allocation] = {}
    alive_at_peak: list[Allocation] = []
    for _, change, allocation in sorted(changes, key=lambda change: change[:2]):
        byte += change
        if change < 0:
            del alive[id(allocation)]
            continue
        alive[id(allocation)] = allocation
        if byte > peak_byte:
            peak_byte, alive_at_peak = byte, list(alive.values())
    return peak_byte, alive_at_peak


def without_workspace(allocations: Iterable[Allocation]) -> list[Allocation]:
    return [allocation for allocation in allocations if not allocation.is_workspace]


def peak_byte(step: Callable[[], object], resident: "Iterable[torch.Tensor]", device: Device) -> int:
    """Return the most memory allocated at once while a step runs that ran before, workspace and all.

    ``resident`` is what lay in memory before: a GPU's allocator counts it by itself. An Apple GPU has no counter of the
    most: there it is what Metal's driver has given this process by the end of the step. Torch's allocator keeps what
    a step frees, unless memory is short, so this is no less; it is more by rounding and by what Metal's graphs keep.
    """
    if device.kind == "cuda":
        import torch

        torch.cuda.reset_peak_memory_stats(device.torch_name)
        step()
        return int(torch.cuda.max_memory_allocated(device.torch_name))
    if device.kind == "mps":
        import torch

        torch.mps.empty_cache()  # of what is left of the steps before
        step()
        device.synchronize()
        return int(torch.mps.driver_allocated_memory())
    allocated, _ = peak(traced(step, device.kind))
    return allocated + sum(tensor.numel() * tensor.element_size() for tensor in resident)


def traced(step: Callable[[], object], device_kind: str) -> list[Allocation]:
    """Run the step, and return what it allocated on this kind of device (``cpu`` or ``cuda``)."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it reports each start and stop otherwise
    from torch._C._profiler import _EventType
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    found: list[tuple[Any, Any]] = []

    def collect(events: Iterable[Any], operator: Any) -> None:
        for event in events:
            if event.tag == _EventType.Allocation and event.extra_fields.device.type == device_kind:
                found.append((event, operator))
            elif event.tag == _EventType.TorchOp and operator is None and event.name in _operators():
                collect(event.children, event)
            else:
                collect(event.children, operator)

    collect(profiler.profiler.kineto_results.experimental_event_tree(), None)
    return _paired(sorted(found, key=lambda each: each[0].start_time_ns))


def _paired(events: Iterable[tuple[Any, Any]]) -> list[Allocation]:
    """Join each allocation to its release, the next at the same address; memory from before the trace is left out."""
    alive: dict[int, tuple[Any, Any]] = {}
    allocations = []

    def note(made: Any, operator: Any, end_ns: int | None) -> None:
        within = operator is not None and end_ns is not None and end_ns <= operator.end_time_ns
        name = operator.name if operator is not None else None
        byte = made.extra_fields.alloc_size
        allocations.append(Allocation(byte, made.start_time_ns, end_ns, name, within))

    for event, operator in events:
        address = event.extra_fields.ptr
        if event.extra_fields.alloc_size > 0:
            alive[address] = event, operator
        elif address in alive:
            note(*alive.pop(address), event.start_time_ns)
    for made, operator in alive.values():
        note(made, operator, None)
    return allocations


@cache
def _operators() -> frozenset[str]:
    """Return the operators that have kernels of their own, by name without overload."""
    import torch

    def names(overloads: Iterable[str]) -> set[str]:
        return {overload.partition(".")[0] for overload in overloads}

    composite = torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
    return frozenset(names(torch._C._dispatch_get_all_op_names()) - names(composite))
