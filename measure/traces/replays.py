"""Join the replays of a CUDA graph to the recording of its capture, which has the operators.

A replay is one launch of many kernels. While the graph is captured nothing runs, but the host calls its operators, and
ROCm's profiler names the kernel of each launch. A replay and a capture are the same graph if they have the same kernels
as often; the n-th kernel of a name belongs to the n-th launch of that name, whatever stream it runs on.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from measure.errors import UserError
from measure.traces.matching import callers, nest
from measure.traces.reading import START, DeviceEvent, Launch, OperatorEvent, Trace

REPLAY, BEGIN, END = "GraphLaunch", "StreamBeginCapture", "StreamEndCapture"
COPIES = {"Memcpy": "copy", "Memset": "fill"}  # in the names of launches, and the kinds of what they launch


class _Graph(NamedTuple):
    """A captured graph: the operators of its kernels by their names, each in the order of the launches."""

    operators: dict[str, list[OperatorEvent | None]]

    @property
    def kernels(self) -> dict[str, int]:
        return {name: len(found) for name, found in self.operators.items()}

    @property
    def arguments(self) -> str:
        """What decides the counts of its kernels."""
        calls = {
            name: [[(call.name, call.signature) for call in callers(each)] for each in found]
            for name, found in sorted(self.operators.items())
        }
        return repr(calls)


def join(trace: Trace, captures: Sequence[Trace]) -> None:
    """Give the replayed kernels of a trace the operators that captured them, as operators of the trace.

    Raises UserError if no replay finds its capture.
    """
    replays: defaultdict[int, list[DeviceEvent]] = defaultdict(list)
    for event in sorted(trace.work, key=START):
        launch = trace.launches.get(event.correlation) if event.correlation is not None else None
        if launch is not None and event.correlation is not None and REPLAY in launch.name:
            replays[event.correlation].append(event)
    if not replays:
        raise UserError(f"--captured-by: {trace.path} replays no CUDA graph; leave --captured-by out")
    of_rank = [each for each in captures if each.rank == trace.rank]
    if not of_rank:
        raise UserError(f"--captured-by: no capture is of rank {trace.rank}, as {trace.path} is; name its file too")
    graphs: list[_Graph] = []
    for number, capture in enumerate(of_rank):
        _set_apart(capture, f"capture {number} ")
        graphs += _graphs(capture)
    unlike = 0
    for events in replays.values():
        kernels = Counter(map(_name, events))
        fitting = [graph for graph in graphs if graph.kernels == kernels]
        if len({graph.arguments for graph in fitting}) != 1:
            unlike += bool(fitting)
            continue
        places = {name: iter(operators) for name, operators in fitting[0].operators.items()}
        found = {event: next(places[_name(event)]) for event in events}
        trace.replayed |= {event: operator for event, operator in found.items() if operator is not None}
    if not trace.replayed:
        raise UserError(f"--captured-by: {_reason(trace, graphs, unlike)}")
    trace.operators += [operator for capture in of_rank for operator in capture.operators]


def _reason(trace: Trace, graphs: Sequence[_Graph], unlike: int) -> str:
    replayed = f"the kernels that {trace.path} replays"
    if unlike:
        return f"captures of several batch sizes have {replayed}; name the one of its batch size"
    if not graphs:
        return "no capture of a graph with named kernels, which ROCm's profiler records and CUDA's does not"
    return f"no captured graph has {replayed}; name the capture of its batch size"


def _set_apart(capture: Trace, prefix: str) -> None:
    """Move the operators of a capture to threads of their own, and drop numbers that another recording gave."""
    capture.operators = [
        replace(each, thread=(prefix + each.thread[0], each.thread[1]), external_id=0, sequence=None)
        for each in capture.operators
    ]
    capture.launches = {
        correlation: launch._replace(thread=(prefix + launch.thread[0], launch.thread[1]))
        for correlation, launch in capture.launches.items()
    }


def _graphs(capture: Trace) -> Iterator[_Graph]:
    """Yield the graphs whose kernels the launches name."""
    nested = nest(capture.operators)
    ran = {event.correlation for event in capture.work}
    captured: list[Launch] | None = None
    for correlation, launch in sorted(capture.launches.items(), key=lambda pair: pair[1].start):
        if BEGIN in launch.name:
            captured = []
        elif END in launch.name and captured is not None:
            operators: defaultdict[str, list[OperatorEvent | None]] = defaultdict(list)
            for each in captured:
                operators[_launched(each) or ""].append(nested.at(each.thread, each.start))
            if operators and "" not in operators:
                yield _Graph(dict(operators))
            captured = None
        elif captured is not None and correlation not in ran and (_launched(launch) or "LaunchKernel" in launch.name):
            captured.append(launch)


def _launched(launch: Launch) -> str | None:
    return launch.kernel or next((kind for word, kind in COPIES.items() if word in launch.name), None)


def _name(event: DeviceEvent) -> str:
    return event.name if event.kind == "kernel" else event.kind
