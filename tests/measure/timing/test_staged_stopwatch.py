import pytest
from helpers.hands import Events, Hands

from measure.timing.staged_stopwatch import StagedStopwatch


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


def make_stopwatch(hands, step, synchronize=None, **changed):
    arguments = {"beat": lambda: None, "events": None, "clear": None} | changed
    return StagedStopwatch(
        step, synchronize or hands.synchronize, hands.clock, stages=(step.first, step.second, step.third), **arguments
    )


def test_stages_sum_to_the_call():
    hands = Hands([])
    step = Step(hands)
    stopwatch = make_stopwatch(hands, step)
    timed = stopwatch.time(1)
    assert [stage.latency_s for stage in timed.stages] == pytest.approx([0.1, 0.2, 0.3])
    assert timed.latency_s == pytest.approx(0.6)
    assert step.order == ["first", "second", "third"]
    assert stopwatch.executing_s == pytest.approx(0.6)


def test_a_block_of_short_calls_has_their_means():
    hands = Hands([])
    step = Step(hands)
    timed = make_stopwatch(hands, step).time(2)
    assert step.order == ["first", "second", "third"] * 2
    assert [stage.latency_s for stage in timed.stages] == pytest.approx([0.1, 0.3, 0.3])  # (0.2 + 0.4) / 2
    assert timed.latency_s == pytest.approx(0.7)


def test_every_stage_ends_with_a_synchronisation_inside_its_span():
    hands = Hands([])
    step = Step(hands)

    def synchronize():
        step.order.append("synchronize")
        hands.now += 10_000_000

    timed = make_stopwatch(hands, step, synchronize).time(1)
    assert step.order == ["first", "synchronize", "second", "synchronize", "third", "synchronize"]
    assert [stage.latency_s for stage in timed.stages] == pytest.approx([0.11, 0.21, 0.31])


def test_an_asynchronous_device_has_whole_calls_timed_without_a_wait_in_them():
    hands = Hands([])
    step = Step(hands)
    stopwatch = make_stopwatch(hands, step, events=Events(hands), is_asynchronous=True)
    timed = stopwatch.time(2)
    assert step.order == ["whole"] * 2 + ["first", "second", "third"] * 2
    assert (timed.latency_s, timed.event_s) == (pytest.approx(0.5), pytest.approx(0.25))
    assert [stage.latency_s for stage in timed.stages] == pytest.approx([0.1, 0.3, 0.3])
    assert [stage.event_s for stage in timed.stages] == pytest.approx([0.05, 0.15, 0.15])
    assert stopwatch.executing_s == pytest.approx(2 * 0.5 + 2 * 0.7)
    assert stopwatch.runs(2) == 4


def test_caches_are_cleared_before_a_call_and_not_between_its_stages():
    hands = Hands([])
    step = Step(hands)

    def clear():
        step.order.append("clear")
        hands.now += 30_000_000

    stopwatch = make_stopwatch(hands, step, clear=clear)
    assert stopwatch.time(1).latency_s == pytest.approx(0.6)
    assert step.order == ["clear", "first", "second", "third"]
    assert stopwatch.runs(1) is None


def test_timing_a_call_costs_what_timing_its_stages_does():
    hands = Hands([])

    def slow_clock():
        hands.now += 40_000
        return hands.now

    step = Step(hands)
    stopwatch = StagedStopwatch(
        step, hands.synchronize, slow_clock, lambda: None, None, None, stages=(step.first, step.second)
    )
    assert stopwatch.cost_s() == pytest.approx(2 * 40e-6)
    assert step.order == []


def test_a_sign_of_life_follows_every_stage():
    hands = Hands([])
    step = Step(hands)
    make_stopwatch(hands, step, beat=lambda: step.order.append("beat")).time(1)
    assert step.order == ["first", "beat", "second", "beat", "third", "beat"]
