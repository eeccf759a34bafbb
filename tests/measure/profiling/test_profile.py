import mmap
import sys
from collections import defaultdict
from statistics import median

import pytest
from helpers.hands import Hands
from helpers.profiler_events import event
from helpers.tasks import cell

torch = pytest.importorskip("torch", reason="networks are profiled with torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from measure.domain.models import Model  # noqa: E402
from measure.domain.words import FORWARD, INFERENCE  # noqa: E402
from measure.machine import devices  # noqa: E402
from measure.models import catalog  # noqa: E402
from measure.profiling import profile  # noqa: E402
from measure.profiling.attribution import STAGE, ModuleRanges, attribute  # noqa: E402
from measure.profiling.profile import SystemMeter, keep_whole_steps  # noqa: E402
from measure.timing.sampling import ROUND_SAMPLING, sample  # noqa: E402
from measure.timing.stopwatch import Stopwatch  # noqa: E402

NET = Model("net", "torchvision", "plain", (64,))
ROWS, WIDTH, TIMES = 256, 64, 100


class Heavy(nn.Module):
    """Like a Linear layer of as many outputs, with a hundred times the work forward and backward."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(TIMES * WIDTH, WIDTH))

    def forward(self, rows):
        return functional.linear(rows, self.weight)[:, :WIDTH]


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.middle = nn.Sequential(Heavy(), nn.ReLU())
        self.last = nn.Linear(WIDTH, WIDTH)

    def forward(self, rows):
        return self.last(self.middle(self.first(rows)) + rows)


@pytest.fixture
def net(monkeypatch):
    """A catalog of one network, in which one layer is much heavier than the others; on one thread, without waiting."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setattr("measure.models.catalog.build", lambda model: Network().eval())
    monkeypatch.setattr(
        "measure.models.catalog.make_inputs",
        lambda model, batch, device, dtype: (torch.randn(batch, WIDTH, device=device, dtype=dtype),),
    )
    yield Network()
    torch.set_num_threads(threads)


def measure(phase, variant="eager", device=None, beat=lambda: None):
    device = device or devices.find("cpu")
    return profile.measure(device, NET, cell(NET, ROWS, variant=variant, phase=phase), ROUND_SAMPLING, beat)


def shares(operators, stage):
    """The part of a stage's operators' time that each module has."""
    time_s = defaultdict(float)
    for each in operators:
        if each.stage == stage:
            time_s[each.path] += each.time_s
    whole = sum(time_s.values())
    return {path: own / whole for path, own in time_s.items()}


def test_the_heaviest_layer_has_most_of_the_time_in_inference(net):
    profiled = measure("inference")
    assert {each.stage for each in profiled.operators} == {"inference"}
    assert shares(profiled.operators, "inference")["middle.0"] > 0.5
    calls = {(each.path, each.operator): each.calls for each in profiled.operators}
    assert calls["first", "linear"] == calls["middle.0", "linear"] == calls["last", "linear"] == 1
    assert calls["middle.1", "relu"] == calls[".", "add"] == 1


def test_the_heaviest_layer_has_most_of_the_time_forward_and_backward(net):
    profiled = measure("step")
    for stage in ("forward", "backward"):
        assert shares(profiled.operators, stage)["middle.0"] > 0.5
    assert set(shares(profiled.operators, "update")) == {None}
    back = {(each.path, each.operator): each.calls for each in profiled.operators if each.stage == "backward"}
    assert back["middle.0", "mm"] == back["last", "mm"] == 2
    assert back["first", "mm"] == 1
    known = {path or "." for path, _ in net.named_modules()} | {None}
    assert {each.path for each in profiled.operators} <= known


@pytest.mark.parametrize("phase", ["inference", "step"])
def test_operators_take_at_most_the_time_of_the_profiled_step(net, phase):
    profiled = measure(phase)
    assert profile.FEWEST_STEPS <= profiled.steps <= profile.MOST_STEPS
    assert 0 < sum(each.time_s for each in profiled.operators) <= profiled.profiled_s
    assert 0 < profiled.busy_s <= profiled.profiled_s
    assert profiled.kernels == ()  # a processor runs none
    assert profiled.plain_s > 0
    assert profiled.system_use.system_s >= 0
    assert profiled.system_use.page_faults >= 0


def test_signs_of_life_come_between_the_stages_of_a_step(net):
    beats = []
    profiled = measure("step", beat=lambda: beats.append(None))
    assert len(beats) >= 3 * profiled.steps


class Silent(devices.Cpu):
    """A device whose kernels the profiler does not see."""

    kind = "mps"
    is_asynchronous = True


class Gpu(devices.Cpu):
    """A GPU of which the profiler sees no kernel; the processor, in truth."""

    kind = "cuda"


def blind(monkeypatch):
    activities = [torch.profiler.ProfilerActivity.CPU]
    plain = torch.profiler.profile
    monkeypatch.setattr(torch.profiler, "profile", lambda **_: plain(activities=activities))


def test_a_gpu_without_a_recorded_kernel_has_no_profile(net, monkeypatch):
    blind(monkeypatch)
    with pytest.raises(NotImplementedError, match="saw no kernel of this GPU: NVIDIA's CUPTI is missing or sees none"):
        measure("inference", device=Gpu())


def test_only_whole_steps_are_averaged(net, monkeypatch):
    asked = []

    def last_two(events, first_stage):
        asked.append(first_stage)
        return events, 2

    monkeypatch.setattr(profile, "keep_whole_steps", last_two)
    assert measure("step").steps == 2
    assert asked == ["forward"]


def test_slow_first_seconds_warm_up_and_are_no_plain_calls():
    # Three calls in 6 s, in which memory is new to the process; then 1 s each
    hands = Hands([2.0, 2.0, 2.0, 1.0])
    timing = sample(Stopwatch(hands.call, hands.synchronize, hands.clock), profile.PLAIN)
    assert median(timing.latencies_s) == 1.0


@pytest.mark.parametrize(
    ("variant", "device", "words"),
    [
        ("compile", None, "a compiled network's kernels are each of several modules"),
        ("cold", None, "with warm caches only"),
        ("eager", Silent(), "does not see the kernels of mps"),
    ],
)
def test_what_cannot_be_profiled_is_refused_with_a_reason(net, variant, device, words):
    with pytest.raises(NotImplementedError, match=words):
        measure("inference", variant, device)


@pytest.mark.gpu
@pytest.mark.parametrize("phase", ["inference", "step"])
def test_kernels_on_a_gpu_belong_to_the_modules_that_launched_them(phase):
    if "cuda:0" not in devices.available_names():
        pytest.skip("no NVIDIA GPU on this machine")
    device = devices.find("cuda")
    device.prepare(1)
    (model,) = catalog.find(["resnet18"])
    profiled = profile.measure(device, model, cell(model, 32, phase=phase), ROUND_SAMPLING, lambda: None)
    times = profiled.operators
    assert 0.5 * profiled.plain_s < sum(each.time_s for each in times) <= profiled.profiled_s
    expected = {"inference": ["conv2d"], "step": ["conv2d", "convolution_backward"]}[phase]
    for name in expected:
        own = [each for each in times if each.operator == name]
        assert len({each.path for each in own}) == len(own) == 20  # ResNet18's convolutions
        assert all(each.time_s > 0 for each in own)
    # An operator's time is that of its kernels, and the device works while one runs, ranges of modules aside.
    kernels_s = sum(each.time_s for each in profiled.kernels)
    assert kernels_s == pytest.approx(sum(each.time_s for each in times), rel=1e-6)
    assert 0.5 * kernels_s < profiled.busy_s <= 1.001 * kernels_s
    # In a backward pass convolutions have most of the time too, and only the loss and the optimiser have no module.
    known = sum(each.time_s for each in times if each.path is not None and each.stage != "update")
    assert known > 0.9 * sum(each.time_s for each in times if each.stage != "update")


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
    (operator,), (kernel,), busy_s = attribute(events, ranges, steps, by_kernels=True)
    assert (kernel.calls, kernel.time_s) == (5, pytest.approx(50e-6))
    assert busy_s == pytest.approx(50e-6)
    assert (operator.calls, operator.time_s) == (5, pytest.approx(50e-6))


def test_kernels_that_the_device_dates_too_early_belong_to_the_step_that_launched_them():
    events, steps = keep_whole_steps([*step(0, 0), *step(1, 5, early_us=700.0), *step(2, 5, early_us=700.0)], INFERENCE)
    assert steps == 2
    assert attribute(events, ModuleRanges(nn.Module()), steps, by_kernels=True)[2] == pytest.approx(50e-6)


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


PAGES = 5000


def touch(pages):
    """Gets so many pages from the system, and writes into each."""
    with mmap.mmap(-1, pages * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        for start in range(0, len(memory), mmap.PAGESIZE):
            memory[start] = 1


def test_each_new_page_is_a_fault_and_the_first_call_does_not_count():
    sizes = iter([4 * PAGES, 1 * PAGES, 3 * PAGES])
    meter = SystemMeter(lambda: touch(next(sizes)))
    for _ in range(3):
        meter()
    # The mean of 1 and 3 times as many; an interpreter at work may need a few of its own.
    assert 2 * PAGES <= meter.use().page_faults < 2.1 * PAGES


def test_the_time_of_many_faults_is_seen():
    meter = SystemMeter(lambda: touch(20 * PAGES))
    for _ in range(6):
        meter()
    assert meter.use().system_s > 0


def test_what_asks_nothing_of_the_system_has_no_faults():
    meter = SystemMeter(lambda: None)
    for _ in range(100):
        meter()
    assert meter.use().page_faults < 1


def test_one_call_alone_says_nothing():
    meter = SystemMeter(lambda: None)
    assert meter.use() is None
    meter()
    assert meter.use() is None


def test_a_system_that_does_not_say(monkeypatch):
    monkeypatch.setitem(sys.modules, "resource", None)  # as on Windows
    calls = []
    meter = SystemMeter(lambda: calls.append(1))
    for _ in range(3):
        meter()
    assert len(calls) == 3
    assert meter.use() is None


def test_what_a_call_raises_comes_through():
    meter = SystemMeter(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        meter()
