from dataclasses import replace
from pathlib import Path

import pytest
from helpers.rows import workload
from helpers.world import text

from measure.__main__ import main
from measure.cache.folders import Workloads
from measure.machine import checks
from measure.machine.checks import OK, PROBLEM, WARNING, Finding

BATTERY = Finding(PROBLEM, "power", "the battery is in use", "plug it in")
TURBO = Finding(WARNING, "turbo", "on", "switch it off")


@pytest.fixture
def healthy(monkeypatch, untuned, tmp_path):
    """A machine of 32 GB without a fault and without a variable that tunes it; the cache in ``cache`` is empty."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(checks.container, "available_memory_byte", lambda: 32 * 10**9)
    quiet = Finding(OK, "load", "other programs use 0.01 of 8 cores")
    monkeypatch.setattr(checks, "check_host", lambda largest: [quiet, *checks.check_memory(largest, 0, 0)])
    monkeypatch.setattr(checks, "check_libraries", list)
    monkeypatch.setattr(checks, "check_gpus", lambda: [Finding(OK, "cuda:0", "persistence mode is on")])


def largest_in_full_precision(_monkeypatch):
    """The cell that memory is compared with is vgg19 at 256: 7 GB."""
    peaks = {"vgg19": 7 * 10**9, "vgg11": 6 * 10**9, "other": 9 * 10**9, "failed": None}
    rows = [workload(model, 256, inference_peak_byte=peak) for model, peak in peaks.items()]
    rows[2] = replace(rows[2], precision="bf16")
    Workloads(Path("cache")).put([(row, [], []) for row in rows])


def with_gpu(finding):
    return lambda monkeypatch: monkeypatch.setattr(checks, "check_gpus", lambda: [finding])


@pytest.mark.usefixtures("healthy")
@pytest.mark.parametrize(
    ("name", "state", "code"),
    [
        ("doctor", lambda _: None, 0),
        ("doctor-memory", largest_in_full_precision, 0),
        ("doctor-damaged", text("cache/workload/models.csv", "colour"), 1),
        ("doctor-warning", with_gpu(TURBO), 0),
        ("doctor-problem", with_gpu(BATTERY), 1),
        ("doctor-json", with_gpu(BATTERY), 1),
        ("doctor-tuned", lambda monkeypatch: monkeypatch.setenv("OMP_PROC_BIND", "close"), 0),
        ("doctor-overridden", lambda monkeypatch: monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1"), 1),
    ],
)
def test_doctor(golden, capsys, monkeypatch, name, state, code):
    state(monkeypatch)
    assert main(["doctor", "--data", "cache", *(["--json"] if name == "doctor-json" else [])]) == code
    golden(name, capsys.readouterr().out)
