"""Roofs: a device's highest rates of arithmetic and memory traffic. Also the caches that a system reports."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from statistics import median
from typing import Any

from measure.domain.records import RoofMeasurement
from measure.domain.statistics import estimate_rounds
from measure.domain.words import LOAD, PEAK_KERNELS, STREAM_ARRAYS, SUSTAINED


@dataclass(frozen=True)
class Roofline:
    """A peak (FLOP/s) and a bandwidth (B/s) at one precision: two numbers, or two columns of them.

    Source: S. Williams, A. Waterman, D. Patterson, Roofline, Communications of the ACM 52 (2009), 65-76.
    """

    peak_flop_per_s: Any
    bandwidth_byte_per_s: Any

    @property
    def ridge_flop_per_byte(self) -> Any:
        return self.peak_flop_per_s / self.bandwidth_byte_per_s

    def attainable(self, intensity_flop_per_byte: Any) -> Any:
        """Return the rate (FLOP/s) that no kernel of this intensity exceeds."""
        return _choose(min, self.peak_flop_per_s, self.bandwidth_byte_per_s * intensity_flop_per_byte)

    def is_memory_bound(self, flop: Any, byte: Any) -> Any:
        """Return whether this work lies below the ridge point."""
        return flop < self.ridge_flop_per_byte * byte

    def least_s(self, flop: Any, byte: Any) -> Any:
        """Return the least time (s) of this work, arithmetic and memory fully overlapped."""
        return _choose(max, flop / self.peak_flop_per_s, byte / self.bandwidth_byte_per_s)


def _choose(choose: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    """Take ``min`` or ``max`` of two numbers, or of two columns row by row; NaN stays NaN in columns."""
    if isinstance(one, int | float) and isinstance(other, int | float):
        return choose(one, other)
    import numpy as np

    return (np.minimum if choose is min else np.maximum)(one, other)


@dataclass(frozen=True)
class Roof:
    """The roof of a machine or chip: peaks by precision (FLOP/s; OP/s at int8), and the memory bandwidth (B/s).

    The bandwidth is None if no stream was measured. ``load`` is the largest share of the cores that other programs
    used, 0 below ``LOAD``: the roof of a loaded machine is too low. A measured roof keeps the merged rows behind its
    rates: ``arithmetic`` by precision, and ``stream``. ``cache_byte`` is the size of the largest cache that all cores
    share, ``cache_byte_per_s`` its bandwidth; None if unknown.
    """

    flop_per_s: Mapping[str, float]
    byte_per_s: float | None
    load: float = 0.0
    arithmetic: Mapping[str, RoofMeasurement] = field(default_factory=dict, compare=False)
    stream: RoofMeasurement | None = field(default=None, compare=False)
    cache_byte: float | None = None
    cache_byte_per_s: float | None = None

    def at(self, precision: str) -> Roofline | None:
        """Return the roofline at a precision; None without a peak or a bandwidth."""
        peak = self.flop_per_s.get(precision)
        return None if peak is None or self.byte_per_s is None else Roofline(peak, self.byte_per_s)


def is_loaded(row: RoofMeasurement) -> bool:
    """Return whether other programs used so much of the processor that a kernel's time says little."""
    return row.load is not None and row.load >= LOAD


def merge_rounds(rows: Iterable[RoofMeasurement]) -> list[RoofMeasurement]:
    """Merge the rounds of a roof kernel at one size and pace: the median latency of the rows with a result.

    A row has the interval of its rounds, ``round`` is their number, ``load`` the largest. Clock, power and energy are
    medians, ``throttle`` has the reasons of all. Rows that other programs disturbed are left out, unless a kernel has
    no others at any size.
    """
    kernels: dict[tuple[Any, ...], list[RoofMeasurement]] = defaultdict(list)
    for row in rows:
        kernels[row.roof_kernel, row.precision, row.pace, row.round is None].append(row)
    rounds: dict[tuple[Any, ...], list[RoofMeasurement]] = defaultdict(list)
    single: list[RoofMeasurement] = []
    for found in kernels.values():
        for row in [row for row in found if not is_loaded(row)] or found:
            if row.status == "ok" and row.latency_s:
                group = single if row.round is None else rounds[row.roof_kernel, row.precision, row.size, row.pace]
                group.append(row)
    merged = []
    for found in rounds.values():
        row = replace(found[0], round=len(found))
        if len(found) > 1:  # one round keeps the interval of its own samples
            estimate = estimate_rounds([[each.latency_s or inf] for each in found])
            load = max((each.load for each in found if each.load is not None), default=None)
            low_s, high_s = estimate.low, estimate.high
            row = replace(row, latency_s=estimate.median, latency_low_s=low_s, latency_high_s=high_s, load=load)
            reasons = dict.fromkeys(each for row in found for each in (row.throttle or "").split(";") if each)
            row = replace(row, throttle=";".join(reasons) or None, **_medians(found, "clock_hz", "power_w", "energy_j"))
        merged.append(row)
    return [*merged, *single]


def _medians(rows: Sequence[RoofMeasurement], *columns: str) -> dict[str, Any]:
    """Return the median of the known values of each column, None without one."""
    known = {name: [value for row in rows if (value := getattr(row, name)) is not None] for name in columns}
    return {name: median(values) if values else None for name, values in known.items()}


def machine_roof(rows: Iterable[RoofMeasurement]) -> Roof:
    """Return the roof of a machine in one environment: the fastest sustained arithmetic, and stream with rounds."""
    arithmetic: dict[str, RoofMeasurement] = {}
    stream: RoofMeasurement | None = None
    for row in merge_rounds(rows):
        if row.pace == SUSTAINED and row.roof_kernel in PEAK_KERNELS:
            arithmetic[row.precision] = max(arithmetic.get(row.precision, row), row, key=flop_per_s)
        elif row.pace == SUSTAINED and row.roof_kernel in STREAM_ARRAYS and row.round is not None:
            stream = max(stream or row, row, key=byte_per_s)
    behind = [*arithmetic.values(), *([stream] if stream else [])]
    return Roof(
        {precision: flop_per_s(row) for precision, row in arithmetic.items()},
        byte_per_s(stream) if stream else None,
        max((row.load or 0.0 for row in behind if is_loaded(row)), default=0.0),
        arithmetic,
        stream,
    )


def flop_per_s(row: RoofMeasurement) -> float:
    """Return the rate of a roof kernel's arithmetic, 0 without a result."""
    return row.flop / (row.latency_s or inf)


def byte_per_s(row: RoofMeasurement) -> float:
    """Return the rate of a roof kernel's traffic, 0 without a result."""
    return row.byte / (row.latency_s or inf)


def throttle_note(row: RoofMeasurement) -> str:
    """Return why the device lowered its clock under a roof kernel, as ``(power cap)``; empty if it did not."""
    return f" ({row.throttle.replace(';', ', ')})" if row.throttle else ""


@dataclass(frozen=True)
class CacheLevel:
    """The data caches of one level: their bytes in all, and their number. As text: a part of ``Environment.caches``."""

    level: int
    byte: int
    count: int

    def __str__(self) -> str:
        return f"{self.level}:{self.byte}:{self.count}"
