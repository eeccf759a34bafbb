"""Turn a trace into rows: its devices, their steps, and the operators with their kernels."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from statistics import median_low
from typing import Any, NamedTuple

from measure.counting.formulas import NOTHING, Work
from measure.domain.kernel_names import is_conversion
from measure.domain.step_parts import step_parts
from measure.domain.trace_records import COMMUNICATION, LAYOUT, TraceCollective, TraceOperator, TraceStep
from measure.domain.words import LAYER_KINDS
from measure.traces.collectives import Exchange, Span, collective_rows, host_work
from measure.traces.counts import COLLECTIVES, GLOO, CallCounter, CallCounts
from measure.traces.kinds import kind_of
from measure.traces.matching import NODES, Match, Nest, Stages, callers, covered, is_recomputed, maker, match, nest
from measure.traces.paged import Call, paged_counts
from measure.traces.reading import START, OperatorEvent, Trace, seconds

AROUND = "host time around the operators"
NAME = re.compile(r"\w[\w.]*(::\w[\w.]*)+|triton_\w+|\w+Backward\w*")  # of an operator or node, not a user's range
PLAIN, REGION = re.compile(r"\w{1,200}"), "region"
TF32 = re.compile(r"tf32|tensorop_s1688", re.IGNORECASE)  # in cuBLAS's and CUTLASS's names of kernels
NCCL = re.compile(r"nccl(?:Dev)?Kernel_([A-Za-z]+)")  # NCCL's and RCCL's kernels, with the collective if it is told
LONGEST_KERNEL = 200  # characters of a kernel's name


class GroupKey(NamedTuple):
    """The common properties of a group's calls; the fields are columns of ``TraceOperator``."""

    device: int
    step: int | None
    stage: str | None
    layer_kind: str
    operator: str | None
    shape: str | None
    precision: str | None
    reason: str | None


@dataclass
class _Group:
    """Sums over the equal calls of an operator. Times are in µs."""

    calls: dict[Call, CallCounts] = field(default_factory=dict)
    kernels: int = 0
    time: float = 0.0
    copy: float = 0.0
    gap: float = 0.0
    by_kernel: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))


class _Grouping:
    """Groups operators by the call that carries their counts."""

    def __init__(self, trace: Trace, nested: Nest, matches: Sequence[Match]) -> None:
        self._nested, self._stages, self.counter = nested, Stages(trace), CallCounter(trace)
        # A call multiplies in TF32 if one of its kernels does.
        self._tf32 = {
            id(self.counter.carrier(each.operator)[0])
            for each in matches
            if each.operator is not None and TF32.search(each.event.name)
        }
        self._paged = paged_counts(trace, matches, self.counter)
        self.groups: defaultdict[GroupKey, _Group] = defaultdict(_Group)

    def key(
        self, operator: OperatorEvent, device: int, step: int | None, kernel: str, replay: int | None = None
    ) -> tuple[GroupKey, CallCounts, Call]:
        """Return a group's key, the counts of the call that carries them, and the identity of that call."""
        carrier, counts = self.counter.carrier(operator)
        counts = self._paged.get((id(carrier), replay), counts)
        stage = self._stages.of(carrier)
        names = [each.name for each in callers(carrier)]
        if (made := maker(carrier, self._nested)) is not None:
            names += [each.name for each in callers(made)]
        names = [name for name in names if "::" in name and not name.startswith(NODES)] or names
        key = GroupKey(
            device,
            step,
            None if carrier.name.startswith(GLOO) else stage,  # its thread does not show it
            kind_of(names, counts, stage),
            _name(carrier.name, kernel),
            counts.shape or None,
            "tf32" if counts.precision == "fp32" and id(carrier) in self._tf32 else counts.precision,
            counts.reason,
        )
        if counts.work is not None and is_recomputed(carrier):
            counts = counts._replace(work=Work(recompute_flop=sum(counts.work)))
        if is_conversion(kernel):
            key = key._replace(layer_kind=LAYOUT)
            if counts.work is not None:  # the work and bytes of the call are its other kernels'
                counts = counts._replace(work=NOTHING, byte=0)
        return key, counts, (id(carrier), replay)


@dataclass
class TraceSummary:
    """A trace as rows. Times (s) are the kernels'."""

    trace: Trace
    matches: Sequence[Match]
    operators: list[TraceOperator]
    steps: list[TraceStep]
    collectives: list[TraceCollective]

    @cached_property
    def kernels(self) -> int:
        return sum(each.event.kind == "kernel" for each in self.matches)

    @cached_property
    def kernel_time_s(self) -> float:
        return sum(row.time_s for row in self.operators) if self.kernels else 0.0

    @property
    def operator_share(self) -> float | None:
        """The share of kernels with an operator in the kernels' time; None without kernels."""
        return self._share("operator")

    @property
    def counted_share(self) -> float | None:
        """The share of counted kernels, likewise."""
        return self._share("flop")

    def _share(self, column: str) -> float | None:
        time_s = sum(row.time_s for row in self.operators if getattr(row, column) is not None)
        return time_s / self.kernel_time_s if self.kernel_time_s else None

    @property
    def step_count(self) -> int:
        return len({row.step for row in self.operators if row.step is not None})

    def of_a_step(self, column: str) -> int:
        """Return a step's sum of a column, the median over the steps."""
        sums = _sums((row.step, getattr(row, column) or 0) for row in self.operators if row.step is not None)
        return median_low(sums.values()) if sums else 0

    @property
    def fingerprint(self) -> str:
        found = hashlib.sha256()
        for each in [matched.event for matched in self.matches] or self.trace.operators:
            found.update(f"{each.name} {each.start} {each.end}\n".encode())
        return found.hexdigest()[:12]

    def by_kind(self) -> dict[str, float]:
        """Return the kernels' time of a step by kind, the largest first, as ``trace`` prints it."""
        parts = step_parts(self.operators, None, attrgetter("kind"))
        return {part.name: part.time_s for part in parts if part.time_s}

    @property
    def outside_s(self) -> float:
        """The kernels' time of no step."""
        return sum(row.time_s for row in self.operators if row.step is None)

    def left_out(self) -> dict[str, float]:
        """Return the kernels' time without an operator by reason, and without counts by operator, the largest first."""
        times = _sums((row.operator or row.reason or "", row.time_s) for row in self.operators if row.flop is None)
        return dict(sorted(times.items(), key=lambda pair: -pair[1]))


def _sums(parts: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    sums: defaultdict[Any, Any] = defaultdict(int)
    for key, value in parts:
        sums[key] += value
    return sums


def summarise(trace: Trace) -> TraceSummary:
    """Match a trace's kernels, or without work of a device the host's operators, and count them."""
    nested = nest(trace.operators)
    matches = match(trace, nested)
    grouping = _Grouping(trace, nested, matches)
    exchanges: list[Exchange] = []
    computing: defaultdict[int, list[Span]] = defaultdict(list)
    for each in matches:
        event, name = each.event, NCCL.match(each.event.name)
        collective = name and name[1]
        if each.operator is None:
            group = grouping.groups[_unknown(event.device, each.step, each.reason)]
        else:
            key, counts, call = grouping.key(each.operator, event.device, each.step, event.name, each.replay)
            group = grouping.groups[key]
            group.calls[call] = counts
            collective = key.operator if key.layer_kind == COMMUNICATION else collective
        if collective and event.kind == "kernel":
            span = event.start, event.end
            exchanges.append(Exchange(event.device, each.step, collective, each.operator, event.message, *span))
        elif event.kind == "kernel":
            computing[event.device].append((event.start, event.end))
        group.gap += each.gap
        if event.kind == "kernel":
            group.kernels += 1
            group.time += event.duration
            group.by_kernel[event.name] += event.duration
        else:
            group.copy += event.duration
    if not matches:
        _add_host_calls(trace, grouping)
        computing[0] = host_work(trace)
    for ran in sorted((each for each in trace.operators if each.name.startswith(GLOO)), key=START):
        step, called = trace.step_at(ran.start), ran.name.replace("::", ".")
        exchanges.append(Exchange(0, step, called, ran, None, ran.start, ran.end))
    collectives = collective_rows(trace, exchanges, computing, grouping.counter)
    operators = [_row(trace.rank, key, group) for key, group in grouping.groups.items()]
    return TraceSummary(trace, matches, operators, list(_steps(trace, matches)), collectives)


def _name(operator: str, kernel: str) -> str:
    """Return the name of a group. A region's kernel has its own name if that is a plain one."""
    if NAME.fullmatch(operator):
        return operator.removeprefix("aten::").replace("::", ".")
    return kernel if PLAIN.fullmatch(kernel) else REGION


def _unknown(device: int, step: int | None, reason: str | None) -> GroupKey:
    return GroupKey(device, step, None, LAYER_KINDS[-1], None, None, None, reason)


def _add_host_calls(trace: Trace, grouping: _Grouping) -> None:
    """Add the calls of a trace without work of a device, with the host's time that no call inside takes.

    A collective that gloo runs on a thread of its own counts there, as a kernel does: what starts it is host time.
    """
    is_apart = any(operator.name.startswith(GLOO) for operator in trace.operators)
    inside: defaultdict[OperatorEvent, float] = defaultdict(float)
    for operator in trace.operators:
        if operator.caller is not None:
            inside[operator.caller] += operator.end - operator.start
    for operator in trace.operators:
        step = trace.step_at(operator.start)
        key, counts, call = grouping.key(operator, 0, step, "")
        only_starts = is_apart and operator.name in COLLECTIVES
        if only_starts or (counts.work is None and operator in inside):  # it only calls others
            key = _unknown(0, step, AROUND)
        else:
            grouping.groups[key].calls[call] = counts
        grouping.groups[key].time += max(0.0, operator.end - operator.start - inside[operator])


def _row(rank: int, key: GroupKey, group: _Group) -> TraceOperator:
    counts = list(group.calls.values())
    byte = [each.byte for each in counts if each.byte is not None]
    work = [each.work for each in counts if each.work is not None]
    total = Work(*map(sum, zip(*work, strict=True))) if counts and len(work) == len(counts) else None
    is_fused = bool(counts) and all(each.is_fused for each in counts)
    most = max(group.by_kernel, key=lambda name: group.by_kernel[name], default=None)
    return TraceOperator(
        rank=rank,
        **key._asdict(),
        calls=len(counts) if key.layer_kind != LAYOUT else 0,
        kernels=group.kernels,
        time_s=seconds(group.time),
        copy_s=seconds(group.copy),
        gap_s=seconds(group.gap),
        flop=total.flop if total else 0 if is_fused else None,
        other_flop=total and total.other_flop,
        recompute_flop=total and total.recompute_flop,
        byte=sum(byte) if counts and len(byte) == len(counts) else None,
        kernel=most and " ".join(most.split())[:LONGEST_KERNEL],
    )


def _steps(trace: Trace, matches: Sequence[Match]) -> Iterable[TraceStep]:
    by_step: defaultdict[tuple[int, int], list[Match]] = defaultdict(list)
    for each in matches:
        if each.step is not None:
            by_step[each.event.device, each.step].append(each)
    host_s = {step.number: seconds(step.end - step.start) for step in trace.steps}
    for (device, step), here in sorted(by_step.items()):
        spans = [(each.event.start, each.event.end) for each in here]
        span = max(end for _, end in spans) - min(start for start, _ in spans)
        yield TraceStep(trace.rank, device, step, host_s.get(step), seconds(span), seconds(covered(spans)))
