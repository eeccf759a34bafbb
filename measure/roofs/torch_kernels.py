"""Kernels of libraries: matrix products by torch and NumPy, and torch's streams where ours do not run."""

from collections.abc import Callable

from measure.domain.words import FP8, INT8, PRECISION_BYTE, STREAM_ARRAYS, stored_as
from measure.machine import processor
from measure.models.tensors import torch_dtype


def prepare(kernel: str, precision: str, size: int, device: str, threads: int) -> Callable[[int], object]:
    """Return a function that runs a kernel ``passes`` times: a product of ``size`` rows, a stream over ``size`` bytes.

    Raises NotImplementedError for NumPy's product with another number of threads than it uses.
    """
    import torch

    if kernel == "matmul":
        call = _matmul(precision, size, device)
    elif kernel == "numpy_matmul":
        call = _numpy_matmul(size, threads)
    else:
        arrays = STREAM_ARRAYS[kernel]
        elements = size // (arrays * PRECISION_BYTE[precision])
        made = [torch.rand(elements, device=device, dtype=torch_dtype(precision)) for _ in range(arrays)]
        a, b, c = (*made, made[-1], made[-1])[:3]
        call = {
            "stream_read": lambda: torch.sum(b),
            "stream_write": lambda: a.fill_(3.0),
            "stream_copy": lambda: a.copy_(b),
            "stream_triad": lambda: torch.add(b, c, alpha=3.0, out=a),
        }[kernel]

    def work(passes: int) -> None:
        for _ in range(passes):
            call()

    return work


def _matmul(precision: str, size: int, device: str) -> Callable[[], object]:
    """Return a product; at 8 bits with a column-major second matrix, the only layout that cuBLAS takes."""
    import torch

    if precision == INT8:
        left, right = (torch.randint(-128, 128, (size, size), device=device, dtype=torch.int8) for _ in range(2))
        product = torch.empty(size, size, device=device, dtype=torch.int32)
        return lambda: torch._int_mm(left, right.t(), out=product)
    dtype = torch.bfloat16 if precision == FP8 else torch_dtype(stored_as(precision))
    left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    if precision == FP8:
        left, right, scale = left.to(torch.float8_e4m3fn), right.to(torch.float8_e4m3fn), torch.ones((), device=device)
        # It accumulates as fast as tensor cores can: no product exceeds a roof, however inexact.
        return lambda: torch._scaled_mm(
            left, right.t(), scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16, use_fast_accum=True
        )
    product = torch.empty(size, size, device=device, dtype=dtype)
    return lambda: torch.mm(left, right, out=product)


def _numpy_matmul(size: int, threads: int) -> Callable[[], object]:
    import numpy as np

    cores = processor.visible_cores()
    if threads != cores:
        raise NotImplementedError(f"NumPy multiplies with a thread for each of {cores} cores, not with {threads}")
    random = np.random.default_rng(0)
    left, right = (random.random((size, size), np.float32) for _ in range(2))
    product = np.empty((size, size), np.float32)
    return lambda: np.matmul(left, right, out=product)
