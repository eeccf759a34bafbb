"""The interface of a device: identity, preparation, stopwatch, memory, caches, sensors.

Identity is read without torch, so that a plan, or a run with nothing left to do, answers at once.
"""

import gc
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

from measure.machine.sensors import ProcessorSensors, Sensors


class Events(Protocol):
    """A stopwatch of the device: two marks in its stream of work, set any number of times."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def elapsed_s(self) -> float | None:
        """Return the time between the marks. Synchronise the device first. None if the device lost it."""


class CudaEvents:
    """Two marks in the current stream of the current GPU."""

    def __init__(self) -> None:
        import torch

        self._first, self._last = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def start(self) -> None:
        self._first.record()

    def stop(self) -> None:
        self._last.record()

    def elapsed_s(self) -> float:
        return self._first.elapsed_time(self._last) / 1e3


REVERSED = "was not recorded after start event"
"""torch's error for two Metal events with reversed times."""


class MpsEvents:
    """Two marks in Metal's command queue, new ones each time.

    Many versions of torch read a mark's time in a host callback, and a reused mark may keep its previous time. The
    marks of a block of microseconds can therefore come in reverse (github.com/pytorch/pytorch/pull/196395).
    """

    _first: Any = None
    _last: Any = None

    def start(self) -> None:
        self._first = self._mark()

    def stop(self) -> None:
        self._last = self._mark()

    def elapsed_s(self) -> float | None:
        try:
            return float(self._first.elapsed_time(self._last)) / 1e3
        except RuntimeError as problem:
            if REVERSED in str(problem):
                return None
            raise

    @staticmethod
    def _mark() -> Any:
        import torch

        mark = torch.mps.event.Event(enable_timing=True)
        mark.record()
        return mark


SWEEP = 4
"""Sweep this multiple of a cache's size to clear it, because it need not evict the oldest lines first."""

SMALLEST_CACHE_BYTE = 2**25
"""Assumed for a cache that reports no size or less; a virtual machine's often does."""


class Device(ABC):
    """A device of this machine under torch's name. The defaults are those of a processor."""

    kind: str
    torch_name: str
    is_asynchronous = False
    """Whether operators return before the device has finished them."""
    is_nvidia = False
    """Whether Nsight Compute can read the device's hardware counters."""

    @abstractmethod
    def identity(self) -> dict[str, str]:
        """Return the facts that tell this hardware from other hardware, among them its ``name``."""

    def driver(self) -> str | None:
        """Return the driver's version, if there is one."""
        return None

    def capability(self) -> str | None:
        """Return an NVIDIA GPU's compute capability, if the driver reports it."""
        return None

    def memory_byte(self) -> int:
        """Return the size of the memory that holds this device's tensors."""
        import psutil

        return psutil.virtual_memory().total

    @abstractmethod
    def prepare(self, threads: int) -> None:
        """Set this process up to measure: threads, no silent change of precision."""

    def allow_tf32(self, allowed: bool) -> None:
        """Let fp32 products use TF32, or forbid it. Raise NotImplementedError if the device has no TF32."""
        if allowed:
            raise NotImplementedError(
                "tf32 is a format of NVIDIA's tensor cores (Ampere on) and of AMD's (MI300); this device has none"
            )

    def refuse_emulation(self, precision: str) -> None:  # noqa: B027 - most devices compute in what torch offers them
        """Raise NotImplementedError if torch would convert a precision because the device has no units for it."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until the device has finished all its work."""

    def release_memory(self) -> None:
        """Free the memory of a finished task in this process."""
        gc.collect()

    def events(self) -> Events | None:
        """Return the device's own stopwatch; None if it has none."""
        return None

    @abstractmethod
    def cache_clearer(self) -> Callable[[], object]:
        """Return a call that evicts everything a network could find in the caches."""

    def sensors(self) -> Sensors:
        return ProcessorSensors()


def cache_sweep(torch_name: str, cache_byte: int) -> Callable[[], object]:
    """Return a call that reads and writes a buffer several times the cache's size. Stores alone may bypass a cache."""
    import torch

    buffer = torch.zeros(SWEEP * max(cache_byte, SMALLEST_CACHE_BYTE) // 4, device=torch_name)
    return lambda: buffer.add_(1.0)
