import pytest
import torch
from helpers.cells import small_cell
from torch import nn

from measure.machine import devices
from measure.profiling import number_types

CPU = devices.find("cpu")


def test_autocast_casts_products_and_keeps_parameters_gradients_and_the_loss():
    """Products are on autocast's list for lower precision (torch's documentation, "CPU Ops that autocast to bfloat16").

    A ReLU is on no list and keeps the type of its input. Losses are on the list for fp32.
    """
    found = number_types.measure(CPU, *small_cell("network", "bf16", "autocast", "step"))
    assert [(each.type, each.parameters, each.inputs, each.outputs, each.gradients) for each in found.layers] == [
        ("Conv2d", ("fp32",), ("fp32",), ("bf16",), ("fp32",)),
        ("ReLU", (), ("bf16",), ("bf16",), ()),
        ("Flatten", (), ("bf16",), ("bf16",), ()),
        ("Linear", ("fp32",), ("bf16",), ("bf16",), ("fp32",)),
    ]
    assert (found.loss, found.parameters, found.gradients) == ("fp32", ("fp32",), ("fp32",))


def test_a_network_cast_as_a_whole_has_one_type():
    found = number_types.measure(CPU, *small_cell("network", "bf16", "eager", "step"))
    assert {name for each in found.layers for name in (*each.inputs, *each.outputs, *each.gradients)} == {"bf16"}
    assert not torch.is_autocast_enabled("cpu")


def test_types_without_a_name_here_have_torchs():
    assert number_types.names_of([torch.ones(1), None, torch.arange(2), nn.Parameter(torch.ones(1))]) == (
        "fp32", "int64",
    )  # fmt: skip


def test_inference_has_no_gradients():
    with pytest.raises(ValueError, match="inference has no gradients"):
        number_types.measure(CPU, *small_cell("network", "bf16", "autocast", "inference"))
