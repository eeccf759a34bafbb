from contextlib import contextmanager

import pytest

torch = pytest.importorskip("torch", reason="networks are torch's")

from helpers.rows import ENVIRONMENT  # noqa: E402
from helpers.small_network import network as small  # noqa: E402

import measure  # noqa: E402
from measure.domain.roofs import Roof  # noqa: E402
from measure.machine import devices  # noqa: E402
from measure.roofs.roofs import KernelTiming  # noqa: E402
from measure.verbs import model  # noqa: E402

FLOP = 2 * (8 * 14 * 14 * 3 * 9 + 8 * 14 * 14 * 10)
"""A convolution of 3 by 8 channels and 3 by 3 on 16 by 16 pixels, and a layer of 8 * 14 * 14 by 10."""


@pytest.fixture
def roof(monkeypatch):
    """A roof whose ridge point is at 10 FLOP/B, that nobody has to wait for."""
    monkeypatch.setattr(model, "_roof", lambda *_: Roof({"fp32": 1e12}, 1e11))


def test_a_network_at_hand_is_counted_timed_and_held_against_the_roof(roof):
    network, inputs = small(4)
    found = measure.model(network, inputs)
    (demand,), (cell,) = found.demands, found.cells
    assert (found.model, found.input_shape) == ("Sequential", "3x16x16")
    assert (demand.batch, demand.flop, demand.bound) == (4, 4 * FLOP, "memory")
    assert cell.flop_per_s == pytest.approx(4 * FLOP / cell.timed.latency_s)
    assert [layer.type for layer in found.layers] == ["Conv2d", "ReLU", "Flatten", "Linear"]


def test_it_prints_itself_as_text(roof):
    found = measure.model(*small(1), name="my net")
    assert str(found).startswith("my net on ")
    assert "The roof: 1.00 TFLOP/s at fp32, and 100 GB/s from memory, as measured here." in str(found)
    assert repr(found) == str(found)
    assert found.layer_table.splitlines()[1].split()[1] == "Conv2d"


def test_the_network_s_gpu_is_the_current_one_while_it_is_timed(monkeypatch):
    current, roofs, calls = [], [], []

    @contextmanager
    def on(name):
        current.append(name)
        yield
        current.pop()

    class Gpu:
        kind, torch_name = "cuda", "cuda:1"

        def __getattr__(self, name):
            return getattr(devices.find("cpu"), name)

    cpu = devices.find("cpu")
    monkeypatch.setattr(model.devices, "find", lambda _: Gpu() if not current else cpu)
    monkeypatch.setattr(model, "current", lambda *_: ENVIRONMENT)
    monkeypatch.setattr(torch.cuda, "device", on)
    monkeypatch.setattr(model, "_roof", lambda *_: roofs.append(list(current)) or Roof({}, None))
    network, inputs = small(1)
    network.register_forward_hook(lambda *_: calls.append(list(current)))
    measure.model(network, inputs)
    assert roofs == [["cuda:1"]]
    assert calls[-1] == ["cuda:1"]
    assert current == []


def test_the_network_is_left_as_it_was(roof):
    network, inputs = small(2)
    network.train()
    network[1].eval()
    before = [parameter.clone() for parameter in network.parameters()]
    measure.model(network, inputs)
    assert [module.training for module in network] == [True, False, True, True]
    assert all(parameter.grad is None for parameter in network.parameters())
    assert all(map(torch.equal, before, network.parameters()))
    assert not any(parameter.is_meta for parameter in network.parameters())


class Named(torch.nn.Module):
    """A network whose inputs have names, and whose weights two layers share."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 8)
        self.second = torch.nn.Linear(8, 8)
        self.second.weight = self.first.weight
        self.register_buffer("scale", torch.ones(8))

    def forward(self, *, left, right):
        return self.first(left) + self.second(right) * self.scale


def test_inputs_may_have_names_and_shared_weights_count_once(roof):
    found = measure.model(Named(), {"left": torch.rand(2, 8), "right": torch.rand(2, 8)})
    assert found.demands[0].flop == 2 * 2 * (2 * 8 * 8)
    assert sum(layer.parameter_count for layer in found.layers) == 64 + 8 + 8


def test_a_precision_of_16_bits_is_told(monkeypatch):
    asked = []
    monkeypatch.setattr(model, "_roof", lambda _, precision: asked.append(precision) or Roof({}, None))
    network, inputs = small(1)
    found = measure.model(network.bfloat16(), inputs.bfloat16())
    assert (found.demands[0].precision, asked) == ("bf16", ["bf16"])
    assert "The roof was not measured." in str(found)


@pytest.mark.parametrize(
    ("network", "inputs", "flop"),
    [
        (torch.nn.Softmax(-1), torch.ones(2, 3), 0),  # without a parameter, by its inputs
        (torch.nn.Embedding(3, 4).requires_grad_(False), torch.zeros(2, dtype=torch.int64), 0),
        (torch.nn.Linear(2, 3, bias=False, dtype=torch.cfloat), torch.ones(1, 2, dtype=torch.cfloat), 4 * 2 * 6),
    ],
)
def test_networks_without_real_parameters(monkeypatch, network, inputs, flop):
    monkeypatch.setattr(model, "_roof", lambda *_: Roof({}, None))
    (demand,) = measure.model(network, inputs).demands
    assert (demand.precision, demand.flop) == ("fp32", flop)


@pytest.mark.parametrize(
    ("network", "inputs", "words"),
    [
        (torch.nn.Linear(2, 2), (), "inputs hold no tensor"),
        (torch.nn.Linear(2, 2), {"size": 3}, "inputs hold no tensor"),
        (torch.nn.Linear(2, 2).double(), torch.rand(1, 2).double(), "parameters are none of fp32, fp16, bf16"),
    ],
)
def test_what_cannot_be_answered_for_is_said(network, inputs, words):
    with pytest.raises(ValueError, match=words):
        measure.model(network, inputs)


def test_the_roof_is_measured_once_in_a_process(monkeypatch):
    measured = []

    def timed(_device, kernel, *_):
        measured.append(kernel)
        return KernelTiming(2.0, 2.0, 2.0, 6)

    monkeypatch.setattr(model.roofs, "measure", timed)
    monkeypatch.setattr(model.roofs, "flop_and_byte", lambda *_: (6, 8))
    model._roof.cache_clear()
    rates = [model._roof("cpu", "fp32") for _ in range(2)]
    model._roof.cache_clear()
    assert rates == [Roof({"fp32": 3}, 4)] * 2
    assert sorted(measured) == ["matmul", "stream_triad"]


def test_a_kernel_that_does_not_run_leaves_its_part_of_the_roof_unknown(monkeypatch):
    def timed(_device, kernel, *_):
        if kernel == "stream_triad":
            raise NotImplementedError("there is no Numba")
        return KernelTiming(2.0, 2.0, 2.0, 6)

    monkeypatch.setattr(model.roofs, "measure", timed)
    monkeypatch.setattr(model.roofs, "flop_and_byte", lambda *_: (6, 8))
    model._roof.cache_clear()
    rates = model._roof("cpu", "fp32")
    model._roof.cache_clear()
    assert rates == Roof({"fp32": 3}, None)


def test_there_is_nothing_else_in_the_package():
    with pytest.raises(AttributeError, match="module 'measure' has no attribute 'models_of_mine'"):
        _ = measure.models_of_mine
