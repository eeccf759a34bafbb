"""Explain the difference between two latencies of one network: kinds of layer, clock, system time, allocator.

A latency is split into the operators of each kind of layer, the rest of the call outside operators, and on a processor
the system's time. The profile gives the shares, the rounds of the cell the latency. The terms add up to the measured
ratio less 1, whatever the estimates in them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from measure.domain.records import OperatorTime, Profile
from measure.domain.step_parts import Term
from measure.domain.words import UPDATE
from measure.domain.workload_records import Layer

CLOCK, ALLOCATOR, SYSTEM, OUTSIDE = "clock", "allocator (page faults)", "system time", "outside operators"
OPTIMISER, OTHER = "optimiser", "other"


@dataclass(frozen=True)
class ProfiledCell:
    """A cell with a latency (s) and a profile: ``kinds`` is its operators' time (s) by kind of layer.

    ``system_share`` is the system's share of all threads' time, None on a GPU and where the system hides it.
    """

    latency_s: float
    plain_s: float
    kinds: Mapping[str, float]
    system_share: float | None = None
    page_faults: float | None = None
    clock_hz: float | None = None
    is_gpu: bool = False

    @property
    def parts(self) -> dict[str, float]:
        """The latency (s) without the system's time, by kind of layer and outside operators."""
        outside_s = max(self.plain_s - sum(self.kinds.values()), 0.0)
        profiled_s = sum(self.kinds.values()) + outside_s
        scale = (self.latency_s - self.system_s) / profiled_s
        return {name: scale * time_s for name, time_s in (*self.kinds.items(), (OUTSIDE, outside_s))}

    @property
    def system_s(self) -> float:
        return (self.system_share or 0.0) * self.latency_s


def profiled_cell(
    latency_s: float, profile: Profile, operators: Iterable[OperatorTime], layers: Iterable[Layer], *,
    threads: int | None, clocks_hz: Iterable[float], is_gpu: bool,
) -> ProfiledCell | None:  # fmt: skip
    """Summarise a cell's profile by kind of layer; None if the profile failed or saw no operator."""
    kinds: dict[str, str] = {}
    flop_below: defaultdict[str, Counter[str]] = defaultdict(Counter)
    times: defaultdict[str, float] = defaultdict(float)
    for layer in layers:
        kinds[layer.path] = layer.layer_kind
        parts = layer.path.split(".")
        for end in range(len(parts)):
            flop_below[".".join(parts[:end]) or "."][layer.layer_kind] += layer.forward_flop
    for row in operators:
        path = row.path or "."
        below = flop_below.get(path)
        # One operator can run a whole module, as a fused encoder layer: its time belongs to the kind of most FLOP in it
        kind = kinds.get(path, OTHER)
        if kind == OTHER and path != "." and below and max(below.values()):
            kind = max(below, key=below.__getitem__)
        times[OPTIMISER if row.stage == UPDATE else kind] += row.time_s
    if profile.plain_s is None or not sum(times.values()):
        return None
    share = None
    if not is_gpu and profile.system_s is not None:
        share = min(profile.system_s / ((threads or 1) * profile.plain_s), 1.0)
    clock_hz = median(clocks) if (clocks := list(clocks_hz)) else None
    return ProfiledCell(latency_s, profile.plain_s, dict(times), share, profile.page_faults, clock_hz, is_gpu)


def causes(a: ProfiledCell, b: ProfiledCell) -> list[Term]:
    """Return the terms of the ratio of two latencies, the largest first: it is 1 plus their sum.

    B's kinds are scaled to A's clock as if their time were inverse to it. The clock's term is thus an upper bound:
    memory does not follow it. A GPU's wait for its host is not scaled. Page faults are charged with the difference of
    the system's times, at most with all of the system's time.
    """
    has_one_clock = a.is_gpu == b.is_gpu and a.clock_hz and b.clock_hz
    clock_ratio = (b.clock_hz or 1.0) / (a.clock_hz or 1.0) if has_one_clock else 1.0
    parts_a, parts_b = a.parts, dict(b.parts)
    by_clock_s = 0.0
    for name, time_s in parts_b.items():
        if name != OUTSIDE or not b.is_gpu:
            parts_b[name] = time_s * clock_ratio
            by_clock_s += time_s - parts_b[name]
    pairs = {name: (parts_a.get(name, 0.0), parts_b.get(name, 0.0)) for name in parts_a | parts_b}
    cost_s = _fault_cost(a, b)
    faults = [cost_s * (side.page_faults or 0.0) for side in (a, b)]
    pairs[ALLOCATOR] = (faults[0], faults[1])
    pairs[SYSTEM] = (a.system_s - faults[0], b.system_s - faults[1])
    terms = [
        Term(name, *pair, (pair[1] - pair[0]) / a.latency_s)
        for name, pair in pairs.items()
        if max(pair) > 1e-9 * a.latency_s  # less is rounding
    ]
    if clock_ratio != 1.0:
        terms.append(Term(CLOCK, 0.0, by_clock_s, by_clock_s / a.latency_s))
    return sorted(terms, key=lambda term: -abs(term.share))


def _fault_cost(a: ProfiledCell, b: ProfiledCell) -> float:
    """Return the time (s) of one page fault that explains the difference of the system's times; 0 if none can."""
    if a.is_gpu or b.is_gpu or a.page_faults is None or b.page_faults is None or a.page_faults == b.page_faults:
        return 0.0
    cost_s = (b.system_s - a.system_s) / (b.page_faults - a.page_faults)
    most_s = [side.system_s / side.page_faults for side in (a, b) if side.page_faults]
    return max(min(cost_s, *most_s), 0.0)
