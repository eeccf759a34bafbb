"""The collectives of one process: what each sends, how long it takes, and how much of that nothing else covers."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch

from measure.domain.collectives import collective_of
from measure.domain.trace_records import TraceCollective
from measure.traces.counts import GLOO, NCCL, CallCounter
from measure.traces.matching import callers
from measure.traces.reading import COMMUNICATION_RANGE, Message, OperatorEvent, Trace, seconds

# Bytes of an element by the types' names in torch (c10::toString), in lower case
ELEMENT_BYTE = {
    str(each).removeprefix("torch."): each.itemsize
    for each in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16)
} | {"double": 8, "float": 4, "half": 2, "long": 8, "int": 4, "short": 2, "byte": 1, "char": 1, "bool": 1}
FLOAT8 = "float8"
WITHOUT_PARTS = ("all_gather", "gather")  # the range that records them names the rank's own part alone
UNKNOWN = Message(None, None, None, None, None, None, None)

Span = tuple[float, float]  # µs


class Exchange(NamedTuple):
    """A collective as the process ran it; times in µs."""

    device: int
    step: int | None
    name: str
    operator: OperatorEvent | None
    message: Message | None
    start: float
    end: float


def collective_rows(
    trace: Trace, exchanges: Iterable[Exchange], computing: dict[int, list[Span]], counter: CallCounter
) -> list[TraceCollective]:
    """Return a row for each collective in a step, numbered by name and ranks in the order of ``exchanges``.

    ``computing`` has the spans of each device's other work. A single process has no rows.
    """
    if trace.world_size < 2:
        return []
    busy = {device: _Busy(spans) for device, spans in computing.items()}
    numbers: Counter[tuple[Any, ...]] = Counter()
    rows = []
    for each in exchanges:
        if each.step is None:
            continue
        message = each.message or _range_message(each.operator) or UNKNOWN
        word = message.collective or each.name
        known = [collective_of(name) for name in (word, *(call.name for call in callers(each.operator)))]
        collective = next((found for found in known if found), None)
        size = message.group_size or _group_size(trace, message.ranks)
        same = each.device, each.step, each.name, message.ranks
        covered = busy[each.device].within(each.start, each.end) if each.device in busy else 0.0
        rows.append(
            TraceCollective(
                trace.rank,
                *same,
                numbers[*same, message.group],
                seconds(each.end - each.start),
                seconds(each.end - each.start - covered),
                collective,
                message.group,
                size,
                message.sequence,
                _byte(message, each.operator, collective, size, counter),
            )
        )
        numbers[*same, message.group] += 1
    return rows


def host_work(trace: Trace) -> list[Span]:
    """Return the spans of the operators on the host that compute: they call no others, and start no collective."""
    callers_of_others = {operator.caller for operator in trace.operators}
    return [
        (operator.start, operator.end)
        for operator in trace.operators
        if operator not in callers_of_others
        and not operator.name.startswith((GLOO, NCCL, "c10d::", "_c10d_functional::", COMMUNICATION_RANGE))
    ]


def _range_message(operator: OperatorEvent | None) -> Message | None:
    return next((each.message for each in callers(operator) if each.message is not None), None)


def _group_size(trace: Trace, ranks: str | None) -> int | None:
    """Return the ranks of a group whose size is not recorded: all, unless the trace has several groups."""
    if ranks is not None:
        return len(ranks.split())
    return trace.world_size if trace.groups < 2 else None


def _byte(
    message: Message, operator: OperatorEvent | None, collective: str | None, size: int | None, counter: CallCounter
) -> int | None:
    dtype = (message.dtype or "").lower()
    element = 1 if dtype.startswith(FLOAT8) else ELEMENT_BYTE.get(dtype)
    if message.elements is not None and element is not None:
        return message.elements * element
    for each in reversed(list(callers(operator))):  # torch's operator has input and output, the range inside the input
        byte = counter.message_byte(each)
        if byte is None:
            continue
        if collective in WITHOUT_PARTS and each.name.startswith((GLOO, NCCL)):
            return None if size is None else byte * size
        return byte
    return None


class _Busy:
    """The time that spans cover together."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._spans: list[Span] = []
        for start, end in sorted(spans):
            if self._spans and start <= self._spans[-1][1]:
                start, end = self._spans[-1][0], max(end, self._spans[-1][1])
                self._spans.pop()
            self._spans.append((start, end))

    def within(self, start: float, end: float) -> float:
        place = max(0, bisect_right(self._spans, (start, start)) - 1)
        covered = 0.0
        for first, last in self._spans[place:]:
            if first >= end:
                break
            covered += max(0.0, min(end, last) - max(start, first))
        return covered
