"""CUDA graphs without a GPU: a capture notes the kernels that operators launch, and a replay runs them by one launch.

Waiting for the device, or reading from it, spoils a capture, as on a GPU; copies from the host, which spoil one there
too, are not seen.
"""

from contextlib import contextmanager, nullcontext
from dataclasses import replace

from helpers.gpu.stream import STREAM

LAUNCH_NS = 3_000  # the least time of a kernel


class Launches:
    """Where operators launch kernels: into the stream, or into the graph that is being captured."""

    def __init__(self):
        self.captured, self._is_spoilt = None, False

    def launch(self, kernel):
        if self.captured is None:
            STREAM.launch(kernel)
        else:
            self.captured.append(kernel)

    def wait(self):
        """Wait for the device. Raises CUDA's error during a capture, which is spoilt then."""
        if self.captured is not None:
            self._is_spoilt = True
            raise _error("operation not permitted when stream is capturing\nSearch for `cudaErrorStreamCapture")
        STREAM.synchronize()

    @contextmanager
    def capture(self, graph):
        """``torch.cuda.graph``: what runs within it is captured. Its end tells of a spoilt capture too."""
        STREAM.synchronize()
        self.captured = []
        try:
            yield
        finally:
            graph.hold(self.captured)
            self.captured = None
            if self._is_spoilt:
                raise _error("operation failed due to a previous error during capture")


class Graph:
    """``torch.cuda.CUDAGraph``."""

    def __init__(self):
        self._joined = {}

    def hold(self, kernels):
        """Join the kernels of each precision, without their launches but the first."""
        for kernel in kernels:
            before = self._joined.get(kernel.precision)
            work = [kernel.flop, kernel.read_byte, kernel.written_byte, kernel.time_ns - LAUNCH_NS * bool(self._joined)]
            if before:
                held = before.flop, before.read_byte, before.written_byte, before.time_ns
                work = [sum(pair) for pair in zip(work, held, strict=True)]
            names = "flop", "read_byte", "written_byte", "time_ns"
            self._joined[kernel.precision] = replace(kernel, name="graph", **dict(zip(names, work, strict=True)))

    def replay(self):
        for kernel in self._joined.values():
            STREAM.launch(kernel)


class Stream:
    """``torch.cuda.Stream``: there is one stream of work, so no other one runs ahead of it."""

    def wait_stream(self, _other):
        """It has waited."""


def stream(_stream):
    return nullcontext()


def _error(text):
    import torch

    return getattr(torch, "AcceleratorError", RuntimeError)(f"CUDA error: {text}")  # torch 2.8 added it
