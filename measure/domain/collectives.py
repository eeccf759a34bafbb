"""Collectives of several processes: the wait for others, told from the transfer, and the bandwidth of the transfer."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from measure.domain.trace_records import COLLECTIVES, TraceCollective

Process = tuple[int, int]  # rank and device
ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, SEND = (
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send",
)  # fmt: skip
IN_PARTS = (ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, "alltoall", "gather", "scatter")  # traces write alltoall
"""Collectives of a message of which each rank has its own part."""


@dataclass
class CollectiveTime:
    """The collectives of one rank in a step, as means over its steps.

    The last process to arrive waits for nobody: its time is the transfer, and what others take beyond it is their wait.
    Both are None if a single rank is known. ``unmatched_s`` is the time of collectives without their counterparts.
    ``exposed_s`` is the time in which the rank computes nothing meanwhile. ``byte`` and ``bus_byte_per_s`` are None if
    the trace records too little; the second is of the transfer, without the wait.
    """

    rank: int
    calls: float = 0.0
    transfer_s: float | None = 0.0
    wait_s: float | None = 0.0
    unmatched_s: float = 0.0
    exposed_s: float | None = None
    byte: float | None = None
    bus_byte_per_s: float | None = None


def collective_of(name: str) -> str | None:
    """Return the word of ``COLLECTIVES`` in a name of torch's, NCCL's or gloo's; None for none."""
    letters = re.sub("[^a-z]", "", name.lower())
    if "sendrecv" in letters:  # NCCL's kernel of several collectives
        return None
    return next((word for word in COLLECTIVES if word.replace("_", "") in letters), None)


def bus_factor(collective: str | None, ranks: int | None) -> float | None:
    """Return what to multiply bytes by for the bus bandwidth; None if it is unknown.

    Source: nccl-tests, doc/PERFORMANCE.md: what each link carries of a message, if the algorithm is the best.
    """
    if ranks is None or collective in (None, "barrier"):
        return None
    if collective == ALL_REDUCE:
        return 2 * (ranks - 1) / ranks
    if collective in IN_PARTS:
        return (ranks - 1) / ranks
    return 1.0


def collective_times(rows: Iterable[TraceCollective]) -> list[CollectiveTime]:
    """Return the times of each rank, by rank.

    With some ranks missing, the transfer is at most, and the wait at least, what is returned.
    """
    rows = list(rows)
    by_rank: defaultdict[int, list[TraceCollective]] = defaultdict(list)
    for row in rows:
        by_rank[row.rank].append(row)
    transfers: dict[int, float] = {}  # of each matched collective, by the identity of its row
    for same in _matched(rows) if len(by_rank) > 1 else ():
        transfers |= dict.fromkeys(map(id, same), min(row.time_s for row in same))
    return [_time(rank, by_rank[rank], transfers, len(by_rank) > 1) for rank in sorted(by_rank)]


def matched_share(times: Sequence[CollectiveTime]) -> float | None:
    """Return the share of the collectives' time that is told apart; None for a single rank."""
    total = sum((each.transfer_s or 0.0) + (each.wait_s or 0.0) + each.unmatched_s for each in times)
    return 1 - sum(each.unmatched_s for each in times) / total if len(times) > 1 and total else None


def _time(rank: int, rows: Sequence[TraceCollective], transfers: dict[int, float], is_compared: bool) -> CollectiveTime:
    steps = len({row.step for row in rows})
    matched = [row for row in rows if id(row) in transfers]
    transfer_s = sum(transfers[id(row)] for row in matched)
    own = [(row, bus_factor(row.collective, row.group_size)) for row in matched if row.byte is not None]
    carried = [(row.byte * factor, transfers[id(row)]) for row, factor in own if row.byte and factor]
    carried_s = sum(time_s for _, time_s in carried)
    sizes = [0 if row.collective == "barrier" else row.byte for row in rows]
    exposed = [row.exposed_s for row in rows if row.exposed_s is not None]
    return CollectiveTime(
        rank,
        len(rows) / steps,
        transfer_s / steps if is_compared else None,
        (sum(row.time_s for row in matched) - transfer_s) / steps if is_compared else None,
        sum(row.time_s for row in rows if id(row) not in transfers) / steps,
        sum(exposed) / steps if len(exposed) == len(rows) else None,
        sum(size or 0 for size in sizes) / steps if None not in sizes else None,
        sum(byte for byte, _ in carried) / carried_s if carried_s else None,
    )


def _matched(rows: Iterable[TraceCollective]) -> Iterator[Sequence[TraceCollective]]:
    """Yield the rows of each collective, one of each process.

    Those with a recorded number in their group are matched by it. Others are matched by step, name, ranks and order, as
    the ranks must run them, if all ranks have as many.
    """
    numbered: defaultdict[tuple[object, ...], list[TraceCollective]] = defaultdict(list)
    ordered: defaultdict[tuple[object, ...], defaultdict[Process, list[TraceCollective]]]
    ordered = defaultdict(lambda: defaultdict(list))
    seen: Counter[tuple[object, ...]] = Counter()
    for row in sorted(rows, key=lambda row: (row.step, row.number)):
        name = row.operator, row.ranks, row.group
        if row.sequence is not None:
            same = *name, row.sequence
            numbered[*same, seen[row.rank, row.device, *same]].append(row)  # joint launches share a number
            seen[row.rank, row.device, *same] += 1
        else:
            ordered[row.step, *name][row.rank, row.device].append(row)
    yield from (same for same in numbered.values() if len(same) > 1)
    for of_process in ordered.values():
        if len(of_process) > 1 and len({len(calls) for calls in of_process.values()}) == 1:
            yield from zip(*of_process.values(), strict=True)
