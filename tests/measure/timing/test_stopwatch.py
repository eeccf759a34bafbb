import itertools

import pytest
from helpers.hands import Events, Hands, Sensors

from measure.machine.sensors import WINDOW_S
from measure.timing.stopwatch import Stopwatch, TimedSample, Windows


def make_stopwatch(hands, **changed):
    arguments = {"beat": lambda: None, "events": None, "clear": None} | changed
    return Stopwatch(hands.call, hands.synchronize, hands.clock, **arguments)


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

    stopwatch = Stopwatch(call, lambda: order.append("synchronize"), clock, lambda: order.append("beat"), None, None)
    stopwatch.time(2)
    assert order == ["clock", "call", "call", "synchronize", "clock", "beat"]


def test_the_devices_own_time_stands_beside_the_hosts():
    hands = Hands([0.004])
    timed = make_stopwatch(hands, events=Events(hands)).time(5)
    assert timed.latency_s == pytest.approx(0.004)
    assert timed.event_s == pytest.approx(0.002)


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


def test_the_time_within_calls_is_summed():
    stopwatch = make_stopwatch(Hands([0.5]))
    stopwatch.time(2)
    stopwatch.time(1)
    assert stopwatch.executing_s == pytest.approx(1.5)


def test_a_block_without_a_call_shows_what_timing_costs():
    hands = Hands([0.001])

    def slow_clock():
        hands.now += 40_000
        return hands.now

    stopwatch = Stopwatch(hands.call, hands.synchronize, slow_clock, lambda: None, None, None)
    assert stopwatch.cost_s() == pytest.approx(40e-6)
    assert hands.calls == 0
    assert stopwatch.executing_s == 0


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
    (conditions,) = conditions_of(Windows(Sensors(hands), hands.clock, calls=None), hands, 1)
    assert conditions.load == pytest.approx(0.25)
    assert conditions.energy_j is None
