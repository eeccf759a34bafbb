import pytest
from helpers.profiler_events import event

from measure.domain.words import FORWARD, INFERENCE
from measure.profiling.attribution import STAGE, ModuleRanges, attribute
from measure.profiling.profile import keep_whole_steps

nn = pytest.importorskip("torch.nn", reason="modules are torch's")


def step(number, kernels, early_us=0.0):
    """A step at ``number`` ms: five operators, the first of which launch ``kernels`` of 10 µs, dated too early."""
    start = 1000.0 * number
    stage = event(STAGE + INFERENCE, start=start, end=start + 100)
    ran = [
        event(
            "aten::mm", stage, kernels_us=sum(kernels_us), kernels=[("sgemm", each) for each in kernels_us],
            start=start + 20 * place, end=start + 20 * place + 5,
        )
        for place, kernels_us in enumerate([[10.0]] * kernels + [[]] * (5 - kernels))
    ]  # fmt: skip
    dated = [start + 20 * place + 8 - early_us for place in range(kernels)]
    on_device = [event("sgemm", start=begin, end=begin + 10, device="CUDA") for begin in dated]
    on_device.append(event(STAGE + INFERENCE, start=start, end=start + 100, device="CUDA", annotation=True))
    return [stage, *ran, *on_device]


def test_a_step_that_lost_kernels_is_left_out_of_every_mean():
    events, steps = keep_whole_steps([*step(0, 2), *step(1, 5), *step(2, 5)], INFERENCE)
    ranges = ModuleRanges(nn.Module())
    assert steps == 2
    # 5 kernels of 10 µs in each of the two steps; by all three it would be 120 / 3 µs
    times = attribute(events, ranges, steps, by_kernels=True)
    (kernel,) = times.kernels
    assert (kernel.calls, kernel.time_s) == (5, pytest.approx(50e-6))
    assert times.busy_s == pytest.approx(50e-6)
    (operator,) = times.operators
    assert (operator.calls, operator.time_s) == (5, pytest.approx(50e-6))


def test_kernels_that_the_device_dates_too_early_belong_to_the_step_that_launched_them():
    events, steps = keep_whole_steps([*step(0, 0), *step(1, 5, early_us=700.0), *step(2, 5, early_us=700.0)], INFERENCE)
    assert steps == 2
    assert attribute(events, ModuleRanges(nn.Module()), steps, by_kernels=True).busy_s == pytest.approx(50e-6)


def test_steps_that_are_alike_are_all_whole():
    made = [*step(0, 5), *step(1, 5), *step(2, 5)]
    before = event("aten::zeros", start=-5.0, kernels=[("fill", 1.0)])
    events, steps = keep_whole_steps([before, *made], INFERENCE)
    assert steps == 3
    assert before not in events
    # Of a processor, too: it has no kernels.
    assert keep_whole_steps([*step(0, 0), *step(1, 0)], INFERENCE)[1] == 2


@pytest.mark.parametrize("kernels", [(0, 2, 5), (5, 4, 5), (5, 5, 4), (5, 4, 4)])
def test_steps_that_differ_in_another_way_are_refused(kernels):
    events = [each for number, count in enumerate(kernels) for each in step(number, count)]
    counts = ", ".join(map(str, kernels))
    with pytest.raises(NotImplementedError, match=f"saw {counts} kernels in steps of the same work"):
        keep_whole_steps(events, INFERENCE)


def test_a_step_begins_with_its_first_stage_alone():
    stages = [event(STAGE + name, start=start) for start, name in enumerate([FORWARD, "backward"] * 2)]
    assert keep_whole_steps(stages, FORWARD)[1] == 2
