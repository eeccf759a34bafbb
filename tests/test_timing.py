import dataclasses
import itertools

import pytest
from hands import Hands

from measure.sensors import WINDOW_S, Reading
from measure.timing import Sampling, sample


def take(hands, *, events=None, clear=None, sensors=None, **settings):
    return sample(
        hands.call,
        hands.synchronize,
        Sampling(**settings),
        hands.clock,
        events=events,
        clear=clear,
        sensors=sensors,
    )


class Sensors:
    """Counters that rise with the clock: 4 cores, 2 idle and 1 at work here; 50 W; from some time on a throttle."""

    def __init__(self, hands, throttles_from_s=float("inf")):
        self.hands = hands
        self.throttles_from_s = throttles_from_s
        self.read_at_s = []

    def read(self):
        now_s = self.hands.clock() / 1e9
        self.read_at_s.append(now_s)
        return Reading(
            core_s=4 * now_s,
            idle_s=2 * now_s,
            own_s=now_s,
            energy_j=50 * now_s,
            clock_hz=1e9,
            temperature_c=40 + now_s,
            power_w=51.0,
            throttle="power cap" if now_s >= self.throttles_from_s else None,
        )


def test_steady_calls_stop_once_the_interval_exists_and_the_least_time_has_passed():
    timing = take(Hands([0.5]), least_s=2.0)
    # Blocks of one call. Steady values have an interval of width 0, which needs six samples: 3 s >= 2 s.
    assert timing.block == 1
    assert timing.latencies_s == (0.5,) * 6
    assert timing.flags == ()


def test_the_least_time_is_sampled_even_when_the_interval_is_narrow_before():
    timing = take(Hands([0.1]), least_s=2.0)
    assert len(timing.latencies_s) == 20  # 2 s / 0.1 s


def test_fast_calls_are_timed_in_blocks():
    timing = take(Hands([0.001]), block_s=0.02)
    assert timing.block == 20  # 0.02 s / 0.001 s
    assert timing.latencies_s[0] == pytest.approx(0.001)


def test_a_block_lasts_a_thousand_times_what_reading_the_clock_takes():
    hands = Hands([0.001])

    def slow_clock():
        hands.now += 40_000
        return hands.now

    timing = sample(hands.call, hands.synchronize, Sampling(block_s=0.02), slow_clock)
    # A block without a call reads 40 us, so a block lasts 40 ms or more: as calls seem to take 1.04 ms at first, and
    # 1 ms in long blocks, 39 or 40 of them.
    assert timing.block in (39, 40)


def test_every_block_ends_with_a_synchronisation_inside_the_timed_span():
    events = []
    hands = Hands([0.5])

    def clock():
        events.append("clock")
        return hands.now

    def call():
        events.append("call")
        hands.call()

    sample(call, lambda: events.append("synchronize"), Sampling(), clock)
    places = [place for place, event in enumerate(events) if event == "call"]
    assert all(events[place - 1] == "clock" for place in places)
    assert all(events[place + 1 : place + 3] == ["synchronize", "clock"] for place in places)


def test_warm_up_goes_on_while_calls_get_faster():
    # 1.0, 0.9, ... 0.2, then steady at 0.1: no sample may be taken from the descent.
    falling = [1.0 - 0.1 * step for step in range(9)]
    timing = take(Hands([*falling, 0.1]), warm_up_s=60.0)
    assert max(timing.latencies_s) == pytest.approx(0.1)


def test_warm_up_goes_on_while_calls_get_slower():
    # A chip that heats up: 0.1, 0.11, ... 0.99, then steady at 1.0.
    rising = [0.1 + 0.01 * step for step in range(90)]
    timing = take(Hands([*rising, 1.0]), warm_up_s=200.0)
    assert min(timing.latencies_s) == pytest.approx(1.0)


def test_a_trend_is_looked_at_over_some_time_however_fast_the_calls():
    hands = Hands([0.02])
    take(hands, block_s=0.02, trend_s=0.2, least_s=1.0)
    # Two calls one by one, two times ten blocks of 0.02 s for the trend, and 50 samples of 0.02 s within 1 s.
    assert hands.calls == 2 + 20 + 50


def test_warm_up_ends_after_its_limit_though_calls_still_get_faster():
    hands = Hands([2.0 * 0.9**step for step in range(100)])
    timing = take(hands, warm_up_s=5.0, least_s=0.1, limit_s=1.0)
    # 2 + 1.8 + 1.62 = 5.42 s >= 5 s: the fourth call is the first sample.
    assert timing.latencies_s[0] == pytest.approx(2.0 * 0.9**3)


def test_a_call_longer_than_the_warm_up_is_made_once_before_sampling():
    hands = Hands([20.0])
    timing = take(hands, warm_up_s=5.0, limit_s=50.0)
    assert len(timing.latencies_s) == 3  # 60 s >= 50 s, and three are the fewest
    assert hands.calls == 4


def test_a_first_call_that_sets_up_for_long_is_no_reason_to_skip_the_warm_up():
    hands = Hands([20.0, 0.001])
    timing = take(hands, warm_up_s=5.0, block_s=0.02)
    assert timing.block == 20
    assert timing.latencies_s == pytest.approx([0.001] * len(timing.latencies_s))


def test_the_fewest_samples_are_taken_though_the_limit_has_passed():
    timing = take(Hands([50.0]), limit_s=1.0, fewest=3)
    assert len(timing.latencies_s) == 3
    assert timing.flags == ("wide",)  # three samples have no 95 % interval


def test_noisy_calls_are_sampled_up_to_the_limit():
    timing = take(Hands([0.5, 1.0] * 1000), block_s=0.1, limit_s=30.0)
    # Pairs take 1.5 s. The interval reaches from 0.5 to 1.0, never within 2 %: 30 s hold 40 calls.
    assert len(timing.latencies_s) == 40
    assert timing.flags == ("wide",)


def test_there_is_a_largest_number_of_samples():
    timing = take(Hands([0.5, 1.0] * 1000), block_s=0.1, limit_s=1e6, most=50)
    assert len(timing.latencies_s) == 50


def test_the_interval_is_looked_at_each_time_the_samples_are_a_quarter_more():
    # 1.0 for the warm-up (8 calls), 0.5 and 1.0 in turn for six samples, then 0.75 for ever: the interval is 0.75 alone
    # once its ranks (from 0) leave out three samples on either side. That is so from 15 samples on, with ranks 3 to 11.
    # Looks come at 6, 8, 10, 13 (still ranks 2 to 10) and 17 samples.
    timing = take(Hands([1.0] * 8 + [0.5, 1.0] * 3 + [0.75]), block_s=0.1, warm_up_s=60.0, least_s=0.0)
    assert len(timing.latencies_s) == 17


def test_samples_that_get_slower_are_said_to_drift():
    # Steady while it warms up (8 calls), then 1 % more with each sample.
    slower = [1.0] * 8 + [1.01**step for step in range(100)]
    assert "drifting" in take(Hands(slower), least_s=30.0, limit_s=30.0).flags


def test_a_sign_of_life_follows_every_block():
    hands = Hands([0.5])
    beats = []
    sample(hands.call, hands.synchronize, Sampling(), hands.clock, beat=lambda: beats.append(hands.calls))
    assert beats == list(range(1, hands.calls + 1))


def test_the_time_within_calls_is_summed():
    hands = Hands([0.5])
    assert take(hands).executing_s == pytest.approx(0.5 * hands.calls)


class Events:
    """A device that takes half of the host's time."""

    def __init__(self, hands):
        self.hands = hands

    def start(self):
        self.first = self.hands.now

    def stop(self):
        self.last = self.hands.now

    def elapsed_s(self):
        return (self.last - self.first) / 2e9


def test_the_devices_own_time_stands_beside_the_hosts():
    hands = Hands([0.004])
    timing = take(hands, events=Events(hands), block_s=0.02)
    assert timing.block == 5
    assert [each.event_s for each in timing.samples] == pytest.approx([0.002] * len(timing.samples))


def test_without_events_there_is_no_event_time():
    assert {each.event_s for each in take(Hands([0.5])).samples} == {None}


def test_cold_samples_are_single_calls_each_after_clearing_the_caches():
    hands = Hands([0.001])
    order = []

    def clear():
        hands.now += 30_000_000  # not part of any sample
        order.append("clear")

    def call():
        order.append("call")
        hands.call()

    timing = sample(call, hands.synchronize, Sampling(), hands.clock, clear=clear)
    assert timing.block == 1
    assert timing.latencies_s == pytest.approx([0.001] * len(timing.latencies_s))
    calls = [place for place, what in enumerate(order) if what == "call"]
    assert all(order[place - 1] == "clear" for place in calls)


def test_conditions_are_those_of_a_window():
    hands = Hands([0.2])
    sensors = Sensors(hands)
    timing = take(hands, sensors=sensors, least_s=1.5)
    # 8 samples of 0.2 s in 1.6 s: windows of three, the first that last half a second, and two left over.
    assert len(timing.samples) == 8
    opened_s = sensors.read_at_s[0]
    first, second, rest = (timing.samples[place].conditions for place in (0, 3, 6))
    assert [each.conditions for each in timing.samples] == [first] * 3 + [second] * 3 + [rest] * 2
    assert first.load == pytest.approx(0.25)  # of 4 cores 2 idle, 1 works here, 1 for others
    assert first.energy_j == pytest.approx(10.0)  # 50 W for 0.2 s
    assert (first.clock_hz, first.power_w, first.throttle) == (1e9, 51.0, None)
    assert first.temperature_c == pytest.approx(40 + opened_s + 0.6)
    assert (rest.load, rest.energy_j) == (None, None)
    assert rest.temperature_c == pytest.approx(40 + opened_s + 1.6)


def test_sensors_are_read_no_more_often_than_once_in_a_window():
    hands = Hands([0.001])
    sensors = Sensors(hands)
    take(hands, sensors=sensors, least_s=2.0)
    assert len(sensors.read_at_s) == 5  # before the first sample, and at the end of each of four windows
    pairs = itertools.pairwise(sensors.read_at_s)
    assert all(later - earlier == pytest.approx(WINDOW_S) for earlier, later in pairs)


def test_a_cold_sample_has_no_energy_of_its_own():
    hands = Hands([0.2])
    timing = take(hands, sensors=Sensors(hands), clear=lambda: None)
    assert timing.samples[0].conditions.load == pytest.approx(0.25)
    assert timing.samples[0].conditions.energy_j is None


def test_a_round_in_which_the_clock_was_lowered_is_throttled():
    hands = Hands([0.5])
    assert take(hands, sensors=Sensors(hands, throttles_from_s=6.0)).flags == ("throttled",)
    hands = Hands([0.5])
    assert take(hands, sensors=Sensors(hands, throttles_from_s=1000.0)).flags == ()


def test_sampling_cannot_be_changed_after_the_fact():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Sampling().target = 0.5
