import pytest

from measure.models.call import Call, empty_inputs, map_tensors

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
