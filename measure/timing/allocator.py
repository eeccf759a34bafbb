"""The C library's allocator, which may return what a program frees to the operating system, or keep it."""

import ctypes
import platform

TRIM_THRESHOLD, MMAP_MAX = -1, -4
"""The parameters of glibc's ``mallopt``, as its ``malloc.h`` numbers them."""

NEVER, NONE = -1, 0


def keep_memory() -> None:
    """Lets this process keep what it frees from here on, so that the system need not clear the same pages again.

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
