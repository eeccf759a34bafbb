"""torch's CUDA device without a GPU: the functions of ``torch.cuda`` that the program calls, for a machine.

``operators`` takes over the tensors when a process chooses its device.
"""

import os
from types import SimpleNamespace

from helpers.gpu import graph_side, ncu, profiler_side
from helpers.gpu.stream import STREAM

CUDNN = 91002  # 9.10.2


class Event:
    """A mark in the stream of work, as ``torch.cuda.Event``."""

    def __init__(self, enable_timing=False):
        assert enable_timing

    def record(self):
        self._at_ns = STREAM.mark_ns()

    def elapsed_time(self, end):
        """The milliseconds between two marks. Raises torch's error if one is not reached."""
        if max(self._at_ns, end._at_ns) > STREAM.now_ns():
            raise RuntimeError("CUDA error: device not ready")
        return (end._at_ns - self._at_ns) / 1e6


class Cuda:
    """The functions of ``torch.cuda`` by their names, for the device that a process chose, at first number 0."""

    Event, Stream, CUDAGraph = Event, graph_side.Stream, graph_side.Graph
    stream = staticmethod(graph_side.stream)

    def __init__(self, machine, torch):
        self._machine, self._torch, self._current = machine, torch, 0
        self._operators, self._launches = None, graph_side.Launches()
        self.graph = self._launches.capture
        self._counting = ncu.Counting()

    def is_available(self):
        return self.device_count() > 0

    def device_count(self):
        return len(self._machine.seen_by_cuda(os.environ))

    def _lazy_init(self):
        if self.device_count() == 0:
            raise RuntimeError("No CUDA GPUs are available")

    def set_device(self, device):
        self._lazy_init()
        self._current = self._number(device)
        if self._operators is None:
            from helpers.gpu.operators import Operators

            gpu = self._gpu(None)
            self._operators = Operators(gpu, self._launches)
            self._operators.begin()
            STREAM.begin(gpu)

    def current_device(self):
        return self._current

    def current_stream(self, _device=None):
        return graph_side.Stream()

    def synchronize(self, _device=None):
        self._lazy_init()
        self._launches.wait()

    def get_device_properties(self, device=None):
        gpu = self._gpu(device)
        major, minor = gpu.capability
        return SimpleNamespace(
            name=gpu.name, major=major, minor=minor, total_memory=gpu.torch_memory_byte,
            multi_processor_count=gpu.units, L2_cache_size=gpu.l2_byte, is_integrated=int(gpu.memory_byte is None),
            uuid=gpu.uuid.partition("-")[2],  # as torch prints it
        )  # fmt: skip

    def get_device_capability(self, device=None):
        return self._gpu(device).capability

    def is_current_stream_capturing(self):
        return self._launches.captured is not None

    def get_rng_state(self, _device=None):
        return self._torch.get_rng_state()

    def set_rng_state(self, _state, _device=None):
        """Tensors have no values."""

    def empty_cache(self):
        """There is no cache."""

    def memory_allocated(self, _device=None):
        return self._operators.ledger.byte

    def max_memory_allocated(self, _device=None):
        return self._operators.ledger.peak_byte

    def reset_peak_memory_stats(self, _device=None):
        self._operators.ledger.peak_byte = self._operators.ledger.byte

    def cudart(self):
        return SimpleNamespace(cudaProfilerStart=self._counting.start, cudaProfilerStop=self._counting.stop)

    def _gpu(self, device):
        return self._machine.seen_by_cuda(os.environ)[self._number(device)]

    def _number(self, device):
        index = device if isinstance(device, int | None) else self._torch.device(device).index
        return self._current if index is None else index


def stand_in(machine, torch):
    """Put the machine's device into the place of torch's own, for as long as the process lives."""
    cuda = Cuda(machine, torch)
    for name in dir(cuda):
        if not name.startswith("_") or name == "_lazy_init":
            setattr(torch.cuda, name, getattr(cuda, name))
    torch.backends.cudnn.version = lambda: CUDNN
    torch.version.cuda = torch.version.cuda or "13.0"  # where a wheel for processors alone is installed
    # Optimisers ask it for a stream, which they would not capture into a graph.
    torch.accelerator.current_accelerator = lambda check_available=False: None
    profiler_side.stand_in(machine, torch)
    compiling = torch.compile

    def compile_without_a_compiler(network, **options):
        """Trace a network; its compiled code launches the operators' own kernels."""
        from helpers.gpu.operators import Operators

        Operators.__torch_dispatch__ = torch.compiler.disable(Operators.__torch_dispatch__)
        return compiling(network, backend="eager", **options)

    torch.compile = compile_without_a_compiler
