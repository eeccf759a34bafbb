"""The roofs of this machine, measured: the largest matrix product, the largest stream of memory, and the clock."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from functools import partial

from measure import clock
from measure.devices import Device
from measure.precisions import torch_dtype
from measure.records import PRECISION_BYTE, Ceiling
from measure.statistics import estimate_median
from measure.timing import Sampling, sample

KERNELS = ("matmul", "triad")

SAMPLING = Sampling(warm_up_s=2.0, least_s=1.0, limit_s=10.0)

SIZES = {
    ("matmul", "cpu"): (512, 1024, 2048, 4096),
    ("matmul", "cuda"): (2048, 4096, 8192, 16384),
    ("matmul", "mps"): (1024, 2048, 4096, 8192),
    ("triad", "cpu"): (2**25, 2**26, 2**27),
    ("triad", "cuda"): (2**26, 2**27, 2**28),
    ("triad", "mps"): (2**25, 2**26, 2**27),
}
"""Rows of the matrix, elements of each vector. The smallest vectors are beyond four times a usual last-level cache,
as STREAM asks."""


def kernels(device_kind: str, precisions: Sequence[str]) -> list[tuple[str, str, int]]:
    """What is measured on a kind of device: kernel, precision and size. A clock is a processor's alone."""
    roofs = [
        (kernel, precision, size)
        for precision in precisions
        for kernel in KERNELS
        for size in SIZES[kernel, device_kind]
    ]
    chains = [("chain", precision, size) for precision, size in clock.CHAINS] if device_kind == "cpu" else []
    return roofs + chains


def _matmul(size: int, device: str, precision: str) -> Callable[[], object]:
    import torch

    dtype = torch_dtype(precision)
    left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    product = torch.empty(size, size, device=device, dtype=dtype)
    return lambda: torch.mm(left, right, out=product)


def _triad(size: int, device: str, precision: str) -> Callable[[], object]:
    import torch

    dtype = torch_dtype(precision)
    added, scaled = (torch.ones(size, device=device, dtype=dtype) for _ in range(2))
    result = torch.zeros(size, device=device, dtype=dtype)
    return lambda: torch.add(added, scaled, alpha=3.0, out=result)


def _chain(size: int, _device: str, precision: str) -> Callable[[], object]:
    import torch

    return clock.chain(size, torch.get_num_threads(), precision)


PREPARATIONS = {"matmul": _matmul, "triad": _triad, "chain": _chain}


def _clock(kernel: str) -> Callable[[], int]:
    """What a kernel is timed by. Whatever else runs takes none of a processor's cycles from its time."""
    if kernel == "chain":
        import torch

        return partial(clock.processor_ns, torch.get_num_threads())
    return time.perf_counter_ns


def _work(kernel: str, precision: str, size: int) -> tuple[int, int]:
    """FLOP and bytes of one call. An addition of integers is no FLOP, and a chain stays in registers."""
    if kernel == "chain":
        return (size if precision == "fp64" else 0), 0
    width = PRECISION_BYTE[precision]
    return {"matmul": (2 * size**3, 3 * size**2 * width), "triad": (2 * size, 3 * size * width)}[kernel]


def unmeasured(
    environment_id: str, kernel: str, precision: str, size: int, status: str, reason: str | None
) -> Ceiling:
    """The row of a roof without its times: what the kernel does, and what became of it."""
    flop, byte = _work(kernel, precision, size)
    return Ceiling(
        environment_id, kernel, precision, size, flop, byte, status, reason, None, None, None, None
    )


def measure(
    device: Device, environment_id: str, kernel: str, precision: str, size: int, beat: Callable[[], None]
) -> Ceiling:
    """One kernel at one size. Raises whatever torch raises where it does not fit or is not supported."""
    call = PREPARATIONS[kernel](size, device.torch_name, precision)
    timing = sample(call, device.synchronize, SAMPLING, _clock(kernel), beat)
    estimate = estimate_median(timing.latencies_s)
    return dataclasses.replace(
        unmeasured(environment_id, kernel, precision, size, "ok", None),
        latency_s=estimate.median,
        latency_low_s=min(timing.latencies_s) if estimate.low is None else estimate.low,
        latency_high_s=max(timing.latencies_s) if estimate.high is None else estimate.high,
        sample_count=len(timing.latencies_s),
    )
