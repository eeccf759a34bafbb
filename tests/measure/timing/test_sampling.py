import dataclasses
import itertools

import pytest
from helpers.hands import Hands, Sensors

from measure.timing.sampling import Sampling, sample
from measure.timing.stopwatch import StagedStopwatch, Stopwatch


def take(hands, *, clear=None, sensors=None, **settings):
    stopwatch = Stopwatch(hands.call, hands.synchronize, hands.clock, clear=clear)
    return sample(stopwatch, Sampling(**settings), sensors)


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

    timing = sample(Stopwatch(hands.call, hands.synchronize, slow_clock), Sampling(block_s=0.02))
    # A block without a call reads 40 us, so a block lasts 40 ms or more: as calls seem to take 1.04 ms at first, and
    # 1 ms in long blocks, 39 or 40 of them.
    assert timing.block in (39, 40)


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
    stopwatch = Stopwatch(hands.call, hands.synchronize, hands.clock, beat=lambda: beats.append(hands.calls))
    sample(stopwatch, Sampling())
    assert beats == list(range(1, hands.calls + 1))


def test_cold_samples_are_single_calls_however_short():
    hands = Hands([0.001])
    timing = take(hands, clear=lambda: None, block_s=0.02)
    assert timing.block == 1
    assert timing.latencies_s == pytest.approx([0.001] * len(timing.latencies_s))


def test_cold_samples_have_no_energy_of_their_own():
    hands = Hands([0.6])
    warm, cold = (take(hands, sensors=Sensors(hands), clear=clear) for clear in (None, lambda: None))
    assert warm.samples[0].conditions.energy_j == pytest.approx(30.0)  # 50 W for 0.6 s
    assert cold.samples[0].conditions.energy_j is None
    assert cold.samples[0].conditions.load == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("reasons", "from_s", "flags"),
    [
        ("software thermal", 6.0, ("throttled",)),
        ("power brake", 6.0, ("throttled",)),
        ("power cap", 6.0, ("capped",)),
        ("power cap;software thermal", 6.0, ("throttled", "capped")),
        ("power cap;software thermal", 1000.0, ()),
    ],
)
def test_a_lower_clock_for_heat_is_told_from_one_for_the_power_cap(reasons, from_s, flags):
    hands = Hands([0.5])
    assert take(hands, sensors=Sensors(hands, reasons, from_s, idle=3)).flags == flags


@pytest.mark.parametrize(("idle", "flags"), [(3, ()), (2.64, ()), (2.5, ("loaded",)), (2, ("loaded",))])
def test_a_round_beside_other_programs_is_flagged(idle, flags):
    # Of 4 cores 1 is at work here: others use 4 - 1 - idle of them, 0, 9, 12.5 and 25 %
    hands = Hands([0.5])
    assert take(hands, sensors=Sensors(hands, idle=idle)).flags == flags


def take_stages(hands, shares, sensors=None, **settings):
    """The timings of calls and of their stages, which take these shares of a call of the hands, the last the rest."""
    taken = []

    def stage(share):
        began = hands.now
        if not taken:
            hands.call()
            taken.append(hands.now - began)
        hands.now = began + round(share * taken[0])

    def last():
        stage(1 - sum(shares))
        taken.clear()

    stages = {share: lambda share=share: stage(share) for share in shares} | {"last": last}
    timing = sample(StagedStopwatch(None, hands.synchronize, hands.clock, stages=stages), Sampling(**settings), sensors)
    return timing, *timing.stages.values()


def test_stages_are_sampled_with_their_whole_by_whose_rule():
    hands = Hands([0.5])
    whole, first, second = take_stages(hands, [0.2], least_s=2.0)
    # As in the first test of this file: six samples make an interval.
    assert whole.latencies_s == pytest.approx([0.5] * 6)
    assert first.latencies_s == pytest.approx([0.1] * 6)
    assert second.latencies_s == pytest.approx([0.4] * 6)
    assert (whole.block, first.block, second.block) == (1, 1, 1)


def test_short_calls_in_stages_have_blocks_too():
    whole, first, _ = take_stages(Hands([0.001]), [0.2], block_s=0.0195)
    assert whole.block == first.block == 20  # 19.5 ms hold no more than 20 calls of 1 ms
    assert first.latencies_s[0] == pytest.approx(0.0002)


def test_each_stage_has_flags_of_its_own():
    # Calls of 1 s of which the first stage takes 0.2 and 0.8 s in turn: the whole is steady, its parts are not.
    hands, turns = Hands([]), itertools.cycle([0.2, 0.8])
    shares = []

    def first():
        shares.append(next(turns))
        hands.now += round(shares[-1] * 1e9)

    def second():
        hands.now += round((1 - shares[-1]) * 1e9)

    stopwatch = StagedStopwatch(None, hands.synchronize, hands.clock, stages={"first": first, "second": second})
    whole = sample(stopwatch, Sampling(least_s=8.0))
    assert whole.flags == ()
    assert {name: timing.flags for name, timing in whole.stages.items()} == {"first": ("wide",), "second": ("wide",)}


def test_stages_have_the_conditions_of_their_whole_but_for_its_energy():
    hands = Hands([0.6])
    whole, first, _ = take_stages(hands, [0.2], sensors=Sensors(hands))
    assert whole.samples[0].conditions.energy_j == pytest.approx(30.0)  # 50 W for 0.6 s
    assert first.samples[0].conditions == dataclasses.replace(whole.samples[0].conditions, energy_j=None)
