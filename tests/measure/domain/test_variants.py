import ctypes.util
import os
import platform
import subprocess
import sys

import pytest
from helpers.places import ROOT

from measure.domain import variants
from measure.errors import UserError


def begin(name, device_kind):
    (variant,) = variants.parts_of(name)
    variant.begin(device_kind, "fp32")


def test_a_variant_has_one_name_with_parts_in_an_order_and_an_optimiser_other_than_the_default_last():
    everything = "autocast+channels_last+kept_memory+compile+cold+cudnn_benchmark"
    for name in ("eager", everything):
        assert variants.canonical_name("+".join(reversed(name.split("+")))) == variants.canonical_name(name) == name
    assert "+".join(each.name for each in variants.parts_of(f"{everything}+adam")) == everything
    assert variants.parts_of("eager") == ()
    names = {("cold", "sgd"): "cold", ("eager", "adam"): "adam", ("cold+compile", "adam"): "cold+compile+adam"}
    assert {each: variants.with_optimizer(*each) for each in names} == names
    assert [variants.uses_adam(name) for name in names.values()] == [False, True, True]


def test_a_word_that_is_no_variant_and_a_second_name_of_a_cell_are_refused():
    unknown, twice = (
        ("fast", "compile+fast", "compile,cold", "", "compile+"),
        ("cold+cold", "eager+eager", "eager+cold"),
    )
    for texts, said in ((unknown, "is not one of eager, autocast"), (twice, "joins a part twice")):
        for text in texts:
            with pytest.raises(UserError, match=f"--variants: .* {said}"):
                variants.canonical_name(text)


ASK = """
import ctypes, resource, sys
from measure.domain.variants import keep_memory

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
def test_memory_that_is_kept_causes_no_page_faults():
    # 64 MiB are 32 pages if they are huge ones of 2 MiB, and more of any other size.
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "LD_"))}
    programs = [[sys.executable, "-c", ASK, how] for how in ("default", "kept")]
    default, kept = (int(subprocess.check_output(program, env=plain, cwd=ROOT)) for program in programs)
    assert kept < 1 <= 32 <= default


ALLOCATORS = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4"}
"""By a variant's name the file that the linker's cache has of it."""


@pytest.fixture
def install(monkeypatch, tmp_path):
    """Say which libraries the linker finds, and which this process has loaded: at first none."""
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    monkeypatch.setattr(variants, "MAPPED", tmp_path / "maps")

    def install(*loaded, **files):
        monkeypatch.setattr(ctypes.util, "find_library", files.get)
        # A link leads to a file, which /proc/self/maps names
        line = "7f0000000000-7f0000001000 r-xp 00000000 08:01 42    /usr/lib/x86_64-linux-gnu/{}.5.9\n"
        (tmp_path / "maps").write_text("".join(map(line.format, loaded)))

    install()
    return install


def test_an_allocator_is_loaded_before_what_is_loaded_first_in_any_case(monkeypatch, install):
    assert variants.process_variables("tcmalloc") == {}
    install(tcmalloc="libtcmalloc.so.4")  # whole, where the minimal one is missing
    assert variants.process_variables("tcmalloc") == {"LD_PRELOAD": "libtcmalloc.so.4"}
    install(jemalloc=ALLOCATORS["jemalloc"], tcmalloc="libtcmalloc.so.4", tcmalloc_minimal=ALLOCATORS["tcmalloc"])
    monkeypatch.setenv("LD_PRELOAD", "liba.so libb.so")
    expected = {"channels_last": {}} | {
        f"channels_last+{name}": {"LD_PRELOAD": f"{file} liba.so libb.so"} for name, file in ALLOCATORS.items()
    }
    assert {name: variants.process_variables(name) for name in expected} == expected


@pytest.mark.parametrize(("name", "file"), ALLOCATORS.items())
def test_an_allocator_begins_where_it_is_installed_the_process_loaded_it_and_memory_is_the_hosts(install, name, file):
    def refusal(device="cpu"):
        with pytest.raises(NotImplementedError) as caught:
            begin(name, device)
        return str(caught.value)

    assert f"{name} is not installed: on Debian, apt install lib{name}" in refusal()
    found = {"jemalloc": ALLOCATORS["jemalloc"], "tcmalloc_minimal": ALLOCATORS["tcmalloc"]}
    install("libc.so.6", *(other for other in ALLOCATORS.values() if other != file), **found)
    assert f"{name} was not loaded into the process" in refusal()
    install("libc.so.6", file, **found)
    begin(name, "cpu")
    assert "torch keeps the memory of cuda" in refusal("cuda")


def test_cudnn_times_its_algorithms_on_nvidias_gpus_and_the_gnu_c_library_alone_keeps_memory(monkeypatch):
    torch = pytest.importorskip("torch", reason="cuDNN is set through torch")
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)  # as it is by default; put back at the end
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    with pytest.raises(NotImplementedError, match="only the GNU C library's allocator"):
        begin("kept_memory", "cpu")
    with pytest.raises(NotImplementedError, match="on NVIDIA's GPUs, not on mps"):
        begin("cudnn_benchmark", "mps")
    begin("cudnn_benchmark", "cuda")
    assert torch.backends.cudnn.benchmark
