import itertools
import threading
from types import SimpleNamespace

import pytest
from helpers.hands import Events, Hands, Sensors
from helpers.tasks import cell

torch = pytest.importorskip("torch", reason="networks are run with torch")

from measure.domain.models import Model  # noqa: E402
from measure.machine import devices  # noqa: E402
from measure.machine.sensors import WINDOW_S  # noqa: E402
from measure.timing import calls, stopwatch  # noqa: E402
from measure.timing.sampling import Sampling  # noqa: E402
from measure.timing.stopwatch import StagedStopwatch, Stopwatch, TimedSample, Windows  # noqa: E402


def make_stopwatch(hands, **changed):
    return Stopwatch(hands.call, hands.synchronize, hands.clock, **changed)


def test_a_block_is_timed_by_the_call():
    timed = make_stopwatch(Hands([0.5, 0.25, 0.75])).time(3)
    assert timed.latency_s == pytest.approx(0.5)  # 1.5 s / 3
    assert timed.event_s is None


def test_every_block_ends_with_a_synchronisation_inside_the_timed_span():
    order = []
    hands = Hands([0.5])

    def clock():
        order.append("clock")
        return hands.now

    def call():
        order.append("call")
        hands.call()

    stopwatch = Stopwatch(call, lambda: order.append("synchronize"), clock, lambda: order.append("beat"))
    stopwatch.time(2)
    assert order == ["clock", "call", "call", "synchronize", "clock", "beat"]


def test_the_devices_own_time_stands_beside_the_hosts():
    hands = Hands([0.004])
    timed = make_stopwatch(hands, events=Events(hands)).time(5)
    assert timed.latency_s == pytest.approx(0.004)
    assert timed.event_s == pytest.approx(0.002)


class LosingEvents(Events):
    """A device that loses the times of some blocks: those in which less than so much (s) passes."""

    def __init__(self, hands, least_s):
        super().__init__(hands)
        self.least_s = least_s

    def elapsed_s(self):
        return None if self.last - self.first < self.least_s * 1e9 else super().elapsed_s()


def test_a_time_that_the_device_lost_is_none():
    hands = Hands([0.004, 0.001])
    stopwatch = make_stopwatch(hands, events=LosingEvents(hands, 0.002))
    assert stopwatch.time(1).event_s == pytest.approx(0.002)
    timed = stopwatch.time(1)
    assert (timed.latency_s, timed.event_s) == (pytest.approx(0.001), None)


def test_caches_are_cleared_before_each_block_and_outside_of_it():
    hands = Hands([0.001])
    order = []

    def clear():
        hands.now += 30_000_000
        order.append(hands.calls)

    stopwatch = make_stopwatch(hands, clear=clear)
    assert stopwatch.time(1).latency_s == pytest.approx(0.001)
    assert stopwatch.time(1).latency_s == pytest.approx(0.001)
    assert order == [0, 1]


def test_a_block_without_a_call_shows_what_timing_costs():
    hands = Hands([0.001])

    def slow_clock():
        hands.now += 40_000
        return hands.now

    stopwatch = Stopwatch(hands.call, hands.synchronize, slow_clock)
    assert stopwatch.cost_s() == pytest.approx(40e-6)
    assert hands.calls == 0


def conditions_of(windows, hands, count):
    for _ in range(count):
        hands.call()
        windows.add(TimedSample(hands.now / 1e9))
    return [each.conditions for each in windows.finish()]


def test_samples_have_the_conditions_of_their_window():
    hands = Hands([0.2])
    windows = Windows(Sensors(hands), hands.clock, calls=2)
    conditions = conditions_of(windows, hands, 8)
    # Windows of three samples, the first that last half a second, and two samples left over.
    first, second, rest = conditions[0], conditions[3], conditions[6]
    assert conditions == [first] * 3 + [second] * 3 + [rest] * 2
    assert first.load == pytest.approx(0.25)  # of 4 cores 2 idle, 1 works here, 1 for others
    assert first.energy_j == pytest.approx(5.0)  # 50 W for 0.6 s in 6 calls
    assert (first.clock_hz, first.power_w, first.throttle) == (1e9, 51.0, None)
    assert first.temperature_c == pytest.approx(40.6)
    assert second.temperature_c == pytest.approx(41.2)
    assert (rest.load, rest.energy_j) == (None, None)  # 0.4 s is too short for them
    assert rest.temperature_c == pytest.approx(41.6)


def test_a_sample_longer_than_a_window_is_one():
    hands = Hands([3.0])
    first, second = conditions_of(Windows(Sensors(hands), hands.clock, calls=1), hands, 2)
    assert first.energy_j == second.energy_j == pytest.approx(150.0)  # 50 W for 3 s
    assert (first.temperature_c, second.temperature_c) == (pytest.approx(43), pytest.approx(46))


def test_sensors_are_read_once_a_window():
    hands = Hands([0.02])
    sensors = Sensors(hands)
    conditions_of(Windows(sensors, hands.clock, calls=20), hands, 100)
    assert len(sensors.read_at_s) == 5  # before the first sample, and at the end of each of four windows in 2 s
    pairs = itertools.pairwise(sensors.read_at_s)
    assert all(later - earlier == pytest.approx(WINDOW_S) for earlier, later in pairs)


def test_where_other_work_is_between_samples_their_energy_is_not_known():
    hands = Hands([0.6])
    (conditions,) = conditions_of(Windows(Sensors(hands), hands.clock, calls=0), hands, 1)
    assert conditions.load == pytest.approx(0.25)
    assert conditions.energy_j is None


class Step:
    """A call of three stages, which move the hands of a clock; the second takes longer each time."""

    def __init__(self, hands):
        self.hands = hands
        self.order = []
        self._second_s = 0.0

    def _take(self, name, seconds):
        self.order.append(name)
        self.hands.now += round(seconds * 1e9)

    def first(self):
        self._take("first", 0.1)

    def second(self):
        self._second_s += 0.2
        self._take("second", self._second_s)

    def third(self):
        self._take("third", 0.3)

    def __call__(self):
        self._take("whole", 0.5)


def make_staged(hands, step, synchronize=None, **changed):
    stages = {stage.__name__: stage for stage in (step.first, step.second, step.third)}
    return StagedStopwatch(step, synchronize or hands.synchronize, hands.clock, stages=stages, **changed)


def test_stages_sum_to_the_call():
    hands = Hands([])
    step = Step(hands)
    stopwatch = make_staged(hands, step)
    timed = stopwatch.time(1)
    assert [stage.latency_s for stage in timed.stages.values()] == pytest.approx([0.1, 0.2, 0.3])
    assert timed.latency_s == pytest.approx(0.6)
    assert step.order == ["first", "second", "third"]


def test_a_block_of_short_calls_has_their_means():
    hands = Hands([])
    step = Step(hands)
    timed = make_staged(hands, step).time(2)
    assert step.order == ["first", "second", "third"] * 2
    assert [stage.latency_s for stage in timed.stages.values()] == pytest.approx([0.1, 0.3, 0.3])  # (0.2 + 0.4) / 2
    assert timed.latency_s == pytest.approx(0.7)


def test_every_stage_ends_with_a_synchronisation_inside_its_span():
    hands = Hands([])
    step = Step(hands)

    def synchronize():
        step.order.append("synchronize")
        hands.now += 10_000_000

    timed = make_staged(hands, step, synchronize).time(1)
    assert step.order == ["first", "synchronize", "second", "synchronize", "third", "synchronize"]
    assert [stage.latency_s for stage in timed.stages.values()] == pytest.approx([0.11, 0.21, 0.31])


def test_an_asynchronous_device_has_whole_calls_timed_without_a_wait_in_them():
    hands = Hands([])
    step = Step(hands)
    stopwatch = make_staged(hands, step, events=Events(hands), is_asynchronous=True)
    timed = stopwatch.time(2)
    assert step.order == ["whole"] * 2 + ["first", "second", "third"] * 2
    assert (timed.latency_s, timed.event_s) == (pytest.approx(0.5), pytest.approx(0.25))
    assert [stage.latency_s for stage in timed.stages.values()] == pytest.approx([0.1, 0.3, 0.3])
    assert [stage.event_s for stage in timed.stages.values()] == pytest.approx([0.05, 0.15, 0.15])
    assert stopwatch.runs_per_call == 2


def test_the_devices_time_of_a_call_is_not_the_sum_of_some_of_its_stages():
    hands = Hands([])
    timed = make_staged(hands, Step(hands), events=LosingEvents(hands, 0.15)).time(1)
    assert [stage.event_s for stage in timed.stages.values()] == [None, pytest.approx(0.1), pytest.approx(0.15)]
    assert (timed.latency_s, timed.event_s) == (pytest.approx(0.6), None)


def test_caches_are_cleared_before_a_call_and_not_between_its_stages():
    hands = Hands([])
    step = Step(hands)

    def clear():
        step.order.append("clear")
        hands.now += 30_000_000

    stopwatch = make_staged(hands, step, clear=clear)
    assert stopwatch.time(1).latency_s == pytest.approx(0.6)
    assert step.order == ["clear", "first", "second", "third"]


def test_timing_a_call_costs_what_timing_its_stages_does():
    hands = Hands([])

    def slow_clock():
        hands.now += 40_000
        return hands.now

    step = Step(hands)
    stopwatch = StagedStopwatch(
        step, hands.synchronize, slow_clock, stages={"first": step.first, "second": step.second}
    )
    assert stopwatch.cost_s() == pytest.approx(2 * 40e-6)
    assert step.order == []


def test_a_sign_of_life_follows_every_stage():
    hands = Hands([])
    step = Step(hands)
    make_staged(hands, step, beat=lambda: step.order.append("beat")).time(1)
    assert step.order == ["first", "beat", "second", "beat", "third", "beat"]


NET = Model("net", "torchvision", "plain", (1,))
HASTY = Sampling(warm_up_s=0.0, least_s=0.0, limit_s=0.0)
PATIENCE_S = 5.0
"""How long a test waits for what must come; one that fails waits in vain."""


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    """Signs of life come each millisecond."""
    monkeypatch.setattr(stopwatch, "BEAT_EVERY_S", 0.001)


class Compiled(torch.nn.Module):
    """A network whose first call ends when two signs of life have come, or after a while without."""

    def __init__(self, network, beats):
        super().__init__()
        self.network = network
        self.beats = beats
        self.beats_of_first = None

    def forward(self, numbers):
        if self.beats_of_first is None:
            before, self.beats.awaited = self.beats.count, self.beats.count + 2
            self.beats.have_come.wait(PATIENCE_S)
            self.beats_of_first = self.beats.count - before
        return self.network(numbers)


class Beats:
    """Signs of life, which are counted; ``have_come`` is set from the awaited one on."""

    def __init__(self):
        self.count, self.awaited = 0, float("inf")
        self.have_come = threading.Event()

    def __call__(self):
        self.count += 1
        if self.count >= self.awaited:
            self.have_come.set()


def showing():
    """The threads that show signs of life."""
    return [each for each in threading.enumerate() if each.name == stopwatch.__name__]


@pytest.mark.parametrize("phase", ["inference", "step"])
def test_a_first_call_that_compiles_shows_signs_of_life(monkeypatch, phase):
    beats, compiled = Beats(), []
    monkeypatch.setattr("measure.models.catalog.build", lambda model: torch.nn.Linear(1, 2).eval())
    monkeypatch.setattr("measure.models.catalog.make_inputs", lambda model, batch, *_: (torch.ones(batch, 1),))
    monkeypatch.setattr(torch, "compile", lambda network: compiled.append(Compiled(network, beats)) or compiled[-1])
    calls.measure(devices.find("cpu"), NET, cell(NET, variant="compile", phase=phase), HASTY, beats)
    assert compiled[0].beats_of_first >= 2


class Cpu:
    @staticmethod
    def synchronize():
        pass


def first_call(call, beats, limit_s, monkeypatch):
    monkeypatch.setattr(stopwatch.variants, "first_call_s", lambda variant: limit_s)
    stopwatch.run_first_call(call, "compile", Cpu, beats)


def test_signs_of_life_end_at_the_limit(monkeypatch):
    beats = Beats()
    beats.awaited = 3

    def hang():
        assert beats.have_come.wait(PATIENCE_S)
        for signs in showing():
            signs.join(PATIENCE_S)
        assert beats.count == 3

    first_call(hang, beats, 3 * stopwatch.BEAT_EVERY_S, monkeypatch)


def test_signs_of_life_end_with_the_call_even_if_it_fails(monkeypatch):
    def fail():
        assert len(showing()) == 1
        raise RuntimeError("no way")

    first_call(lambda: None, Beats(), 1000.0, monkeypatch)
    assert showing() == []
    with pytest.raises(RuntimeError, match="no way"):
        first_call(fail, Beats(), 1000.0, monkeypatch)
    assert showing() == []


def test_a_variant_that_sets_nothing_up_has_no_call_of_its_own():
    device, calls = SimpleNamespace(synchronize=lambda: calls.append("synchronize")), []
    stopwatch.run_first_call(lambda: calls.append("call"), "channels_last+cold", device, lambda: None)
    assert calls == []
    stopwatch.run_first_call(lambda: calls.append("call"), "cudnn_benchmark", device, lambda: None)
    assert calls == ["call", "synchronize"]  # what was queued is done, too
