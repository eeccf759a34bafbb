from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="the profiler is torch's")
from torch import nn  # noqa: E402

from measure.profiling.gpu_kernels import AttributedKernel, busy_s, covered, launched  # noqa: E402
from measure.profiling.ranges import ModuleRanges  # noqa: E402


def event(name, parent=None, start=0.0, end=0.0, device="CPU", kernels=(), annotation=False):
    """What the profiler says of an event, as far as it is looked at; times in microseconds."""
    made = SimpleNamespace(
        name=name,
        cpu_parent=parent,
        cpu_children=[],
        sequence_nr=-1,
        kernels=[SimpleNamespace(name=kernel, duration=duration) for kernel, duration in kernels],
        time_range=SimpleNamespace(start=start, end=end),
        device_type=SimpleNamespace(name=device),
        is_user_annotation=annotation,
    )
    if parent is not None:
        parent.cpu_children.append(made)
    return made


def timeline():
    """Two operators, one of which launches kernels by what it calls, and the kernels on the device's timeline."""
    stage = event("stage: forward")
    module = event("module: layer", stage)
    linear = event("aten::linear", module, 0, 30)
    product = event("aten::addmm", linear, 5, 25, kernels=[("sgemm", 50.0), ("splitK", 10.0)])
    again = event("aten::addmm", linear, 26, 28, kernels=[("sgemm", 40.0)])
    outside = event("aten::zeros", None, 90, 95, kernels=[("fill", 3.0)])
    device = [
        event("sgemm", None, 10, 60, "CUDA"),
        event("splitK", None, 55, 65, "CUDA"),
        event("sgemm", None, 100, 140, "CUDA"),
        event("stage: forward", None, 0, 200, "CUDA", annotation=True),
    ]
    return [stage, module, linear, product, again, outside, *device]


def test_kernels_belong_to_the_operator_that_no_other_one_calls():
    kernels = launched(timeline(), ModuleRanges(nn.Module()), steps=1)
    assert kernels == [
        AttributedKernel("forward", "layer", "linear", "sgemm", 2, pytest.approx(90e-6)),
        AttributedKernel("forward", "layer", "linear", "splitK", 1, pytest.approx(10e-6)),
    ]
    (first, _) = launched(timeline() * 2, ModuleRanges(nn.Module()), steps=2)
    assert (first.calls, first.time_s) == (2, pytest.approx(90e-6))


def test_a_gpu_is_busy_while_a_kernel_runs_and_a_processor_while_an_operator_does():
    ranges = ModuleRanges(nn.Module())
    # 10 to 65 and 100 to 140: 95 us; our ranges are no work of the device
    assert busy_s(timeline(), ranges, 1, by_kernels=True) == pytest.approx(95e-6)
    # linear alone, 30 us: what it calls is within it, and zeros is in no stage
    assert busy_s(timeline(), ranges, 2, by_kernels=False) == pytest.approx(15e-6)


@pytest.mark.parametrize(
    ("spans", "length"),
    [([], 0), ([(0, 2), (1, 3)], 3), ([(5, 6), (0, 10)], 10), ([(0, 1), (4, 6)], 3), ([(0, 1), (1, 2)], 2)],
)
def test_what_spans_cover_counts_once(spans, length):
    assert covered(spans) == length
