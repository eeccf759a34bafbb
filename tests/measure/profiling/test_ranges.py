import pytest

torch = pytest.importorskip("torch", reason="the profiler is torch's")
from torch import nn  # noqa: E402
from torch.nn.modules import module as hooks  # noqa: E402

from measure.profiling.attribution import MODULE, STAGE, ModuleRanges, open_range  # noqa: E402


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


def test_an_opened_range_ends_when_it_is_left():
    def call():
        begun = open_range(STAGE + "all")
        torch.ones(2)
        begun.__exit__(None, None, None)

    assert names_in(call) == [STAGE + "all"]
