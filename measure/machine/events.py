"""A device's own stopwatch: two marks in its stream of work, and the time between them."""

from typing import Any, Protocol


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
