import ctypes.util
import os
import platform
import shutil
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
from helpers.places import ROOT

from measure.domain.variants import parts_of
from measure.models.call import Call
from measure.timing import variant_setup
from measure.timing.variant_setup import begin, change, process_variables

ASK = """
import ctypes, resource, sys
from measure.timing.variant_setup import keep_memory

library, faults = ctypes.CDLL(None), []
library.malloc.restype, library.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
if sys.argv[1] == "kept":
    keep_memory("cpu", "fp32")
for _ in range(10):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    block = library.malloc(64 * 2**20)
    ctypes.memset(ctypes.c_void_p(block), 1, 64 * 2**20)
    library.free(block)
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(min(faults))
"""
"""Tells the page faults of a block that is allocated, written and freed, in a process of its own."""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library than GNU's")
def test_memory_that_stays_causes_no_page_faults():
    # 64 MiB are 32 pages if they are huge ones of 2 MiB, and more of any other size.
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "LD_"))}
    programs = [[sys.executable, "-c", ASK, how] for how in ("default", "kept")]
    default, resident = (int(subprocess.check_output(program, env=plain, cwd=ROOT)) for program in programs)
    assert resident < 1 <= 32 <= default


@pytest.mark.parametrize(
    ("name", "library", "file"),
    [
        ("jemalloc", "jemalloc", "libjemalloc.so.2"),
        ("tcmalloc", "tcmalloc_minimal", "libtcmalloc_minimal.so.4"),
        ("tcmalloc", "tcmalloc", "libtcmalloc.so.4"),  # whole, where the minimal one is missing
    ],
)
def test_an_allocator_must_be_installed_and_loaded_first(monkeypatch, tmp_path, name, library, file):
    def refusal(device="cpu"):
        with pytest.raises(NotImplementedError) as caught:
            begin(name, device, "fp32")
        return str(caught.value)

    def load(*files):
        # A link leads to a file, which /proc/self/maps names
        line = "7f0000000000-7f0000001000 r-xp 00000000 08:01 42    /usr/lib/x86_64-linux-gnu/{}.5.9\n"
        (tmp_path / "maps").write_text("".join(map(line.format, files)))

    monkeypatch.setattr(variant_setup, "MAPPED", tmp_path / "maps")
    monkeypatch.setattr(ctypes.util, "find_library", {}.get)
    load("libc.so.6", "libother.so.1")
    assert process_variables(name) == {}
    assert f"{name} is not installed: on Debian, apt install lib{name}" in refusal()
    monkeypatch.setattr(ctypes.util, "find_library", {"tcmalloc": "libtcmalloc.so.4", library: file}.get)
    assert f"{name} was not loaded into the process" in refusal()
    monkeypatch.setenv("LD_PRELOAD", "liba.so libb.so")  # loaded first in any case
    assert process_variables("channels_last") == {}
    assert process_variables(f"channels_last+{name}") == {"LD_PRELOAD": f"{file} liba.so libb.so"}
    load("libc.so.6", file)
    begin(name, "cpu", "fp32")
    assert "torch keeps the memory of cuda" in refusal("cuda")


def test_only_nvidia_tunes_and_only_the_gnu_library_keeps_memory(monkeypatch):
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    with pytest.raises(NotImplementedError, match="only the GNU C library's allocator"):
        begin("kept_memory", "cpu", "fp32")
    with pytest.raises(NotImplementedError, match="on NVIDIA's GPUs, not on mps"):
        begin("cudnn_benchmark", "mps", "fp32")
    begin("cudnn_benchmark", "cuda", "fp32")
    (tuned,) = parts_of("cudnn_benchmark")
    assert tuned.settings == {"torch.backends.cudnn.benchmark": True}


@pytest.mark.parametrize("device", ["cpu", "mps"])
def test_a_graph_needs_a_gpu_that_launches_one(device):
    with pytest.raises(NotImplementedError, match=f"on NVIDIA's and AMD's GPUs, not on {device}"):
        begin("compile+cuda_graph", device, "fp32")
    begin("compile+cuda_graph", "cuda", "fp32")


def test_cudnn_has_nothing_to_try_in_a_network_without_convolutions():
    torch = pytest.importorskip("torch")
    model = SimpleNamespace(name="net")
    for layer, shape in ((torch.nn.Conv1d(2, 2, 3), (1, 2, 4)), (torch.nn.ConvTranspose3d(2, 2, 3), (1, 2, 3, 3, 3))):
        call = Call(torch.nn.Sequential(torch.nn.ReLU(), layer), (torch.ones(shape),))
        assert change("cudnn_benchmark", call, model) is call
    with pytest.raises(NotImplementedError, match="algorithms of convolutions, which net does not have"):
        change("cudnn_benchmark", Call(torch.nn.Linear(2, 2), (torch.ones(1, 2),)), model)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
@pytest.mark.parametrize("file", ["libtcmalloc.so.4", "libjemalloc.so.2", "libmimalloc.so.2"])
def test_the_c_library_does_not_keep_another_allocators_memory(monkeypatch, tmp_path, file):
    address = ctypes.cast(ctypes.CDLL(None).malloc, ctypes.c_void_p).value
    lines = [
        "7000-8000 r-xp 00000000 08:01 4 /usr/bin/python",
        f"{address - 64:x}-{address + 64:x} r-xp 0 08:01 5 /lib/{file}",
    ]
    (tmp_path / "maps").write_text("\n".join([*lines, "ffffffff600000-ffffffff601000 --xp 00000000 00:00 0"]))
    monkeypatch.setattr(variant_setup, "MAPPED", tmp_path / "maps")
    with pytest.raises(NotImplementedError, match=f"{file} serves this process's memory"):
        begin("kept_memory", "cpu", "fp32")


ALLOCATOR = """
#include <stddef.h>
extern void *__libc_malloc(size_t);
void *malloc(size_t byte) { return __libc_malloc(byte); }
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc" or not shutil.which("cc"), reason="compiles a library for glibc")
def test_a_preloaded_allocator_keeps_no_memory(tmp_path):
    (tmp_path / "own.c").write_text(ALLOCATOR)
    library = str(tmp_path / "libown.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "own.c"], check=True)
    program = [sys.executable, "-c", "from measure.timing.variant_setup import keep_memory; keep_memory('cpu', '')"]
    for preloaded, said in ((library, "libown.so serves this process's memory"), ("", "")):
        given = os.environ | {"LD_PRELOAD": preloaded}
        ran = subprocess.run(program, env=given, cwd=ROOT, capture_output=True, text=True)
        assert (said in ran.stderr, ran.returncode) == (True, 1 if said else 0)


def test_compiling_leaves_no_semaphore_when_it_is_killed(monkeypatch):
    torch, tqdm = pytest.importorskip("torch"), pytest.importorskip("tqdm").tqdm
    monkeypatch.setattr(tqdm, "_lock", None, raising=False)
    change("compile", Call(torch.nn.Linear(2, 2), (torch.ones(1, 2),)), None)
    assert isinstance(tqdm.get_lock(), type(threading.RLock()))  # the default is a semaphore of the system as well
