import pytest

from measure.models.call import Call, empty_inputs, map_tensors, meta_allocation

torch = pytest.importorskip("torch", reason="calls take tensors")


def test_tensors_are_changed_wherever_they_are_and_nothing_else_is():
    ones = torch.ones(2)
    changed = map_tensors((ones, [3, None, {"mask": ones}], True), lambda tensor: tensor + 1)
    assert changed[0].tolist() == changed[1][2]["mask"].tolist() == [2, 2]
    assert (changed[1][:2], changed[2], type(changed[1])) == ([3, None], True, list)
    assert ones.tolist() == [1, 1]


def test_tensors_without_values_have_the_shapes_and_the_floating_ones_the_type():
    inputs = (torch.ones(2, 3), torch.ones(2, dtype=torch.int64))
    call = empty_inputs(Call(torch.nn.ReLU(), inputs, {"mask": torch.ones(2, 1) > 0}), "meta", torch.float16)
    tensors = [*call.inputs, call.keywords["mask"]]
    assert [(tuple(tensor.shape), tensor.dtype) for tensor in tensors] == [
        ((2, 3), torch.float16), ((2,), torch.int64), ((2, 1), torch.bool),
    ]  # fmt: skip
    assert all(tensor.is_meta for tensor in tensors)
    assert isinstance(call.network, torch.nn.ReLU)


def test_what_is_allocated_has_no_memory_and_what_is_computed_can_be_read():
    with meta_allocation():
        layer = torch.nn.Linear(10**6, 10**6)  # 4 TB
        rates = [rate.item() for rate in torch.linspace(0, 1, 3)]
        count = torch.arange(3).sum().item()
        chosen = torch.zeros(2, device="cpu")
    assert layer.weight.is_meta
    assert rates == [0.0, 0.5, 1.0]
    assert count == 3
    assert not chosen.is_meta
    assert not torch.zeros(2).is_meta


def test_what_meets_a_tensor_on_meta_goes_there_too():
    with meta_allocation():
        product = torch.ones(3) * torch.arange(3)
        stored = torch.nn.Module()
        stored.register_buffer("index", torch.arange(3))
    assert product.is_meta
    assert product.shape == (3,)
    assert stored.index.tolist() == [0, 1, 2]
