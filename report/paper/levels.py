"""The levels of a memory hierarchy, found in a sweep of working sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

LIKENESS = 1.1
"""Rates of one level differ by no more than this factor; neighbouring levels differ by more on every chip seen."""

FEWEST = 3
"""The fewest working sets of a level before the last: fewer are the slope between two levels."""


@dataclass(frozen=True)
class Level:
    """A level of memory: the smallest and the largest working set (bytes) that it serves at its rate."""

    first_byte: int
    last_byte: int

    def holds(self, byte: int) -> bool:
        return self.first_byte <= byte <= self.last_byte


def find_levels(rates: Mapping[int, float]) -> list[Level]:
    """Find the levels of memory in bytes per second by working set (bytes), the fastest first; one at least for any.

    The last level is memory: it serves the largest working set and all smaller ones in a row at a like rate. Every
    other level is a run of at least ``FEWEST`` working sets of like rate, faster than all levels behind it. Working
    sets between two levels are served by both.
    """
    sizes = sorted(rates)
    if not sizes:
        return []
    start = len(sizes) - 1
    while start and _are_alike([rates[size] for size in sizes[start - 1 :]]):
        start -= 1
    found = [Level(sizes[start], sizes[-1])]
    slower = median(rates[size] for size in sizes[start:])
    for run in reversed(_runs(sizes[:start], rates)):
        rate = median(rates[size] for size in run)
        if rate > LIKENESS * slower:
            found.insert(0, Level(run[0], run[-1]))
            slower = rate
        elif rate * LIKENESS >= slower:  # a disturbance split one level in two
            found[0] = Level(run[0], found[0].last_byte)
    return found


def _are_alike(rates: Sequence[float]) -> bool:
    return max(rates) <= LIKENESS * min(rates)


def _runs(sizes: Sequence[int], rates: Mapping[int, float]) -> list[Sequence[int]]:
    """Return the longest run of sizes with like rates, and likewise those before and behind it."""
    windows = [
        (stop - start, start, stop)
        for start in range(len(sizes))
        for stop in range(start + FEWEST, len(sizes) + 1)
        if _are_alike([rates[size] for size in sizes[start:stop]])
    ]
    if not windows:
        return []
    _, start, stop = max(windows, key=lambda window: window[0])
    return [*_runs(sizes[:start], rates), sizes[start:stop], *_runs(sizes[stop:], rates)]
