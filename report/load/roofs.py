"""A machine's roofs with their intervals, the levels of its memory and its clock, from its roof measurements."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, hypot, isnan, log, nan
from typing import Any

import pandas as pd

from measure.domain.roofs import CacheLevel, Roofline
from measure.domain.statistics import Estimate, estimate_rounds
from measure.domain.words import BURST, EIGHT_BITS, STREAM_ARRAYS, SUSTAINED
from report.load.memory_levels import Level, find_levels
from report.text.frame_rows import matching

ARITHMETIC = {"fma": "multiply-add", "matmul": "matrix product (torch)", "numpy_matmul": "matrix product (NumPy)"}
"""The kernels that give a peak, with their names in the paper."""

STREAMS = {kernel: kernel.removeprefix("stream_") for kernel in STREAM_ARRAYS}
"""The kernels that give a bandwidth, likewise."""

TIMES = ["latency_s", "latency_low_s", "latency_high_s"]
"""A median and the ends of its interval."""

STEP = 2**0.5
"""From one working set of a sweep to the next."""


@dataclass(frozen=True)
class Clock:
    """The clock of a processor in Hz, and the cycles that a floating-point addition took (None: not measured).

    Both come from chains of dependent additions, of which one of integers takes a cycle.
    """

    hertz: float
    addition_cycle: float | None


@dataclass(frozen=True)
class MemoryLevel:
    """A level of memory that a sweep showed: its name, and the cache of it that the system reports, where they agree.

    ``kernels`` is the fastest row of ``rated`` of each stream within the level, by the stream's name.
    """

    name: str
    level: Level
    cache: CacheLevel | None
    kernels: dict[str, pd.Series]

    @property
    def fastest(self) -> str:
        """The name of the fastest stream."""
        return max(self.kernels, key=lambda name: self.kernels[name].byte_per_s)

    @property
    def bandwidth_byte_per_s(self) -> float:
        return float(self.kernels[self.fastest].byte_per_s)


def rated(roof_measurements: pd.DataFrame) -> pd.DataFrame:
    """Join the rounds of the ``ok`` roof measurements; add rates (``flop_per_s``, ``byte_per_s``) with intervals."""
    roof_measurements = roof_measurements[roof_measurements.status == "ok"].astype(dict.fromkeys(TIMES, float))
    roof_measurements = merge_rounds(roof_measurements)
    rates = {
        f"{work}_per_s{end}": roof_measurements[work] / roof_measurements[f"latency{bound}_s"]
        for work in ("flop", "byte")
        for end, bound in (("", ""), ("_low", "_high"), ("_high", "_low"))
    }
    return roof_measurements.assign(**rates)


def merge_rounds(rows: pd.DataFrame) -> pd.DataFrame:
    """One row is a roof kernel at one size and pace: the median of its rounds, and the ends of its interval.

    ``round`` becomes the number of rounds, empty for a kernel without numbered rounds.
    """
    key = ["environment_id", "roof_kernel", "precision", "size", "pace"]
    numbered = rows[rows["round"].notna()]
    if numbered.empty:
        return rows
    merged = []
    for _, taken in numbered.groupby(key, sort=False):
        row = taken.iloc[0].to_dict() | {"round": len(taken)}
        if len(taken) > 1:  # one round keeps the interval of its own samples
            estimate = estimate_rounds([[latency_s] for latency_s in taken.latency_s])
            row |= zip(TIMES, (estimate.median, estimate.low, estimate.high), strict=True)
        merged.append(row)
    return pd.concat([pd.DataFrame(merged), rows[rows["round"].isna()]], ignore_index=True)


def sustained(rows: pd.DataFrame, kernels: Iterable[str]) -> pd.DataFrame:
    """Return the sustained rows of some kernels: roofs are read from these."""
    return rows[rows.roof_kernel.isin(list(kernels)) & (rows.pace == SUSTAINED)]


def burst(rows: pd.DataFrame, kernels: Iterable[str]) -> pd.DataFrame:
    """Return the rows of some kernels in bursts."""
    return rows[rows.roof_kernel.isin(list(kernels)) & (rows.pace == BURST)]


def fastest(rows: pd.DataFrame, rate: str) -> pd.Series:
    """Return the row with the highest rate of this kind."""
    return rows.iloc[int(rows[rate].to_numpy().argmax())]


def peaks(rows: pd.DataFrame) -> dict[str, float]:
    """Return the rate of the fastest sustained arithmetic at each precision: FLOP/s, at int8 OP/s."""
    by_precision = sustained(rows, ARITHMETIC).groupby("precision", sort=False)
    return {str(precision): float(found.flop_per_s.max()) for precision, found in by_precision}


def _without_eight_bits(rows: pd.DataFrame) -> pd.DataFrame:
    """Drop the precisions of 8 bits: no model runs in them, and integers do no FLOP."""
    return rows[~rows.precision.isin(EIGHT_BITS)]


def fastest_arithmetic(rows: pd.DataFrame) -> list[tuple[str, pd.Series]]:
    """Return the fastest sustained multiply-add and matrix product at each precision of a roof, each with its name."""
    rows, products = _without_eight_bits(rows), [kernel for kernel in ARITHMETIC if kernel != "fma"]
    return [
        (what, fastest(candidates, "flop_per_s"))
        for what, kernels in (("multiply-add", ["fma"]), ("matrix product", products))
        for _, candidates in sustained(rows, kernels).groupby("precision", sort=False)
    ]


def sweep(rows: pd.DataFrame) -> list[Level]:
    """Return the levels of memory that reading shows, fastest first: reading is the same whatever store a chip has."""
    reads = sustained(rows, ["stream_read"])
    return find_levels(dict(zip(reads["size"].astype(int), reads.byte_per_s, strict=True)))


def from_memory(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the sustained streams that give a bandwidth: numbered rounds on a working set beyond all caches."""
    streams = sustained(rows, STREAM_ARRAYS)
    return streams[streams["round"].notna()]


def memory_levels(rows: pd.DataFrame, reported: Sequence[CacheLevel]) -> list[MemoryLevel]:
    """Return the levels of memory, fastest first, with what the system reports of its caches; none without a sweep."""
    found, streams = sweep(rows), sustained(rows, STREAM_ARRAYS)
    named = []
    for place, level in enumerate(found):
        cache = None if level is found[-1] else _agreeing(level, found[place + 1], reported)
        name = "memory" if level is found[-1] else f"L{cache.level}" if cache else f"cache {place + 1}"
        within = streams[[level.holds(size) for size in streams["size"]]]
        kernels = {
            stream: fastest(within[within.roof_kernel == kernel], "byte_per_s")
            for kernel, stream in STREAMS.items()
            if (within.roof_kernel == kernel).any()
        }
        named.append(MemoryLevel(name, level, cache, kernels))
    return named


def _agreeing(level: Level, behind: Level, caches: Iterable[CacheLevel]) -> CacheLevel | None:
    """Return the first cache whose size lies between the end of a level and the begin of that behind, or a step off."""
    least, most = level.last_byte / STEP, behind.first_byte * STEP
    return next((cache for cache in caches if least <= cache.byte <= most), None)


def measured_roofs(rows: pd.DataFrame) -> pd.DataFrame:
    """One row is a precision: the fastest arithmetic's sustained rate and the fastest stream's through memory.

    Each has its interval and kernel, the ridge point its interval. One bandwidth serves all precisions. Precisions of
    8 bits have no roof.
    """
    streams, arithmetic = from_memory(rows), sustained(_without_eight_bits(rows), ARITHMETIC)
    if streams.empty or arithmetic.empty:
        return pd.DataFrame(columns=["precision"])
    bandwidth = _roof("bandwidth", "byte", streams)
    peaks = {precision: _roof("peak", "flop", rows) for precision, rows in arithmetic.groupby("precision", sort=False)}
    return pd.DataFrame(
        {"precision": precision} | peak | bandwidth | _ridge(peak, bandwidth) for precision, peak in peaks.items()
    )


def roof_at(roofs: pd.DataFrame, precision: str) -> Roofline | None:
    """Return the row of ``measured_roofs`` at a precision as a roofline; None if it was not measured."""
    rows = matching(roofs, precision=precision)
    return None if rows.empty else Roofline(rows.iloc[0].peak_flop_per_s, rows.iloc[0].bandwidth_byte_per_s)


def _roof(name: str, unit: str, rows: pd.DataFrame) -> dict[str, Any]:
    """Return the columns of a roof that is the fastest of the rows."""
    best = fastest(rows, f"{unit}_per_s")
    rates = {f"{name}{end}_{unit}_per_s": best[f"{unit}_per_s{end}"] for end in ("", "_low", "_high")}
    return rates | {f"{name}_kernel": best.roof_kernel}


def quotient(dividend: Estimate, divisor: Estimate) -> Estimate:
    """Return the quotient of two independent medians above 0; without an interval if one of them has none.

    The widths of their logarithms add in squares: on each side of the quotient those of the dividend on that side and
    of the divisor on the other.
    """
    value = dividend.median / divisor.median
    if dividend.low is None or dividend.high is None or divisor.low is None or divisor.high is None:
        return Estimate(value, None, None)
    below = hypot(log(dividend.median / dividend.low), log(divisor.high / divisor.median))
    above = hypot(log(dividend.high / dividend.median), log(divisor.median / divisor.low))
    return Estimate(value, value * exp(-below), value * exp(above))


def _ridge(peak: dict[str, Any], bandwidth: dict[str, Any]) -> dict[str, float]:
    """Return the ridge point of a roof with the ends of its interval, NaN where one of the two rates has none."""
    rates = []
    for row, name, unit in ((peak, "peak", "flop"), (bandwidth, "bandwidth", "byte")):
        middle, low, high = (float(row[f"{name}{end}_{unit}_per_s"]) for end in ("", "_low", "_high"))
        rates.append(Estimate(middle, None, None) if isnan(low + high) else Estimate(middle, low, high))
    ridge = quotient(*rates)
    low, high = (nan if end is None else end for end in (ridge.low, ridge.high))
    return {"ridge_flop_per_byte": ridge.median, "ridge_low_flop_per_byte": low, "ridge_high_flop_per_byte": high}


def measured_clock(rows: pd.DataFrame) -> Clock | None:
    """Return the clock from the chain of integer additions; None if it was not measured."""
    chains = sustained(rows, ["chain"])
    addition_s = dict(zip(chains.precision, chains.latency_s / chains["size"], strict=True))
    if "int64" not in addition_s:
        return None
    cycle_s = addition_s["int64"]
    return Clock(1 / cycle_s, addition_s["fp64"] / cycle_s if "fp64" in addition_s else None)
