"""The wait for other processes in a collective, told from the transfer by the traces of several ranks."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from measure.domain.trace_records import TraceCollective


@dataclass
class CollectiveTime:
    """The collectives of one rank in a step, as means over its steps.

    The last process to arrive waits for nobody: its time is the transfer, and what others take beyond it is their wait.
    ``unmatched_s`` is the time of collectives that not every recorded rank has as often.
    """

    rank: int
    calls: float = 0.0
    transfer_s: float = 0.0
    wait_s: float = 0.0
    unmatched_s: float = 0.0


def collective_times(rows: Iterable[TraceCollective]) -> list[CollectiveTime]:
    """Return the times of each rank, by rank; none of fewer than two ranks.

    Collectives are matched by step, name, ranks and order, as the ranks must run them. With some ranks missing, the
    transfer is at most, and the wait at least, what is returned.
    """
    alike: defaultdict[tuple[int, str, str | None], defaultdict[tuple[int, int], list[TraceCollective]]]
    alike = defaultdict(lambda: defaultdict(list))
    steps: defaultdict[int, set[int]] = defaultdict(set)
    for row in sorted(rows, key=lambda row: row.number):
        alike[row.step, row.operator, row.ranks][row.rank, row.device].append(row)
        steps[row.rank].add(row.step)
    if len(steps) < 2:
        return []
    found = {rank: CollectiveTime(rank) for rank in sorted(steps)}
    for of_process in alike.values():
        if len(of_process) < 2 or len({len(calls) for calls in of_process.values()}) > 1:
            for call in chain(*of_process.values()):
                found[call.rank].calls += 1 / len(steps[call.rank])
                found[call.rank].unmatched_s += call.time_s / len(steps[call.rank])
            continue
        for calls in zip(*of_process.values(), strict=True):
            transfer_s = min(call.time_s for call in calls)
            for call in calls:
                found[call.rank].calls += 1 / len(steps[call.rank])
                found[call.rank].transfer_s += transfer_s / len(steps[call.rank])
                found[call.rank].wait_s += (call.time_s - transfer_s) / len(steps[call.rank])
    return list(found.values())
