"""A machine's roofs with their intervals, the levels of its memory and its clock, from its roof measurements."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan
from statistics import median
from typing import Any, NamedTuple

import pandas as pd

from measure.domain.records import RoofMeasurement
from measure.domain.roofs import CacheLevel, Roof, Roofline, throttle_note
from measure.domain.statistics import Estimate, quotient
from measure.domain.words import EIGHT_BITS, ROOF_KERNELS, STREAM_ARRAYS, SUSTAINED
from report.paper.frames import highest, matching

STREAMS = {kernel: ROOF_KERNELS[kernel].words for kernel in STREAM_ARRAYS}
"""The kernels that measure bandwidth, with their names in the paper."""

TIMES = ["latency_s", "latency_low_s", "latency_high_s"]  # a median and the ends of its interval
STEP = 2**0.5  # between working sets of a sweep

LIKENESS = 1.1
"""Rates of one level differ by at most this factor; levels differ by more on every chip seen."""

FEWEST_SIZES = 3  # the fewest working sets of a level, except the last: fewer are a slope between levels


@dataclass(frozen=True)
class MemoryLevel:
    """A level of memory in a sweep, named after the reported cache if they agree.

    It serves working sets from ``first_byte`` to ``last_byte``. ``kernels`` maps each stream to its fastest row of
    ``with_rates`` within the level.
    """

    name: str
    first_byte: int
    last_byte: int
    kernels: dict[str, pd.Series]

    @property
    def fastest(self) -> str:
        """The name of the fastest stream."""
        return max(self.kernels, key=lambda name: self.kernels[name].byte_per_s)

    @property
    def bandwidth_byte_per_s(self) -> float:
        return float(self.kernels[self.fastest].byte_per_s)


def with_rates(merged: pd.DataFrame) -> pd.DataFrame:
    """Add the rates (``flop_per_s``, ``byte_per_s``) with intervals to merged rows (``domain.roofs.merge_rounds``)."""
    merged = merged.astype(dict.fromkeys(TIMES, float))
    rates = {
        f"{work}{end}_per_s": merged[work] / merged[f"latency{bound}_s"]
        for work in ("flop", "byte")
        for end, bound in (("", ""), ("_low", "_high"), ("_high", "_low"))
    }
    return merged.assign(**rates)


def sustained(rows: pd.DataFrame, kernels: Iterable[str]) -> pd.DataFrame:
    """Return the sustained rows of some kernels, the basis of roofs."""
    return rows[rows.roof_kernel.isin(list(kernels)) & (rows.pace == SUSTAINED)]


def find_levels(rates: Mapping[int, float]) -> list[tuple[int, int]]:
    """Find memory levels in rates (B/s) by working set (bytes), fastest first; none without rates.

    A level is its smallest and its largest working set.

    The last level is memory: the largest working set, and all adjacent ones at a like rate. Every other level is a run
    of at least ``FEWEST_SIZES`` working sets at a like rate, faster than all later levels. Working sets between two
    levels use both.
    """
    sizes = sorted(rates)
    if not sizes:
        return []
    start = len(sizes) - 1
    while start and _are_alike([rates[size] for size in sizes[start - 1 :]]):
        start -= 1
    found = [(sizes[start], sizes[-1])]
    slower = median(rates[size] for size in sizes[start:])
    for run in reversed(_runs(sizes[:start], rates)):
        rate = median(rates[size] for size in run)
        if rate > LIKENESS * slower:
            found.insert(0, (run[0], run[-1]))
            slower = rate
        elif rate * LIKENESS >= slower:  # a disturbance split one level in two
            found[0] = (run[0], found[0][1])
    return found


def _are_alike(rates: Sequence[float]) -> bool:
    return max(rates) <= LIKENESS * min(rates)


def _runs(sizes: Sequence[int], rates: Mapping[int, float]) -> list[Sequence[int]]:
    """Return the longest run of sizes with like rates, then the same on both sides of it."""
    windows = [
        (stop - start, start, stop)
        for start in range(len(sizes))
        for stop in range(start + FEWEST_SIZES, len(sizes) + 1)
        if _are_alike([rates[size] for size in sizes[start:stop]])
    ]
    if not windows:
        return []
    _, start, stop = max(windows, key=lambda window: window[0])
    return [*_runs(sizes[:start], rates), sizes[start:stop], *_runs(sizes[stop:], rates)]


def memory_levels(rows: pd.DataFrame, reported: Sequence[CacheLevel]) -> list[MemoryLevel]:
    """Return the levels of memory, fastest first, named after the reported caches; none without a sweep.

    Levels come from reads, which do not depend on how a chip stores.
    """
    streams, reads = sustained(rows, STREAM_ARRAYS), sustained(rows, ["stream_read"])
    found = find_levels(dict(zip(reads["size"].astype(int), reads.byte_per_s, strict=True)))
    named = []
    for place, (first, last) in enumerate(found):
        name = "memory"
        if place + 1 < len(found):  # its cache ends with the level, before the next one, or a step off
            least, most = last / STEP, found[place + 1][0] * STEP
            levels = (f"L{cache.level}" for cache in reported if least <= cache.byte <= most)
            name = next(levels, f"cache {place + 1}")
        within = streams[streams["size"].between(first, last)]
        kernels = {
            stream: highest(within[within.roof_kernel == kernel], "byte_per_s")
            for kernel, stream in STREAMS.items()
            if (within.roof_kernel == kernel).any()
        }
        named.append(MemoryLevel(name, first, last, kernels))
    return named


class LastCache(NamedTuple):
    """The last cache before the memory: its size, and the bandwidth that a sweep measured from it."""

    byte: int
    byte_per_s: float


def _last_byte(reported: Sequence[CacheLevel]) -> int | None:
    return max(reported, key=lambda cache: cache.level).byte if reported else None


def swept_cache(reported: Sequence[CacheLevel], levels: Sequence[MemoryLevel]) -> LastCache | None:
    """Return the last cache of a sweep, as large as reported, else as its largest working set; None without a sweep."""
    if not levels[1:]:
        return None
    return LastCache(_last_byte(reported) or levels[-2].last_byte, levels[-2].bandwidth_byte_per_s)


def with_cache(roof: Roof, reported: Sequence[CacheLevel], levels: Sequence[MemoryLevel]) -> Roof:
    """Give a datasheet's roof the last cache of a machine: the size that it reports, and the bandwidth in its sweep."""
    swept = swept_cache(reported, levels)
    size = _last_byte(reported) or roof.cache_byte
    return replace(roof, cache_byte=size, cache_byte_per_s=swept.byte_per_s if swept else None)


def measured_roofs(roof: Roof) -> pd.DataFrame:
    """Return a roof as a frame: peak, bandwidth and ridge point per precision.

    Each has an interval (NaN if unknown), peak and bandwidth their kernels, with a note if these lowered the clock. All
    precisions share one bandwidth.
    8-bit precisions are left out: no model runs in them, and integers do no FLOP.
    """
    rows: list[dict[str, Any]] = []
    stream = roof.stream
    for precision, kernel in roof.arithmetic.items():
        if stream is not None and precision not in EIGHT_BITS:
            peak, bandwidth = _rate(kernel, kernel.flop), _rate(stream, stream.byte)
            kernels = {"peak_kernel": kernel.roof_kernel, "bandwidth_kernel": stream.roof_kernel}
            notes = {"peak_note": throttle_note(kernel), "bandwidth_note": throttle_note(stream)}
            rows.append({
                "precision": precision, **kernels, **notes,
                **_columns("peak", peak, "flop_per_s"),
                **_columns("bandwidth", bandwidth, "byte_per_s"),
                **_columns("ridge", quotient(peak, bandwidth), "flop_per_byte"),
            })  # fmt: skip
    return pd.DataFrame(rows) if rows else pd.DataFrame(columns=["precision"])


def roof_at(roofs: pd.DataFrame, precision: str) -> Roofline | None:
    """Return the roofline at a precision from ``measured_roofs``; None if it was not measured."""
    rows = matching(roofs, precision=precision)
    return None if rows.empty else Roofline(rows.iloc[0].peak_flop_per_s, rows.iloc[0].bandwidth_byte_per_s)


def _rate(row: RoofMeasurement, work: int) -> Estimate:
    """Return a kernel's work per second, with interval."""
    low_s, latency_s, high_s = row.latency_low_s, row.latency_s, row.latency_high_s
    assert latency_s is not None  # merged rows have a result
    return Estimate(work / latency_s, work / high_s if high_s else None, work / low_s if low_s else None)


def _columns(name: str, rate: Estimate, unit: str) -> dict[str, float]:
    ends = {"": rate.median, "_low": rate.low, "_high": rate.high}
    return {f"{name}{end}_{unit}": nan if value is None else value for end, value in ends.items()}


def measured_clock(rows: pd.DataFrame) -> float | None:
    """Return the clock (Hz) from a chain of dependent integer additions at one per cycle; None if not measured."""
    chains = sustained(rows, ["chain"])
    addition_s = dict(zip(chains.precision, chains.latency_s / chains["size"], strict=True))
    return 1 / addition_s["int64"] if "int64" in addition_s else None
