"""``tests/data/ncu-raw-format.csv`` is written by hand to the format that NVIDIA documents; no GPU was at hand."""

import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.places import TESTS
from helpers.rows import ENVIRONMENT

from measure import __main__ as command
from measure.cache.folders import MachineFolder, machine_names
from measure.domain.records import Environment, HardwareCounterProfile, KernelCounters

CACHE, COUNTED, T4 = Path("cache"), "ncu.csv --model resnet50 --batch 64", " --phase step --device-name 'NVIDIA T4'"
GPU = replace(ENVIRONMENT, device="cuda", name="Example GPU")


@pytest.fixture
def call(tmp_path, monkeypatch):
    """Import ``ncu.csv`` in the current folder."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(TESTS / "data" / "ncu-raw-format.csv", "ncu.csv")
    return lambda words: command.main(["import-ncu", *shlex.split(words), "--data", str(CACHE)])


def test_counters_of_a_gpu_with_nothing_but_a_name(call, capsys):
    assert call(f"{COUNTED}{T4} --steps 2") == 0
    (name,) = machine_names(CACHE)
    assert name.startswith("nvidia-t4-")
    assert f"2 kernels of resnet50 at batch size 64 into cache/machines/{name}" in capsys.readouterr().out
    folder = MachineFolder(CACHE, name)
    (environment,), (profile,) = folder.rows(Environment), folder.rows(HardwareCounterProfile)
    assert (environment.name, environment.device, environment.torch) == ("NVIDIA T4", "cuda", None)
    assert (profile.model, profile.batch, profile.phase, profile.steps) == ("resnet50", 64, "step", 2)
    assert (profile.tool, profile.capability, profile.environment_id) == ("imported", "8.0", environment.environment_id)
    assert [row.calls for row in folder.rows(KernelCounters)] == [1, 1]
    assert call(f"{COUNTED}{T4}") == 0  # again, with other steps: it is replaced
    assert [row.calls for row in folder.rows(KernelCounters)] == [2, 2]
    assert len(folder.rows(Environment)) == len(folder.rows(HardwareCounterProfile)) == 1


def test_counters_of_a_machine_that_measured(call):
    box = MachineFolder(CACHE, "box")
    box.put_environment(GPU)
    assert call(f"{COUNTED} --machine box --phase inference --precision bf16 --input-shape 3x600x600") == 0
    (profile,) = box.rows(HardwareCounterProfile)
    assert (profile.environment_id, profile.phase, profile.precision) == ("e1", "inference", "bf16")
    assert (profile.input_shape, box.rows(Environment)) == ("3x600x600", [GPU])


def test_imported_counters_alone_are_shown_and_handed_in(call, capsys):
    assert call(f"{COUNTED}{T4}") == 0
    capsys.readouterr()
    assert command.main(["show", "resnet50", "--data", str(CACHE)]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("resnet50")]
    assert line.split()[1:6] == ["64", "fp32", "step", "eager", "4"]  # 2 kernels, twice each
    assert command.main(["show", "alexnet", "--data", str(CACHE)]) == 2
    assert "MODEL: 'alexnet' is not one of resnet50" in capsys.readouterr().err
    assert command.main(["share", "t4.zip", "--data", str(CACHE)]) == 0
    assert "torch None" not in capsys.readouterr().out
    assert command.main(["add-machine", "t4.zip", "--data", "other"]) == 0
    (name,) = machine_names(CACHE)
    here, there = (MachineFolder(data, name).rows(KernelCounters) for data in (CACHE, Path("other")))
    assert there == here
