import pytest

from measure.domain.roofs import CacheLevel
from measure.machine import processor
from measure.machine.processor import precision_overrides, tuning

psutil = pytest.importorskip("psutil", reason="cores and memory need psutil")


def test_threads_are_physical_cores_within_those_that_this_process_may_use():
    assert 1 <= processor.physical_cores() <= processor.visible_cores()


def test_hyper_threads_of_one_core_are_no_cores(monkeypatch, tmp_path):
    for core, shared in {0: "0,4", 1: "1,5", 4: "0,4", 5: "1,5"}.items():
        file = tmp_path / f"cpu{core}" / "topology" / "thread_siblings_list"
        file.parent.mkdir(parents=True)
        file.write_text(f"{shared}\n")
    monkeypatch.setattr(processor, "SYSTEM_CPUS", tmp_path)

    def may_use(*cores):
        monkeypatch.setattr(processor.os, "sched_getaffinity", lambda _: set(cores), raising=False)

    may_use(0, 1, 4, 5)
    assert processor.physical_cores() == 2
    may_use(0, 4)
    assert processor.physical_cores() == 1
    may_use(0, 5)
    assert processor.physical_cores() == 2
    may_use(0, 9)  # of which this system says nothing
    monkeypatch.setattr(psutil, "cpu_count", lambda logical: None)
    assert processor.physical_cores() == 2


def test_no_more_memory_is_available_than_there_is():
    assert 0 < processor.available_memory_byte() <= psutil.virtual_memory().total


def test_a_processor_says_its_vendor_family_and_model(monkeypatch):
    amd = {"vendor_id": "AuthenticAMD", "cpu family": "25", "model": "17", "model name": "AMD EPYC"}
    monkeypatch.setattr(processor, "read_cpuinfo", lambda: amd)
    assert processor.cpu_numbers() == ("AuthenticAMD", 25, 17)
    arm = {"CPU implementer": "0x41", "CPU architecture": "8", "CPU part": "0xd4f"}
    monkeypatch.setattr(processor, "read_cpuinfo", lambda: arm)
    assert processor.cpu_numbers() == ("0x41", 8, 3407)  # 0xd4f = 13 * 256 + 4 * 16 + 15
    monkeypatch.setattr(processor, "read_cpuinfo", lambda: {"model": "IBM pSeries", "CPU architecture": "AArch64"})
    assert processor.cpu_numbers() == (None, None, None)


def report_caches(folder, cores):
    """Files such as Linux has them: for each core the level, type, size and sharers of each cache."""
    for core, caches in cores.items():
        for index, lines in enumerate(caches):
            place = folder / f"cpu{core}" / "cache" / f"index{index}"
            place.mkdir(parents=True)
            for name, line in zip(("level", "type", "size", "shared_cpu_list"), lines, strict=True):
                (place / name).write_text(f"{line}\n")


def test_caches_are_those_of_the_cores_in_use_each_once(monkeypatch, tmp_path):
    def of(core, pair):
        return [
            ("1", "Data", "48K", core), ("1", "Instruction", "32K", core),
            ("2", "Unified", "2048K", pair), ("3", "Unified", "32M", "0-3"),
        ]  # fmt: skip

    report_caches(tmp_path, {0: of("0", "0-1"), 1: of("1", "0-1"), 2: of("2", "2-3"), 3: of("3", "2-3")})
    monkeypatch.setattr(processor, "SYSTEM_CPUS", tmp_path)
    monkeypatch.setattr(processor.os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    # Three first-level caches of 48 KiB, two of 2 MiB that two cores share, one of 32 MiB for all
    assert processor.caches() == (
        CacheLevel(1, 3 * 48 * 1024, 3), CacheLevel(2, 2 * 2**21, 2), CacheLevel(3, 2**25, 1),
    )  # fmt: skip


def test_a_system_that_reports_no_caches(monkeypatch, tmp_path):
    monkeypatch.setattr(processor, "SYSTEM_CPUS", tmp_path)
    assert processor.caches() == ()
    report_caches(tmp_path, {core: [("", "", "", "")] for core in range(2)})
    monkeypatch.setattr(processor.os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    assert processor.caches() == ()


def test_what_is_set_is_told_in_the_order_of_names_and_the_rest_is_not():
    variables = {"OMP_WAIT_POLICY": "ACTIVE", "MALLOC_ARENA_MAX": "1", "HOME": "/root", "OMP_NUM_THREADS": "2"}
    assert tuning(variables) == "MALLOC_ARENA_MAX=1;OMP_WAIT_POLICY=ACTIVE"


def test_nothing_or_an_empty_variable_tunes_nothing():
    assert tuning({}) is None
    assert tuning({"OMP_PROC_BIND": ""}) is None


@pytest.mark.parametrize("value", ["/home/me/lib/libjemalloc.so.2:/x/liba.so", "/home/me/lib/libjemalloc.so.2 liba.so"])
def test_of_libraries_loaded_first_only_the_files_are_told(value):
    assert tuning({"LD_PRELOAD": value}) == "LD_PRELOAD=libjemalloc.so.2,liba.so"


def test_the_sign_that_joins_is_not_in_a_value():
    # CPUs by numactl's and glibc's syntaxes have no semicolon; a hand-typed one must not make two settings of one
    assert tuning({"KMP_AFFINITY": "granularity=fine;compact"}) == "KMP_AFFINITY=granularity=fine,compact"


def test_only_variables_with_a_value_override_precisions():
    assert precision_overrides({"OMP_PROC_BIND": "close", "NVIDIA_TF32_OVERRIDE": ""}) == []
    assert precision_overrides({"ONEDNN_DEFAULT_FPMATH_MODE": "BF16"}) == ["ONEDNN_DEFAULT_FPMATH_MODE=BF16"]
