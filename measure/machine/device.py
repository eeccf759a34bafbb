"""What every device that is measured has: an identity, a stopwatch, a memory, sensors.

Identity is read without torch, so that a plan, or a run with nothing left to do, answers at once.

A device's own stopwatch: two marks in its stream of work, and the time between them.
"""

import gc
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

from measure.machine.sensors import ProcessorSensors, Sensors


class Events(Protocol):
    """Two marks that are set one after the other, as often as one likes."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def elapsed_s(self) -> float | None:
        """Return the time between the marks, once the device is synchronised; None where the device lost it."""


class CudaEvents:
    """Two marks in the current stream of the current GPU, between which it takes the time."""

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
"""What torch says of two Metal events whose times it has in reverse."""


class MpsEvents:
    """Two marks in Metal's queue of commands, which are made anew each time.

    Many versions of torch take a mark's time when a callback on the host learns of it, and one that is set again may
    keep the time of before. So the marks of a block of some microseconds can come in reverse
    (github.com/pytorch/pytorch/pull/196395).
    """

    def __init__(self) -> None:
        self._first: Any = None
        self._last: Any = None

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
"""How many times its size is read and written to clear a cache, which need not evict the oldest first."""

SMALLEST_CACHE_BYTE = 2**25
"""Taken for a cache that does not say its size, or says less, as a guest's often does."""


class Device(ABC):
    """One device of this machine, under the name that torch gives it; as it is here, one without a clock of its own."""

    kind: str
    torch_name: str
    is_asynchronous = False
    """Whether operators return before the device has done them."""
    is_nvidia = False
    """Whether it is a GPU whose hardware counters Nsight Compute reads."""

    @abstractmethod
    def identity(self) -> dict[str, str]:
        """Return what tells this hardware from other hardware; its ``name`` among it."""

    def driver(self) -> str | None:
        """Return the driver's version, where there is one."""
        return None

    def capability(self) -> str | None:
        """Return an NVIDIA GPU's compute capability, where the driver tells it."""
        return None

    def memory_byte(self) -> int:
        """Return the size of the memory that holds this device's tensors."""
        import psutil

        return psutil.virtual_memory().total

    @abstractmethod
    def prepare(self, threads: int) -> None:
        """Set this process up to measure: threads, and no silent change of precision."""

    def allow_tf32(self, allowed: bool) -> None:
        """Let fp32 be multiplied as TF32, or forbid it. Raise NotImplementedError where a device has no TF32."""
        refuse_tf32(allowed)

    def refuse_emulation(self, precision: str) -> None:  # noqa: B027 - most devices compute in what torch offers them
        """Raise NotImplementedError where the device has no units for a precision, and torch converts it for others."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until the device has done all its work."""

    def release_memory(self) -> None:
        """Free what a task has left in this process, for the next one."""
        gc.collect()

    def events(self) -> Events | None:
        """Return the device's own stopwatch; None where the host's is all there is."""
        return None

    @abstractmethod
    def cache_clearer(self) -> Callable[[], object]:
        """Return a call that leaves nothing in the caches that a network could use."""

    def sensors(self) -> Sensors:
        return ProcessorSensors()


def refuse_tf32(wanted: bool) -> None:
    """Raise NotImplementedError where TF32 is wanted of a device that has none."""
    if wanted:
        raise NotImplementedError(
            "tf32 is a format of NVIDIA's tensor cores (Ampere on) and of AMD's (MI300); this device has none"
        )


def swept(torch_name: str, cache_byte: int) -> Callable[[], object]:
    """Return a call that reads and writes memory of its own, several times the cache: stores alone may bypass it."""
    import torch

    buffer = torch.zeros(SWEEP * max(cache_byte, SMALLEST_CACHE_BYTE) // 4, device=torch_name)
    return lambda: buffer.add_(1.0)
