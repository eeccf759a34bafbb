"""The system below this process: its C library, its hypervisor, how it backs memory."""

import os
import platform
import re
import subprocess
from pathlib import Path

from measure.machine.processor import content_of, described

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def c_library() -> str | None:
    """Return the C library and its version, such as ``glibc 2.36``; None where it is not told."""
    return " ".join(filter(None, platform.libc_ver())) or None


def huge_pages() -> str | None:
    """Return Linux's setting of transparent huge pages; None where there is none."""
    chosen = re.search(r"\[(\w+)\]", content_of(HUGE_PAGES))
    return chosen[1] if chosen else None


def hypervisor() -> str | None:
    """Return what a virtual machine runs on, ``none`` for a real one; None where the processor does not say.

    A virtual processor has the flag ``hypervisor`` (AMD64 Architecture Programmer's Manual, volume 3: CPUID function 1,
    ECX bit 31). The name is the one that lscpu reads from the hypervisor's own CPUID function, where lscpu is there.
    """
    flags = described().get("flags")
    if flags is None:
        return None
    if "hypervisor" not in flags.split():
        return "none"
    english = os.environ | {"LC_ALL": "C"}
    try:
        said = subprocess.run(["lscpu"], capture_output=True, text=True, check=True, env=english).stdout
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    named = re.search(r"^Hypervisor vendor:\s*(.+)$", said, re.MULTILINE)
    return named[1] if named else "unknown"
