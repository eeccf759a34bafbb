"""Attribute the events of torch's profiler to modules and stages: the time of operators and their GPU kernels.

An operator counts, with all that it calls, if no other operator calls it. It belongs to the module of the innermost
range around it (``ModuleRanges``). A backward operator runs inside a node of autograd's graph, and the node's number
leads to the module that made it in the forward pass. A kernel belongs to the operator that launched it
(``traces.matching``). Copies and fills of memory count as kernels.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from itertools import islice
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from measure.traces.matching import NODE, Match, callers, covered, marked_stage
from measure.traces.reading import DeviceEvent, OperatorEvent

if TYPE_CHECKING:
    import torch
    from torch import nn

MODULE = "module: "  # begins the names of our ranges, before a module's path
OPERATOR = re.compile(r"\w+::\w+")  # with its namespace; ranges and autograd's own events have other names


class ModuleRanges:
    """A context that puts each forward call of a module into a range named after its path in the network.

    With gradients on, the arrival of a parameter's gradient is a range named after the module that holds the parameter.
    Hooks and ranges take about 6 µs of the host's time per call of a module, between operators and not in them.
    """

    def __init__(self, network: "nn.Module") -> None:
        from torch._C._profiler import _RecordFunctionFast

        from measure.counting.layers import MODEL_ITSELF

        self._open = _RecordFunctionFast  # like torch.profiler.record_function, in a tenth of the time
        self._network = network
        self._paths = {module: path or MODEL_ITSELF for path, module in network.named_modules()}
        self._running: list[tuple[str, AbstractContextManager[Any]]] = []
        self._marks: list[tuple[int, str | None]] = [(-1, None)]  # the first autograd node of each stretch in a module
        self._undo = ExitStack()

    def path_of_node(self, number: int) -> str | None:
        """Return the path of the module that made the node; None outside all modules."""
        return self._marks[bisect_right(self._marks, number, key=itemgetter(0)) - 1][1]

    def __enter__(self) -> "ModuleRanges":
        import torch
        from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

        # Hooks for all modules at once: some modules run other operators if they have hooks of their own.
        self._undo.callback(register_module_forward_pre_hook(self._start).remove)
        self._undo.callback(register_module_forward_hook(self._stop, always_call=True).remove)
        for name, parameter in self._network.named_parameters():
            if parameter.requires_grad and torch.is_grad_enabled():
                path = name.rpartition(".")[0] or self._paths[self._network]
                self._undo.callback(parameter.register_post_accumulate_grad_hook(partial(self._arrive, path)).remove)
        return self

    def __exit__(self, *problem: Any) -> None:
        self._undo.close()

    def _start(self, module: "nn.Module", _inputs: Any) -> None:
        path = self._paths.get(module)
        if path is not None:  # else made on the fly: its work belongs to the module around it
            self._running.append((path, self._open(MODULE + path)))
            self._running[-1][1].__enter__()
            self._mark()

    def _stop(self, module: "nn.Module", _inputs: Any, _output: Any) -> None:
        if module in self._paths:
            self._running.pop()[1].__exit__(None, None, None)
            self._mark()

    def _mark(self) -> None:
        """Note that the nodes from here on are made in the module that runs now."""
        import torch

        self._marks.append((torch.autograd._get_sequence_nr(), self._running[-1][0] if self._running else None))

    def _arrive(self, path: str, _parameter: "torch.Tensor") -> None:
        with self._open(MODULE + path):
            pass


class AttributedTime(NamedTuple):
    """An operator in one module (None for loss and optimiser) and stage: its calls in a step, their total time (s)."""

    stage: str
    path: str | None
    operator: str
    calls: int
    time_s: float


class AttributedKernel(NamedTuple):
    """Calls and total time of one kernel of an operator."""

    stage: str
    path: str | None
    operator: str
    kernel: str
    calls: int
    time_s: float


def attribute(
    operators: Iterable[OperatorEvent], matches: Collection[Match], ranges: ModuleRanges, steps: int, by_kernels: bool
) -> tuple[tuple[AttributedTime, ...], tuple[AttributedKernel, ...], float]:
    """Return operators and kernels in the order of their first run, and the time (s) that the device works.

    All are means over ``steps`` steps with a range around each stage; the operators are nested (``traces.matching``).
    An operator's time is its kernels' (``by_kernels``), or the host's.
    """
    operators = sorted(operators, key=attrgetter("start"))
    paths = _paths_of_nodes(operators, ranges)
    launched: defaultdict[OperatorEvent, list[DeviceEvent]] = defaultdict(list)
    for each in matches:
        for operator in callers(each.operator):
            launched[operator].append(each.event)
    times: defaultdict[tuple[str, str | None, str], list[float]] = defaultdict(list)
    kernels: defaultdict[tuple[str, str | None, str, str], list[float]] = defaultdict(list)
    spans = [(each.event.start, each.event.end) for each in matches] if by_kernels else []
    for operator in operators:
        place = _place(operator, paths)
        if place is None:
            continue
        own = launched[operator]
        for kernel in own:
            kernels[*place, kernel.name].append(kernel.duration)
        if by_kernels:
            times[place].append(sum(kernel.duration for kernel in own))
        else:
            times[place].append(operator.end - operator.start)
            spans.append((operator.start, operator.end))

    def mean(times_us: list[float]) -> tuple[int, float]:
        return max(1, round(len(times_us) / steps)), sum(times_us) / steps / 1e6

    return (
        tuple(AttributedTime(*key, *mean(times_us)) for key, times_us in times.items()),
        tuple(AttributedKernel(*key, *mean(times_us)) for key, times_us in kernels.items()),
        covered(spans) / steps / 1e6,
    )


def _place(operator: OperatorEvent, paths: dict[OperatorEvent, str | None]) -> tuple[str, str | None, str] | None:
    """Return stage, module and name of an operator; None outside stages and for one that another operator calls."""
    stage = marked_stage(operator)
    if stage is None or not OPERATOR.fullmatch(operator.name):
        return None
    modules: list[str | None] = []
    for above in islice(callers(operator), 1, None):
        if OPERATOR.fullmatch(above.name):
            return None
        if above.name.startswith(MODULE):
            modules.append(above.name.removeprefix(MODULE))
        elif above.name.startswith(NODE):
            modules.append(paths.get(above))
    name = operator.name.removeprefix("aten::").replace("::", ".")
    return stage, modules[0] if modules else None, name


def _paths_of_nodes(operators: Iterable[OperatorEvent], ranges: ModuleRanges) -> dict[OperatorEvent, str | None]:
    """Return the module of each backward node, by its number or by the arrival of its gradient."""
    paths: dict[OperatorEvent, str | None] = {}
    for operator in operators:
        node = next((each for each in islice(callers(operator), 1, None) if each.name.startswith(NODE)), None)
        if node is None or node in paths:
            continue
        if operator.name.startswith(MODULE):
            paths[node] = operator.name.removeprefix(MODULE)
        elif operator.sequence is not None:
            paths[node] = ranges.path_of_node(operator.sequence)
    return paths
