import pytest
import torch
from helpers.traces import kernel, launch, operator, trace, write
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from measure.profiling.attribution import ModuleRanges, attribute
from measure.profiling.profile import read_recording
from measure.traces import reading
from measure.traces.matching import NODE, STAGE, match, nest

STEPS = 2


def recorded(network, rows, update=lambda: None):
    """The calls of a training step's operators, by stage, path and name. All of them take time."""

    def stage(name, run):
        with torch._C._profiler._RecordFunctionFast(STAGE + name):
            return run()

    with ModuleRanges(network) as ranges, profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(STEPS):
            loss = stage("forward", lambda: network(rows).square().sum())
            stage("backward", loss.backward)
            stage("update", update)
            torch.ones(1)  # in no stage
    found = read_recording(profiler)
    nest(found.operators)
    times = attribute(found.operators, [], ranges, STEPS, by_kernels=False)[0]
    assert all(each.time_s > 0 for each in times)
    return {(each.stage, each.path, each.operator): each.calls for each in times}


class Around(nn.Module):
    """A layer and a parameter, which ``call`` combines."""

    def __init__(self, call):
        super().__init__()
        self.inner, self.scale, self.call = nn.Linear(3, 3), nn.Parameter(torch.ones(3)), call

    def forward(self, rows):
        return self.call(self, rows)


LAYER = nn.Linear(3, 3)


@pytest.mark.parametrize(
    ("network", "calls", "paths"),
    [
        # addmm, which linear calls, has no row; the loss is in no module. The first layer's input needs no gradient.
        (
            nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)),
            {
                "forward": {("0", "linear"): 1, ("1", "relu"): 1, ("2", "linear"): 1, (None, "square"): 1,
                            (None, "sum"): 1},
                "backward": {("0", "mm"): 1, ("2", "mm"): 2, ("1", "threshold_backward"): 1},
            },
            {"0", "1", "2", None},
        ),
        # A product passes gradients to both factors.
        (
            nn.Sequential(Around(lambda net, rows: nn.ReLU()(net.inner(rows)) * net.scale)),
            {
                "forward": {("0", "relu"): 1, ("0", "mul"): 1, ("0.inner", "linear"): 1},
                "backward": {("0", "threshold_backward"): 1, ("0", "mul"): 2, ("0.inner", "mm"): 1},
            },
            {"0", "0.inner", None},
        ),
        (
            Around(lambda net, rows: checkpoint(net.inner, rows, use_reentrant=False)),
            {"backward": {("inner", "linear"): 1, ("inner", "mm"): 1}}, {"inner", None},  # computed again
        ),
    ],
    ids=["layers", "composite", "checkpoint"],
)  # fmt: skip
def test_operators_belong_to_their_modules_forward_and_backward(network, calls, paths):
    found = recorded(network, torch.ones(4, 3))
    for stage, expected in calls.items():
        assert {key: found.get((stage, *key)) for key in expected} == expected
    assert {path for _, path, _ in found} == paths
    if "0" in paths and "2" in paths:  # all of them are named above
        assert {key[1:] for key in found if key[0] == "forward"} == set(calls["forward"])


def test_gradients_belong_to_the_parameters_module():
    network = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False), LAYER, nn.ReLU(), LAYER)
    for parameter in network[:2].parameters():
        parameter.grad = torch.zeros_like(parameter)
    found = recorded(network, torch.ones(4, 3), torch.optim.SGD(network.parameters(), 0.1).step)
    assert found["backward", "0", "add_"] == found["backward", "1", "add_"] == 1  # to the earlier gradient
    # Both gradients of the last layer's weight and bias are added.
    assert max(found.get(("backward", "2", name), 0) for name in ("add_", "add")) >= 2
    assert {path for stage, path, _ in found if stage == "update"} == {None}
    assert {stage for stage, *_ in found} == {"forward", "backward", "update"}
    assert "ones" not in {name for *_, name in found}  # outside of the stages


def attributed(tmp_path, *events, steps=1, marks=(), by_kernels=True):
    (found,) = reading.read(write(tmp_path / "t.json", trace(*events)))
    matches = match(found, nest(found.operators))
    ranges = ModuleRanges(nn.Module())
    ranges._marks += marks
    return attribute(found.operators, matches, ranges, steps, by_kernels)


BACK = (100, 200)  # the thread of the backward pass, where no stage is around a node
TRAINED = [
    operator("stage: forward", 0, 100),
    operator("module: layer", 5, 90),
    operator("aten::linear", 10, 30, sequence=7),
    operator("aten::addmm", 15, 20, sequence=7),
    launch(20, 1),
    operator("aten::addmm", 36, 2),
    launch(37, 2),
    operator("torchvision::nms", 50, 1),
    launch(50, 3),
    operator(f"{NODE}AddmmBackward0", 200, 50, thread=BACK),
    operator("AddmmBackward0", 205, 20, sequence=7, thread=BACK),
    operator("aten::mm", 210, 9, thread=BACK),
    launch(212, 4, thread=BACK),
    operator("aten::add_", 230, 1, thread=BACK),
    launch(230, 5, thread=BACK),
    operator("aten::zeros", 300, 5),  # in no stage
    kernel("sgemm", 30, 50, 1),
    kernel("splitK", 75, 10, 2),  # 5 us of it during the first
    kernel("nms", 90, 2, 3),
    kernel("sgemm", 220, 80, 4),
    kernel("add", 300, 4, 5),
]


def test_times_are_the_kernels_of_both_threads_or_the_hosts(tmp_path):
    marks = [(7, "layer"), (8, None)]
    times, kernels, busy_s = attributed(tmp_path, *TRAINED, marks=marks)
    assert [each[:4] for each in times] == [
        ("forward", "layer", "linear", 1), ("forward", "layer", "torchvision.nms", 1), ("backward", "layer", "mm", 1),
        ("backward", "layer", "add_", 1),
    ]  # fmt: skip
    assert [each.time_s for each in times] == pytest.approx([60e-6, 2e-6, 80e-6, 4e-6])
    assert [(each.operator, each.kernel, each.calls) for each in kernels] == [
        ("linear", "sgemm", 1), ("linear", "splitK", 1), ("torchvision.nms", "nms", 1), ("mm", "sgemm", 1),
        ("add_", "add", 1),
    ]  # fmt: skip
    assert [each.time_s for each in kernels] == pytest.approx([50e-6, 10e-6, 2e-6, 80e-6, 4e-6])
    assert busy_s == pytest.approx((55 + 2 + 80 + 4) * 1e-6)  # 30 to 85, and three more
    # On the host each operator counts once, without its callees. The same calls in three steps are a third in each.
    times, _, busy_s = attributed(tmp_path, *TRAINED, steps=3, marks=marks, by_kernels=False)
    assert [each.calls for each in times] == [1, 1, 1, 1]
    assert [3 * each.time_s for each in times] == pytest.approx([30e-6, 1e-6, 9e-6, 1e-6])
    assert 3 * busy_s == pytest.approx(41e-6)
