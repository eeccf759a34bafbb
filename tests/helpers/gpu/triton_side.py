"""Triton's kernels without a GPU: a launch compiles nothing, and adds its time to the stream."""

from helpers.gpu.stream import STREAM, Kernel

ARRAYS = {"stream_read": 1, "stream_write": 1, "stream_copy": 2, "stream_triad": 3}  # that each goes through


def _fma(gpu, grid, result, _factor, _term, passes, chains, rounds, unrolled):
    """``measure.roofs.triton_kernels.fma``: two FLOP for each multiply-add of each number."""
    precision = "fp64" if result.element_size() == 8 else "fp32"
    flop = 2 * grid[0] * chains * rounds * unrolled * passes
    return Kernel("fma", precision, flop, 0, 0, round(1e9 * flop / gpu.flop_per_s[precision]))


def _stream(gpu, _grid, array, _b, _c, _sums, _scale, elements, _share, passes, kernel, _block):
    """``measure.roofs.triton_kernels.stream``: its bytes by the device's bandwidth."""
    byte = ARRAYS[kernel] * elements * array.element_size() * passes
    return Kernel(kernel, "fp32", 0, byte, 0, round(1e9 * byte / gpu.byte_per_s))


KERNELS = {"fma": _fma, "stream": _stream}


def stand_in(jit):
    """Take every launch of ``triton.runtime.jit``, for as long as the process lives."""

    def run(kernel, *arguments, grid, warmup, **_options):
        if STREAM.gpu is None:
            raise RuntimeError("0 active drivers ([]). There should only be one.")  # as Triton says
        STREAM.launch(KERNELS[kernel.__name__](STREAM.gpu, grid, *arguments))

    jit.JITFunction.run = run
