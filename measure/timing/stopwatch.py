"""Time calls and their stages with the host's clock and the device's."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median

from measure.domain import variants
from measure.machine.device import Device, Events
from measure.machine.sensors import Reading, Sensors

CLOCK_READINGS = 21  # empty blocks; their median time is the cost of timing
STEP_WAIT_S = 0.15  # the longest wait for a step of an energy counter; NVIDIA's come every 0.1 s
BEAT_EVERY_S = 1.0  # the time between two signs of life during a first call


@dataclass(frozen=True)
class TimedSample:
    """One block: the time of one call (s) by the host and by the device.

    ``stages`` is empty except from ``StagedStopwatch``.
    """

    latency_s: float
    event_s: float | None = None
    stages: "Mapping[str, TimedSample]" = field(default_factory=dict)


@dataclass
class Stopwatch:
    """Times blocks of calls by a ``clock`` (ns). ``clear`` empties the caches before a block, ``beat`` follows it."""

    call: Callable[[], object]
    synchronize: Callable[[], None]
    clock: Callable[[], int] = time.perf_counter_ns
    beat: Callable[[], None] = lambda: None
    events: Events | None = None
    clear: Callable[[], object] | None = None
    runs_per_call: int = field(default=1, init=False)

    def time(self, calls: int) -> TimedSample:
        """Time a block. The host's time per call includes the wait for the device at the end of the block."""
        elapsed_s = self._elapsed_s(calls)
        self.beat()
        event_s = self.events.elapsed_s() if self.events else None
        return TimedSample(elapsed_s / calls, None if event_s is None else event_s / calls)

    def read_at_work(self, sensors: Sensors, calls: int, call_s: float, waits: bool) -> Reading:
        """Read the sensors; of an asynchronous device while it works on an untimed block of ``calls``.

        Milliseconds after its last kernel, a GPU at its power limit is back at its highest clock. If it ``waits``, the
        reading is of the moment when the energy counter steps. It has no energy if that does not come in time.
        """
        if not sensors.is_asynchronous:
            return sensors.read()
        first, is_awaited = None, True
        while is_awaited:
            end_ns = self.clock() + 1e9 * calls * call_s
            for _ in range(calls):
                if self.clear is not None:
                    self.clear()
                self.call()
            while True:
                reading = sensors.read()
                first = first or reading
                has_stepped = reading.energy_j != first.energy_j
                is_awaited = waits and first.energy_j is not None and not has_stepped
                is_awaited = is_awaited and reading.at_s - first.at_s < STEP_WAIT_S
                if not is_awaited or self.clock() >= end_ns:
                    break
            self.synchronize()
            self.beat()
        return reading if has_stepped else replace(reading, energy_j=None)

    def cost_s(self) -> float:
        return median(self._elapsed_s(0) for _ in range(CLOCK_READINGS))

    def _elapsed_s(self, calls: int) -> float:
        if self.clear is not None:
            self.clear()
            self.synchronize()
        start = self.clock()
        if self.events is not None:
            self.events.start()
        for _ in range(calls):
            self.call()
        if self.events is not None:
            self.events.stop()
        self.synchronize()
        return (self.clock() - start) / 1e9


@dataclass
class StagedStopwatch(Stopwatch):
    """Times blocks of calls, and separately the ``stages`` that make up a call, with a wait for the device after each.

    A call's time is the sum of its stages. On an asynchronous device the waits would slow it down, so there a block of
    whole calls is timed first, then as many calls stage by stage.
    """

    stages: Mapping[str, Callable[[], object]] = field(default_factory=dict)
    is_asynchronous: bool = False

    def __post_init__(self) -> None:
        common = self.synchronize, self.clock, self.beat, self.events
        self._apart = [Stopwatch(stage, *common) for stage in self.stages.values()]
        self._apart[0].clear = self.clear
        self.runs_per_call += self.is_asynchronous

    def time(self, calls: int) -> TimedSample:
        """Time a block of calls, with the mean time of each stage in it."""
        whole = super().time(calls) if self.is_asynchronous else None
        runs = [[stopwatch.time(1) for stopwatch in self._apart] for _ in range(calls)]
        means = [_combine(times, fmean) for times in zip(*runs, strict=True)]
        total = _combine(means, sum)
        return replace(whole or total, stages=dict(zip(self.stages, means, strict=True)))

    def cost_s(self) -> float:
        return sum(stopwatch.cost_s() for stopwatch in self._apart)


def _combine(times: Sequence[TimedSample], how: Callable[[Iterable[float]], float]) -> TimedSample:
    """Combine the host's times, and the device's unless it lost one."""
    events = [each.event_s for each in times if each.event_s is not None]
    return TimedSample(how(each.latency_s for each in times), how(events) if len(events) == len(times) else None)


def run_first_call(call: Callable[[], object], variant: str, device: Device, beat: Callable[[], None]) -> None:
    """Run a call once, untimed, if its variant compiles or tries algorithms in the first one.

    That may take minutes, so a thread beats meanwhile, up to the variant's limit. A call that hangs is then aborted.
    """
    has_ended, beats = threading.Event(), round(variants.first_call_s(variant) / BEAT_EVERY_S)
    if not beats:
        return

    def show_signs_of_life() -> None:
        for _ in range(beats):
            if has_ended.wait(BEAT_EVERY_S):
                return
            beat()

    signs = threading.Thread(target=show_signs_of_life, name=__name__, daemon=True)
    signs.start()
    try:
        call()
        device.synchronize()
    finally:
        has_ended.set()
        signs.join()
