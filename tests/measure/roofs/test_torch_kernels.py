import pytest
import torch

from measure.domain.words import STREAM_ARRAYS
from measure.machine import processor
from measure.roofs import torch_kernels
from measure.run.worker import classify


@pytest.mark.parametrize(
    ("precision", "function", "kind", "tolerance"),
    [
        ("fp32", "mm", torch.float32, {"rtol": 1e-4, "atol": 1e-5}),
        ("int8", "_int_mm", torch.int32, {"rtol": 0, "atol": 0}),  # integers are summed exactly
        ("fp8", "_scaled_mm", torch.bfloat16, {"rtol": 2**-8, "atol": 1e-3}),  # bf16 has eight significant bits
    ],
)
def test_the_products_are_those_of_their_operands(monkeypatch, precision, function, kind, tolerance):
    made = []
    multiply = getattr(torch, function)
    monkeypatch.setattr(torch, function, lambda *given, **how: made.append((given, multiply(*given, **how))))
    torch_kernels.prepare("matmul", precision, 32, "cpu", 1)(2)
    assert len(made) == 2
    (left, right), product = made[0]
    assert left.dtype == right.dtype
    # At 8 bits the right one's columns lie one after another.
    assert (left.element_size(), right.stride()) == ((4, (32, 1)) if precision == "fp32" else (1, (1, 32)))
    assert product.dtype == kind
    expected = (left.double()[:, :, None] * right.double()[None]).sum(1)  # in numbers that hold it exactly
    assert torch.allclose(product.double(), expected, **tolerance)


def test_numpy_multiplies_by_all_cores_or_not_at_all():
    cores = processor.visible_cores()
    torch_kernels.prepare("numpy_matmul", "fp32", 4, "cpu", cores)(1)
    with pytest.raises(NotImplementedError, match=f"each of {cores} cores, not with {cores + 1}") as caught:
        torch_kernels.prepare("numpy_matmul", "fp32", 4, "cpu", cores + 1)
    assert classify(caught.value).status == "unsupported"


@pytest.mark.parametrize(
    ("kernel", "expected"), [("stream_read", 1.0), ("stream_write", 3.0), ("stream_copy", 1.0), ("stream_triad", 4.0)]
)
def test_the_streams_compute_what_they_say(monkeypatch, kernel, expected):
    made = []
    monkeypatch.setattr(torch, "rand", lambda *given, **how: made.append(torch.ones(*given, **how)) or made[-1])
    torch_kernels.prepare(kernel, "fp32", 240, "cpu", 1)(1)  # 1 + 3 * 1 = 4
    assert len(made) == STREAM_ARRAYS[kernel]
    assert sum(array.nbytes for array in made) == 240
    assert made[0].tolist() == [expected] * len(made[0])
