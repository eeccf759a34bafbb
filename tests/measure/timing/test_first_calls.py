import pytest
from helpers.cells import small_cell

from measure.machine import devices
from measure.timing import first_calls


def test_a_benchmark_without_warm_up_averages_the_first_call():
    # The first call takes 11 s, all others 1 s: without warm-up ten calls average (11 + 9) / 10 = 2 s. Their deviation
    # is the root of (9^2 + 9 * 1^2) / 9 = 10.
    latencies_s = [11.0] + [1.0] * 19
    found = {each.warm_up: each for each in first_calls.averages(latencies_s)}
    assert list(found) == [0, 1, 2, 5, 10]
    assert (found[0].mean_s, found[0].deviation_s) == (2.0, pytest.approx(10**0.5))
    assert {(each.mean_s, each.deviation_s) for number, each in found.items() if number} == {(1.0, 0.0)}
    assert first_calls.excess(latencies_s) == 11.0


@pytest.mark.parametrize(("phase", "stages"), [("inference", []), ("step", ["forward", "backward", "update"])])
def test_each_of_the_first_calls_is_a_sample(phase, stages):
    beats = []
    cell = small_cell("network", "fp32", "eager", phase)
    timing = first_calls.measure(devices.find("cpu"), *cell, lambda: beats.append(1))
    assert (timing.block, len(timing.samples)) == (1, 20)
    assert list(timing.stages) == stages
    for place, sample in enumerate(timing.samples if stages else ()):
        parts = [timing.stages[name].samples[place].latency_s for name in stages]
        assert sum(parts) == pytest.approx(sample.latency_s)
    assert len(beats) > 20
