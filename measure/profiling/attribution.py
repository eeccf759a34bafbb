"""From the profiler's events to the time of each operator in each module.

An operator counts where no other one calls it, and with all that it calls. It belongs to the module of the innermost
range around it (``measure/profiling/ranges.py``). A backward operator has the node of autograd's graph around it that
it works for, and the node has the number that it got when the forward operator made it: so it belongs to the module
that ran then. Where autograd adds up the gradients of two uses of a tensor, that is the work of the node that gave the
latter.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from measure.cache.records import BACKWARD
from measure.profiling.ranges import MODULE, STAGE, ModuleRanges

if TYPE_CHECKING:
    from torch.autograd.profiler_util import FunctionEvent

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


def attribute(
    events: "Iterable[FunctionEvent]", ranges: ModuleRanges, steps: int, by_kernels: bool
) -> list[AttributedTime]:
    """The operators of some steps, each of whose stages is a range, as means of one step; as they first ran.

    With ``by_kernels`` an operator's time is that of the kernels which it launched, otherwise the host's.
    """
    calls: dict[tuple[str, str | None, str], int] = {}
    time_us: dict[tuple[str, str | None, str], float] = {}
    for event in events:
        key = attribution_of(event, ranges)
        if key is None:
            continue
        calls[key] = calls.get(key, 0) + 1
        own_us = event.device_time_total if by_kernels else event.cpu_time_total
        time_us[key] = time_us.get(key, 0.0) + own_us
    return [
        AttributedTime(*key, round(number / steps), time_us[key] / steps / 1e6)
        for key, number in calls.items()
    ]


def attribution_of(event: "FunctionEvent", ranges: ModuleRanges) -> tuple[str, str | None, str] | None:
    """The stage, the module and the name of an operator that no other one calls, in a stage; None of other events."""
    place = _place(event, ranges) if OPERATOR.fullmatch(event.name) else None
    return None if place is None else (*place, event.name.removeprefix("aten::").replace("::", "."))


def _place(operator: "FunctionEvent", ranges: ModuleRanges) -> tuple[str, str | None] | None:
    """The stage and module of an operator; None where another one calls it, and outside of all stages."""
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
    """The module that a node of the backward pass belongs to: by its number, or by the arrival of its gradient."""
    for event in node.cpu_children:
        if event.name.startswith(MODULE):
            return event.name.removeprefix(MODULE)
        if event.sequence_nr >= 0:
            return ranges.path_of_node(event.sequence_nr)
        path = _path_of_node(event, ranges)
        if path is not None:
            return path
    return None
