import pytest
from helpers.counting import meta, torch

from measure.counting import recorder

aten = torch.ops.aten


@pytest.fixture
def calls(monkeypatch):
    """Operators by name that note each call."""
    monkeypatch.setattr(recorder, "_OUTPUTS", {})
    seen = []

    def noting(operator):
        def call(*args, **kwargs):
            seen.append(operator)
            return operator(*args, **kwargs)

        return call

    operators = {}
    return seen, lambda operator: operators.setdefault(operator, noting(operator))


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
def test_what_was_called_before_is_drawn(calls, operator, args, kwargs):
    seen, noting = calls
    first = recorder.call(noting(operator), args, kwargs)
    second = recorder.call(noting(operator), args, kwargs)
    assert len(seen) == 1
    assert described(first) == described(second) == described(operator(*args, **kwargs))


def test_a_drawn_output_has_memory_of_its_own(calls):
    first, second = (recorder.call(calls[1](aten.neg.default), (meta(3),), {}) for _ in range(2))
    assert first.untyped_storage()._cdata != second.untyped_storage()._cdata


@pytest.mark.parametrize(
    "other",
    [
        ((meta(2, 5), 1), {}),  # another shape
        ((meta(3, 5, dtype=torch.float64), 1), {}),  # another type
        ((meta(5, 3).t(), 1), {}),  # other strides
        ((meta(3, 5), 1.0), {}),  # an equal number of another type
        ((meta(3, 5), True), {}),
        ((meta(3, 5), 1), {"alpha": 2}),
    ],
)
def test_another_form_is_called(calls, other):
    seen, noting = calls
    recorder.call(noting(aten.add.Scalar if not other[1] else aten.add.Tensor), (meta(3, 5), 1), {})
    args, kwargs = other
    recorder.call(noting(aten.add.Scalar if not kwargs else aten.add.Tensor), args, kwargs)
    assert len(seen) == 2


def test_real_tensors_and_numbers_are_computed_each_time_once(calls):
    seen, noting = calls
    for _ in range(2):
        assert recorder.call(noting(aten.add.Scalar), (torch.ones(2), 1), {}).tolist() == [2.0, 2.0]
        assert recorder.call(noting(aten._local_scalar_dense.default), (torch.tensor(3),), {}) == 3
        recorder.call(noting(aten.rand.default), ([2],), {})
    assert len(seen) == 6
