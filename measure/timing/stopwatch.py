"""How long calls and their stages take, by the host's clock and the device's, and the conditions meanwhile.

The first call of a variant that sets something up in it: it compiles, or tries algorithms, for minutes perhaps.

No other call may be silent for so long, so this one has a limit of its own and shows signs of life meanwhile.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from statistics import fmean, median

from measure.domain import variants
from measure.machine.device import Device, Events
from measure.machine.sensors import WINDOW_S, Conditions, Reading, Sensors

CLOCK_READINGS = 21
"""Blocks without a call, whose median time is what timing costs."""

UNKNOWN = Conditions()


@dataclass(frozen=True)
class TimedSample:
    """One block: the host's and the device's own time of one call (s), and the conditions of its window.

    ``stages`` are the times of a call's stages, if it is one that has some (``StagedStopwatch``).
    A window is as many samples in a row as last ``sensors.WINDOW_S``; all have the conditions read at its end. Those
    of a last, shorter window know nothing of load and energy.
    """

    latency_s: float
    event_s: float | None = None
    conditions: Conditions = UNKNOWN
    stages: tuple["TimedSample", ...] = ()

    def stage(self, index: int) -> "TimedSample":
        """Return one of the stages, under the conditions of the whole, whose energy cannot be told apart."""
        return replace(self.stages[index], conditions=replace(self.conditions, energy_j=None))


@dataclass
class Stopwatch:
    """Times blocks of calls, and keeps the sum.

    ``clock`` counts nanoseconds, so that tests can turn the hands; ``beat`` is called after every block, as a sign of
    life; ``clear`` empties the caches before each block.
    """

    call: Callable[[], object]
    synchronize: Callable[[], None]
    clock: Callable[[], int] = time.perf_counter_ns
    beat: Callable[[], None] = lambda: None
    events: Events | None = None
    clear: Callable[[], object] | None = None
    executing_s: float = field(default=0.0, init=False)

    def time(self, calls: int) -> TimedSample:
        """Return a block's time a call: the host's with the device synchronised, and the device's own."""
        elapsed_s = self._elapsed_s(calls)
        self.executing_s += elapsed_s
        self.beat()
        event_s = self.events.elapsed_s() if self.events else None
        return TimedSample(elapsed_s / calls, None if event_s is None else event_s / calls)

    def cost_s(self) -> float:
        """Return what timing a block takes besides its calls."""
        return median(self._elapsed_s(0) for _ in range(CLOCK_READINGS))

    def runs(self, calls: int) -> int | None:
        """Return how often the call runs in a block of so many; None where other work runs beside it."""
        return None if self.clear is not None else calls

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
    """Times blocks of calls, and apart the ``stages`` that a call runs one after another.

    The device is synchronised after each stage. Where that is free, because operators return when they are done, a
    call's time is the sum of its stages'. Where a device works behind the host's back (``is_asynchronous``), to wait
    between stages would slow the call down: there a block of whole calls is timed as it is, and after it as many calls
    stage by stage, whose sum is a little more.
    """

    stages: Sequence[Callable[[], object]] = ()
    is_asynchronous: bool = False

    def __post_init__(self) -> None:
        self._apart = [Stopwatch(stage, self.synchronize, self.clock, self.beat, self.events) for stage in self.stages]
        self._apart[0].clear = self.clear

    def time(self, calls: int) -> TimedSample:
        """Return a block's time a call, with the mean time of each stage in it."""
        whole = super().time(calls) if self.is_asynchronous else None
        runs = [[stopwatch.time(1) for stopwatch in self._apart] for _ in range(calls)]
        stages = tuple(_joined(times, fmean) for times in zip(*runs, strict=True))
        total = _joined(stages, sum)
        self.executing_s += calls * total.latency_s
        return replace(whole or total, stages=stages)

    def cost_s(self) -> float:
        """Return what timing a call's stages takes besides them."""
        return sum(stopwatch.cost_s() for stopwatch in self._apart)

    def runs(self, calls: int) -> int | None:
        once = super().runs(calls)
        return 2 * once if once is not None and self.is_asynchronous else once


def _joined(times: Sequence[TimedSample], how: Callable[[Iterable[float]], float]) -> TimedSample:
    """Make one time of several: the host's, and the device's where it has them all."""
    events = [each.event_s for each in times if each.event_s is not None]
    has_all = len(events) == len(times)
    return TimedSample(how(each.latency_s for each in times), how(events) if has_all else None)


class Windows:
    """Joins samples with the conditions they were taken under; ``calls`` in each, None where other work is between."""

    def __init__(self, sensors: Sensors, clock: Callable[[], int], calls: int | None) -> None:
        self._sensors = sensors
        self._clock = clock
        self._calls = calls
        self._closed: list[TimedSample] = []
        self._begin(sensors.read())

    def _begin(self, opening: Reading) -> None:
        self._open: list[TimedSample] = []
        self._opening, self._opened = opening, self._clock()

    def add(self, timed: TimedSample) -> None:
        """Add a sample that has just ended."""
        self._open.append(timed)
        if (self._clock() - self._opened) / 1e9 >= WINDOW_S:
            closing = self._sensors.read()
            calls = None if self._calls is None else self._calls * len(self._open)
            self._close(Conditions.between(self._opening, closing, calls))
            self._begin(closing)

    def _close(self, conditions: Conditions) -> None:
        self._closed += [replace(timed, conditions=conditions) for timed in self._open]

    def finish(self) -> tuple[TimedSample, ...]:
        """Return all samples, with their conditions."""
        if self._open:
            self._close(Conditions.at(self._sensors.read()))
        return tuple(self._closed)


EVERY_S = 1.0
"""The time between two signs of life."""


def make(call: Callable[[], object], variant: str, device: Device, beat: Callable[[], None]) -> None:
    """Run a call once, before it is timed, if its variant sets something up in the first one."""
    limit_s = variants.first_call_s(variant)
    if limit_s:
        with beating(beat, limit_s):
            call()
            device.synchronize()


@contextmanager
def beating(beat: Callable[[], None], limit_s: float) -> Iterator[None]:
    """Show signs of life while a block runs, from a thread of their own, but for no longer than the limit.

    Whoever waits for them ends the process after the limit, and after what else a call may take.
    """
    has_ended = threading.Event()

    def show() -> None:
        for _ in range(round(limit_s / EVERY_S)):
            if has_ended.wait(EVERY_S):
                return
            beat()

    signs = threading.Thread(target=show, name=__name__, daemon=True)
    signs.start()
    try:
        yield
    finally:
        has_ended.set()
        signs.join()
