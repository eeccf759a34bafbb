"""Allocators that take the place of the C library's: jemalloc and tcmalloc, where they are installed."""

import ctypes.util
import os
from pathlib import Path
from typing import ClassVar

from measure.cache.variants.base import Variant

PRELOAD = "LD_PRELOAD"
MAPPED = Path("/proc/self/maps")


class Preloaded(Variant, is_abstract=True):
    """An allocator in a library of its own, which the dynamic linker loads before the C library.

    ``libraries`` are the names that the linker's cache may have it by, ``package`` is what Debian calls it.
    """

    libraries: ClassVar[tuple[str, ...]]
    package: ClassVar[str]

    def found(self) -> str | None:
        """Return the library's file name; None where it is not installed."""
        return next(filter(None, map(ctypes.util.find_library, self.libraries)), None)

    def variables(self) -> dict[str, str]:
        library = self.found()
        return {PRELOAD: " ".join(filter(None, (library, os.environ.get(PRELOAD))))} if library else {}

    def begin(self, device_kind: str, precision: str) -> None:
        self.need_a_cpu(device_kind)
        library = self.found()
        if library is None:
            raise NotImplementedError(f"{self.name} is not installed: on Debian, apt install {self.package}")
        if not MAPPED.exists() or library not in MAPPED.read_text():
            raise NotImplementedError(f"{self.name} was not loaded into the process that measures")


class Jemalloc(Preloaded):
    name, order = "jemalloc", 6
    words = "puts jemalloc in the place of the C library's allocator"
    libraries, package = ("jemalloc",), "libjemalloc2"


class Tcmalloc(Preloaded):
    name, order = "tcmalloc", 7
    words = "puts tcmalloc in the place of the C library's allocator"
    libraries, package = ("tcmalloc_minimal", "tcmalloc"), "libtcmalloc-minimal4"
