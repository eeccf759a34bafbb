"""The interface of a device: identity, preparation, stopwatch, memory, caches, sensors."""

import gc
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from measure.machine import container
from measure.machine.sensors import ProcessorSensors, Sensors

SWEEP = 4  # times a cache's size clear it: it need not evict the oldest lines first
SMALLEST_CACHE_BYTE = 2**25  # assumed for a cache that reports less or nothing; a virtual machine's often does
NO_TF32 = "tf32 is a format of NVIDIA's tensor cores (Ampere on) and of AMD's (MI300); this device has none"


class Events:
    """A GPU's own stopwatch: two marks in its stream of work, set any number of times. Here CUDA's."""

    def __init__(self) -> None:
        import torch

        self._first, self._last = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def start(self) -> None:
        self._first.record()

    def stop(self) -> None:
        self._last.record()

    def elapsed_s(self) -> float | None:
        """Return the time between the marks. Synchronise the device first. None if the device lost it."""
        return self._first.elapsed_time(self._last) / 1e3


class MpsEvents(Events):
    """Marks in Metal's command queue, new ones each time: a reused mark may keep its previous time."""

    def __init__(self) -> None:
        """Leave the marks to ``start``."""

    def start(self) -> None:
        import torch

        self._first, self._last = (torch.mps.event.Event(enable_timing=True) for _ in range(2))
        self._first.record()

    def elapsed_s(self) -> float | None:
        try:
            return super().elapsed_s()
        except RuntimeError as problem:  # torch's callback can reverse marks microseconds apart: pytorch pull 196395
            if "was not recorded after start event" in str(problem):
                return None
            raise


class Device(ABC):
    """A device of this machine under torch's name. The defaults suit a processor."""

    kind: str
    torch_name: str
    is_asynchronous = False  # whether operators return before the device has finished them
    is_nvidia = False  # whether Nsight Compute can read the device's hardware counters

    @property
    def torch(self) -> Any:
        """The library, imported at its first use: identity is read without it, so that a plan answers at once."""
        import torch

        return torch

    @abstractmethod
    def identity(self) -> dict[str, str]:
        """Return the facts that tell this hardware from other hardware, among them its ``name``."""

    def driver(self) -> str | None:
        return None

    def capability(self) -> str | None:
        """Return an NVIDIA GPU's compute capability, if the driver reports it."""
        return None

    def power_limit_w(self) -> float | None:
        """Return the power that a GPU's board may draw, if its driver reports it."""
        return None

    def facts(self) -> dict[str, Any]:
        """Return columns of ``Environment`` that only torch knows, once ``prepare`` has set the device up.

        The parent of the measuring processes must not ask: CUDA does not survive a fork.
        """
        return {}

    def memory_byte(self) -> int:
        """Return the size of the memory that holds this device's tensors."""
        return container.memory_byte()

    @abstractmethod
    def prepare(self, threads: int) -> None:
        """Set this process up to measure: threads, no silent change of precision."""

    def allow_tf32(self, allowed: bool) -> None:
        """Let fp32 products use TF32, or forbid it. Raise NotImplementedError if the device has no TF32."""
        if allowed:
            raise NotImplementedError(NO_TF32)

    def refuse_emulation(self, precision: str) -> None:  # noqa: B027 - most devices have units for all precisions
        """Raise NotImplementedError if torch would convert a precision because the device has no units for it."""

    def synchronize(self) -> None:  # noqa: B027 - operators on a processor return when they are finished
        """Wait until the device has finished all its work."""

    def release_memory(self) -> None:
        gc.collect()

    def events(self) -> Events | None:
        """Return the device's own stopwatch; None if it has none."""
        return None

    def cache_byte(self) -> int:
        """Return the size of the largest cache; 0 if unknown."""
        return 0

    def cache_clearer(self) -> Callable[[], object]:
        """Return a call that evicts everything a network could find in the caches."""
        buffer = self.torch.zeros(SWEEP * max(self.cache_byte(), SMALLEST_CACHE_BYTE) // 4, device=self.torch_name)
        return lambda: buffer.add_(1.0)  # reads and writes: stores alone may bypass a cache

    def sensors(self) -> Sensors:
        return ProcessorSensors()
