import ctypes.util

import pytest

from measure.domain import variants
from measure.domain import variants as preloaded
from measure.domain.variants import Variant

JEMALLOC, TCMALLOC = Variant.known["jemalloc"], Variant.known["tcmalloc"]
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
    monkeypatch.setattr(preloaded, "MAPPED", tmp_path / "maps")
    return lambda *files: (tmp_path / "maps").write_text("".join(map(MAPS.format, files)))


def both(install):
    install(jemalloc=ALLOCATORS["jemalloc"], tcmalloc_minimal=ALLOCATORS["tcmalloc"])


@pytest.mark.parametrize(("name", "package"), [("jemalloc", "libjemalloc2"), ("tcmalloc", "libtcmalloc-minimal4")])
def test_an_allocator_that_is_not_installed_is_refused_and_says_how_to_install_it(installed, name, package):
    assert variants.variables(name) == {}
    with pytest.raises(NotImplementedError, match=rf"^{name} is not installed: on Debian, apt install {package}$"):
        Variant.known[name].begin("cpu", "fp32")


@pytest.mark.parametrize(("name", "file"), ALLOCATORS.items())
def test_an_allocator_is_loaded_before_what_is_loaded_first_in_any_case(monkeypatch, installed, name, file):
    both(installed)
    assert variants.variables(name) == {"LD_PRELOAD": file}
    monkeypatch.setenv("LD_PRELOAD", "liba.so libb.so")
    assert variants.variables(name) == {"LD_PRELOAD": f"{file} liba.so libb.so"}
    assert variants.variables(f"channels_last+{name}") == {"LD_PRELOAD": f"{file} liba.so libb.so"}
    assert variants.variables("channels_last") == {}


def test_tcmalloc_is_taken_whole_where_the_minimal_one_is_missing(installed):
    installed(tcmalloc="libtcmalloc.so.4")
    assert TCMALLOC.variables() == {"LD_PRELOAD": "libtcmalloc.so.4"}
    assert JEMALLOC.variables() == {}


@pytest.mark.parametrize(("name", "file"), ALLOCATORS.items())
def test_a_gpus_memory_is_no_allocators(installed, mapped, name, file):
    both(installed)
    mapped(file)
    with pytest.raises(NotImplementedError, match=r"^torch keeps the memory of cuda in any case$"):
        Variant.known[name].begin("cuda", "fp32")


@pytest.mark.parametrize(("name", "file"), ALLOCATORS.items())
def test_an_allocator_that_the_process_did_not_load_is_refused(installed, mapped, name, file):
    both(installed)
    refused = pytest.raises(NotImplementedError, match=rf"^{name} was not loaded into the process that measures$")
    with refused:
        Variant.known[name].begin("cpu", "fp32")
    mapped("libc.so.6", *(other for other in ALLOCATORS.values() if other != file))
    with refused:
        Variant.known[name].begin("cpu", "fp32")


@pytest.mark.parametrize(("name", "file"), ALLOCATORS.items())
def test_an_allocator_that_is_loaded_begins(installed, mapped, name, file):
    both(installed)
    mapped("libc.so.6", f"{file}.5.9")
    Variant.known[name].begin("cpu", "fp32")
