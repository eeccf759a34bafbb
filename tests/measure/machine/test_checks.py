"""Doctor's checks and their levels: ok, warning, problem."""

import math
from types import SimpleNamespace

import psutil
import pynvml
import pytest

from measure.machine import checks, container, devices, processor
from measure.machine.checks import OK, PROBLEM, UNCHECKED, WARNING, run_trial
from measure.machine.sensors import Reading

GB = 10**9


def write(root, files):
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"{text}\n")


def programs(*used):
    """Processes by name, with the percentage of a core that each used."""
    rows = [{"name": name, "cpu_percent": percent} for name, percent in used]
    return [SimpleNamespace(pid=-1 - number, info=row) for number, row in enumerate(rows)]


@pytest.mark.parametrize(("others_s", "cores", "warns"), [(1.6, 1, False), (2.0, 4, True)])
def test_a_run_on_a_busy_machine_starts_with_a_warning(monkeypatch, others_s, cores, warns):
    # Of 8 s of all cores' time 2 s were idle and others took 2 s: a quarter of 4 cores. 1.6 s are 0.2 cores
    readings = [Reading(), Reading(core_s=8.0, idle_s=2.0, process_s=6.0 - others_s)]
    monkeypatch.setattr(checks.HostLoad, "read", lambda _: readings.pop(0))
    monkeypatch.setattr(checks, "GLANCE_S", 0.0)
    monkeypatch.setattr(checks.os, "cpu_count", lambda: cores)
    monkeypatch.setattr(psutil, "process_iter", lambda _: programs(("editor", 1.0), ("film", 80.0), ("game", 20.0)))
    warning = checks.warning_of_use("cpu")
    assert bool(warning) == warns
    if warning:  # the busiest first, the idle not at all; and what the doctor would do
        assert "1.00 of 4 cores: film (-2) 0.80, game (-3) 0.20. Try: end them, or wait" in warning


@pytest.mark.parametrize(
    ("busy", "limit_s", "waited_s", "lines"),
    [
        ([False], 60.0, 0.0, []),
        # Looks after 5 s and after 10 s, where the second of two finds it busy again, and after 15 s
        ([True, True, False, True, False, False], 60.0, 15.0, ["Waiting for quiet, up to 1 min", "Quiet after 15 s"]),
        ([True] * 9, 12.0, 12.0, ["Waiting for quiet, up to 12 s"]),
    ],
)
def test_a_run_waits_for_quiet_and_says_so(monkeypatch, busy, limit_s, waited_s, lines):
    seconds, looks, messages = [0.0], iter(busy), []
    film = checks.Finding(PROBLEM, "load", "other programs use 1.00 of 4 cores: film (7) 1.00", "end them")
    monkeypatch.setattr(checks, "uses_of_machine", lambda _: [film] if next(looks) else [])
    monkeypatch.setattr(checks.time, "monotonic", lambda: seconds[0])
    monkeypatch.setattr(checks.time, "sleep", lambda pause: seconds.__setitem__(0, seconds[0] + pause))
    assert checks.wait_for_quiet("cpu", limit_s, messages.append) == waited_s
    assert [line.split(":")[0] for line in messages] == lines


@pytest.mark.parametrize(("percent", "uses"), [(0, []), (90, ["cuda:0"])])
def test_a_gpu_in_use_is_reported_too(monkeypatch, percent, uses):
    answers = {"DeviceGetUtilizationRates": SimpleNamespace(gpu=percent), "DeviceGetName": "NVIDIA L4"}
    monkeypatch.setattr(checks, "ask", lambda question, _: answers.get(question))
    monkeypatch.setattr(checks, "GLANCE_S", 0.0)
    monkeypatch.setattr(checks, "load_since", lambda *_: 0.0)
    monkeypatch.setattr(devices, "nvidia_handles", lambda: ["a board"])
    assert [finding.subject for finding in checks.uses_of_machine("cuda:0")] == uses
    assert checks.uses_of_machine("cpu") == []


@pytest.fixture
def host(monkeypatch, tmp_path):
    """Check a host of 8 idle cores with enough memory, but for the changes; return its findings by subject."""

    def check(
        load=0.0, stolen=0.0, usable=8, logical=8, hypervisor="none", quota=math.inf, files=None,
        is_throttled=False, battery=None, free_byte=8 * GB, largest=None, swap_byte=0, moved_byte=0,
    ):  # fmt: skip
        monkeypatch.setattr(psutil, "process_iter", lambda _: [])
        monkeypatch.setattr(checks.os, "cpu_count", lambda: logical)
        monkeypatch.setattr(psutil, "cpu_count", lambda logical: None)
        monkeypatch.setattr(processor, "visible_cores", lambda: usable)
        monkeypatch.setattr(checks, "hypervisor", lambda: hypervisor)
        monkeypatch.setattr(container, "quota_cores", lambda: quota)
        monkeypatch.setattr(container, "physical_cores", lambda: usable)
        monkeypatch.setattr(checks, "SYSTEM_CPUS", tmp_path)
        answer = None if battery is None else SimpleNamespace(power_plugged=battery)
        monkeypatch.setattr(psutil, "sensors_battery", lambda: answer, raising=False)
        monkeypatch.setattr(container, "available_memory_byte", lambda: free_byte)
        write(tmp_path, files or {})
        cores = checks.check_cores(load, stolen)
        memory = checks.check_memory(largest, swap_byte, moved_byte)
        return {each.subject: each for each in (*cores, *checks.check_clock(is_throttled), *memory)}

    return check


def governors(*names):
    return {f"cpufreq/policy{core}/scaling_governor": name for core, name in enumerate(names)}


def throttles(*counts):
    return {f"cpu{core}/thermal_throttle/core_throttle_count": count for core, count in enumerate(counts)}


VGG = ("vgg19", 7 * GB)
LEVELS = [
    ("load", {"load": 0.01}, OK), ("load", {"load": 0.05}, WARNING), ("load", {"load": 0.0625}, PROBLEM),  # 0.5 cores
    ("virtual machine", {"hypervisor": "KVM"}, WARNING), ("virtual machine", {"hypervisor": None}, UNCHECKED),
    ("virtual machine", {"hypervisor": "KVM", "stolen": 0.08}, PROBLEM),  # other guests take time
    ("cores", {"usable": 4}, WARNING), ("cores", {"usable": 1, "logical": 1}, WARNING),
    ("quota", {"quota": math.inf}, OK), ("quota", {"quota": 8.0}, OK), ("quota", {"quota": None}, UNCHECKED),
    ("quota", {"quota": 1.5}, WARNING), ("quota", {"quota": 0.5}, PROBLEM),  # less than one thread
    ("frequency scaling", {"files": governors("performance", "powersave")}, WARNING),
    ("frequency scaling", {"files": governors("performance", "performance")}, OK),
    ("turbo", {"files": {"intel_pstate/no_turbo": "0"}}, WARNING),
    ("turbo", {"files": {"intel_pstate/no_turbo": "1"}}, OK),
    ("turbo", {"files": {"cpufreq/boost": "1"}}, WARNING),
    ("throttling", {"is_throttled": True}, PROBLEM), ("throttling", {"files": throttles(2, 3)}, WARNING),
    ("throttling", {"files": throttles(0, 0)}, OK),
    ("power", {"battery": True}, OK), ("power", {"battery": False}, PROBLEM),
    ("memory", {"free_byte": GB}, PROBLEM),  # less than 2 GiB
    ("memory", {"largest": VGG}, WARNING),  # 1 GB is left for torch
    ("memory", {"largest": VGG, "free_byte": 32 * GB}, OK),
    ("swap", {"swap_byte": 3 * GB}, WARNING), ("swap", {"swap_byte": GB, "moved_byte": 10**8}, PROBLEM),
]  # fmt: skip


@pytest.mark.parametrize(("subject", "changes", "level"), LEVELS)
def test_findings_of_a_host(host, subject, changes, level):
    finding = host(**changes)[subject]
    assert (finding.level, bool(finding.advice)) == (level, level in (WARNING, PROBLEM))


def test_this_machine_can_be_checked(monkeypatch):
    monkeypatch.setattr(checks, "WINDOW_S", 0.05)
    findings = list(checks.check_host(None))
    assert len({finding.subject for finding in findings}) == len(findings) == 10
    assert all(finding.fact for finding in findings)


# GPUs

IDLE = {
    "Name": "NVIDIA H200", "MemoryInfo": SimpleNamespace(used=0), "UtilizationRates": SimpleNamespace(gpu=0),
    "ComputeRunningProcesses": [], "PersistenceMode": 1,
    "CurrentClocksEventReasons": 0, "CurrentClocksThrottleReasons": None,
}  # fmt: skip
FULL, BUSY, SOME_PROCESS = SimpleNamespace(used=9 * GB), SimpleNamespace(gpu=50), SimpleNamespace(pid=2**31 - 1)


@pytest.mark.parametrize(
    ("changes", "levels", "words"),
    [
        ({}, [OK, OK], ""),  # utilization, persistence mode
        (dict.fromkeys(IDLE), [UNCHECKED, UNCHECKED], ""),  # hidden values are findings, too
        ({"ComputeRunningProcesses": [SOME_PROCESS]}, [PROBLEM, OK], f"by process {2**31 - 1}"),
        ({"UtilizationRates": BUSY}, [PROBLEM, OK], "50 % busy, with 0 B in use, by processes that"),
        ({"MemoryInfo": FULL, "UtilizationRates": None}, [WARNING, OK], "with 9.00 GB"),
        ({"MemoryInfo": None, "UtilizationRates": BUSY}, [PROBLEM, OK], "50 % busy, with unknown memory in use"),
        ({"PersistenceMode": 0}, [OK, WARNING], "persistence mode is off"),
        ({"CurrentClocksEventReasons": 0x24}, [OK, OK, PROBLEM], "lowered now (power cap, software thermal)"),
        ({"CurrentClocksEventReasons": 0x04}, [OK, OK, WARNING], "lowered now (power cap)"),
    ],
)
def test_findings_of_a_gpu(monkeypatch, changes, levels, words):
    def refuse(*_):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    monkeypatch.setattr(pynvml, "nvmlDeviceIsMigDeviceHandle", refuse)
    monkeypatch.setattr(devices, "nvidia_handles", lambda: ["handle"])
    for question, answer in (IDLE | changes).items():
        function = refuse if answer is None else lambda *_, answer=answer: answer
        monkeypatch.setattr(pynvml, f"nvmlDeviceGet{question}", function)
    findings = [finding for finding in checks.check_gpus() if finding.subject == "cuda:0"]
    assert [finding.level for finding in findings] == levels
    bad = [finding for finding in findings if finding.level in (WARNING, PROBLEM)]
    assert all(words in finding.fact and finding.advice for finding in bad)


@pytest.mark.parametrize(
    ("restricted", "capabilities", "level"),  # root in Docker lacks CAP_SYS_ADMIN
    [("0", "a80425fb", OK), ("1", "a80425fb", WARNING), ("1", "1ffffffffff", OK), (None, "1ffffffffff", UNCHECKED)],
)
def test_hardware_counters_may_need_an_administrator(monkeypatch, tmp_path, restricted, capabilities, level):
    files = {"status": f"CapPrm:\t000001ffffffffff\nCapEff:\t{capabilities}"}
    if restricted:
        files["params"] = f"ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: {restricted}"
    write(tmp_path, files)
    monkeypatch.setattr(checks, "NVIDIA_DRIVER", tmp_path)
    assert checks.check_counters(tmp_path / "status").level == level


# Libraries; ``verbs/test_doctor`` has the variables


@pytest.mark.parametrize(
    ("code", "limit_s", "answer"),
    [
        ("", 60, ("greetings\n", None)),
        ("import no_such", 60, ("greetings\n", "ModuleNotFoundError: No module named 'no_such'")),
        ("import os; os._exit(3)", 60, ("greetings\n", "exit code 3")),
        ("import time; time.sleep(60)", 0.5, ("", "no answer within 0.5 s")),
    ],
)
def test_a_trial_that_fails_or_hangs_says_why(code, limit_s, answer):
    assert run_trial(f"print('greetings', flush=True)\n{code}", limit_s) == answer


@pytest.mark.parametrize(
    ("name", "has_gpu", "level"),
    [
        ("torch", False, PROBLEM), ("torchaudio", False, WARNING), ("numba", False, WARNING), ("triton", True, WARNING),
        ("triton", False, None), (None, False, None), (None, True, None),  # Triton is needed on a GPU only
        ("compiler", True, WARNING), ("compiler", False, None), ("cuda", True, PROBLEM), ("cuda", False, None),
    ],
)  # fmt: skip
def test_a_missing_library_is_graded_by_its_effect(monkeypatch, name, has_gpu, level):
    names = {trial: name for name, trial, *_ in checks.LIBRARIES}
    says_cuda = "False\n" if name == "cuda" else "True\n"
    failure = "ImportError: no"
    monkeypatch.setattr(checks, "run_trial", lambda trial: (says_cuda, failure if names[trial] == name else None))
    monkeypatch.setattr(devices, "available_names", lambda: ["cuda:0", "cpu"] if has_gpu else ["cpu"])
    monkeypatch.setattr(devices, "nvidia_handles", list)
    monkeypatch.setattr(checks, "installed_version", dict.fromkeys(names.values(), "1.0").get)
    monkeypatch.setenv("CC", "" if name == "compiler" else "gcc")
    monkeypatch.setattr(checks.shutil, "which", lambda _: None)
    findings = [finding for finding in checks.check_libraries() if finding.level != OK]
    assert [finding.level for finding in findings] == [level] * bool(level)
