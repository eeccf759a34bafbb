from types import SimpleNamespace

import pytest

from measure.machine import devices, gpus
from measure.machine.gpus import check_counters, check_gpus
from measure.machine.host import OK, PROBLEM, UNCHECKED, WARNING

pynvml = pytest.importorskip("pynvml", reason="GPUs are asked through nvidia-ml-py")

IDLE = {
    "Name": b"NVIDIA H200",
    "MemoryInfo": SimpleNamespace(used=0),
    "UtilizationRates": SimpleNamespace(gpu=0),
    "ComputeRunningProcesses": [],
    "PersistenceMode": 1,
    "EccMode": [1, 0],
    "TotalEccErrors": 0,
    "TemperatureThreshold": 87,
    "Temperature": 35,
    "CurrentClocksEventReasons": 0,
    "CurrentClocksThrottleReasons": None,
}


def refuse(*_):
    raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


@pytest.fixture
def findings(monkeypatch):
    """Return the findings about one GPU, idle and sound but for the changes; None hides a value."""
    monkeypatch.setattr(pynvml, "nvmlDeviceIsMigDeviceHandle", refuse)
    monkeypatch.setattr(devices, "nvidia_handles", lambda: ["handle"])

    def check(**changes):
        for question, answer in (IDLE | changes).items():
            function = refuse if answer is None else lambda *_, answer=answer: answer
            monkeypatch.setattr(pynvml, f"nvmlDeviceGet{question}", function)
        return [finding for finding in check_gpus() if finding.subject == "cuda:0"]

    return check


def used(byte):
    return SimpleNamespace(used=byte)


def busy(percent):
    return SimpleNamespace(gpu=percent)


def test_an_idle_gpu_has_nothing_to_mend(findings):
    assert [finding.level for finding in findings()] == [OK] * 4  # load, persistence, ECC, heat


@pytest.mark.parametrize(
    ("changes", "level", "words"),
    [
        ({"ComputeRunningProcesses": [SimpleNamespace(pid=2**31 - 1)]}, PROBLEM, f"by process {2**31 - 1}"),
        ({"UtilizationRates": busy(50)}, PROBLEM, "50 % busy, with 0.0 GB in use, by processes that are not visible"),
        ({"MemoryInfo": used(9 * 10**9)}, WARNING, "0 % busy, with 9.0 GB in use, by processes that are not"),
        ({"MemoryInfo": used(9 * 10**9), "UtilizationRates": None}, WARNING, "hides its utilization, with 9.0 GB"),
        ({"PersistenceMode": 0}, WARNING, "persistence mode is off"),
        ({"TotalEccErrors": 2}, PROBLEM, "ECC found 2 errors"),
        ({"Temperature": 80}, WARNING, "80 °C (limit 87 °C)"),
        ({"CurrentClocksEventReasons": 0x24}, PROBLEM, "lowered now (power cap, software thermal)"),
        ({"CurrentClocksEventReasons": 0x04}, WARNING, "lowered now (power cap)"),
    ],
)
def test_causes_of_bad_measurements_come_with_advice(findings, changes, level, words):
    (finding,) = [each for each in findings(**changes) if each.level != OK]
    assert finding.level == level
    assert words in finding.fact
    assert finding.advice


def test_cooling_is_no_advice_against_a_power_cap(findings):
    assert "cool" in findings(CurrentClocksEventReasons=0x20)[-1].advice
    assert "cool" not in findings(CurrentClocksEventReasons=0x04)[-1].advice


def test_hidden_values_are_findings(findings):
    hidden = findings(**dict.fromkeys(IDLE))
    assert [finding.level for finding in hidden] == [UNCHECKED] * 4  # load, persistence, ECC, heat
    assert hidden[0].fact == "NVIDIA GPU hides its utilization"


def test_ecc_is_on_or_off(findings):
    assert findings()[2].fact == "ECC is on"
    assert findings(EccMode=[0, 1])[2].fact == "ECC is off"


@pytest.mark.parametrize(
    ("restricted", "capabilities", "level"),
    [
        ("0", "00000000a80425fb", OK),
        ("1", "00000000a80425fb", WARNING),  # root in Docker lacks CAP_SYS_ADMIN
        ("1", "000001ffffffffff", OK),
    ],
)
def test_hardware_counters_may_be_kept_for_administrators(tmp_path, restricted, capabilities, level):
    status = tmp_path / "status"
    status.write_text(f"CapPrm:\t000001ffffffffff\nCapEff:\t{capabilities}\n")
    assert check_counters(tmp_path, status).level == UNCHECKED  # without a file of parameters
    (tmp_path / "params").write_text(f"ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: {restricted}\n")
    assert check_counters(tmp_path, status).level == level


@pytest.mark.parametrize(("has_driver", "level"), [(True, WARNING), (False, UNCHECKED)])
def test_a_machine_without_a_gpu_has_one_finding(monkeypatch, tmp_path, has_driver, level):
    monkeypatch.setattr(devices, "nvidia_handles", list)
    monkeypatch.setattr(gpus, "DRIVER", tmp_path if has_driver else tmp_path / "none")
    assert [finding.level for finding in check_gpus()] == [level]
