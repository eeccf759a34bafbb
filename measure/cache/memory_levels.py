"""The levels of a memory hierarchy: as a system reports its caches, and as a sweep of working sets shows them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

LIKENESS = 1.1
"""Rates of one level differ by no more than this factor: neighbouring levels' differ by more on every chip seen."""

FEWEST = 3
"""Working sets that a level before the last must show: fewer are the slope between two levels."""


@dataclass(frozen=True)
class Cache:
    """The data caches of one level: their bytes in all, and how many there are of them."""

    level: int
    byte: int
    count: int


def text_of(caches: Iterable[Cache]) -> str | None:
    """Return caches as a table's cell holds them: ``level:byte:count``, joined by ``;``; None for none."""
    return ";".join(f"{each.level}:{each.byte}:{each.count}" for each in caches) or None


def caches_of(text: str | None) -> tuple[Cache, ...]:
    """Return the caches in a cell, which has the form that ``text_of`` writes."""
    return tuple(Cache(*map(int, part.split(":"))) for part in (text or "").split(";") if part)


@dataclass(frozen=True)
class Level:
    """A level of memory: the smallest and the largest working set (bytes) that it served at its rate."""

    first_byte: int
    last_byte: int

    def holds(self, byte: int) -> bool:
        return self.first_byte <= byte <= self.last_byte


def levels(rates: Mapping[int, float]) -> list[Level]:
    """Return the levels that bytes per second by working set (bytes) show, the fastest first; one at least for any.

    The last level, which is memory, serves the largest working set and all smaller ones in a row that are served
    alike. Every other level is a run of at least ``FEWEST`` working sets that are served alike, faster than all
    levels behind it. What lies between two levels is served by both.
    """
    sizes = sorted(rates)
    if not sizes:
        return []
    start = len(sizes) - 1
    while start and _alike([rates[size] for size in sizes[start - 1 :]]):
        start -= 1
    found = [Level(sizes[start], sizes[-1])]
    slower = median(rates[size] for size in sizes[start:])
    for run in reversed(_runs(sizes[:start], rates)):
        rate = median(rates[size] for size in run)
        if rate > LIKENESS * slower:
            found.insert(0, Level(run[0], run[-1]))
            slower = rate
        elif rate * LIKENESS >= slower:  # one level with the run behind it, but for a disturbance between
            found[0] = Level(run[0], found[0].last_byte)
    return found


def _alike(rates: Sequence[float]) -> bool:
    return max(rates) <= LIKENESS * min(rates)


def _runs(sizes: Sequence[int], rates: Mapping[int, float]) -> list[Sequence[int]]:
    """Return the longest run of sizes that are served alike, and likewise those before and behind it."""
    windows = [
        (stop - start, start, stop)
        for start in range(len(sizes))
        for stop in range(start + FEWEST, len(sizes) + 1)
        if _alike([rates[size] for size in sizes[start:stop]])
    ]
    if not windows:
        return []
    _, start, stop = max(windows, key=lambda window: window[0])
    return [*_runs(sizes[:start], rates), sizes[start:stop], *_runs(sizes[stop:], rates)]
