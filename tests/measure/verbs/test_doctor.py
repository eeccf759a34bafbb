import json

import pytest

from measure.__main__ import main
from measure.cache.folders import Workloads
from measure.cache.workload_records import Workload
from measure.machine import gpus, host, libraries
from measure.machine.host import OK, PROBLEM, WARNING, Finding
from measure.machine.libraries import Libraries
from measure.verbs import doctor
from measure.verbs.doctor import largest

pytest.importorskip("rich", reason="findings are printed with rich")


QUIET = Finding(OK, "load", "other programs use 0.01 of 8 cores")

SOUND = dict.fromkeys(libraries.LOSSES, "2.14.1")


@pytest.fixture
def healthy(monkeypatch, untuned):
    """A machine without a fault, and without a variable that tunes it."""
    memory = lambda largest: host.check_memory(32 * 10**9, largest)  # noqa: E731
    monkeypatch.setattr(host, "check_host", lambda largest: [QUIET, memory(largest)])
    monkeypatch.setattr(libraries, "find_libraries", lambda: Libraries(SOUND, {}, c_compiler="gcc"))
    monkeypatch.setattr(gpus, "check_gpus", lambda: [Finding(OK, "cuda:0", "ECC is on")])


def test_a_healthy_machine_is_exit_code_0_and_a_line_for_each_fact(healthy, tmp_path, capsys):
    assert main(["doctor", "--data", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("ok") for line in lines)
    assert "ok         load      other programs use 0.01 of 8 cores" in lines
    assert "\x1b" not in "".join(lines)


def test_a_warning_is_exit_code_0_and_a_problem_1(healthy, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gpus, "check_gpus", lambda: [Finding(WARNING, "turbo", "on", "switch it off")])
    assert main(["doctor", "--data", str(tmp_path)]) == 0
    monkeypatch.setattr(gpus, "check_gpus", lambda: [Finding(PROBLEM, "power", "the battery is in use", "plug it in")])
    assert main(["doctor", "--data", str(tmp_path)]) == 1
    assert "problem    power     the battery is in use; plug it in" in capsys.readouterr().out.splitlines()


def test_json_holds_the_same_findings(healthy, tmp_path, capsys):
    assert main(["doctor", "--data", str(tmp_path), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said[0] == {"level": "ok", "subject": "load", "fact": "other programs use 0.01 of 8 cores", "advice": None}


def test_a_damaged_workload_table_is_a_finding(healthy, tmp_path, capsys):
    (tmp_path / "workload").mkdir()
    (tmp_path / "workload/models.csv").write_text("colour\n")
    assert main(["doctor", "--data", str(tmp_path)]) == 1
    assert "problem    cache     " in capsys.readouterr().out


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
    assert largest(rows) == ("vgg19 batch 256 fp32", 7 * 10**9)
    assert largest([]) is None
    Workloads(tmp_path).put([(row, [], []) for row in rows])
    main(["doctor", "--data", str(tmp_path)])
    assert "32.0 GB are free; vgg19 batch 256 fp32 needs 7.0 GB besides torch" in capsys.readouterr().out


def test_a_machine_without_psutil_still_hears_of_its_libraries(healthy, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(doctor, "installed_version", lambda name: None)
    monkeypatch.setattr(libraries, "find_libraries", lambda: Libraries({**SOUND, "psutil": None}, {}, c_compiler="gcc"))
    assert main(["doctor", "--data", str(tmp_path)]) == 1
    assert "psutil is not installed: cores and memory cannot be read; pip install psutil" in capsys.readouterr().out


def test_a_variable_that_tunes_is_a_warning_and_one_that_decides_over_precisions_a_problem(
    healthy, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("OMP_PROC_BIND", "close")
    assert main(["doctor", "--data", str(tmp_path)]) == 0
    assert "variables change speed: OMP_PROC_BIND=close; unset" in capsys.readouterr().out
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    assert main(["doctor", "--data", str(tmp_path)]) == 1
    assert "NVIDIA_TF32_OVERRIDE=1 sets the precision of" in capsys.readouterr().out
