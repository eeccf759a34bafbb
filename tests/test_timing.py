import dataclasses

import pytest

from measure.timing import Sampling, sample


class Hands:
    """A clock that a call moves by hand."""

    def __init__(self, durations_s):
        self.now = 0
        self.calls = 0
        self.synchronized = 0
        self._durations = iter(durations_s)
        self._last = 0.0

    def clock(self):
        return self.now

    def call(self):
        self._last = next(self._durations, self._last)
        self.now += round(self._last * 1e9)
        self.calls += 1

    def synchronize(self):
        self.synchronized += 1


def take(hands, **settings):
    return sample(hands.call, hands.synchronize, Sampling(**settings), clock=hands.clock)


def test_steady_calls_stop_once_the_interval_exists_and_the_least_time_has_passed():
    hands = Hands([0.5])
    timing = take(hands, least_s=2.0)
    # Blocks of one call. Steady values have an interval of width 0, which needs six samples: 3 s >= 2 s.
    assert timing.block == 1
    assert timing.latencies_s == (0.5,) * 6


def test_the_least_time_is_sampled_even_when_the_interval_is_narrow_before():
    timing = take(Hands([0.1]), least_s=2.0)
    assert len(timing.latencies_s) == 20  # 2 s / 0.1 s


def test_fast_calls_are_timed_in_blocks():
    hands = Hands([0.001])
    timing = take(hands, block_s=0.02)
    assert timing.block == 20  # 0.02 s / 0.001 s
    assert timing.latencies_s[0] == pytest.approx(0.001)


def test_every_block_ends_with_a_synchronisation_inside_the_timed_span():
    events = []
    hands = Hands([0.5])

    def clock():
        events.append("clock")
        return hands.now

    def call():
        events.append("call")
        hands.call()

    sample(call, lambda: events.append("synchronize"), Sampling(), clock=clock)
    places = [place for place, event in enumerate(events) if event == "call"]
    assert all(events[place - 1] == "clock" for place in places)
    assert all(events[place + 1 : place + 3] == ["synchronize", "clock"] for place in places)


def test_warm_up_goes_on_while_calls_get_faster():
    # 1.0, 0.9, ... 0.2, then steady at 0.1: no sample may be taken from the descent.
    falling = [1.0 - 0.1 * step for step in range(9)]
    timing = take(Hands([*falling, 0.1]), warm_up_s=60.0)
    assert max(timing.latencies_s) == pytest.approx(0.1)


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


def test_the_fewest_samples_are_taken_though_the_limit_has_passed():
    timing = take(Hands([50.0]), limit_s=1.0, fewest=3)
    assert len(timing.latencies_s) == 3


def test_noisy_calls_are_sampled_up_to_the_limit():
    timing = take(Hands([0.5, 1.0] * 1000), block_s=0.1, limit_s=30.0)
    # Pairs take 1.5 s. The interval reaches from 0.5 to 1.0, never within 2 %: 30 s hold 40 calls.
    assert len(timing.latencies_s) == 40


def test_there_is_a_largest_number_of_samples():
    timing = take(Hands([0.5, 1.0] * 1000), block_s=0.1, limit_s=1e6, most=50)
    assert len(timing.latencies_s) == 50


def test_a_sign_of_life_follows_every_block():
    hands = Hands([0.5])
    beats = []
    sample(
        hands.call, hands.synchronize, Sampling(), clock=hands.clock, beat=lambda: beats.append(hands.calls)
    )
    assert beats == list(range(1, hands.calls + 1))


def test_sampling_cannot_be_changed_after_the_fact():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Sampling().target = 0.5
