"""The sampling loop. Its clock is an argument, so that tests can turn the hands."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from measure.statistics import estimate_median


@dataclass(frozen=True)
class Sampling:
    """When the loop has seen enough.

    A sample is a block of calls that lasts at least ``block_s``, so that the clock and one synchronisation vanish in
    it. Warm-up ends when the newer half of the last ``2 * trend`` blocks is no faster than the older half by more
    than ``target``, or after ``warm_up_s``. Sampling ends when the 95 % interval of the median is within ± ``target``
    and ``least_s`` have passed, or after ``limit_s``, or at ``most`` samples; ``fewest`` are taken in any case.
    """

    target: float = 0.02
    block_s: float = 0.02
    trend: int = 3
    warm_up_s: float = 5.0
    least_s: float = 2.0
    limit_s: float = 60.0
    fewest: int = 3
    most: int = 400


@dataclass(frozen=True)
class Timing:
    """Samples in the order of time: seconds of one call, each the mean over a block of ``block`` calls."""

    block: int
    latencies_s: tuple[float, ...]


def sample(
    call: Callable[[], object],
    synchronize: Callable[[], None],
    sampling: Sampling,
    clock: Callable[[], int] = time.perf_counter_ns,
    beat: Callable[[], None] = lambda: None,
) -> Timing:
    """Warms up, then times blocks of calls until the sampling's rule is met.

    ``clock`` counts nanoseconds; ``beat`` is called after every block, as a sign of life.
    """

    def block_s(calls: int) -> float:
        start = clock()
        for _ in range(calls):
            call()
        synchronize()
        elapsed = (clock() - start) / 1e9
        beat()
        return elapsed

    synchronize()
    warm_up_start = clock()
    first_s = block_s(1)  # alone: it also pays for what is set up once
    again_s = block_s(1) if first_s < sampling.warm_up_s else first_s
    calls = max(1, round(sampling.block_s / max(min(first_s, again_s), 1e-9)))
    blocks: list[float] = []
    while (clock() - warm_up_start) / 1e9 < sampling.warm_up_s and not _is_flat(blocks, sampling):
        blocks.append(block_s(calls) / calls)
    if blocks:
        calls = max(1, round(sampling.block_s / max(median(blocks[-sampling.trend :]), 1e-9)))

    latencies: list[float] = []
    start = clock()
    while True:
        latencies.append(block_s(calls) / calls)
        elapsed_s = (clock() - start) / 1e9
        if len(latencies) < sampling.fewest:
            continue
        if elapsed_s >= sampling.limit_s or len(latencies) >= sampling.most:
            break
        if elapsed_s >= sampling.least_s:
            width = estimate_median(latencies).relative_half_width
            if width is not None and width <= sampling.target:
                break
    return Timing(calls, tuple(latencies))


def _is_flat(blocks: list[float], sampling: Sampling) -> bool:
    if len(blocks) < 2 * sampling.trend:
        return False
    newer, older = blocks[-sampling.trend :], blocks[-2 * sampling.trend : -sampling.trend]
    return median(newer) >= (1 - sampling.target) * median(older)
