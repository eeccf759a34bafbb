"""``measure.model``, the function for notebooks."""

import copy
from doctest import DocTestParser

import pytest
import torch
from helpers.small_network import network as small

import measure
from measure.domain.roofs import Roof
from measure.machine.sensors import Conditions
from measure.roofs.roofs import KernelTiming
from measure.timing.sampling import Timing
from measure.timing.stopwatch import TimedSample
from measure.verbs import model
from measure.verbs.answer import heading, result_lines
from measure.verbs.terminal import aligned

FLOP = 2 * (8 * 14 * 14 * 3 * 9 + 8 * 14 * 14 * 10)
"""A convolution of 3 by 8 channels and 3 by 3 on 16 by 16 pixels, and a layer of 8 * 14 * 14 by 10."""


@pytest.mark.usefixtures("roof")
def test_a_network_at_hand_is_counted_timed_and_left_as_it_was():
    network, inputs = small(4)
    network.train()
    network[1].eval()
    before = [parameter.clone() for parameter in network.parameters()]
    found = measure.model(network, inputs)
    (demand,), (cell,) = found.demands, found.cells
    assert (found.model, found.input_shape) == ("Sequential", "3x16x16")
    assert (demand.batch, demand.flop, demand.bound) == (4, 4 * FLOP, "memory")
    assert cell.flop_per_s == pytest.approx(4 * FLOP / cell.timed.latency_s)
    assert [layer.type for layer in found.layers] == ["Conv2d", "ReLU", "Flatten", "Linear"]
    assert [module.training for module in network] == [True, False, True, True]
    assert all(map(torch.equal, before, network.parameters()))
    assert not any(parameter.is_meta or parameter.grad is not None for parameter in network.parameters())
    assert repr(found) == str(found) == "\n".join([*heading(found, aligned), "", *result_lines(found, aligned)])
    assert found.layer_table.count("\n") == 4
    assert repr(found.layer_table) == str(found.layer_table)
    named = measure.model(torch.nn.Bilinear(8, 8, 4), {"input1": torch.rand(2, 8), "input2": torch.rand(2, 8)})
    assert named.layers[0].parameter_count == 4 * 8 * 8 + 4


@pytest.mark.usefixtures("roof")
def test_a_network_at_hand_has_the_energy_that_the_device_counts(monkeypatch):
    samples = tuple(TimedSample(0.1) for _ in range(6))  # of two calls each: 1.2 s
    for energy_j, expected in ((2.0, (2.0, 0.5)), (None, (None, None))):
        timing = Timing(2, samples, conditions=Conditions(energy_j=energy_j))
        monkeypatch.setattr(model, "sample", lambda *_, timing=timing: timing)
        (cell,) = measure.model(*small(4)).cells
        assert (cell.timed.energy_j, cell.timed.joule_per_input) == expected


@pytest.mark.usefixtures("roof")
def test_the_examples_of_the_docstring_run():
    network, images = small(2)
    names = {"measure": measure, "torch": torch, "copy": copy, "network": network, "images": images}
    examples = DocTestParser().get_examples(measure.model.__doc__)
    for example in examples:
        exec(example.source, names)
    assert len(examples) == 5


@pytest.mark.parametrize(
    ("network", "inputs", "precision", "flop"),
    [
        (small(1)[0].bfloat16(), small(1)[1].bfloat16(), "bf16", FLOP),
        (torch.nn.Softmax(-1), torch.ones(2, 3), "fp32", 0),  # without a parameter, by its inputs
        (torch.nn.Linear(2, 3, bias=False, dtype=torch.cfloat), torch.ones(1, 2, dtype=torch.cfloat), "fp32", 48),
    ],
)
def test_the_precision_is_that_of_the_parameters(roof, network, inputs, precision, flop):
    (demand,) = measure.model(network, inputs).demands  # of complex numbers, 4 * 2 * 2 * 3 FLOP
    assert (demand.precision, demand.flop, roof) == (precision, flop, [precision])


class Narrow(torch.nn.Module):
    """A network that takes four numbers, and a module of it that the sentence names."""

    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.head(x)


@pytest.mark.parametrize(
    ("network", "inputs", "words"),
    [
        ("resnet18", torch.rand(1, 3, 8, 8), "network: 'resnet18' is not a torch.nn.Module"),
        (torch.relu, torch.rand(1), "is not a torch.nn.Module"),
        (torch.nn.Linear(2, 2), {"size": 3}, "inputs hold no tensor"),
        (torch.nn.Linear(2, 2).double(), torch.rand(1, 2).double(), "parameters are none of fp32, fp16, bf16"),
        (Narrow(), torch.rand(2, 5), "does not take these inputs: .*head"),
        (Narrow(), torch.rand(2, 4).double(), "does not take these inputs: .*dtype"),  # meta tensors take any type
        (torch.nn.Embedding(3, 2), torch.tensor([[3]]), "does not take these inputs: index out of range"),
    ],
)
def test_a_mistake_is_one_sentence_and_no_chain_of_exceptions(network, inputs, words):
    with pytest.raises(ValueError, match=words) as caught:
        measure.model(network, inputs)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("missing", "byte_per_s"), [(None, 4), ("stream_triad", None)])
def test_the_roof_is_measured_once_without_failing_kernels(monkeypatch, missing, byte_per_s):
    measured = []

    def timed(_device, kernel, *_):
        if kernel == missing:
            raise NotImplementedError("there is no Numba")
        measured.append(kernel)
        return KernelTiming(2.0, 2.0, 2.0, 6)

    monkeypatch.setattr(model.roofs, "measure", timed)
    monkeypatch.setattr(model.roofs, "flop_and_byte", lambda *_: (6, 8))
    model._roof.cache_clear()
    rates = [model._roof("cpu", "fp32") for _ in range(2)]
    model._roof.cache_clear()
    assert rates == [Roof({"fp32": 3}, byte_per_s)] * 2  # 6 FLOP and 8 B in 2 s
    assert sorted(measured) == sorted({"matmul", "stream_triad"} - {missing})
