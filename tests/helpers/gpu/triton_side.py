"""Triton's kernels without a GPU: a launch compiles nothing, and adds its time to the stream."""

from helpers.gpu.stream import STREAM, Kernel

ARRAYS = {"stream_read": (1, 0), "stream_write": (0, 1), "stream_copy": (1, 1), "stream_triad": (2, 1)}
"""How many arrays each reads and writes."""


def _fma(gpu, grid, result, _factor, _term, passes, chains, rounds, unrolled):
    """``measure.roofs.triton_kernels.fma``: two FLOP for each multiply-add of each number."""
    precision = "fp64" if result.element_size() == 8 else "fp32"
    flop = 2 * grid[0] * chains * rounds * unrolled * passes
    return Kernel("fma", precision, flop, 0, 0, round(1e9 * flop / gpu.flop_per_s[precision]))


def _stream(gpu, _grid, array, _b, _c, _sums, _scale, elements, _share, passes, kernel, _block):
    """``measure.roofs.triton_kernels.stream``: its bytes by the bandwidth of memory, or of an L2 that holds them.

    A triad has two FLOP a number.
    """
    read_byte, written_byte = (arrays * elements * array.element_size() for arrays in ARRAYS[kernel])
    byte_per_s = gpu.byte_per_s * (gpu.l2_gain if read_byte + written_byte <= gpu.l2_byte else 1)
    time_ns = round(1e9 * passes * (read_byte + written_byte) / byte_per_s)
    flop = 2 * elements * passes if kernel == "stream_triad" else 0
    return Kernel(kernel, "fp32", flop, passes * read_byte, passes * written_byte, time_ns)


KERNELS = {"fma": _fma, "stream": _stream}


def stand_in(jit):
    """Take every launch of ``triton.runtime.jit``, for as long as the process lives."""

    def run(kernel, *arguments, grid, warmup, **_options):
        if STREAM.gpu is None:
            raise RuntimeError("0 active drivers ([]). There should only be one.")  # as Triton says
        STREAM.launch(KERNELS[kernel.__name__](STREAM.gpu, grid, *arguments))

    jit.JITFunction.run = run
