"""An allocator of the C library that keeps what a program frees, instead of returning it to the operating system."""

import ctypes
import platform
from typing import Any

from measure.cache.variants.base import Variant

TRIM_THRESHOLD, MMAP_MAX = -1, -4
"""The parameters of glibc's ``mallopt``, as its ``malloc.h`` numbers them."""

NEVER, NONE = -1, 0


class KeptMemory(Variant):
    name, order = "kept_memory", 3
    words = "has the C library's allocator keep what is freed"
    tried_on = ("cpu",)

    def is_usual(self, environment: Any) -> bool:
        """On Linux it is, whose C library's allocator returns large blocks at once, at a cost of page faults."""
        return environment.device == "cpu" and str(environment.system).startswith("Linux")

    def begin(self, device_kind: str, precision: str) -> None:
        self.need_a_cpu(device_kind)
        keep_memory()


def keep_memory() -> None:
    """Let this process keep what it frees from here on, so that the system need not clear the same pages again.

    Every block then comes from the heap, none from a mapping of its own, and the end of the heap is not given back
    (the GNU C Library's manual, Malloc Tunable Parameters). Raises NotImplementedError where the C library has no such
    parameters.
    """
    if platform.libc_ver()[0] != "glibc":
        raise NotImplementedError("only the GNU C library's allocator can be told to keep memory")
    tune = ctypes.CDLL(None).mallopt
    for parameter, value in ((MMAP_MAX, NONE), (TRIM_THRESHOLD, NEVER)):
        if not tune(parameter, value):
            raise NotImplementedError(f"the C library's allocator refuses its parameter {parameter}")
