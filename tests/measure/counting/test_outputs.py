"""Operators without memory: each form of a call is derived once, and fake tensors count as the meta device does."""

import itertools
from unittest.mock import Mock

import pytest
from helpers.counting import Own, meta, nn, torch

from measure.counting import outputs
from measure.counting.count import count_network
from measure.counting.memory import overload_of
from measure.models import catalog
from measure.models.call import Call, casting, copy_to_meta, empty_inputs

aten = torch.ops.aten


def noted(operator):
    """An operator that notes its runs, and a function that calls it with its own memory of outputs."""
    noting = Mock(side_effect=operator)
    return noting, lambda *args, **kwargs: outputs.call(noting, overload_of(operator), args, kwargs)


def described(output):
    if isinstance(output, torch.Tensor):
        return output.shape, output.stride(), output.dtype, output.device.type
    return [None if part is None else described(part) for part in output]


NORMALISED = (meta(3, 5), meta(3, 5), [5], meta(3, 1), meta(3, 1), None, None, [True, False, False])


@pytest.mark.parametrize(
    ("operator", "args", "kwargs"),
    [
        (aten.add.Tensor, (meta(3, 5).t(), meta(3)), {"alpha": 2}),
        (aten.split_copy.Tensor, (meta(6, 5), 2), {}),  # a list of outputs
        (aten.cat.default, ([meta(3, 5), meta(2, 5)],), {}),
        (aten._to_copy.default, (meta(3, 5),), {"dtype": torch.bfloat16}),
        (aten.native_layer_norm_backward.default, NORMALISED, {}),
    ],
)
def test_what_was_called_before_is_drawn(operator, args, kwargs):
    noting, call = noted(operator)
    first, second = (call(*args, **kwargs) for _ in range(2))
    assert noting.call_count == 1
    assert described(first) == described(second) == described(operator(*args, **kwargs))


def test_another_form_is_called_and_has_memory_of_its_own():
    noting, call = noted(aten.add.Scalar)
    # Another shape, type or strides, an equal number of another type, another argument
    forms = [
        (meta(3, 5), 1), (meta(2, 5), 1), (meta(3, 5, dtype=torch.float64), 1), (meta(5, 3).t(), 1),
        (meta(3, 5), 1.0), (meta(3, 5), 1, 2),
    ]  # fmt: skip
    made = [call(*form) for form in (*forms, forms[0])]
    assert noting.call_count == len(forms)
    assert len({each.untyped_storage()._cdata for each in made}) == len(made)


def test_what_may_differ_is_computed_each_time():
    for operator, given in (
        (aten.relu_.default, meta(3)),  # changes its input
        (aten.neg.default, torch.ones(2)),  # real tensors, with values
        (aten.rand.default, [2]),
    ):
        noting, call = noted(operator)
        made = [call(given) for _ in range(2)]
        assert noting.call_count == 2
        assert (made[0] is made[1] is given) == (operator is aten.relu_.default)


CHANNELS_LAST = meta(4, 6, 5, 3).to(memory_format=torch.channels_last)
FORMS = {
    "plain": meta(4, 6, 5, 3), "channels last": CHANNELS_LAST, "transposed": meta(4, 7, 6).transpose(1, 2),
    "expanded": meta(4, 6, 1, 3).expand(4, 6, 5, 3), "every second channel": meta(4, 12, 5, 3)[:, ::2],
}  # fmt: skip
TYPES = [(torch.float32, torch.float32), (torch.bfloat16, torch.float32), (torch.float64, torch.float64)]
FORWARD, BACKWARD = aten.native_batch_norm.default, aten.native_batch_norm_backward.default


@pytest.mark.parametrize(("form", "types"), list(itertools.product(FORMS, TYPES)), ids=str)
def test_batch_normalisation_has_the_outputs_that_torch_derives(form, types):
    inputs, channels = FORMS[form].to(types[0]), meta(6, dtype=types[1])
    calls = [(FORWARD, (inputs, *[channels] * 4, training, 0.1, 1e-5)) for training in (True, False)]
    for gradient in (inputs, meta(*inputs.shape, dtype=types[0]), meta(dtype=types[0]).expand(inputs.shape)):
        for mask in ([True, True, True], [True, False, False]):
            statistics = [meta(6, dtype=torch.float64)] * 4  # gradients have the type of the scale, before them
            calls.append((BACKWARD, (gradient, inputs, channels, *statistics, True, 1e-5, mask)))
    for operator, args in calls:
        assert described(outputs.SHAPES[operator](*args)) == described(operator(*args))
    # Without a gradient of the input; on the meta device torch writes all three.
    made = outputs.SHAPES[BACKWARD](inputs, inputs, *[channels] * 5, True, 1e-5, [False, True, True])
    assert [part if part is None else part.shape for part in made] == [None, (6,), (6,)]


def counts_of(call, fake):
    with torch.random.fork_rng(), casting(call.network, "fp32", None, fake=fake) as (device, dtype):
        torch.manual_seed(0)  # a network may drop layers at random
        return count_network(call.network, empty_inputs(call, device, dtype).inputs)[0]


# Small networks, and networks of timm with other operators than torchvision's
NAMES = (
    "squeezenet1_0", "shufflenet_v2_x1_0", "vit_b_32", "swin_t", "fcn_resnet50", "wav2vec2_base", "timm:ghostnet_050",
    "timm:levit_128s", "timm:xcit_nano_12_p16_224",
)  # fmt: skip
# A view of a whole tensor that is written in place: autograd copies the gradient by strides, but replays the view
# under a mode of torch such as the mode of fake tensors.
REPLAYED = {"timm:ghostnet_050": 0.04}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_fake_tensors_give_the_counts_of_the_meta_device(name):
    if name.startswith("timm:"):
        pytest.importorskip("timm", reason="its networks are compared too")
    (model,) = catalog.find([name])
    on_meta, faked = (
        counts_of(catalog.prepare_on_meta(model, [2], keep_constants=fake)[0], fake) for fake in (False, True)
    )
    # torch fills slices by a copy on meta and by a fill elsewhere, which reads 4 B less.
    for column, value in on_meta.items():
        is_close = column.endswith(("traffic_byte", "read_byte")) and value is not None
        close = pytest.approx(value, rel=REPLAYED.get(name, 1e-4)) if is_close else value
        assert faked[column] == close, column


@pytest.mark.parametrize("fake", [False, True])
def test_a_constant_that_moves_to_the_device_is_no_traffic(fake):
    shifted = Own(lambda _self, inputs: inputs + torch.arange(1000.0, device="cpu").to(inputs.device))
    call = copy_to_meta(Call(shifted, (torch.ones(2, 1000),)), fake)
    # 1,000 numbers are made; the addition reads them and 2,000 others, and writes 2,000.
    assert counts_of(call, fake)["traffic_byte"] == 4 * (1000 + 1000 + 2000 + 2000)


def test_a_guard_against_overflow_finds_none():
    """As in DETR's layers: a product of 2 x 3 by 3 x 4, and none of the guarded branch's 2 x 4 products by 4."""

    def guarded(self, value):
        output = self.linear(value)
        return output @ torch.ones(4, 4) if not torch.isfinite(output).all() else output

    call = copy_to_meta(Call(Own(guarded, linear=nn.Linear(3, 4)), (torch.ones(2, 3),)))
    assert counts_of(call, fake=True)["forward_flop"] == 2 * 2 * 3 * 4
