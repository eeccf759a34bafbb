import itertools
import threading
from types import SimpleNamespace

import pytest

from measure.timing import stopwatch
from measure.timing.stopwatch import StagedStopwatch, Stopwatch


class Script:
    """A call, its stages, caches and a device, which move the hands of a clock and note the order.

    An event takes its time, or several in turn.
    """

    def __init__(self, costs_s):
        self.now, self.order = 0, []
        self._costs_s = {name: itertools.cycle(each if isinstance(each, list) else [each]) for name, each in costs_s}

    def does(self, name):
        def event():
            self.order.append(name)
            self.now += round(next(self._costs_s[name]) * 1e9) if name in self._costs_s else 0

        return event

    def clock(self):
        self.does("clock")()
        return self.now


class Events:
    """A device that takes half of the host's time, and loses the time of blocks shorter than ``least_s``."""

    def __init__(self, hands, least_s):
        self.hands, self.least_s = hands, least_s

    def start(self):
        self.first = self.hands.now

    def stop(self):
        self.last = self.hands.now

    def elapsed_s(self):
        passed_s = (self.last - self.first) / 1e9
        return None if passed_s < self.least_s else passed_s / 2


COSTS = {"call": 0.5, "first": 0.1, "second": [0.2, 0.4], "third": 0.3, "clear": 0.03}
STAGES = ["first", "second", "third"]


def timed(blocks, calls=1, stages=(), least_event_s=None, is_asynchronous=False, **costs_s):
    """Time blocks of calls; return their samples and the order of events."""
    script = Script((COSTS | costs_s).items())
    events = None if least_event_s is None else Events(script, least_event_s)
    common = (script.does("call"), script.does("synchronize"), script.clock, script.does("beat"), events)
    clear = script.does("clear") if "clear" in costs_s else None
    if stages:
        parts = {name: script.does(name) for name in stages}
        watch = StagedStopwatch(*common, clear=clear, stages=parts, is_asynchronous=is_asynchronous)
    else:
        watch = Stopwatch(*common, clear=clear)
    return [watch.time(calls) for _ in range(blocks)], script.order


def test_a_block_lasts_from_clock_to_clock_with_the_device_wait():
    (sample,), order = timed(1, 2, synchronize=0.5)
    assert order == ["clock", "call", "call", "synchronize", "clock", "beat"]
    assert (sample.latency_s, sample.event_s) == (0.75, None)  # (0.5 + 0.5 + 0.5) / 2


def test_device_time_accompanies_host_time_unless_lost():
    samples, _ = timed(2, 5, least_event_s=0.01, call=[0.004] * 5 + [0.001] * 5)
    assert [sample.latency_s for sample in samples] == pytest.approx([0.004, 0.001])
    assert [sample.event_s for sample in samples] == [pytest.approx(0.002), None]
    (sample,), _ = timed(1, stages=STAGES, least_event_s=0.15)
    assert [stage.event_s for stage in sample.stages.values()] == [None, pytest.approx(0.1), pytest.approx(0.15)]
    assert (sample.latency_s, sample.event_s) == (pytest.approx(0.6), None)  # not the sum of some of its stages


def test_caches_are_cleared_outside_of_each_block_or_call():
    samples, order = timed(2, call=0.001, clear=0.03)
    assert [sample.latency_s for sample in samples] == pytest.approx([0.001] * 2)
    assert order == ["clear", "synchronize", "clock", "call", "synchronize", "clock", "beat"] * 2
    (sample,), order = timed(1, stages=STAGES, clear=0.03)
    assert sample.latency_s == pytest.approx(0.6)
    assert [each for each in order if each in ("clear", *STAGES)] == ["clear", *STAGES]


def test_timing_costs_an_empty_block_and_so_does_each_stage():
    script = Script([("clock", 40e-6)])
    call = script.does("call")
    watch = Stopwatch(call, script.does("synchronize"), script.clock)
    staged = StagedStopwatch(call, script.does("synchronize"), script.clock, stages={"first": call, "second": call})
    assert (watch.cost_s(), staged.cost_s()) == (pytest.approx(40e-6), pytest.approx(80e-6))
    assert "call" not in script.order


def latencies(sample):
    return [stage.latency_s for stage in sample.stages.values()]


def test_stages_sum_to_the_call_and_each_ends_with_a_wait():
    (sample,), order = timed(1, stages=STAGES, synchronize=0.01)
    assert latencies(sample) == pytest.approx([0.11, 0.21, 0.31])
    assert sample.latency_s == pytest.approx(0.63)
    assert [each for each in order if each != "clock"] == [
        "first", "synchronize", "beat", "second", "synchronize", "beat", "third", "synchronize", "beat",
    ]  # fmt: skip


def test_an_asynchronous_device_times_whole_calls_without_a_wait():
    (sample,), order = timed(1, 2, stages=STAGES, least_event_s=0.0, is_asynchronous=True)
    assert [each for each in order if each in ("call", *STAGES)] == ["call"] * 2 + STAGES * 2
    assert order[:4] == ["clock", "call", "call", "synchronize"]
    assert (sample.latency_s, sample.event_s) == (0.5, 0.25)
    assert latencies(sample) == pytest.approx([0.1, 0.3, 0.3])  # (0.2 + 0.4) / 2
    assert [stage.event_s for stage in sample.stages.values()] == pytest.approx([0.05, 0.15, 0.15])


def showing():
    """The threads that show signs of life."""
    return [each for each in threading.enumerate() if each.name == stopwatch.__name__]


def first_call(call, variant="compile", beats=lambda: None, synchronize=lambda: None):
    stopwatch.run_first_call(call, variant, SimpleNamespace(synchronize=synchronize), beats)


def test_signs_of_life_end_at_the_limit_and_with_the_call(monkeypatch):
    monkeypatch.setattr(stopwatch, "BEAT_EVERY_S", 0.001)
    beats = []

    def hang():
        for signs in showing():
            signs.join(5.0)
        assert len(beats) == 3

    def fail():
        assert len(showing()) == 1
        raise RuntimeError("no way")

    with pytest.raises(RuntimeError, match="no way"):
        first_call(fail)
    assert showing() == []
    monkeypatch.setattr(stopwatch.variants, "first_call_s", lambda variant: 3 * stopwatch.BEAT_EVERY_S)
    first_call(hang, beats=lambda: beats.append(None))


@pytest.mark.parametrize(
    ("variant", "order"), [("channels_last+cold", []), ("cudnn_benchmark", ["call", "synchronize"])]
)
def test_a_variant_that_sets_something_up_has_a_call_of_its_own(variant, order):
    script = Script([])
    first_call(script.does("call"), variant, synchronize=script.does("synchronize"))
    assert script.order == order  # queued work is done, too
