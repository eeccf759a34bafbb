import pytest
from helpers.counting import Own, meta, nn, torch

from measure.counting.count import count_network
from measure.domain.words import PRECISION_BYTE
from measure.models.call import Call, casting, empty_inputs, meta_allocation, preserve_state
from measure.models.tensors import torch_dtype


def test_inputs_without_values_keep_their_shapes():
    inputs = (torch.ones(2, 3), torch.ones(2, dtype=torch.int64), torch.ones(1).double())
    call = empty_inputs(Call(nn.ReLU(), inputs, {"mask": torch.ones(2, 1) > 0}), "meta", torch.float16)
    tensors = [*call.inputs, call.keywords["mask"]]
    assert all(tensor.is_meta for tensor in tensors)
    assert [tensor.dtype for tensor in tensors] == [torch.float16, torch.int64, torch.float64, torch.bool]
    assert [tuple(tensor.shape) for tensor in tensors] == [(2, 3), (2,), (1,), (2, 1)]


def test_allocated_memory_is_not_computed_memory():
    with meta_allocation():
        layer = nn.Linear(10**6, 10**6)  # 4 TB
        rates = [rate.item() for rate in torch.linspace(0, 1, 3)]
        chosen, total = torch.zeros(2, device="cpu"), torch.arange(3).sum().item()
        # A product with a tensor on meta goes there too, and a tensor on meta stays there when a network moves it.
        product = torch.ones(3) * torch.arange(3)
        zeros = torch.zeros(3)
        moved = zeros.to("cpu"), zeros.to(device=torch.device("cpu"), dtype=torch.int64), zeros.to(torch.float16)
        stored = nn.Module()
        stored.register_buffer("index", torch.arange(3))
    assert (rates, total, stored.index.tolist()) == ([0.0, 0.5, 1.0], 3, [0, 1, 2])
    assert all(each.is_meta for each in (layer.weight, product, *moved))
    assert [each.dtype for each in moved] == [torch.float32, torch.int64, torch.float16]
    assert product.shape == (3,)
    assert not chosen.is_meta
    assert not torch.zeros(2).is_meta


@pytest.mark.parametrize("precision", PRECISION_BYTE)
def test_a_precision_takes_its_bytes(precision):
    assert torch_dtype(precision).itemsize == PRECISION_BYTE[precision]
    network = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5)).to("meta")
    with casting(network, precision, None) as (device, dtype):
        assert (device, dtype) == ("meta", torch_dtype(precision))
        columns, *_ = count_network(network, [torch.empty(4, 3, device=device, dtype=dtype)])
    assert columns["parameter_byte"] == PRECISION_BYTE[precision] * (15 + 5 + 5 + 5)
    # Running mean and variance, and the number of batches as one integer of 8 bytes.
    assert columns["buffer_byte"] == PRECISION_BYTE[precision] * 10 + 8


def test_shared_parameters_stay_shared_under_autocast():
    with torch.device("meta"):
        network = nn.Sequential(nn.Embedding(7, 3), nn.Linear(3, 7, bias=False), nn.LSTM(7, 2))
        network[1].weight = network[0].weight
    network[0].weight.requires_grad_(False)
    with casting(network, "bf16", "cpu") as (device, _):
        weights = [parameter.numel() for parameter in network.parameters()]
        assert weights == [21, 4 * 2 * 7, 4 * 2 * 2, 4 * 2, 4 * 2]
        assert network[0].weight is network[1].weight
        assert not network[1].weight.requires_grad
        assert network(torch.zeros(4, dtype=torch.int64, device=device))[0].shape == (4, 2)


def test_autocast_needs_its_device_and_leaves_nothing_behind():
    network = nn.Linear(2, 2).to("meta")
    with pytest.raises(NotImplementedError, match="autocast of vulkan"), casting(network, "bf16", "vulkan"):
        pass
    with casting(network, "bf16", "cpu"):
        assert torch.is_autocast_enabled("cpu")
    assert not torch.is_autocast_enabled("cpu")
    assert type(torch.zeros(2)) is torch.Tensor
    assert meta(2).is_meta


def test_a_hook_that_a_call_adds_is_gone_after_it():
    """Transformers adds some that collect the outputs of layers, and notes on a module that they are there."""

    def collect(self, value):
        if not self.is_hooked:
            self.is_hooked = True
            self.register_forward_hook(lambda module, inputs, output: None)
        return value

    network = Own(collect, is_hooked=False)
    with preserve_state(network):
        network(torch.ones(1, 2))
        assert len(network._forward_hooks) == 1
    assert not network.is_hooked
    assert not network._forward_hooks
