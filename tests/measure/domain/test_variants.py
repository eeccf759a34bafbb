import ctypes.util
import os
import platform
import subprocess
import sys

import pytest
from helpers.places import ROOT

from measure.domain import variants
from measure.errors import UserError


def begin(name, device_kind, precision):
    (variant,) = variants.parts_of(name)
    variant.begin(device_kind, precision)


@pytest.mark.parametrize(
    ("text", "name", "parts"),
    [
        ("eager", "eager", []),
        ("adam", "adam", []),
        ("compile", "compile", ["compile"]),
        ("compile+channels_last", "channels_last+compile", ["channels_last", "compile"]),
        (
            "cold+compile+channels_last+autocast",
            "autocast+channels_last+compile+cold",
            ["autocast", "channels_last", "compile", "cold"],
        ),
        ("compile+kept_memory", "kept_memory+compile", ["kept_memory", "compile"]),
        ("cudnn_benchmark+compile", "compile+cudnn_benchmark", ["compile", "cudnn_benchmark"]),
    ],
)
def test_a_variant_has_one_name_and_parts_in_its_order(text, name, parts):
    if text != "adam":  # which an optimiser adds
        assert variants.canonical_name(text) == variants.canonical_name(name) == name
    assert [each.name for each in variants.parts_of(text)] == parts


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *((text, "is not one of eager, autocast") for text in ("fast", "compile+fast", "compile,cold", "", "compile+")),
        *((text, "joins a part twice") for text in ("cold+cold", "eager+eager", "eager+cold", "cold+eager")),
    ],
)
def test_a_word_that_is_no_variant_and_a_second_name_of_a_cell_are_refused(text, said):
    with pytest.raises(UserError, match=f"--variants: .* {said}"):
        variants.canonical_name(text)


def test_the_first_call_may_take_longer_where_it_sets_something_up():
    alone = [variants.first_call_s(name) for name in ("compile", "cudnn_benchmark")]
    assert min(alone) > 60.0  # more than any call may take
    assert variants.first_call_s("channels_last+compile+cudnn_benchmark") == sum(alone)
    assert variants.first_call_s("eager") == variants.first_call_s("cold") == 0.0


@pytest.mark.parametrize(
    ("variant", "optimizer", "name"),
    [
        ("eager", "sgd", "eager"),
        ("cold", "sgd", "cold"),
        ("eager", "adam", "adam"),
        ("autocast+compile", "adam", "autocast+compile+adam"),
    ],
)
def test_an_optimiser_other_than_the_default_is_the_last_part(variant, optimizer, name):
    assert variants.with_optimizer(variant, optimizer) == name
    assert variants.uses_adam(name) == (optimizer == "adam")


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
    keep_memory("cpu", "fp32")
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


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library than GNU's")
def test_memory_that_is_kept_causes_no_page_faults():
    # 64 MiB are 32 pages if they are huge ones of 2 MiB, and more of any other size.
    assert page_faults("default") >= 32
    assert page_faults("kept") < 1


def test_another_library_is_refused(monkeypatch):
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    with pytest.raises(NotImplementedError, match="only the GNU C library's allocator"):
        variants.keep_memory("cpu", "fp32")


ALLOCATORS = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4"}
"""By a variant's name the file that the linker's cache has of it."""

MAPS = "7f0000000000-7f0000001000 r-xp 00000000 08:01 42    /usr/lib/x86_64-linux-gnu/{}\n"
"""A line of /proc/self/maps, which names the file that a link leads to."""


@pytest.fixture
def installed(monkeypatch):
    """Say which libraries there are: at first none. Nothing is preloaded, whatever is set where the tests run."""
    monkeypatch.delenv("LD_PRELOAD", raising=False)

    def install(**files):
        monkeypatch.setattr(ctypes.util, "find_library", files.get)

    install()
    return install


@pytest.fixture
def mapped(monkeypatch, tmp_path):
    """Say what this process has loaded: at first the file is not there, as on other systems."""
    monkeypatch.setattr(variants, "MAPPED", tmp_path / "maps")
    return lambda *files: (tmp_path / "maps").write_text("".join(map(MAPS.format, files)))


@pytest.fixture
def both(installed):
    installed(jemalloc=ALLOCATORS["jemalloc"], tcmalloc_minimal=ALLOCATORS["tcmalloc"])


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize(
    ("variant", "preloaded", "expected"),
    [
        *((name, "", file) for name, file in ALLOCATORS.items()),
        *((name, "liba.so libb.so", f"{file} liba.so libb.so") for name, file in ALLOCATORS.items()),
        ("channels_last+jemalloc", "liba.so", "libjemalloc.so.2 liba.so"),
        ("channels_last", "liba.so", None),
    ],
)
def test_an_allocator_is_loaded_before_what_is_loaded_first_in_any_case(monkeypatch, variant, preloaded, expected):
    if preloaded:
        monkeypatch.setenv("LD_PRELOAD", preloaded)
    assert variants.process_variables(variant) == ({} if expected is None else {"LD_PRELOAD": expected})


def test_tcmalloc_is_taken_whole_where_the_minimal_one_is_missing(installed):
    installed(tcmalloc="libtcmalloc.so.4")
    assert variants.process_variables("tcmalloc") == {"LD_PRELOAD": "libtcmalloc.so.4"}
    assert variants.process_variables("jemalloc") == {}


@pytest.mark.parametrize(("name", "package"), [("jemalloc", "libjemalloc2"), ("tcmalloc", "libtcmalloc-minimal4")])
def test_an_allocator_that_is_not_installed_is_refused_and_says_how_to_install_it(installed, name, package):
    assert variants.process_variables(name) == {}
    with pytest.raises(NotImplementedError, match=f"{name} is not installed: .*{package}$"):
        begin(name, "cpu", "fp32")


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize(("name", "file"), ALLOCATORS.items())
def test_an_allocator_begins_where_the_process_loaded_it_and_memory_is_the_hosts(mapped, name, file):
    not_loaded = pytest.raises(NotImplementedError, match=f"{name} was not loaded into the process")
    with not_loaded:
        begin(name, "cpu", "fp32")
    mapped("libc.so.6", *(other for other in ALLOCATORS.values() if other != file))
    with not_loaded:
        begin(name, "cpu", "fp32")
    mapped("libc.so.6", f"{file}.5.9")
    begin(name, "cpu", "fp32")
    with pytest.raises(NotImplementedError, match="torch keeps the memory of cuda"):
        begin(name, "cuda", "fp32")


def test_cudnn_times_its_algorithms_in_this_variant(monkeypatch):
    torch = pytest.importorskip("torch", reason="cuDNN is set through torch")
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)  # as it is by default; put back at the end
    begin("cudnn_benchmark", "cuda", "fp32")
    assert torch.backends.cudnn.benchmark


@pytest.mark.parametrize("kind", ["cpu", "mps"])
def test_a_device_without_cudnn_has_no_such_variant(kind):
    with pytest.raises(NotImplementedError, match=f"on NVIDIA's GPUs, not on {kind}"):
        begin("cudnn_benchmark", kind, "fp32")
