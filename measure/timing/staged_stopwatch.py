"""How long calls that run in stages take, and each of their stages."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from measure.timing.stopwatch import Stopwatch, TimedSample


@dataclass
class StagedStopwatch(Stopwatch):
    """Times blocks of calls, and apart the ``stages`` that a call runs one after another.

    The device is synchronised after each stage. Where that is free, because operators return when they are done, a
    call's time is the sum of its stages'. Where a device works behind the host's back (``is_asynchronous``), to wait
    between stages would slow the call down: there a block of whole calls is timed as it is, and after it as many calls
    stage by stage, whose sum is a little more.
    """

    stages: Sequence[Callable[[], object]] = field(kw_only=True)
    is_asynchronous: bool = field(default=False, kw_only=True)
    _apart: list[Stopwatch] = field(init=False)

    def __post_init__(self) -> None:
        self._apart = [
            Stopwatch(stage, self.synchronize, self.clock, self.beat, self.events, None) for stage in self.stages
        ]
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
    """Make one time of several: the host's, and the device's where it has any."""
    events = [each.event_s for each in times if each.event_s is not None]
    return TimedSample(how(each.latency_s for each in times), how(events) if events else None)
