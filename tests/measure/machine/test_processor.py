import sys

import psutil
import pytest

from measure.domain.roofs import CacheLevel
from measure.machine import processor
from measure.machine.processor import tuning


@pytest.fixture
def system(monkeypatch, tmp_path):
    """Write Linux's files of some cores; return a function that sets the cores that this process may use."""

    def make(files, cores):
        for path, line in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(f"{line}\n")
        monkeypatch.setattr(processor, "SYSTEM_CPUS", tmp_path)
        monkeypatch.setattr(processor.os, "sched_getaffinity", lambda _: set(cores), raising=False)

    return make


@pytest.mark.parametrize(
    ("cores", "physical"),
    [((0, 1, 4, 5), 2), ((0, 4), 1), ((0, 9), 2)],  # of core 9 this system says nothing
)
def test_hyper_threads_of_one_core_are_no_cores(monkeypatch, system, cores, physical):
    pairs = {0: "0,4", 1: "1,5", 4: "0,4", 5: "1,5"}
    system({f"cpu{core}/topology/thread_siblings_list": pair for core, pair in pairs.items()}, cores)
    monkeypatch.setattr(psutil, "cpu_count", lambda logical: None)
    assert processor.physical_cores() == physical


def cache_files(core, *caches):
    names = ("level", "type", "size", "shared_cpu_list")
    return {
        f"cpu{core}/cache/index{index}/{name}": line
        for index, lines in enumerate(caches)
        for name, line in zip(names, lines, strict=True)
    }


def test_caches_are_those_of_the_cores_in_use_each_once(system):
    files = {}
    for core, pair in enumerate(("0-1", "0-1", "2-3", "2-3")):
        own = [("1", "Data", "48K", core), ("1", "Instruction", "32K", core)]
        files |= cache_files(core, *own, ("2", "Unified", "2048K", pair), ("3", "Unified", "32M", "0-3"))
    system(cache_files(0, ("", "", "", "")), (0, 1))
    assert processor.caches() == ()  # nothing is reported
    system(files, (0, 1, 2))
    # Three first-level caches of 48 KiB, two of 2 MiB that two cores share, one of 32 MiB for all
    levels = (CacheLevel(1, 3 * 48 * 1024, 3), CacheLevel(2, 2 * 2**21, 2), CacheLevel(3, 2**25, 1))
    assert processor.caches() == levels


HIDDEN = """\
processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 207
model name\t: Intel(R) Xeon(R) Processor
stepping\t: 2
flags\t\t: fpu sse2 avx avx2 fma avx512f avx512_vnni hypervisor avx512_bf16 amx_bf16 amx_tile amx_int8
"""
GRAVITON = """\
processor\t: {core}
Features\t: fp asimd asimdhp cpuid asimddp sve i8mm bf16
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x1
CPU part\t: {part}
CPU revision\t: 1
"""


@pytest.mark.parametrize(
    ("cpuinfo", "numbers", "extensions"),
    [
        (HIDDEN, ("GenuineIntel", 6, 207, 2), "amx_int8 amx_bf16 avx512_bf16 avx512_vnni avx512f avx2 avx sse2"),
        # Neoverse V1: 0xd40 = 13 * 256 + 4 * 16
        ("\n".join(GRAVITON.format(core=core, part="0xd40") for core in (0, 1)), ("0x41", 8, 3392, None),
         "sve i8mm bf16 asimddp asimdhp asimd"),
        # A phone's fast and slow cores: no one number holds
        ("\n".join(GRAVITON.format(core=core, part=part) for core, part in enumerate(("0xd05", "0xd0b"))),
         ("0x41", 8, None, None), "sve i8mm bf16 asimddp asimdhp asimd"),
        ("model\t: IBM pSeries\nCPU architecture: AArch64\n", (None, None, None, None), None),
    ],
)  # fmt: skip
def test_a_processor_says_its_numbers_even_if_its_name_is_hidden(monkeypatch, tmp_path, cpuinfo, numbers, extensions):
    (tmp_path / "cpuinfo").write_text(cpuinfo)
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "cpuinfo")
    assert processor.cpu_numbers() == numbers
    assert processor.vector_extension() == extensions


@pytest.mark.parametrize(("name", "numbers"), [("Apple M2 Pro", ("Apple", 2, None, None)), ("Intel", (None,) * 4)])
def test_an_apple_processor_has_its_generation(monkeypatch, tmp_path, name, numbers):
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "none")
    monkeypatch.setattr(processor, "output_of", lambda *_: name)
    monkeypatch.setattr(processor.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(processor.platform, "machine", lambda: "arm64")
    assert processor.cpu_numbers() == numbers
    assert processor.vector_extension() == "asimd"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        # In the order of names, and no other variables
        ({"OMP_WAIT_POLICY": "ACTIVE", "MALLOC_ARENA_MAX": "1", "HOME": "/root", "OMP_NUM_THREADS": "2"},
         "MALLOC_ARENA_MAX=1;OMP_WAIT_POLICY=ACTIVE"),
        ({"OMP_PROC_BIND": ""}, None),
        # Of libraries loaded first only the files
        ({"LD_PRELOAD": "/home/me/lib/libjemalloc.so.2:/x/liba.so"}, "LD_PRELOAD=libjemalloc.so.2,liba.so"),
        # CPUs by numactl's and glibc's syntaxes have no semicolon; a hand-typed one must not make two settings of one
        ({"KMP_AFFINITY": "granularity=fine;compact"}, "KMP_AFFINITY=granularity=fine,compact"),
        # Paths lose their folders
        ({"MALLOC_CONF": "prof_prefix:/home/ada/jeprof,prof:true"}, "MALLOC_CONF=prof_prefix:jeprof,prof:true"),
        ({"MALLOC_CONF": "prof_prefix:/home/ada love/jeprof"}, "MALLOC_CONF=prof_prefix:jeprof"),
        ({"MALLOC_CONF": "prof_prefix:C:\\\\Users\\\\ada\\\\jeprof"}, "MALLOC_CONF=prof_prefix:C:jeprof"),
        ({"MALLOC_CONF": "background_thread:true"}, "MALLOC_CONF=background_thread:true"),
    ],
)  # fmt: skip
def test_the_variables_that_tune(variables, expected):
    assert tuning(variables) == expected


def test_text_in_another_encoding_is_read(tmp_path):
    (tmp_path / "model").write_bytes(b"Prozessor f\xfcr alle\n")
    assert processor.content_of(tmp_path / "model") == "Prozessor f\ufffdr alle"
    program = "import sys; sys.stdout.buffer.write(b'f\\xfcr')"
    assert processor.output_of(sys.executable, "-c", program) == "f\ufffdr"
