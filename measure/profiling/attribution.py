"""From the profiler's events to the time of each operator in each module, and to the GPU kernels that it launches.

An operator counts where no other one calls it, and with all that it calls. It belongs to the module of the innermost
range around it (``ModuleRanges``). A backward operator has the node of autograd's graph around it that
it works for, and the node has the number that it got when the forward operator made it: so it belongs to the module
that ran then. Where autograd adds up the gradients of two uses of a tensor, that is the work of the node that gave the
latter. A kernel belongs to the operator in whose call it was launched. Copies and fills of memory, which the device
does without a program of its own, are kernels here.

Which module, and which stage of a step, runs when: named ranges on the timeline of torch's profiler.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from measure.domain.words import BACKWARD

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.autograd.profiler_util import FunctionEvent, Kernel

MODULE, STAGE = "module: ", "stage: "
"""What the names of ranges begin with; a module's path or a stage follows."""


def opened(name: str) -> "AbstractContextManager[Any]":
    """Open a range of this name, as torch.profiler.record_function does, in a tenth of the time."""
    from torch._C._profiler import _RecordFunctionFast

    begun = _RecordFunctionFast(name)
    begun.__enter__()
    return begun


class ModuleRanges:
    """Within it, each forward call of a module of the network is a range, and so is each gradient's arrival.

    A range is named after the module's path in the network. Where gradients are on, that of the arrival of a
    parameter's gradient is named after the module that holds the parameter; and autograd numbers the nodes of its graph
    as they are made, so that ``path_of_node`` knows in which module each was.

    The hooks are those for all modules at once: some modules run other operators when they have hooks of their own.
    They and the ranges take some 6 µs of the host's time for each call of a module, between operators and not in them.
    """

    def __init__(self, network: "nn.Module") -> None:
        from measure.counting.layers import MODEL_ITSELF

        self._network = network
        self._paths = {module: path or MODEL_ITSELF for path, module in network.named_modules()}
        self._running: list[tuple[str, AbstractContextManager[Any]]] = []
        self._first_nodes: list[int] = []
        self._node_paths: list[str | None] = []
        self._undo = ExitStack()

    def path_of_node(self, number: int) -> str | None:
        """Return the path of the module in whose forward call autograd made the node; None outside of all."""
        place = bisect_right(self._first_nodes, number) - 1
        return self._node_paths[place] if place >= 0 else None

    def __enter__(self) -> "ModuleRanges":
        import torch
        from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

        self._undo.callback(register_module_forward_pre_hook(self._start).remove)
        self._undo.callback(register_module_forward_hook(self._stop, always_call=True).remove)
        if torch.is_grad_enabled():
            for parameter, path in self._held():
                arrive = partial(self._arrive, path)
                self._undo.callback(parameter.register_post_accumulate_grad_hook(arrive).remove)
        return self

    def __exit__(self, *problem: Any) -> None:
        self._undo.close()

    def _held(self) -> "Iterator[tuple[nn.Parameter, str]]":
        """Yield each parameter that gets a gradient, and the path of the first module that holds it."""
        seen = set()
        for module, path in self._paths.items():
            for parameter in module.parameters(recurse=False):
                if parameter.requires_grad and id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield parameter, path

    def _start(self, module: "nn.Module", _inputs: Any) -> None:
        path = self._paths.get(module)
        if path is not None:  # else made on the fly: its work is that of the module around it
            self._running.append((path, opened(MODULE + path)))
            self._mark()

    def _stop(self, module: "nn.Module", _inputs: Any, _output: Any) -> None:
        if module in self._paths:
            _, begun = self._running.pop()
            begun.__exit__(None, None, None)
            self._mark()

    def _mark(self) -> None:
        """Note that the nodes from here on are made in the module that runs now."""
        import torch

        self._first_nodes.append(torch.autograd._get_sequence_nr())
        self._node_paths.append(self._running[-1][0] if self._running else None)

    def _arrive(self, path: str, _parameter: "torch.Tensor") -> None:
        opened(MODULE + path).__exit__(None, None, None)


OPERATOR = re.compile(r"\w+::\w+")
"""The names of operators: a namespace, and a name in it. Ranges and autograd's own events have others."""

NODE = "autograd::engine::evaluate_function: "
"""What the name of the event of one node of the backward pass begins with."""


class AttributedTime(NamedTuple):
    """An operator in one module and stage of a step: its calls in one step, and their time together (s).

    ``path`` is None for one that runs in no module, as the loss and the optimiser do.
    """

    stage: str
    path: str | None
    operator: str
    calls: int
    time_s: float


class AttributedKernel(NamedTuple):
    """A kernel of an operator in one module and stage of a step: its calls in one step, and their time together (s)."""

    stage: str
    path: str | None
    operator: str
    kernel: str
    calls: int
    time_s: float


def attribute(
    events: "Iterable[FunctionEvent]", ranges: ModuleRanges, steps: int, by_kernels: bool
) -> list[AttributedTime]:
    """Return the operators of some steps, each of whose stages is a range, as means of one; as they first ran.

    With ``by_kernels`` an operator's time is that of the kernels which it launched, otherwise the host's.
    """
    times_us: dict[tuple[str, str | None, str], list[float]] = defaultdict(list)
    for event in events:
        if key := attribution_of(event, ranges):
            times_us[key].append(event.device_time_total if by_kernels else event.cpu_time_total)
    return [AttributedTime(*key, *mean_of_step(times, steps)) for key, times in times_us.items()]


def mean_of_step(times_us: list[float], steps: int) -> tuple[int, float]:
    """Return the calls in one step, at least one, and their time together (s), from the times (µs) in some steps."""
    return max(1, round(len(times_us) / steps)), sum(times_us) / steps / 1e6


def attribution_of(event: "FunctionEvent", ranges: ModuleRanges) -> tuple[str, str | None, str] | None:
    """Return stage, module and name of an operator that no other one calls, in a stage; None for other events."""
    place = _place(event, ranges) if OPERATOR.fullmatch(event.name) else None
    return None if place is None else (*place, event.name.removeprefix("aten::").replace("::", "."))


def _place(operator: "FunctionEvent", ranges: ModuleRanges) -> tuple[str, str | None] | None:
    """Return the stage and module of an operator; None where another one calls it, and outside of all stages."""
    paths: list[str | None] = []
    stage = None
    above = operator.cpu_parent
    while above is not None:
        if OPERATOR.fullmatch(above.name):
            return None
        if above.name.startswith(MODULE):
            paths.append(above.name.removeprefix(MODULE))
        elif above.name.startswith(NODE):
            paths.append(_path_of_node(above, ranges))
            stage = BACKWARD
        elif above.name.startswith(STAGE):
            stage = above.name.removeprefix(STAGE)
        above = above.cpu_parent
    return None if stage is None else (stage, paths[0] if paths else None)


def _path_of_node(node: "FunctionEvent", ranges: ModuleRanges) -> str | None:
    """Return the module that a node of the backward pass belongs to: by its number, or its gradient's arrival."""
    for event in node.cpu_children:
        if event.name.startswith(MODULE):
            return event.name.removeprefix(MODULE)
        if event.sequence_nr >= 0:
            return ranges.path_of_node(event.sequence_nr)
        path = _path_of_node(event, ranges)
        if path is not None:
            return path
    return None


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
        if (is_kernel(event) if by_kernels else attribution_of(event, ranges) is not None)
    ]
    return covered(spans) / steps / 1e6


def is_kernel(event: "FunctionEvent") -> bool:
    """Return whether an event is on the device, and not one of our ranges as the device sees them."""
    return event.device_type.name != "CPU" and not event.is_user_annotation


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Return the length that the spans, from start to end, cover together; what several cover counts once."""
    length, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        length += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return length
