import itertools

import pytest
from helpers.counting import meta, torch

from measure.counting import outputs
from measure.counting.memory import overload_of

aten = torch.ops.aten


class Noting:
    """An operator that counts how often torch runs it. Its outputs are remembered apart from those of others."""

    def __init__(self, operator):
        self.operator, self.runs = operator, 0

    def __call__(self, *args, **kwargs):
        self.runs += 1
        return self.operator(*args, **kwargs)

    def call(self, *args, **kwargs):
        return outputs.call(self, overload_of(self.operator), args, kwargs)


def described(output):
    if isinstance(output, torch.Tensor):
        return output.shape, output.stride(), output.dtype, output.device.type
    return [None if part is None else described(part) for part in output]


NORMALISED = (meta(3, 5), meta(3, 5), [5], meta(3, 1), meta(3, 1), None, None, [True, False, False])


@pytest.mark.parametrize(
    ("operator", "args", "kwargs"),
    [
        (aten.mm.default, (meta(2, 3), meta(3, 5)), {}),
        (aten.add.Tensor, (meta(3, 5).t(), meta(3)), {"alpha": 2}),
        (aten.gt.Scalar, (meta(3, 5), 1), {}),
        (aten.max.dim, (meta(3, 5), 1), {}),  # two outputs
        (aten.split_copy.Tensor, (meta(6, 5), 2), {}),  # a list of them
        (aten.cat.default, ([meta(3, 5), meta(2, 5)],), {}),
        (aten._to_copy.default, (meta(3, 5),), {"dtype": torch.bfloat16}),
        (aten.native_layer_norm_backward.default, NORMALISED, {}),
    ],
)
def test_what_was_called_before_is_drawn(operator, args, kwargs):
    noting = Noting(operator)
    first, second = (noting.call(*args, **kwargs) for _ in range(2))
    assert noting.runs == 1
    assert described(first) == described(second) == described(operator(*args, **kwargs))


def test_a_drawn_output_has_memory_of_its_own():
    noting = Noting(aten.neg.default)
    first, second = (noting.call(meta(3)) for _ in range(2))
    assert first.untyped_storage()._cdata != second.untyped_storage()._cdata


@pytest.mark.parametrize(
    "args",
    [
        (meta(2, 5), 1),  # another shape
        (meta(3, 5, dtype=torch.float64), 1),  # another type
        (meta(5, 3).t(), 1),  # other strides
        (meta(3, 5), 1.0),  # an equal number of another type
        (meta(3, 5), True),
        (meta(3, 5), 1, 2),
    ],
)
def test_another_form_is_called(args):
    noting = Noting(aten.add.Scalar)
    noting.call(meta(3, 5), 1)
    noting.call(*args)
    assert noting.runs == 2


@pytest.mark.parametrize(
    ("operator", "args"),
    [
        (aten.relu_.default, (meta(3),)),  # changes its input
        (aten.add.Scalar, (torch.ones(2), 1)),  # real tensors, and what depends on values
        (aten._local_scalar_dense.default, (torch.tensor(3),)),
        (aten.rand.default, ([2],)),
    ],
)
def test_what_may_differ_is_computed_each_time(operator, args):
    noting = Noting(operator)
    outputs = [noting.call(*args) for _ in range(2)]
    assert noting.runs == 2
    assert operator is not aten.relu_.default or all(output is args[0] for output in outputs)


FORMS = {
    "plain": meta(4, 6, 5, 3),
    "channels last": meta(4, 6, 5, 3).to(memory_format=torch.channels_last),
    "channels last, in space": meta(2, 6, 3, 4, 5).to(memory_format=torch.channels_last_3d),
    "two dimensions": meta(4, 6),
    "transposed": meta(4, 7, 6).transpose(1, 2),
    "expanded": meta(4, 6, 1, 3).expand(4, 6, 5, 3),
    "every second channel": meta(4, 12, 5, 3)[:, ::2],
}
SINGLE, HALF, DOUBLE = torch.float32, torch.bfloat16, torch.float64
TYPES = [(SINGLE, SINGLE), (HALF, HALF), (HALF, SINGLE), (DOUBLE, DOUBLE)]
FORWARD, BACKWARD = aten.native_batch_norm.default, aten.native_batch_norm_backward.default


@pytest.mark.parametrize(("form", "types"), list(itertools.product(FORMS, TYPES)), ids=str)
def test_batch_normalisation_has_the_outputs_that_torch_derives(form, types):
    inputs, channels = FORMS[form].to(types[0]), meta(6, dtype=types[1])
    calls = [(FORWARD, (inputs, *[channels] * 4, training, 0.1, 1e-5)) for training in (True, False)]
    for gradient in (inputs, meta(*inputs.shape, dtype=types[0]), meta(dtype=types[0]).expand(inputs.shape)):
        for mask in ([True, True, True], [True, False, False]):
            calls.append((BACKWARD, (gradient, inputs, *[channels] * 5, True, 1e-5, mask)))
    for operator, args in calls:
        assert described(outputs.SHAPES[operator](*args)) == described(operator(*args))


def test_batch_normalisation_has_no_gradient_of_its_input_unless_asked_for():
    def shapes(run, device):
        inputs, channels = torch.ones(4, 6, 5, 3, device=device), torch.ones(6, device=device)
        output = run(inputs, inputs, *[channels] * 5, True, 1e-5, [False, True, True])
        return [part if part is None else part.shape for part in output]

    # The processor's kernel is right. On the meta device torch writes all three.
    assert shapes(outputs.SHAPES[BACKWARD], "meta") == shapes(BACKWARD, "cpu") == [None, (6,), (6,)]


def test_batch_normalisation_of_one_value_a_channel_has_outputs_though_torch_refuses_it():
    made = outputs.SHAPES[FORWARD](meta(1, 6), None, None, None, None, True, 0.1, 1e-5)
    assert [part.shape for part in made] == [(1, 6), (6,), (6,)]
