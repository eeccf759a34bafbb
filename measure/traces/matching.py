"""Find the operator behind each kernel, and the step, stage and gap of each.

A kernel has its launch's correlation. Its operator is the innermost one on the launching thread at that time, or
without a recorded launch the operator with the kernel's external id. A backward operator is inside a node of autograd's
graph, and the node's sequence number leads to the forward operator that made it.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from measure.domain.words import BACKWARD, FORWARD, INFERENCE, STAGES, UPDATE
from measure.traces.reading import START, DeviceEvent, OperatorEvent, Thread, Trace

NODE = "autograd::engine::evaluate_function: "  # begins the name of a backward node's event
NODES = ("autograd::", "torch::autograd::")  # begin the names of autograd's events, which are not operators

STAGE = "stage: "  # begins the names of the ranges around the stages that ``measure`` runs
MARKED = {STAGE + stage: stage for stage in (INFERENCE, *STAGES)}

CLOCK = 1e-3  # a shorter gap (µs) is rounding: the profiler's clock counts nanoseconds

# Why a kernel has no operator
BEFORE = "launched before the recording began"
UNRECORDED = "its launch was not recorded"
GRAPH = "launched by a CUDA graph, which records no operators"  # unless its capture is given too
OUTSIDE = "launched outside of operators"
UNMATCHED = (BEFORE, UNRECORDED, GRAPH, OUTSIDE)


class Match(NamedTuple):
    """A kernel, copy or fill with its innermost operator, or the reason why it has none."""

    event: DeviceEvent
    operator: OperatorEvent | None
    reason: str | None
    step: int | None  # None: outside the profiler's steps
    gap: float  # how long the device was idle before it (µs)
    launched: float | None = None  # on the host (µs)
    replay: int | None = None  # the launch of the graph that it was captured in


@dataclass
class Nest:
    """The operators of a trace by thread and nesting."""

    threads: dict[Thread, list[OperatorEvent]]
    by_id: dict[int, OperatorEvent]
    makers: dict[int, OperatorEvent]  # the forward operator that made a node, by the node's sequence number

    def at(self, thread: Thread, time: float) -> OperatorEvent | None:
        """Return the innermost operator that runs on a thread."""
        operators = self.threads.get(thread, [])
        place = bisect_right(operators, time, key=START) - 1
        running = callers(operators[place] if place >= 0 else None)
        return next((each for each in running if each.end >= time), None)


def nest(operators: Sequence[OperatorEvent]) -> Nest:
    """Set each operator's caller by the times on its thread."""
    by_thread: defaultdict[Thread, list[OperatorEvent]] = defaultdict(list)
    for operator in operators:
        by_thread[operator.thread].append(operator)
    makers: dict[int, OperatorEvent] = {}
    for here in by_thread.values():
        here.sort(key=lambda each: (each.start, -each.end))
        running: list[OperatorEvent] = []
        for operator in here:
            while running and running[-1].end <= operator.start:
                running.pop()
            operator.caller = running[-1] if running else None
            running.append(operator)
            # An operator has the number of the next node to be made, so the last operator with it is the maker.
            if operator.sequence is not None and "::" in operator.name and not operator.name.startswith(NODES):
                makers[operator.sequence] = operator
    by_id: dict[int, OperatorEvent] = {}
    for operator in operators:
        by_id.setdefault(operator.external_id, operator)
    by_id.pop(0, None)
    return Nest(by_thread, by_id, makers)


def callers(operator: OperatorEvent | None) -> Iterator[OperatorEvent]:
    """Yield an operator and all that call it, the innermost first."""
    while operator is not None:
        yield operator
        operator = operator.caller


def match(trace: Trace, nested: Nest) -> list[Match]:
    """Return the work of each device in the order of time."""
    recorded = trace.launches.keys() & {each.correlation for each in trace.work}
    first = min(recorded, default=None)
    began = min((trace.launches[each].start for each in recorded), default=0.0)
    matches: list[Match] = []
    busy_until: dict[int, float] = {}
    for event in sorted(trace.work, key=START):
        launch = None if event.correlation is None else trace.launches.get(event.correlation)
        operator, reason, replay = None, None, None
        if launch is not None and "GraphLaunch" in launch.name:  # the operator around it launched the whole graph
            operator, replay = trace.replayed.get(event), event.correlation
            reason = None if operator else GRAPH
        else:
            operator = nested.at(launch.thread, launch.start) if launch else None
            if operator is None and event.external_id is not None:
                operator = nested.by_id.get(event.external_id)
            if operator is None and launch is None:
                is_older = first is not None and event.correlation is not None and event.correlation < first
                reason = BEFORE if is_older or event.start < began else UNRECORDED
            elif operator is None:
                reason = OUTSIDE
        launched = launch.start if launch else operator.start if operator else None
        step = None if launched is None else trace.step_at(launched)
        idle_from = busy_until.get(event.device, event.start)
        gap = event.start - idle_from
        matches.append(Match(event, operator, reason, step, gap if gap >= CLOCK else 0.0, launched, replay))
        busy_until[event.device] = max(idle_from, event.end)
    return matches


def marked_stage(operator: OperatorEvent) -> str | None:
    """Return the stage that a node of autograd's graph or a range around an operator marks."""
    for each in callers(operator):
        if each.name.startswith(NODE):
            return BACKWARD
        if each.name in MARKED:
            return MARKED[each.name]
    return None


class Stages:
    """Finds the stage of an operator, in a step with a backward pass or in inference."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._trains = any(operator.name.startswith(NODE) for operator in trace.operators)

    def of(self, operator: OperatorEvent) -> str:
        if (marked := marked_stage(operator)) is not None:
            return marked
        if self._trace.is_update(operator.start):
            return UPDATE
        return FORWARD if self._trains else INFERENCE


def is_recomputed(operator: OperatorEvent) -> bool:
    """Return whether a backward pass runs a forward operator again: only then does the operator number nodes."""
    chain = list(callers(operator))
    node = next((place for place, each in enumerate(chain) if each.name.startswith(NODE)), 0)
    # The node and its function have numbers too, but names of their own.
    return any(each.sequence is not None and each.name.startswith("aten::") for each in chain[:node])


def maker(operator: OperatorEvent, nested: Nest) -> OperatorEvent | None:
    """Return the forward operator that made the node around a backward operator."""
    for each in callers(operator):
        if each.name.startswith(NODE) and each.sequence is not None:
            return nested.makers.get(each.sequence)
    return None


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Return the length that the spans, from start to end, cover together. Overlaps count once."""
    length, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        length += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return length
