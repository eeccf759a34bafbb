import os
import platform
import subprocess
import sys

import pytest
from helpers.places import ROOT

from measure.domain import variants

ASK = """
import ctypes, sys
from measure.domain.variants import keep_memory
from measure.profiling.profile import SystemMeter

library = ctypes.CDLL(None)
library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
library.free.argtypes = [ctypes.c_void_p]

def write_a_block(byte=64 * 2**20):
    block = library.malloc(byte)
    ctypes.memset(block, 1, byte)
    library.free(block)

if sys.argv[1] == "kept":
    keep_memory()
observed = SystemMeter(write_a_block)
for _ in range(50):
    observed()
print(observed.use().page_faults)
"""
"""Tells the page faults of a block that is allocated, written and freed, in a process of its own."""


def page_faults(how):
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "LD_"))}
    said = subprocess.run(
        [sys.executable, "-c", ASK, how], env=plain, cwd=ROOT, capture_output=True, text=True, check=True
    )
    return float(said.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library than GNU's")
def test_memory_that_is_kept_causes_no_page_faults():
    # 64 MiB are 32 pages if they are huge ones of 2 MiB, and more of any other size.
    assert page_faults("default") >= 32
    assert page_faults("kept") < 1


def test_another_library_is_refused(monkeypatch):
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    with pytest.raises(NotImplementedError, match="only the GNU C library's allocator"):
        variants.keep_memory()
