import itertools

import pytest
from helpers.counting import meta, torch

from measure.counting import outputs
from measure.counting.memory import overload_of

aten = torch.ops.aten


@pytest.fixture
def call(monkeypatch):
    """Calls an operator, and notes in ``call.seen`` when torch runs it."""
    monkeypatch.setattr(outputs, "_OUTPUTS", {})

    class Noting:
        def __init__(self, operator):
            self.operator = operator

        def __call__(self, *args, **kwargs):
            call.seen.append(self.operator)
            return self.operator(*args, **kwargs)

    operators = {}

    def call(operator, args, kwargs):
        noting = operators.setdefault(operator, Noting(operator))
        return outputs.call(noting, overload_of(operator), args, kwargs)

    call.seen = []
    return call


def described(output):
    if isinstance(output, torch.Tensor):
        return output.shape, output.stride(), output.dtype, output.device.type
    return [None if part is None else described(part) for part in output]


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
        (aten.native_layer_norm_backward.default, (
            meta(3, 5), meta(3, 5), [5], meta(3, 1), meta(3, 1), None, None, [True, False, False],
        ), {}),
    ],
)  # fmt: skip
def test_what_was_called_before_is_drawn(call, operator, args, kwargs):
    first = call(operator, args, kwargs)
    second = call(operator, args, kwargs)
    assert len(call.seen) == 1
    assert described(first) == described(second) == described(operator(*args, **kwargs))


def test_a_drawn_output_has_memory_of_its_own(call):
    first, second = (call(aten.neg.default, (meta(3),), {}) for _ in range(2))
    assert first.untyped_storage()._cdata != second.untyped_storage()._cdata


@pytest.mark.parametrize(
    ("operator", "args", "kwargs"),
    [
        (aten.add.Scalar, (meta(2, 5), 1), {}),  # another shape
        (aten.add.Scalar, (meta(3, 5, dtype=torch.float64), 1), {}),  # another type
        (aten.add.Scalar, (meta(5, 3).t(), 1), {}),  # other strides
        (aten.add.Scalar, (meta(3, 5), 1.0), {}),  # an equal number of another type
        (aten.add.Scalar, (meta(3, 5), True), {}),
        (aten.sub.Scalar, (meta(3, 5), 1), {}),
        (aten.add.Scalar, (meta(3, 5), 1, 2), {}),
    ],
)
def test_another_form_is_called(call, operator, args, kwargs):
    call(aten.add.Scalar, (meta(3, 5), 1), {})
    call(operator, args, kwargs)
    assert len(call.seen) == 2


def test_an_operator_that_changes_its_input_is_called_each_time(call):
    tensor = meta(3)
    assert [call(aten.relu_.default, (tensor,), {}) is tensor for _ in range(2)] == [True, True]
    assert len(call.seen) == 2


def test_real_tensors_and_numbers_are_computed_each_time_once(call):
    for _ in range(2):
        assert call(aten.add.Scalar, (torch.ones(2), 1), {}).tolist() == [2.0, 2.0]
        assert call(aten._local_scalar_dense.default, (torch.tensor(3),), {}) == 3
        call(aten.rand.default, ([2],), {})
    assert len(call.seen) == 6


FORMS = {
    "plain": meta(4, 6, 5, 3),
    "channels last": meta(4, 6, 5, 3).to(memory_format=torch.channels_last),
    "channels last, in space": meta(2, 6, 3, 4, 5).to(memory_format=torch.channels_last_3d),
    "two dimensions": meta(4, 6),
    "transposed": meta(4, 7, 6).transpose(1, 2),
    "expanded": meta(4, 6, 1, 3).expand(4, 6, 5, 3),
    "every second channel": meta(4, 12, 5, 3)[:, ::2],
}
TYPES = [
    (torch.float32, torch.float32),
    (torch.bfloat16, torch.bfloat16),
    (torch.bfloat16, torch.float32),
    (torch.float64, torch.float64),
]


@pytest.mark.parametrize(("form", "types", "training"), list(itertools.product(FORMS, TYPES, (True, False))), ids=str)
def test_batch_normalisation_has_the_outputs_that_torch_derives(form, types, training):
    inputs, channels = FORMS[form].to(types[0]), meta(6, dtype=types[1])
    operator = aten.native_batch_norm.default
    args = inputs, channels, channels, channels, channels, training, 0.1, 1e-5
    assert described(outputs.SHAPES[operator](*args)) == described(operator(*args))


@pytest.mark.parametrize(("form", "types"), list(itertools.product(FORMS, TYPES)), ids=str)
@pytest.mark.parametrize("mask", [[True, True, True], [True, False, False]], ids=str)
def test_batch_normalisation_backward_has_the_outputs_that_torch_derives(form, types, mask):
    inputs, channels = FORMS[form].to(types[0]), meta(6, dtype=types[1])
    operator = aten.native_batch_norm_backward.default
    for gradient in (inputs, meta(*inputs.shape, dtype=types[0]), meta(dtype=types[0]).expand(inputs.shape)):
        args = gradient, inputs, channels, channels, channels, channels, channels, True, 1e-5, mask
        assert described(outputs.SHAPES[operator](*args)) == described(operator(*args))


def test_batch_normalisation_has_no_gradient_of_its_input_unless_asked_for():
    operator = aten.native_batch_norm_backward.default
    rest = True, 1e-5, [False, True, True]

    def shapes(run, device):
        inputs, channels = torch.ones(4, 6, 5, 3, device=device), torch.ones(6, device=device)
        return [part if part is None else part.shape for part in run(inputs, inputs, *[channels] * 5, *rest)]

    # The processor's kernel is right. On the meta device torch writes all three.
    assert shapes(outputs.SHAPES[operator], "meta") == shapes(operator, "cpu") == [None, (6,), (6,)]


def test_batch_normalisation_of_one_value_a_channel_has_outputs_though_torch_refuses_it():
    args = meta(1, 6), None, None, None, None, True, 0.1, 1e-5
    sizes = [part.shape for part in outputs.SHAPES[aten.native_batch_norm.default](*args)]
    assert sizes == [(1, 6), (6,), (6,)]
