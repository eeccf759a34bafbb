import dataclasses
import itertools

import pytest
from helpers.watching import Hands, Sensors

from measure.timing.sampling import Sampling, round_sampling, sample
from measure.timing.stopwatch import StagedStopwatch, Stopwatch


def take(hands, *, clear=None, sensors=None, **settings):
    stopwatch = Stopwatch(hands.call, hands.synchronize, hands.clock, clear=clear)
    return sample(stopwatch, Sampling(**settings), sensors)


FALLING = [1.0 - 0.1 * step for step in range(9)]  # to 0.2
RISING = [0.1 + 0.01 * step for step in range(90)]  # a chip that heats up, to 0.99
LEARNT = [1.0] * 8 + [0.5, 1.0] * 3 + [0.75]
NOISY = [0.5, 1.0] * 1000
# A call's durations, the last for ever; settings; then the calls of a block, the samples and their value, the flags,
# and where it is given the number of all calls.
RULES = {
    # Blocks of one call. Steady values have an interval of width 0, which needs six samples: 3 s >= 2 s.
    "steady calls need six samples": ([0.5], {"least_s": 2.0}, (1, 6, 0.5), ()),
    "for the least time": ([0.1], {"least_s": 2.0}, (1, 20, 0.1), ()),  # 2 s / 0.1 s
    "fast calls have blocks": ([0.001], {"block_s": 0.02}, (20, 50, 0.001), ()),  # 0.02 s / 0.001 s; 1 s / 0.02 s
    "warm-up outlasts a descent": ([*FALLING, 0.1], {"warm_up_s": 60.0}, (1, 10, 0.1), ()),
    "and a rise": ([*RISING, 1.0], {"warm_up_s": 200.0}, (1, 6, 1.0), ()),
    # 60 s >= 50 s, and three are the fewest, which have no 95 % interval.
    "a call longer than the warm-up": ([20.0], {"warm_up_s": 5.0, "limit_s": 50.0}, (1, 3, 20.0), ("wide",), 1 + 3),
    # A trend is looked at over some time however fast the calls: two one by one, two times ten blocks of 0.02 s, and 50
    # samples of 0.02 s within 1 s.
    "a trend of fast calls": (
        [0.02], {"block_s": 0.02, "trend_s": 0.2, "least_s": 1.0}, (1, 50, 0.02), (), 2 + 20 + 50
    ),
    # A first call that sets up for long is no reason to skip the warm-up.
    "set-up is no warm-up": ([20.0, 0.001], {"warm_up_s": 5.0, "block_s": 0.02}, (20, 50, 0.001), ()),
    # Pairs take 1.5 s. The interval reaches from 0.5 to 1.0, never within 2 %: 30 s hold 40 calls.
    "up to the limit": (NOISY, {"block_s": 0.1, "limit_s": 30.0}, (1, 40, None), ("wide",)),
    "the most samples": (NOISY, {"block_s": 0.1, "limit_s": 1e6, "most": 50}, (1, 50, None), ("wide",)),
    # 1.0 for the warm-up (8 calls), 0.5 and 1.0 in turn for six samples, then 0.75 for ever: the interval is 0.75 alone
    # once its ranks (from 0) leave out three samples on either side. That is so from 15 samples on, with ranks 3 to 11.
    # Looks come each time the samples are a quarter more: at 6, 8, 10, 13 (still ranks 2 to 10) and 17 samples.
    "looks": (LEARNT, {"block_s": 0.1, "warm_up_s": 60.0, "least_s": 0.0}, (1, 17, None), ()),
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_when_warm_up_and_sampling_end(rule):
    durations_s, settings, (block, count, latency_s), flags, *calls = rule
    hands = Hands(durations_s)
    timing = take(hands, **settings)
    assert (timing.block, len(timing.latencies_s), timing.flags) == (block, count, flags)
    if latency_s is not None:
        assert timing.latencies_s == pytest.approx([latency_s] * count)
    if calls:
        assert [hands.calls] == calls


def test_a_block_lasts_a_thousand_times_reading_the_clock():
    hands = Hands([0.001])

    def slow_clock():
        hands.now += 40_000
        return hands.now

    timing = sample(Stopwatch(hands.call, hands.synchronize, slow_clock), Sampling(block_s=0.02))
    # A block without a call reads 40 us, so a block lasts 40 ms or more: as calls seem to take 1.04 ms at first, and
    # 1 ms in long blocks, 39 or 40 of them.
    assert timing.block in (39, 40)


def test_warm_up_ends_at_its_limit_and_slower_samples_drift():
    timing = take(Hands([2.0 * 0.9**step for step in range(100)]), warm_up_s=5.0, least_s=0.1, limit_s=1.0)
    # 2 + 1.8 + 1.62 = 5.42 s >= 5 s: the fourth call is the first sample.
    assert timing.latencies_s[0] == pytest.approx(2.0 * 0.9**3)
    # Steady while it warms up (8 calls), then 1 % more with each sample.
    slower = [1.0] * 8 + [1.01**step for step in range(100)]
    assert "drifting" in take(Hands(slower), least_s=30.0, limit_s=30.0).flags


def test_cold_samples_are_single_calls_without_own_energy():
    timing = take(Hands([0.001]), clear=lambda: None, block_s=0.02)
    assert timing.block == 1
    assert timing.latencies_s == pytest.approx([0.001] * len(timing.latencies_s))
    hands = Hands([0.6])
    warm, cold = (take(hands, sensors=Sensors(hands), clear=clear) for clear in (None, lambda: None))
    assert warm.conditions.energy_j == pytest.approx(30.0)  # 50 W for 0.6 s
    assert cold.conditions.energy_j is None
    assert cold.conditions.load == pytest.approx(0.25)


class Wrapping(Sensors):
    """A counter of energy that starts again every 100 J, as a processor's; a reading adds its rise since the last."""

    last_j = used_j = 0.0

    def read(self):
        reading = super().read()
        self.used_j += (reading.energy_j - self.last_j) % 100
        self.last_j = reading.energy_j
        return dataclasses.replace(reading, energy_j=self.used_j)


def test_long_samples_miss_no_end_of_a_counter():
    hands = Hands([1.5])  # 75 J, and as much again in the next sample
    assert take(hands, sensors=Wrapping(hands)).conditions.energy_j == pytest.approx(75.0)


@pytest.mark.parametrize(
    ("sensors", "flags"),
    [
        # A lower clock for heat is told from one for the power cap.
        ({"throttle": "power brake"}, ("throttled",)), ({"throttle": "power cap"}, ("capped",)),
        ({"throttle": "power cap;software thermal"}, ("throttled", "capped")),
        ({"throttle": "power cap;software thermal", "throttles_from_s": 1000.0}, ()),
        # Of 4 cores 1 is at work here: others use 4 - 1 - idle of them, 9 and 12.5 %
        ({"idle": 2.64}, ()), ({"idle": 2.5}, ("loaded",)),
    ],
)  # fmt: skip
def test_a_round_under_load_or_at_a_lower_clock_is_flagged(sensors, flags):
    hands = Hands([0.5])
    assert take(hands, sensors=Sensors(hands, **{"throttles_from_s": 6.0, "idle": 3} | sensors)).flags == flags


def take_stages(durations_s, shares, **settings):
    """Time calls of two stages: the first takes its share of the call, in turn from ``shares``, the second the rest."""
    hands, share = Hands([]), itertools.cycle(shares)
    calls = itertools.chain(durations_s, itertools.repeat(durations_s[-1]))
    rest = []

    def first():
        taken, part = next(calls), next(share)
        rest.append((1 - part) * taken)
        hands.now += round(part * taken * 1e9)

    def second():
        hands.now += round(rest.pop() * 1e9)

    stopwatch = StagedStopwatch(None, hands.synchronize, hands.clock, stages={"first": first, "second": second})
    return sample(stopwatch, Sampling(**settings), Sensors(hands, idle=3))


def test_stages_are_sampled_by_the_rule_of_their_whole():
    whole = take_stages([0.5], [0.2], least_s=2.0)
    # As steady calls: six samples make an interval.
    assert whole.latencies_s == pytest.approx([0.5] * 6)
    assert whole.stages["first"].latencies_s == pytest.approx([0.1] * 6)
    assert whole.stages["second"].latencies_s == pytest.approx([0.4] * 6)
    assert {timing.block for timing in (whole, *whole.stages.values())} == {1}
    whole = take_stages([0.001], [0.2], block_s=0.0195)
    assert {timing.block for timing in (whole, *whole.stages.values())} == {20}  # 19.5 ms hold no more calls of 1 ms
    assert whole.stages["first"].latencies_s[0] == pytest.approx(0.0002)


def test_each_stage_has_its_own_flags_and_its_wholes_conditions():
    whole = take_stages([1.0], [0.2, 0.8], least_s=8.0)  # the whole is steady, its parts are not
    assert [timing.flags for timing in (whole, *whole.stages.values())] == [(), ("wide",), ("wide",)]
    conditions = whole.conditions
    assert conditions.energy_j == pytest.approx(50.0)  # 50 W for 1 s
    assert whole.stages["first"].conditions == dataclasses.replace(conditions, energy_j=None)


@pytest.mark.parametrize(
    ("budget_s", "warm_up_s", "least_s", "limit_s"),
    [
        (None, 3.0, 1.0, 3.0),
        (180.0, 3.0, 0.5, 3.0),  # 180 / 60, 180 / 360, and 180 / 45 = 4, which is longer than without a budget
        (90.0, 1.5, 0.25, 2.0),  # 2 s hold 20 steps of a GPU's energy counter
        (10.0, 0.5, 0.2, 1.5),  # the least of each
    ],
)
def test_a_short_budget_has_short_rounds(budget_s, warm_up_s, least_s, limit_s):
    found = round_sampling(budget_s)
    assert (found.warm_up_s, found.least_s, found.limit_s) == (warm_up_s, least_s, limit_s)
    assert found.has_energy == (limit_s >= 2.0)
