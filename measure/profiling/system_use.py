"""What a call asks of the operating system's kernel: the time it takes there, and the page faults that it causes.

Memory that an allocator gives back to the system comes again page by page, each with a fault that the kernel serves by
clearing the page: on a processor, operators with large outputs may spend more time on that than on arithmetic.
"""

from collections.abc import Callable
from statistics import fmean
from typing import NamedTuple


class SystemUse(NamedTuple):
    """Of one call: the processors' time in the system's kernel (s), of all threads together, and the page faults.

    Faults are the minor ones, which no disk is read for.
    """

    system_s: float
    page_faults: float


class Observed:
    """A call that keeps what each time it is called asks of the kernel, on behalf of the whole process."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._uses: list[SystemUse] = []

    def __call__(self) -> None:
        opening = _so_far()
        self._call()
        closing = _so_far()
        if opening is not None and closing is not None:
            self._uses.append(SystemUse(*(end - begin for begin, end in zip(opening, closing, strict=True))))

    def use(self) -> SystemUse | None:
        """Return the mean of all calls but the first, which sets up; None if there is none, or the system is silent."""
        later = self._uses[1:]
        return SystemUse(*map(fmean, zip(*later, strict=True))) if later else None


def _so_far() -> SystemUse | None:
    try:
        import resource
    except ImportError:  # on Windows
        return None
    used = resource.getrusage(resource.RUSAGE_SELF)
    return SystemUse(used.ru_stime, used.ru_minflt)
