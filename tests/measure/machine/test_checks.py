from types import SimpleNamespace

import pytest

from measure.machine import checks, devices, processor
from measure.machine.checks import OK, PROBLEM, UNCHECKED, WARNING, grade, quota_cores, run_trial
from measure.machine.sensors import Reading

psutil = pytest.importorskip("psutil", reason="load and memory need psutil")

GB = 10**9


def write(root, files):
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"{text}\n")


def by_subject(findings):
    return {finding.subject: finding for finding in findings}


@pytest.mark.parametrize(("value", "level"), [(0.0, OK), (0.1, WARNING), (0.4, WARNING), (0.5, PROBLEM), (9, PROBLEM)])
def test_a_value_is_graded_by_the_limits_that_it_reaches(value, level):
    finding = grade("load", value, "fact")
    assert finding.level == level
    assert bool(finding.advice) == (level != OK)


def test_a_hidden_value_is_unchecked():
    assert grade("turbo", None, "fact") == checks.Finding(UNCHECKED, "turbo", "turbo is not reported here")


# The host


@pytest.mark.parametrize(
    ("others_s", "warning"), [(0.0, None), (1.6, None), (2.0, "Other programs use 1.0 of this machine's cores: ")]
)
def test_a_run_on_a_busy_machine_starts_with_a_warning(monkeypatch, others_s, warning):
    # Of 8 s of all 4 cores' time 2 s were idle and others took 2 s: a quarter of 4 cores. 1.6 s are 0.8 cores
    closing = Reading(core_s=8.0, idle_s=2.0, process_s=6.0 - others_s)
    readings = [Reading(), closing]
    monkeypatch.setattr(checks.HostLoad, "read", lambda _: readings.pop(0))
    monkeypatch.setattr(checks, "GLANCE_S", 0.0)
    monkeypatch.setattr(checks.os, "cpu_count", lambda: 4 if others_s == 2.0 else 1)
    told = checks.warning_of_load()
    assert told is None if warning is None else told.startswith(warning)


@pytest.fixture
def cores(monkeypatch):
    """Check a machine of 8 idle cores, but for the changes."""
    monkeypatch.setattr(psutil, "process_iter", lambda _: [])

    def check(load=0.0, stolen=0.0, usable=8, logical=8, host="none", quota=None):
        monkeypatch.setattr(checks.os, "cpu_count", lambda: logical)
        monkeypatch.setattr(psutil, "cpu_count", lambda logical: None)
        monkeypatch.setattr(processor, "visible_cores", lambda: usable)
        monkeypatch.setattr(checks, "hypervisor", lambda: host)
        monkeypatch.setattr(checks, "quota_cores", lambda: quota)
        return by_subject(checks.check_cores(load, stolen))

    return check


def test_load_names_the_busiest_processes(monkeypatch, cores):
    def process(pid, name, percent):
        return SimpleNamespace(pid=pid, info={"name": name, "cpu_percent": percent})

    processes = [process(7, "make", 90.0), process(8, "sh", 1.0), process(9, "ls", None), process(10, "cc", 120.0)]
    monkeypatch.setattr(psutil, "process_iter", lambda _: processes)
    assert cores(load=0.25)["load"].fact == "other programs use 2.00 of 8 cores: cc (10) 1.20, make (7) 0.90"


@pytest.mark.parametrize(
    ("host", "stolen", "level"),
    [("KVM", 0.0, WARNING), ("KVM", 0.08, PROBLEM), ("none", 0.0, OK), (None, 0.0, UNCHECKED)],
)
def test_a_virtual_machine_is_a_warning_and_a_problem_if_other_guests_take_time(cores, host, stolen, level):
    assert cores(host=host, stolen=stolen)["virtual machine"].level == level


@pytest.mark.parametrize(("usable", "logical", "level"), [(8, 8, OK), (4, 8, WARNING), (1, 1, WARNING)])
def test_a_part_of_the_cores_and_a_single_core_are_warnings(cores, usable, logical, level):
    assert cores(usable=usable, logical=logical)["cores"].level == level


@pytest.mark.parametrize(("quota", "level"), [(None, OK), (8.0, OK), (1.5, PROBLEM)])
def test_a_quota_below_the_threads_is_a_problem(cores, quota, level):
    assert cores(quota=quota)["quota"].level == level


def test_the_tightest_quota_of_a_group_and_its_parents_counts(tmp_path):
    own, groups = tmp_path / "cgroup", tmp_path / "groups"
    assert quota_cores(own, groups) is None  # no control groups
    own.write_text("0::/docker/box\n")
    write(groups, {"docker/cpu.max": "150000 100000", "docker/box/cpu.max": "max 100000"})
    assert quota_cores(own, groups) == 1.5
    write(groups, {"docker/box/cpu.max": "50000 100000"})
    assert quota_cores(own, groups) == 0.5
    write(groups, {"docker/cpu.max": "max 100000", "docker/box/cpu.max": "max 100000"})
    assert quota_cores(own, groups) is None


def test_a_container_sees_its_own_group_at_the_root(tmp_path):
    own = tmp_path / "cgroup"
    own.write_text("0::/not/shown/here\n")
    write(tmp_path / "groups", {"cpu.max": "200000 100000"})
    assert quota_cores(own, tmp_path / "groups") == 2.0


@pytest.fixture
def clock(monkeypatch, tmp_path):
    """Check the clock of a processor with these files of Linux."""
    monkeypatch.setattr(checks, "SYSTEM_CPUS", tmp_path)

    def check(files, is_throttled=False):
        write(tmp_path, files)
        return by_subject(checks.check_clock(is_throttled))

    return check


def test_a_governor_other_than_performance_is_a_warning(clock):
    assert clock({})["frequency scaling"].level == UNCHECKED
    names = ("powersave", "powersave", "performance")
    files = {f"cpufreq/policy{core}/scaling_governor": name for core, name in enumerate(names)}
    assert clock(files)["frequency scaling"].fact == "the governor is performance, powersave"
    assert clock(dict.fromkeys(files, "performance"))["frequency scaling"].level == OK


@pytest.mark.parametrize(
    ("file", "text", "level"),
    [
        ("intel_pstate/no_turbo", "0", WARNING),
        ("intel_pstate/no_turbo", "1", OK),
        ("cpufreq/boost", "1", WARNING),
        ("cpufreq/boost", "0", OK),
        ("other", "1", UNCHECKED),
    ],
)
def test_turbo_is_read_from_the_driver_of_either_vendor(clock, file, text, level):
    assert clock({file: text})["turbo"].level == level


def test_throttling_is_counted_over_cores(clock):
    assert clock({})["throttling"].level == UNCHECKED
    assert clock({}, is_throttled=True)["throttling"].level == PROBLEM
    files = {f"cpu{core}/thermal_throttle/core_throttle_count": core for core in (2, 3)}
    assert clock(files)["throttling"].fact == "heat has lowered the clock 5 times since the machine started"  # 2 + 3
    assert clock(files)["throttling"].level == WARNING
    assert clock(dict.fromkeys(files, 0))["throttling"].level == OK


@pytest.mark.parametrize(("battery", "level"), [(None, OK), (True, OK), (False, PROBLEM)])
def test_a_machine_on_battery_is_a_problem(monkeypatch, clock, battery, level):
    answer = None if battery is None else SimpleNamespace(power_plugged=battery)
    monkeypatch.setattr(psutil, "sensors_battery", lambda: answer, raising=False)
    assert clock({})["power"].level == level


@pytest.mark.parametrize(
    ("free_byte", "largest", "level"),
    [
        (GB, None, PROBLEM),  # less than 2 GiB
        (8 * GB, None, OK),
        (8 * GB, ("vgg19", 7 * GB), WARNING),  # 1 GB is left for torch
        (32 * GB, ("vgg19", 7 * GB), OK),
    ],
)
def test_memory_holds_torch_and_the_largest_cell(monkeypatch, free_byte, largest, level):
    monkeypatch.setattr(processor, "available_memory_byte", lambda: free_byte)
    assert by_subject(checks.check_memory(largest, 0, 0))["memory"].level == level


@pytest.mark.parametrize(("used_byte", "moved_byte", "level"), [(0, 0, OK), (3 * GB, 0, WARNING), (GB, 10**8, PROBLEM)])
def test_swap_in_use_is_a_warning_and_swap_that_moves_a_problem(used_byte, moved_byte, level):
    assert by_subject(checks.check_memory(None, used_byte, moved_byte))["swap"].level == level


def test_this_machine_can_be_checked(monkeypatch):
    monkeypatch.setattr(checks, "WINDOW_S", 0.05)
    findings = list(checks.check_host(None))
    assert len({finding.subject for finding in findings}) == len(findings) == 10
    assert all(finding.fact for finding in findings)


# GPUs

pynvml = pytest.importorskip("pynvml", reason="GPUs are asked through nvidia-ml-py")

IDLE = {
    "Name": "NVIDIA H200",
    "MemoryInfo": SimpleNamespace(used=0),
    "UtilizationRates": SimpleNamespace(gpu=0),
    "ComputeRunningProcesses": [],
    "PersistenceMode": 1,
    "CurrentClocksEventReasons": 0,
    "CurrentClocksThrottleReasons": None,
}


def refuse(*_):
    raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


@pytest.fixture
def gpu(monkeypatch):
    """Check one GPU, idle and sound but for the changes; None hides a value."""
    monkeypatch.setattr(pynvml, "nvmlDeviceIsMigDeviceHandle", refuse)
    monkeypatch.setattr(devices, "nvidia_handles", lambda: ["handle"])

    def check(**changes):
        for question, answer in (IDLE | changes).items():
            function = refuse if answer is None else lambda *_, answer=answer: answer
            monkeypatch.setattr(pynvml, f"nvmlDeviceGet{question}", function)
        return [finding for finding in checks.check_gpus() if finding.subject == "cuda:0"]

    return check


def test_an_idle_gpu_has_nothing_to_mend(gpu):
    assert [finding.level for finding in gpu()] == [OK] * 2  # utilization, persistence mode


@pytest.mark.parametrize(
    ("changes", "level", "words"),
    [
        ({"ComputeRunningProcesses": [SimpleNamespace(pid=2**31 - 1)]}, PROBLEM, f"by process {2**31 - 1}"),
        ({"UtilizationRates": SimpleNamespace(gpu=50)}, PROBLEM, "50 % busy, with 0 B in use, by processes that"),
        ({"MemoryInfo": SimpleNamespace(used=9 * GB)}, WARNING, "0 % busy, with 9.00 GB in use, by processes that"),
        ({"MemoryInfo": SimpleNamespace(used=9 * GB), "UtilizationRates": None}, WARNING, "utilization, with 9.00 GB"),
        ({"PersistenceMode": 0}, WARNING, "persistence mode is off"),
        ({"CurrentClocksEventReasons": 0x24}, PROBLEM, "lowered now (power cap, software thermal)"),
        ({"CurrentClocksEventReasons": 0x04}, WARNING, "lowered now (power cap)"),
    ],
)
def test_causes_of_bad_measurements_come_with_advice(gpu, changes, level, words):
    (finding,) = [each for each in gpu(**changes) if each.level != OK]
    assert finding.level == level
    assert words in finding.fact
    assert finding.advice


def test_hidden_values_are_findings(gpu):
    assert [finding.level for finding in gpu(**dict.fromkeys(IDLE))] == [UNCHECKED] * 2


@pytest.mark.parametrize(
    ("restricted", "capabilities", "level"),
    [
        ("0", "00000000a80425fb", OK),
        ("1", "00000000a80425fb", WARNING),  # root in Docker lacks CAP_SYS_ADMIN
        ("1", "000001ffffffffff", OK),
    ],
)
def test_hardware_counters_may_be_kept_for_administrators(monkeypatch, tmp_path, restricted, capabilities, level):
    status = tmp_path / "status"
    status.write_text(f"CapPrm:\t000001ffffffffff\nCapEff:\t{capabilities}\n")
    monkeypatch.setattr(checks, "NVIDIA_DRIVER", tmp_path)
    assert checks.check_counters(status).level == UNCHECKED  # without a file of parameters
    (tmp_path / "params").write_text(f"ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: {restricted}\n")
    assert checks.check_counters(status).level == level


@pytest.mark.parametrize(("has_driver", "level"), [(True, WARNING), (False, UNCHECKED)])
def test_a_machine_without_a_gpu_has_one_finding(monkeypatch, tmp_path, has_driver, level):
    monkeypatch.setattr(devices, "nvidia_handles", list)
    monkeypatch.setattr(checks, "NVIDIA_DRIVER", tmp_path if has_driver else tmp_path / "none")
    assert [finding.level for finding in checks.check_gpus()] == [level]


# Libraries and variables


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise RuntimeError('operator torchvision::nms does not exist')", "RuntimeError: operator torchvision::nms"),
        ("import no_such_package", "ModuleNotFoundError: No module named 'no_such_package'"),
        ("import os; os._exit(3)", "exit code 3"),
    ],
)
def test_a_trial_that_fails_says_why(code, reason):
    output, failure = run_trial(f"print('greetings', flush=True)\n{code}")
    assert output == "greetings\n"
    assert failure.startswith(reason)


def test_a_trial_that_hangs_ends_at_its_limit():
    assert run_trial("import time; time.sleep(60)", limit_s=1.0) == ("", "no answer within 1 s")


@pytest.fixture
def libraries(monkeypatch):
    """Check libraries that all import and fit, but for these failures; without a GPU."""

    def check(failures=(), has_gpu=False, cuda="True", compiler="gcc"):
        names = {trial: name for name, trial, *_ in checks.LIBRARIES}
        monkeypatch.setattr(checks, "run_trial", lambda trial: (f"{cuda}\n", dict(failures).get(names[trial])))
        monkeypatch.setattr(devices, "available_names", lambda: ["cuda:0", "cpu"] if has_gpu else ["cpu"])
        monkeypatch.setattr(devices, "nvidia_handles", list)
        monkeypatch.setattr(checks, "installed_version", dict.fromkeys(names.values(), "1.0").get)
        monkeypatch.setenv("CC", compiler)
        monkeypatch.setattr(checks.shutil, "which", lambda _: None)
        return [finding for finding in checks.check_libraries() if finding.level != OK]

    return check


def test_libraries_that_import_are_well(libraries):
    assert libraries() == []
    assert libraries(has_gpu=True) == []


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("torch", PROBLEM), ("torchvision", PROBLEM), ("torchaudio", WARNING), ("psutil", PROBLEM),
        ("numba", WARNING), ("rich", PROBLEM),
    ],
)  # fmt: skip
def test_a_library_that_does_not_import_is_weighed_by_its_effect(libraries, name, level):
    (finding,) = libraries(failures={name: "ImportError: no"})
    assert finding.level == level
    assert finding.fact.startswith(f"{name} 1.0 does not import (ImportError: no): ")
    assert ("constraints.txt" if name.startswith("torch") else f"--force-reinstall {name}") in finding.advice


def test_triton_is_needed_on_a_gpu_only(libraries):
    assert libraries(failures={"triton": "ImportError: no driver"}) == []
    (finding,) = libraries(failures={"triton": "ImportError: no driver"}, has_gpu=True)
    assert finding.level == WARNING


def test_triton_needs_a_c_compiler(libraries):
    (finding,) = libraries(has_gpu=True, compiler="")
    assert finding.fact.startswith("Triton finds no C compiler")


def test_a_gpu_that_torch_cannot_use_is_a_problem(libraries):
    (finding,) = libraries(has_gpu=True, cuda="False")
    assert (finding.level, finding.fact) == (PROBLEM, "torch 1.0 cannot use it")
    assert libraries(cuda="False") == []


def test_an_untuned_machine_is_well():
    (finding,) = checks.check_tuning({"PATH": "/bin"})
    assert (finding.level, finding.subject) == (OK, "tuning")


def test_a_variable_that_tunes_is_a_warning_that_names_it():
    (finding,) = checks.check_tuning({"OMP_PROC_BIND": "close", "ATEN_CPU_CAPABILITY": "avx2"})
    assert finding.level == WARNING
    assert finding.fact.endswith("ATEN_CPU_CAPABILITY=avx2, OMP_PROC_BIND=close")


def test_a_variable_that_overrides_precisions_is_a_problem():
    problem, rest = checks.check_tuning({"NVIDIA_TF32_OVERRIDE": "0"})
    assert (problem.level, problem.advice, rest.level) == (PROBLEM, "unset it", OK)
