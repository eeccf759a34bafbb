"""Triton's kernels without a GPU: a launch compiles nothing, and adds to the stream the time of what it would do.

Where Triton is not installed the machine is one without it.
"""

from types import ModuleType
from typing import Any

from helpers.gpu.catalogue import Gpu
from helpers.gpu.nvml import slowdown
from helpers.gpu.stream import STREAM

ARRAYS = {"stream_read": 1, "stream_write": 1, "stream_copy": 2, "stream_triad": 3}
"""The arrays that each stream goes through."""


def _fma_s(gpu: Gpu, grid: tuple[int], result: Any, *arguments: Any) -> float:
    """Return the time of ``measure.roofs.triton_kernels.fma``: two FLOP for each multiply-add of each number."""
    _factor, _term, passes, chains, rounds, unrolled = arguments
    precision = "fp64" if result.element_size() == 8 else "fp32"
    return slowdown(gpu) * 2 * grid[0] * chains * rounds * unrolled * passes / gpu.flop_per_s[precision]


def _stream_s(gpu: Gpu, _grid: tuple[int], array: Any, *arguments: Any) -> float:
    """Return the time of ``measure.roofs.triton_kernels.stream``: its bytes by the device's bandwidth."""
    _b, _c, _sums, _scale, elements, _share, passes, kernel, _block = arguments
    return ARRAYS[kernel] * elements * array.element_size() * passes / gpu.byte_per_s


KERNELS = {"fma": _fma_s, "stream": _stream_s}


def stand_in(jit: ModuleType) -> None:
    """Take every launch of ``triton.runtime.jit``, for as long as the process lives."""

    def run(kernel: Any, *arguments: Any, grid: Any, warmup: bool, **_options: Any) -> None:
        if STREAM.gpu is None:
            raise RuntimeError("0 active drivers ([]). There should only be one.")  # as Triton says
        STREAM.add(round(1e9 * KERNELS[kernel.__name__](STREAM.gpu, grid, *arguments)))

    jit.JITFunction.run = run
