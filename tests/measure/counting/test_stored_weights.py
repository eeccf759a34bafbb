import pytest
from helpers.counting import nn, torch
from torch.utils._python_dispatch import return_and_correct_aliasing

from measure.counting.count import count_network
from measure.models.call import Call, casting, copy_to_meta

INPUTS, OUTPUTS, BATCH = 64, 96, 2


class Int8(torch.Tensor):
    """A weight of 8 bits with a scale for each output, as torchao makes them: it names a type, and stores others."""

    @staticmethod
    def __new__(cls, values, scale):
        return torch.Tensor._make_wrapper_subclass(cls, values.shape, dtype=scale.dtype, device=values.device)

    def __init__(self, values, scale):
        self.values, self.scale = values, scale

    def __tensor_flatten__(self):
        return ["values", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, parts, context, size, stride):
        return cls(parts["values"], parts["scale"])

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is nn.functional.linear:
            value, weight, _bias = args
            return nn.functional.linear(value, weight.values.to(value.dtype)) * weight.scale
        return super().__torch_function__(func, types, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        change = {key: value for key, value in (kwargs or {}).items() if key == "device"}
        (weight, *_) = args
        return return_and_correct_aliasing(
            func, args, kwargs, cls(weight.values.to(**change), weight.scale.to(**change))
        )


@pytest.mark.parametrize("fake", [False, True])
def test_a_weight_counts_the_bytes_that_it_stores(fake):
    """Weights of 1 byte and a scale of 4 for each output; as many products as for a weight of 32 bits."""
    network = nn.Linear(INPUTS, OUTPUTS, bias=False)
    weight = Int8(torch.zeros(OUTPUTS, INPUTS, dtype=torch.int8), torch.ones(OUTPUTS))
    network.weight = nn.Parameter(weight, requires_grad=False)
    call = copy_to_meta(Call(network, ()))
    with casting(call.network, None, None, fake) as (device, _):
        columns, layers, _ = count_network(call.network, [torch.empty(BATCH, INPUTS, device=device)])
    assert columns["forward_flop"] == 2 * BATCH * INPUTS * OUTPUTS
    assert columns["parameter_byte"] == layers[0]["parameter_byte"] == OUTPUTS * (INPUTS + 4)
    assert columns["untouched_byte"] == 0
    # The weights are read and written at 32 bits; the product reads them and the input; each output is written, read
    # and written again with its scale.
    assert columns["traffic_byte"] == OUTPUTS * INPUTS * (1 + 4 + 4) + 4 * (
        BATCH * INPUTS + 3 * BATCH * OUTPUTS + OUTPUTS
    )
