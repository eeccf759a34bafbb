"""Where the time of a traced step goes: by kind of layer or operator, under a chip's roof, and between two chips."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from measure.domain.roofs import Roof
from measure.domain.trace_records import COMMUNICATION, LAYOUT, TraceOperator

ARITHMETIC, MEMORY, CACHE = "arithmetic", "memory", "cache"


@dataclass
class StepPart:
    """A part of a step: means over the steps, devices and ranks of a trace.

    ``time_s`` covers all kernels, ``counted_s`` the counted ones with copies and fills. ``least_s`` is the roofline
    bound of the counted kernels; ``memory_s`` is its memory-bound part. ``converted_s`` is the time of layout
    conversions, which no step needs. ``cached_s`` is the counted time without a bound: a cache of unknown bandwidth may
    serve these kernels. ``loss_s`` is the time of conversions and the counted time beyond the bound, or, without one,
    beyond what memory would take: a cache is faster.
    """

    name: str
    calls: float = 0.0
    kernels: float = 0.0
    time_s: float = 0.0
    copy_s: float = 0.0
    gap_s: float = 0.0
    flop: float = 0.0
    other_flop: float = 0.0
    byte: float = 0.0
    uncounted_s: float = 0.0
    counted_s: float = 0.0
    least_s: float = 0.0
    memory_s: float = 0.0
    converted_s: float = 0.0
    cached_s: float = 0.0
    loss_s: float = 0.0

    @property
    def roof_share(self) -> float | None:
        """The share of the roof that the kernels with a bound reach; None if most of the time has no bound."""
        return self.least_s / (self.counted_s - self.cached_s) if self.least_s and self.bound != CACHE else None

    @property
    def bound(self) -> str | None:
        """The bound of most of the least time; the cache if it may serve more than half of the counted time."""
        if self.cached_s > self.counted_s / 2:
            return CACHE
        return None if not self.least_s else MEMORY if self.memory_s > self.least_s / 2 else ARITHMETIC


def step_parts(
    operators: Iterable[TraceOperator], roof: Roof | None, name: Callable[[TraceOperator], str]
) -> list[StepPart]:
    """Return the parts of a step by name, the longest first. Kernels of no step are left out.

    A step has a datasheet's peak at the precision of each operator. Only products, convolutions and attention count
    against it: other arithmetic waits for memory. A cache may serve an operator whose bytes fit it: its bandwidth, not
    the memory's, bounds them, and nothing does if that is unknown.
    """
    rows = [row for row in operators if row.step is not None]
    steps = len({(row.rank, row.device, row.step) for row in rows})
    parts: dict[str, StepPart] = {}
    for row in rows:
        part = parts.setdefault(name(row), StepPart(name(row)))
        part.calls += row.calls / steps
        part.kernels += row.kernels / steps
        part.time_s += row.time_s / steps
        part.copy_s += row.copy_s / steps
        part.gap_s += row.gap_s / steps
        if row.flop is None or row.byte is None:
            part.uncounted_s += row.time_s / steps
            continue
        if not row.time_s:  # copies alone
            continue
        flop = row.flop + (row.recompute_flop or 0)
        part.flop += flop / steps
        part.other_flop += (row.other_flop or 0) / steps
        part.byte += row.byte / steps
        counted_s = row.time_s + row.copy_s
        part.counted_s += counted_s / steps
        if row.layer_kind == LAYOUT:
            part.converted_s += row.time_s / steps
            part.loss_s += row.time_s / steps
        if roof is not None and roof.byte_per_s is not None and row.layer_kind != COMMUNICATION:
            is_cached = roof.cache_byte is not None and row.byte <= roof.cache_byte * max(row.calls, 1)
            peak = roof.flop_per_s.get(row.precision or "")
            memory_s = row.byte / ((is_cached and roof.cache_byte_per_s) or roof.byte_per_s)
            least_s = max(memory_s, flop / peak if peak else 0.0)
            if not least_s:
                continue
            if is_cached and roof.cache_byte_per_s is None and least_s == memory_s:
                part.cached_s += counted_s / steps
                part.loss_s += max(counted_s - memory_s, 0.0) / steps
                continue
            part.least_s += least_s / steps
            part.loss_s += (counted_s - least_s) / steps
            part.memory_s += least_s / steps if least_s == memory_s else 0.0
    return sorted(parts.values(), key=lambda part: -part.time_s)


class Term(NamedTuple):
    """A part of two steps: its times, and its contribution to the ratio of the steps' times."""

    name: str
    a_s: float
    b_s: float
    share: float


def difference(a: Sequence[StepPart], b: Sequence[StepPart]) -> list[Term]:
    """Return the terms of the ratio of two steps' kernel times, the largest first: it is 1 plus their sum.

    A term is (b - a) / sum of a, for one part.
    """
    times: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for side, parts in enumerate((a, b)):
        for part in parts:
            times[part.name][side] += part.time_s
    total_s = sum(part.time_s for part in a)
    terms = [Term(name, a_s, b_s, (b_s - a_s) / total_s) for name, (a_s, b_s) in times.items()]
    return sorted(terms, key=lambda term: -abs(term.share))
