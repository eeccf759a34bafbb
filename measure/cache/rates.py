"""A machine's rates, from its roof measurements: the roof that bounds what every model reaches on it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from measure.cache.records import RoofMeasurement
from measure.cache.words import STREAM_ARRAYS, SUSTAINED

ARITHMETIC = ("matmul", "fma", "numpy_matmul")
"""The kernels that a peak is read from."""


@dataclass(frozen=True)
class Rates:
    """The fastest sustained arithmetic at each precision that was measured, and the fastest ``stream`` through memory.

    ``byte_per_s`` and ``stream`` are None where no stream was measured.
    """

    flop_per_s: Mapping[str, float]
    byte_per_s: float | None
    stream: str | None

    def ridge(self, precision: str) -> float | None:
        """Return the intensity (FLOP/B) at which the two meet, where both are known."""
        peak = self.flop_per_s.get(precision)
        return None if peak is None or self.byte_per_s is None else peak / self.byte_per_s

    def attainable(self, precision: str, intensity: float) -> float | None:
        """Return the rate (FLOP/s) that nothing of this intensity exceeds (Williams et al. 2009); None if unknown."""
        peak = self.flop_per_s.get(precision)
        return None if peak is None or self.byte_per_s is None else min(peak, intensity * self.byte_per_s)


def measured(rows: Iterable[RoofMeasurement]) -> Rates:
    """Return the rates of one environment, of several rounds their median; of an earlier version no stream."""
    timed = [
        (row, row.latency_s) for row in rows if row.status == "ok" and row.latency_s and row.pace in (None, SUSTAINED)
    ]
    peaks: dict[str, float] = {}
    streams: dict[str, list[float]] = defaultdict(list)
    for row, seconds in timed:
        if row.roof_kernel in ARITHMETIC:
            peaks[row.precision] = max(row.flop / seconds, peaks.get(row.precision, 0.0))
        elif row.roof_kernel in STREAM_ARRAYS and row.round is not None:
            streams[row.roof_kernel].append(row.byte / seconds)
    rates = {kernel: median(found) for kernel, found in streams.items()}
    fastest = max(rates, key=lambda kernel: rates[kernel], default=None)
    return Rates(peaks, None if fastest is None else rates[fastest], fastest)
