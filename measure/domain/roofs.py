"""A machine's rates, from its roof measurements: the roof that bounds what every model reaches on it.

The levels of a memory hierarchy: as a system reports its caches, and as a sweep of working sets shows them.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from statistics import median
from typing import TYPE_CHECKING, Any

from measure.domain.words import LOAD, STREAM_ARRAYS, SUSTAINED

if TYPE_CHECKING:
    from measure.cache.records import RoofMeasurement

ARITHMETIC = ("matmul", "fma", "numpy_matmul")
"""The kernels that a peak is read from."""


@dataclass(frozen=True)
class Rates:
    """The fastest sustained arithmetic at each precision that was measured, and the fastest ``stream`` through memory.

    ``byte_per_s`` and ``stream`` are None where no stream was measured. ``load`` is the largest share of the cores that
    other programs used while any of these was measured, 0 where it stayed below ``LOAD``: such a roof is too low.
    """

    flop_per_s: Mapping[str, float]
    byte_per_s: float | None
    stream: str | None
    load: float = 0.0

    def ridge(self, precision: str) -> float | None:
        """Return the intensity (FLOP/B) at which the two meet, where both are known."""
        peak = self.flop_per_s.get(precision)
        return None if peak is None or self.byte_per_s is None else peak / self.byte_per_s

    def attainable(self, precision: str, intensity: float) -> float | None:
        """Return the rate (FLOP/s) that nothing of this intensity exceeds (Williams et al. 2009); None if unknown."""
        peak = self.flop_per_s.get(precision)
        return None if peak is None or self.byte_per_s is None else min(peak, intensity * self.byte_per_s)


def is_loaded(row: "RoofMeasurement") -> bool:
    """Return whether other programs used so much of the processor that a kernel's time says little."""
    return row.load is not None and row.load >= LOAD


def believed(rows: "Iterable[RoofMeasurement]") -> "list[RoofMeasurement]":
    """Return the rows without those that other programs disturbed, as far as their kernel has others.

    A kernel is believed at any size: a roof is read from the fastest.
    """
    kernels: dict[tuple[Any, ...], list[RoofMeasurement]] = defaultdict(list)
    for row in rows:
        kernels[row.roof_kernel, row.precision, row.pace, row.round is None].append(row)
    return [row for found in kernels.values() for row in _undisturbed(found)]


def _undisturbed(rows: "list[RoofMeasurement]") -> "list[RoofMeasurement]":
    return [row for row in rows if not is_loaded(row)] or rows


def measured(rows: "Iterable[RoofMeasurement]") -> Rates:
    """Return the rates of one environment, of several rounds their median."""
    timed = [row for row in believed(rows) if row.status == "ok" and row.latency_s and row.pace == SUSTAINED]
    best: dict[str, RoofMeasurement] = {}
    streams: dict[str, list[RoofMeasurement]] = defaultdict(list)
    for row in timed:
        if row.roof_kernel in ARITHMETIC:
            best[row.precision] = max(row, best.get(row.precision, row), key=_flop_per_s)
        elif row.roof_kernel in STREAM_ARRAYS and row.round is not None:
            streams[row.roof_kernel].append(row)
    rates = {kernel: median(row.byte / (row.latency_s or inf) for row in found) for kernel, found in streams.items()}
    fastest = max(rates, key=lambda kernel: rates[kernel], default=None)
    read_from = [*best.values(), *(streams[fastest] if fastest else ())]
    return Rates(
        {precision: _flop_per_s(row) for precision, row in best.items()},
        None if fastest is None else rates[fastest],
        fastest,
        max((row.load or 0.0 for row in read_from if is_loaded(row)), default=0.0),
    )


def _flop_per_s(row: "RoofMeasurement") -> float:
    return row.flop / (row.latency_s or inf)


LIKENESS = 1.1
"""Rates of one level differ by no more than this factor: neighbouring levels' differ by more on every chip seen."""

FEWEST = 3
"""Working sets that a level before the last must show: fewer are the slope between two levels."""


@dataclass(frozen=True)
class CacheLevel:
    """The data caches of one level: their bytes in all, and how many there are of them."""

    level: int
    byte: int
    count: int


def text_of(caches: Iterable[CacheLevel]) -> str | None:
    """Return caches as a table's cell holds them: ``level:byte:count``, joined by ``;``; None for none."""
    return ";".join(f"{each.level}:{each.byte}:{each.count}" for each in caches) or None


def caches_of(text: str | None) -> tuple[CacheLevel, ...]:
    """Return the caches in a cell, which has the form that ``text_of`` writes."""
    return tuple(CacheLevel(*map(int, part.split(":"))) for part in (text or "").split(";") if part)


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
