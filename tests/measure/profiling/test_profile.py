from collections import defaultdict
from statistics import median

import pytest
from helpers.hands import Hands
from helpers.tasks import cell

from measure.domain.models import Model
from measure.machine import devices
from measure.models import catalog
from measure.profiling import profile
from measure.timing.sampling import ROUND, sample
from measure.timing.stopwatch import Stopwatch

torch = pytest.importorskip("torch", reason="networks are profiled with torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

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
    return profile.measure(device, NET, cell(NET, ROWS, variant=variant, phase=phase), ROUND, beat)


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
    monkeypatch.setattr(profile, "_profiler", lambda device: torch.profiler.profile(activities=activities))


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
    profiled = profile.measure(device, model, cell(model, 32, phase=phase), ROUND, lambda: None)
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
