import json
import sys

import pytest

from measure.__main__ import main
from measure.cache.folders import Workloads
from measure.cache.workload_records import Workload
from measure.machine import checks
from measure.machine.checks import OK, PROBLEM, WARNING, Finding

QUIET = Finding(OK, "load", "other programs use 0.01 of 8 cores")


@pytest.fixture
def healthy(monkeypatch, untuned):
    """A machine without a fault, and without a variable that tunes it."""
    monkeypatch.setattr(checks.processor, "available_memory_byte", lambda: 32 * 10**9)
    monkeypatch.setattr(checks, "check_host", lambda largest: [QUIET, *checks.check_memory(largest, 0, 0)])
    monkeypatch.setattr(checks, "check_libraries", list)
    monkeypatch.setattr(checks, "check_gpus", lambda: [Finding(OK, "cuda:0", "persistence mode is on")])


def test_a_healthy_machine_is_exit_code_0_and_a_line_for_each_fact(healthy, tmp_path, capsys):
    assert main(["doctor", "--data", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("ok") for line in lines)
    assert "ok         load    other programs use 0.01 of 8 cores" in lines
    assert "\x1b" not in "".join(lines)


def test_a_warning_is_exit_code_0_and_a_problem_1(healthy, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(checks, "check_gpus", lambda: [Finding(WARNING, "turbo", "on", "switch it off")])
    assert main(["doctor", "--data", str(tmp_path)]) == 0
    monkeypatch.setattr(
        checks, "check_gpus", lambda: [Finding(PROBLEM, "power", "the battery is in use", "plug it in")]
    )
    assert main(["doctor", "--data", str(tmp_path)]) == 1
    assert "problem    power   the battery is in use; plug it in" in capsys.readouterr().out.splitlines()


def test_json_holds_the_same_findings(healthy, tmp_path, capsys):
    assert main(["doctor", "--data", str(tmp_path), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said[0] == {"level": "ok", "subject": "load", "fact": "other programs use 0.01 of 8 cores", "advice": None}


def test_a_damaged_workload_table_is_a_finding(healthy, tmp_path, capsys):
    (tmp_path / "workload").mkdir()
    (tmp_path / "workload/models.csv").write_text("colour\n")
    assert main(["doctor", "--data", str(tmp_path)]) == 1
    assert "problem    cache   " in capsys.readouterr().out


def workload(model, batch, precision, peak):
    return Workload(
        model, "torchvision", "f", "3x224x224", batch, precision, None, "ok", None, inference_peak_byte=peak
    )


def test_the_largest_cell_in_full_precision_is_what_memory_is_held_against(healthy, tmp_path, capsys):
    rows = [
        workload("vgg19", 256, "fp32", 7 * 10**9),
        workload("vgg11", 256, "fp32", 6 * 10**9),
        workload("other", 256, "bf16", 9 * 10**9),
        workload("failed", 256, "fp32", None),
    ]
    Workloads(tmp_path).put([(row, [], []) for row in rows])
    main(["doctor", "--data", str(tmp_path)])
    assert "32.0 GB are free; vgg19 batch 256 fp32 needs 7.00 GB besides torch" in capsys.readouterr().out


def test_a_machine_without_psutil_is_checked_for_the_rest(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "psutil", None)  # importing it fails
    monkeypatch.setattr(checks, "check_libraries", lambda: [Finding(PROBLEM, "libraries", "psutil does not import")])
    assert main(["doctor", "--data", str(tmp_path)]) == 1
    levels = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert levels.count("problem") == 1
    assert len(levels) > 1


def test_a_variable_that_tunes_is_a_warning_and_one_that_decides_over_precisions_a_problem(
    healthy, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("OMP_PROC_BIND", "close")
    assert main(["doctor", "--data", str(tmp_path)]) == 0
    assert "variables change speed: OMP_PROC_BIND=close; unset" in capsys.readouterr().out
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    assert main(["doctor", "--data", str(tmp_path)]) == 1
    assert "NVIDIA_TF32_OVERRIDE=1 sets the precision of" in capsys.readouterr().out
