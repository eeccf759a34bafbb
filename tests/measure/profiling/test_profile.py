import mmap

import pytest
import torch
from helpers.cells import cell
from helpers.traces import kernel, launch, operator, trace, write
from helpers.traces import step as step_range
from torch import nn

from measure.domain.models import Model
from measure.machine import devices
from measure.models import catalog
from measure.profiling import profile
from measure.profiling.attribution import ModuleRanges
from measure.profiling.profile import SystemMeter, attribute_whole_steps
from measure.timing.sampling import ROUND_SAMPLING
from measure.traces import reading
from measure.traces.matching import STAGE

NET = Model("net", "torchvision", "plain", (64,))


@pytest.fixture
def network(monkeypatch):
    layers = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)).eval()
    monkeypatch.setattr(catalog, "build", lambda model: layers)
    monkeypatch.setattr(catalog, "make_inputs", lambda _, batch, device, dtype: (torch.randn(batch, 64, dtype=dtype),))


def measure(phase, variant="eager", beat=lambda: None):
    measured = cell(NET, 256, variant=variant, phase=phase)
    return profile.measure(devices.find("cpu"), NET, measured, ROUND_SAMPLING, beat)


@pytest.mark.parametrize(
    ("phase", "stages", "calls"),
    [
        ("inference", {"inference"}, {("0", "linear"): 1, ("1", "relu"): 1, ("2", "linear"): 1}),
        # No gradient of the input is needed.
        ("step", {"forward", "backward", "update"}, {("0", "mm"): 1, ("1", "threshold_backward"): 1, ("2", "mm"): 2}),
    ],
)
def test_operators_have_their_modules_and_times(network, phase, stages, calls):
    beats = []
    profiled = measure(phase, beat=lambda: beats.append(None))
    assert len(beats) >= profiled.steps * len(stages)  # a sign of life between the stages
    stage = "backward" if phase == "step" else "inference"
    found = {(each.path, each.operator): each.calls for each in profiled.operators if each.stage == stage}
    assert {key: found[key] for key in calls} == calls
    assert {each.stage for each in profiled.operators} == stages
    assert {each.path for each in profiled.operators} <= {None, ".", "0", "1", "2"}
    assert profile.FEWEST_STEPS <= profiled.steps <= profile.MOST_STEPS
    assert 0 < sum(each.time_s for each in profiled.operators) <= profiled.profiled_s
    assert 0 < profiled.busy_s <= profiled.profiled_s
    assert (profiled.kernels, profiled.trace) == ((), None)  # a processor runs none
    assert profiled.plain_s > 0
    assert min(profiled.system_use) >= 0


@pytest.mark.parametrize(
    ("variant", "words"),
    [
        ("compile", "a compiled network's kernels are each of several modules"),
        ("cold", "with warm caches only"),
        ("cuda_graph", "launches its kernels without their operators"),
    ],
)
def test_variants_without_profiles_have_a_reason(network, variant, words):
    with pytest.raises(NotImplementedError, match=words):
        measure("inference", variant)


@pytest.mark.gpu
@pytest.mark.parametrize("phase", ["inference", "step"])
def test_gpu_kernels_belong_to_the_modules_that_launched_them(gpu, phase):
    gpu.prepare(1)
    (model,) = catalog.find(["resnet18"])
    profiled = profile.measure(gpu, model, cell(model, 32, phase=phase), ROUND_SAMPLING, lambda: None)
    times = profiled.operators
    assert 0.5 * profiled.plain_s < sum(each.time_s for each in times) <= profiled.profiled_s
    for name in {"inference": ["conv2d"], "step": ["conv2d", "convolution_backward"]}[phase]:
        own = [each for each in times if each.operator == name]
        assert len({each.path for each in own}) == len(own) == 20  # ResNet18's convolutions
        assert all(each.time_s > 0 for each in own)
    # An operator's time is its kernels', and the device works while one runs, ranges of modules aside.
    kernels_s = sum(each.time_s for each in profiled.kernels)
    assert kernels_s == pytest.approx(sum(each.time_s for each in times), rel=1e-6)
    assert 0.5 * kernels_s < profiled.busy_s <= 1.001 * kernels_s
    # In a backward pass convolutions have most of the time too, and only the loss and the optimiser have no module.
    in_modules = sum(each.time_s for each in times if each.path is not None and each.stage != "update")
    assert in_modules > 0.9 * sum(each.time_s for each in times if each.stage != "update")


def attributed(path, *kernels, early_us=0.0):
    """Steps of 1 ms with five operators; ``kernels`` recorded kernels of 10 us in each, dated too early."""
    events = [launch(-5, 1), kernel("fill", -2, 1, 1)]  # before the first step
    for number, count in enumerate(kernels):
        start = 1000 * number
        events += [step_range(number, start, 900), operator(STAGE + "inference", start, 800)]
        for place in range(5):
            at, correlation = start + 20 * place, 10 * number + place + 2
            events += [operator("aten::mm", at, 5), launch(at + 1, correlation)]
            if place < count:
                events.append(kernel("sgemm", at + 8 - early_us, 10, correlation))
    (found,) = reading.read(write(path / "t.json", trace(*events)))
    return attribute_whole_steps(found, ModuleRanges(nn.Module()), by_kernels=True)


@pytest.mark.parametrize(
    ("kernels", "early_us", "expected"),
    [
        ((2, 5, 5), 0.0, [1, 2]),  # the first lost kernels
        ((0, 5, 5), 700.0, [1, 2]),  # the device dates them before the step that launched them
        ((5, 5, 5), 0.0, [0, 1, 2]),
    ],
)
def test_a_step_that_lost_kernels_is_left_out_of_every_mean(tmp_path, kernels, early_us, expected):
    whole, (operator_time,), kernel_times, busy_s = attributed(tmp_path, *kernels, early_us=early_us)
    assert [each.number for each in whole] == expected
    time_s = pytest.approx(50e-6)  # 5 kernels of 10 us in each whole step
    assert (operator_time.calls, operator_time.time_s, busy_s) == (5, time_s, time_s)
    assert [(each.calls, each.time_s) for each in kernel_times] == [(5, time_s)]


@pytest.mark.parametrize("kernels", [(0, 2, 5), (5, 4, 5), (5, 5, 4)])
def test_steps_that_differ_in_another_way_are_refused(tmp_path, kernels):
    counts = ", ".join(map(str, kernels))
    with pytest.raises(NotImplementedError, match=f"saw {counts} kernels in steps of the same work"):
        attributed(tmp_path, *kernels)


def test_each_new_page_is_a_fault_and_the_first_call_is_skipped():
    def touch(pages):
        with mmap.mmap(-1, pages * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            if hasattr(mmap, "MADV_NOHUGEPAGE"):
                memory.madvise(mmap.MADV_NOHUGEPAGE)
            for start in range(0, len(memory), mmap.PAGESIZE):
                memory[start] = 1

    sizes = iter([40_000, 10_000, 30_000])
    meter = SystemMeter(lambda: touch(next(sizes)))
    meter()
    assert meter.use() is None  # one call alone says nothing
    meter()
    meter()
    # The mean of 10,000 and 30,000; an interpreter at work may need a few of its own.
    assert 20_000 <= meter.use().page_faults < 21_000
    assert 0 < meter.use().system_s < 10
