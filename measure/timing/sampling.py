"""The sampling loop: warm a call up, then time blocks of it until the median is known well enough."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from statistics import median

from measure.domain.statistics import estimate_median, is_drifting
from measure.domain.words import CALL_LIMIT_S, CAPPED, DRIFTING, LOAD, LOADED, TARGET, THROTTLED, WIDE
from measure.machine.sensors import ENERGY_STEPS, NVIDIA_STEP_S, POWER_CAP, Conditions, Sensors
from measure.timing.stopwatch import Stopwatch, TimedSample

_log = logging.getLogger(__name__)

CLOCK_SHARE = 1e-3  # the largest share of a block spent on reading the clock and waiting for the device
ENERGY_S = ENERGY_STEPS * NVIDIA_STEP_S
LOOKS = 1.25  # the growth of the number of samples between two looks at their interval


@dataclass(frozen=True)
class Sampling:
    """When warm-up and sampling end.

    A sample is a block of calls that lasts at least ``block_s``. Warm-up ends when the medians of the newest ``trend``
    blocks (or as many as fill ``trend_s``) and of as many before them differ by at most ``target``, or after
    ``warm_up_s``. Sampling ends when the 95 % interval of the median is within ± ``target`` and ``least_s`` have
    passed, after ``limit_s``, or at ``most`` samples, but never before ``fewest`` samples. ``Worker`` aborts a call, or
    the building of its model, that takes longer than ``call_limit_s``.

    ``has_energy``: on a GPU with an energy counter, sampling lasts ``ENERGY_S`` or more, and from step to step of it.
    """

    target: float = TARGET / 2
    block_s: float = 0.02
    trend: int = 3
    trend_s: float = 0.2
    warm_up_s: float = 5.0
    least_s: float = 1.0
    limit_s: float = 60.0
    call_limit_s: float = CALL_LIMIT_S
    fewest: int = 3
    most: int = 400
    has_energy: bool = False


# Rounds are short because their medians differ by more than the samples within one: on the reference machine, cutting
# a round's samples from 12 s to 3 s widens the scatter between rounds from 7.5 % to 7.9 %, and buys more rounds.
# One sample cannot show that warm-up is over.
ROUND_SAMPLING = Sampling(warm_up_s=3.0, limit_s=3.0, fewest=2, has_energy=True)


def round_sampling(budget_s: float | None = None) -> Sampling:
    """Return the sampling of a round; a short budget takes fewer samples of more cells, and flags their drift."""
    if budget_s is None:
        return ROUND_SAMPLING
    limit_s = min(ROUND_SAMPLING.limit_s, max(1.5, budget_s / 45))
    return replace(
        ROUND_SAMPLING,
        warm_up_s=min(ROUND_SAMPLING.warm_up_s, max(0.5, budget_s / 60)),
        least_s=min(ROUND_SAMPLING.least_s, max(0.2, budget_s / 360)),
        limit_s=limit_s,
        has_energy=limit_s >= ENERGY_S,
    )


@dataclass(frozen=True)
class Timing:
    """Samples in order of time, each a block of ``block`` calls, their flags, and the conditions of the whole round.

    The whole call decides when sampling ends; ``stages`` have flags of their own. A training step has a peak of memory.
    """

    block: int
    samples: tuple[TimedSample, ...]
    flags: tuple[str, ...] = ()
    stages: "Mapping[str, Timing]" = field(default_factory=dict)
    peak_byte: int | None = None
    conditions: Conditions = field(default_factory=Conditions)

    @property
    def latencies_s(self) -> tuple[float, ...]:
        return tuple(each.latency_s for each in self.samples)


def sample(stopwatch: Stopwatch, sampling: Sampling, sensors: Sensors | None = None) -> Timing:
    """Warm up, then time blocks as ``sampling`` asks. With cold caches (``clear``) a block is a single call."""
    sensors = sensors or Sensors()
    stopwatch.synchronize()
    block_s = 0.0 if stopwatch.clear else max(sampling.block_s, stopwatch.cost_s() / CLOCK_SHARE)
    while True:
        call_s = _warm_up(stopwatch, sampling, block_s)
        calls = _calls(block_s, call_s)
        opening = stopwatch.read_at_work(sensors, calls, call_s, sampling.has_energy)
        start = stopwatch.clock()
        timed = stopwatch.time(calls)
        if timed.latency_s >= call_s / 2:
            break  # else warm-up timed set-up
    samples: list[TimedSample] = []
    counts_energy = sampling.has_energy and sensors.is_asynchronous and opening.energy_j is not None
    least_s = max(sampling.least_s, ENERGY_S) if counts_energy else sampling.least_s
    next_look = sampling.fewest
    while True:
        samples.append(timed)
        if calls * timed.latency_s > 1.0:
            sensors.read()  # the energy counter of a processor wraps around within minutes
        count, elapsed_s = len(samples), (stopwatch.clock() - start) / 1e9
        if count >= sampling.fewest and (elapsed_s >= sampling.limit_s or count >= sampling.most):
            break
        if count >= next_look and elapsed_s >= least_s:
            width = estimate_median([each.latency_s for each in samples]).relative_half_width
            if width is not None and width <= sampling.target:
                break
            # Every look is a chance to stop at an interval that is narrow by luck: with a look at every sample, only
            # 92 % of the 95 % intervals of noisy cells cover their median.
            next_look = count + 1 if width is None else ceil(LOOKS * count)
        timed = stopwatch.time(calls)
    _log.info("sampling ends after %d samples of %d calls in %.1f s", count, calls, elapsed_s)
    closing = stopwatch.read_at_work(sensors, calls, timed.latency_s, sampling.has_energy)
    runs = 0 if stopwatch.clear else count * calls * stopwatch.runs_per_call  # clearing uses energy too
    conditions = Conditions.between(opening, closing, elapsed_s / runs if runs else None)
    found = replace(conditions, energy_j=None)  # of the stages: their share of a call's energy is unknown
    stages = {}
    for name in timed.stages:
        parts = tuple(each.stages[name] for each in samples)
        stages[name] = Timing(calls, parts, _flags(parts, found, sampling), conditions=found)
    return Timing(calls, tuple(samples), _flags(samples, conditions, sampling), stages, conditions=conditions)


def _calls(block_s: float, call_s: float) -> int:
    return max(1, ceil(block_s / max(call_s, 1e-9)))


def _warm_up(stopwatch: Stopwatch, sampling: Sampling, block_s: float) -> float:
    """Call until the trend is flat. Return the time (s) of a call at the end."""
    start = stopwatch.clock()

    def has_time() -> bool:
        return (stopwatch.clock() - start) / 1e9 < sampling.warm_up_s

    call_s = stopwatch.time(1).latency_s  # includes set-up
    if has_time():
        call_s = min(call_s, stopwatch.time(1).latency_s)
    calls = _calls(block_s, call_s)
    trend = max(sampling.trend, _calls(sampling.trend_s, calls * call_s))
    blocks: list[float] = []
    while has_time():
        blocks.append(stopwatch.time(calls).latency_s)
        newer, older = blocks[-trend:], blocks[-2 * trend : -trend]
        if len(older) == trend and abs(median(newer) - median(older)) <= sampling.target * median(older):
            break
    _log.info("warm-up: %d blocks of %d calls", len(blocks), calls)
    return median(blocks[-trend:]) if blocks else call_s


def _flags(samples: Sequence[TimedSample], conditions: Conditions, sampling: Sampling) -> tuple[str, ...]:
    latencies_s = [each.latency_s for each in samples]
    width = estimate_median(latencies_s).relative_half_width
    reasons = set((conditions.throttle or "").split(";")) - {""}
    flags = {
        WIDE: width is None or width > sampling.target,
        DRIFTING: is_drifting(latencies_s, sampling.target),
        LOADED: (conditions.load or 0.0) >= LOAD,
        THROTTLED: bool(reasons - {POWER_CAP}),
        CAPPED: POWER_CAP in reasons,
    }
    return tuple(flag for flag, is_set in flags.items() if is_set)
