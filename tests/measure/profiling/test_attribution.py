from collections import Counter

import pytest
from helpers.profiler_events import event

torch = pytest.importorskip("torch", reason="the profiler is torch's")

from torch import nn  # noqa: E402
from torch.nn.modules import module as hooks  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from measure.profiling.attribution import MODULE, STAGE, AttributedKernel, ModuleRanges, attribute, covered  # noqa: E402

STEPS = 2


def recorded(network, rows, update=lambda: None):
    """The operators of a training step, by stage and path."""

    def stage(name, run):
        with torch.profiler.record_function(STAGE + name):
            return run()

    with (
        ModuleRanges(network) as ranges,
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler,
    ):
        for _ in range(STEPS):
            loss = stage("forward", lambda: network(rows).square().sum())
            stage("backward", loss.backward)
            stage("update", update)
            torch.ones(1)  # in no stage
    return attribute(profiler.events(), ranges, STEPS, by_kernels=False)[0]


def calls(times, stage):
    return {(each.path, each.operator): each.calls for each in times if each.stage == stage}


def test_operators_belong_to_their_modules_with_all_that_they_call():
    network = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
    times = recorded(network, torch.ones(4, 3))
    # linear calls addmm, which is not named beside it; the loss is in no module.
    assert calls(times, "forward") == {
        ("0", "linear"): 1,
        ("1", "relu"): 1,
        ("2", "linear"): 1,
        (None, "square"): 1,
        (None, "sum"): 1,
    }
    back = calls(times, "backward")
    assert (back["0", "mm"], back["2", "mm"]) == (1, 2)  # nobody asks for the gradient of the first one's input
    assert back["1", "threshold_backward"] == 1
    assert {path for path, _ in back} == {"0", "1", "2", None}
    assert all(each.time_s > 0 for each in times)


def test_a_module_that_runs_twice_has_both_calls_and_their_gradients():
    layer = nn.Linear(3, 3)
    times = recorded(nn.Sequential(layer, nn.ReLU(), layer), torch.ones(4, 3))
    assert calls(times, "forward")["0", "linear"] == 2
    back = calls(times, "backward")
    assert back["0", "mm"] == 3
    assert back["0", "add_"] >= 2 or back["0", "add"] >= 2  # both gradients of weight and bias are added


def test_what_a_composite_module_does_itself_belongs_to_it_forward_and_backward():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 3)
            self.scale = nn.Parameter(torch.ones(3))

        def forward(self, rows):
            return nn.ReLU()(self.inner(rows)) * self.scale

    times = recorded(nn.Sequential(Block()), torch.ones(4, 3))
    forward, back = calls(times, "forward"), calls(times, "backward")
    assert forward["0", "relu"] == forward["0", "mul"] == forward["0.inner", "linear"] == 1
    assert ("0.inner", "relu") not in forward
    assert back["0", "threshold_backward"] == 1
    assert back["0", "mul"] == 2  # the gradients of both factors
    assert back["0.inner", "mm"] == 1


def test_gradients_are_added_by_the_module_that_holds_the_parameter():
    network = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    back = calls(recorded(network, torch.ones(4, 3)), "backward")
    assert back["0", "add_"] == back["1", "add_"] == 1  # each weight's gradient, to what was there


def test_the_optimiser_belongs_to_no_module():
    network = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    times = recorded(network, torch.ones(4, 3), optimizer.step)
    assert {each.path for each in times if each.stage == "update"} == {None}
    assert {each.stage for each in times} == {"forward", "backward", "update"}
    assert "ones" not in {each.operator for each in times}  # outside of the stages


def test_what_is_computed_again_belongs_to_the_module_that_does():
    class Checked(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, rows):
            return checkpoint(self.inner, rows, use_reentrant=False)

    back = calls(recorded(Checked(), torch.ones(4, 3)), "backward")
    assert back["inner", "linear"] == 1
    assert back["inner", "mm"] >= 1


def test_what_runs_in_few_of_the_steps_was_called_once():
    stage = event("stage: forward")
    event("aten::mm", stage, cpu_us=6.0)
    (rare,) = attribute(stage.cpu_children, ModuleRanges(nn.Module()), 3, by_kernels=False)[0]
    assert (rare.calls, rare.time_s) == (1, pytest.approx(2e-6))


def test_on_a_gpu_the_time_is_that_of_the_kernels_and_the_backward_pass_has_a_thread_of_its_own():
    forward = event("stage: forward")
    module = event("module: layer", forward)
    linear = event("aten::linear", module, 7, cpu_us=30.0, kernels_us=50.0)
    product = event("aten::addmm", linear, 7, cpu_us=20.0, kernels_us=50.0)
    # In the thread of the backward pass no stage is around the node.
    node = event("autograd::engine::evaluate_function: AddmmBackward0", number=-1)
    called = event("AddmmBackward0", node, 7)
    gradient = event("aten::mm", called, cpu_us=9.0, kernels_us=80.0)
    added = event("aten::add_", node, cpu_us=1.0, kernels_us=4.0)
    custom = event("torchvision::nms", module, cpu_us=1.0, kernels_us=2.0)
    launch = event("cudaLaunchKernel", product, cpu_us=5.0)
    outside = event("aten::zeros", cpu_us=1.0)
    ranges = ModuleRanges(nn.Module())
    ranges._marks = [(7, "layer"), (8, None)]
    events = [forward, module, linear, product, node, called, gradient, added, custom, launch, outside] * 2
    expected = [
        ("forward", "layer", "linear", 1, 50e-6),
        ("backward", "layer", "mm", 1, 80e-6),
        ("backward", "layer", "add_", 1, 4e-6),
        ("forward", "layer", "torchvision.nms", 1, 2e-6),
    ]
    times = attribute(events, ranges, 2, by_kernels=True)[0]
    assert [tuple(each[:4]) for each in times] == [each[:4] for each in expected]
    assert [each.time_s for each in times] == pytest.approx([each[4] for each in expected])
    by_host = attribute(events, ranges, 2, by_kernels=False)[0]
    assert [each.time_s for each in by_host] == pytest.approx([30e-6, 9e-6, 1e-6, 1e-6])


@pytest.mark.parametrize("name", ["resnet18", "squeezenet1_0", "mobilenet_v3_large"])
def test_every_layer_of_a_model_has_its_operators(name):
    torchvision = pytest.importorskip("torchvision", reason="the models are torchvision's")
    network = torchvision.models.get_model(name).train()
    times = recorded(network, torch.randn(2, 3, 64, 64))
    paths = {path or ".": module for path, module in network.named_modules()}
    assert {each.path for each in times} <= {*paths, None}
    for stage, names in (("forward", ("conv2d",)), ("backward", ("convolution_backward",))):
        own = Counter(each.path for each in times if each.stage == stage and each.operator in names)
        assert set(own) == {path for path, module in paths.items() if isinstance(module, nn.Conv2d)}
        assert set(own.values()) == {1}


def timeline():
    """Two operators, one of which launches kernels by what it calls, and the kernels on the device's timeline."""
    stage = event("stage: forward")
    module = event("module: layer", stage)
    linear = event("aten::linear", module, start=0, end=30)
    product = event("aten::addmm", linear, start=5, end=25, kernels=[("sgemm", 50.0), ("splitK", 10.0)])
    again = event("aten::addmm", linear, start=26, end=28, kernels=[("sgemm", 40.0)])
    outside = event("aten::zeros", None, start=90, end=95, kernels=[("fill", 3.0)])
    device = [
        event("sgemm", None, start=10, end=60, device="CUDA"),
        event("splitK", None, start=55, end=65, device="CUDA"),
        event("sgemm", None, start=100, end=140, device="CUDA"),
        event("stage: forward", None, start=0, end=200, device="CUDA", annotation=True),
    ]
    return [stage, module, linear, product, again, outside, *device]


def test_kernels_belong_to_the_operator_that_no_other_one_calls():
    kernels = attribute(timeline(), ModuleRanges(nn.Module()), 1, by_kernels=True)[1]
    assert kernels == (
        AttributedKernel("forward", "layer", "linear", "sgemm", 2, pytest.approx(90e-6)),
        AttributedKernel("forward", "layer", "linear", "splitK", 1, pytest.approx(10e-6)),
    )
    (first, _) = attribute(timeline() * 2, ModuleRanges(nn.Module()), 2, by_kernels=True)[1]
    assert (first.calls, first.time_s) == (2, pytest.approx(90e-6))


def test_a_gpu_is_busy_while_a_kernel_runs_and_a_processor_while_an_operator_does():
    ranges = ModuleRanges(nn.Module())
    # 10 to 65 and 100 to 140: 95 us; our ranges are no work of the device
    assert attribute(timeline(), ranges, 1, by_kernels=True)[2] == pytest.approx(95e-6)
    # linear alone, 30 us: what it calls is within it, and zeros is in no stage
    assert attribute(timeline(), ranges, 2, by_kernels=False)[2] == pytest.approx(15e-6)


@pytest.mark.parametrize(
    ("spans", "length"),
    [([], 0), ([(0, 2), (1, 3)], 3), ([(5, 6), (0, 10)], 10), ([(0, 1), (4, 6)], 3), ([(0, 1), (1, 2)], 2)],
)
def test_what_spans_cover_counts_once(spans, length):
    assert covered(spans) == length


class Twice(nn.Module):
    """A layer that runs twice, and an activation that is made on the fly."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, rows):
        return self.layer(nn.ReLU()(self.layer(rows)))


def names_in(call):
    """The names of the ranges that a call opens, in the order of time."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        call()
    return [event.name for event in profiler.events() if event.name.startswith((MODULE, STAGE))]


def test_each_call_of_a_module_is_a_range_named_after_its_path():
    network = nn.Sequential(Twice(), nn.Flatten())
    with ModuleRanges(network), torch.inference_mode():
        names = names_in(lambda: network(torch.ones(2, 3)))
    assert names == [MODULE + path for path in (".", "0", "0.layer", "0.layer", "1")]


def test_a_gradient_that_arrives_is_a_range_named_after_the_module_that_holds_the_parameter():
    network = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    network[1].weight = network[0].weight
    network[1].bias.requires_grad_(False)
    with ModuleRanges(network):
        output = network(torch.ones(2, 3)).sum()
        names = names_in(output.backward)
    assert names == [MODULE + "0"] * 2  # the weight that they share, and the first one's bias


def test_a_node_belongs_to_the_module_in_which_it_was_made():
    network = nn.Sequential(Twice(), nn.Sigmoid())
    before = torch.ones(2, 3, requires_grad=True) * 2
    with ModuleRanges(network) as ranges:
        inside = network(before)
        outside = inside.sum()
        names, node = [], outside.grad_fn
        while node is not None:
            names.append((node.name(), ranges.path_of_node(node._sequence_nr())))
            following = [each for each, _ in node.next_functions if each is not None]
            node = next((each for each in following if not hasattr(each, "variable")), None)
    assert names[:4] == [
        ("SumBackward0", None),
        ("SigmoidBackward0", "1"),
        ("AddmmBackward0", "0.layer"),
        ("ReluBackward0", "0"),
    ]
    assert ranges.path_of_node(before.grad_fn._sequence_nr()) is None


def test_nothing_stays_behind_even_where_the_network_fails():
    class Failing(nn.Module):
        def forward(self, rows):
            raise RuntimeError("no way")

    def traces():
        return [len(each) for each in (hooks._global_forward_hooks, hooks._global_forward_pre_hooks)], {
            id(parameter): bool(parameter._post_accumulate_grad_hooks) for parameter in network.parameters()
        }

    network = nn.Sequential(nn.Linear(3, 3), Failing())
    before = traces()
    with pytest.raises(RuntimeError, match="no way"), ModuleRanges(network) as ranges:
        network(torch.ones(2, 3))
    assert traces() == before
    assert ranges._running == []
