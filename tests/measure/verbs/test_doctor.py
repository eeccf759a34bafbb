import sys
from pathlib import Path

import pytest

from measure.__main__ import main
from measure.cache.folders import Workloads
from measure.cache.workload_records import Workload
from measure.machine import checks
from measure.machine.checks import OK, PROBLEM, WARNING, Finding

QUIET = Finding(OK, "load", "other programs use 0.01 of 8 cores")
BATTERY = Finding(PROBLEM, "power", "the battery is in use", "plug it in")
TURBO = Finding(WARNING, "turbo", "on", "switch it off")


def workload(model, batch, precision, peak_byte):
    counted = (model, "torchvision", "f", "3x224x224", batch, precision, None, "ok", None)
    return Workload(*counted, inference_peak_byte=peak_byte)


@pytest.fixture
def healthy(monkeypatch, untuned, tmp_path):
    """A machine of 32 GB without a fault and without a variable that tunes it; the cache in ``cache`` is empty."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(checks.processor, "available_memory_byte", lambda: 32 * 10**9)
    monkeypatch.setattr(checks, "check_host", lambda largest: [QUIET, *checks.check_memory(largest, 0, 0)])
    monkeypatch.setattr(checks, "check_libraries", list)
    monkeypatch.setattr(checks, "check_gpus", lambda: [Finding(OK, "cuda:0", "persistence mode is on")])


def largest_in_full_precision(_monkeypatch):
    """The cell that memory is compared with is vgg19 at 256: 7 GB."""
    counted = [("vgg19", 256, "fp32", 7 * 10**9), ("vgg11", 256, "fp32", 6 * 10**9), ("other", 256, "bf16", 9 * 10**9)]
    Workloads(Path("cache")).put([(workload(*each), [], []) for each in (*counted, ("failed", 256, "fp32", None))])


def damaged(_monkeypatch):
    Workloads(Path("cache")).put([(workload("vgg19", 256, "fp32", 7 * 10**9), [], [])])
    Path("cache/workload/models.csv").write_text("colour\n")


def tuned(monkeypatch):
    monkeypatch.setenv("OMP_PROC_BIND", "close")


def overridden(monkeypatch):
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")


@pytest.mark.usefixtures("healthy")
@pytest.mark.parametrize(
    ("name", "state", "code"),
    [
        ("doctor", lambda _: None, 0),
        ("doctor-memory", largest_in_full_precision, 0),
        ("doctor-damaged", damaged, 1),
        ("doctor-warning", lambda monkeypatch: monkeypatch.setattr(checks, "check_gpus", lambda: [TURBO]), 0),
        ("doctor-problem", lambda monkeypatch: monkeypatch.setattr(checks, "check_gpus", lambda: [BATTERY]), 1),
        ("doctor-tuned", tuned, 0),
        ("doctor-overridden", overridden, 1),
    ],
)
def test_doctor(golden, capsys, monkeypatch, name, state, code):
    state(monkeypatch)
    assert main(["doctor", "--data", "cache"]) == code
    golden(name, capsys.readouterr().out)


@pytest.mark.usefixtures("healthy")
def test_json_holds_the_same_findings(golden, capsys, monkeypatch):
    monkeypatch.setattr(checks, "check_gpus", lambda: [BATTERY])
    assert main(["doctor", "--data", "cache", "--json"]) == 1
    golden("doctor-json", capsys.readouterr().out)


def test_a_machine_without_psutil_is_checked_for_the_rest(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "psutil", None)  # importing it fails
    monkeypatch.setattr(checks, "check_libraries", lambda: [Finding(PROBLEM, "libraries", "psutil does not import")])
    assert main(["doctor", "--data", str(tmp_path)]) == 1
    levels = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert levels.count("problem") == 1
    assert len(levels) > 1
