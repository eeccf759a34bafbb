"""``tests/data/ncu-raw-format.csv`` is written by hand to the format that NVIDIA documents; no GPU was at hand."""

import pytest
from helpers.places import TESTS

from measure import __main__ as command
from measure.cache.folders import MachineFolder
from measure.cache.records import Environment, HardwareCounterProfile, KernelCounters

FORMAT = TESTS / "data" / "ncu-raw-format.csv"
LONG = next(cell for cell in FORMAT.read_text().split('"') if cell.startswith("sm80_xmma"))
COUNTED = (FORMAT, "--model", "resnet50", "--batch", "64")
GPU = Environment(
    "g1", "h1", "cuda", "Example GPU", 4, 2, 1024, None, "550", "Linux", "3.12", "2.14", None, None, "2026-01-01"
)


def call(data, *arguments):
    return command.main(["import-ncu", *map(str, arguments), "--data", str(data)])


def test_counters_of_a_gpu_of_which_only_the_name_is_known(tmp_path, capsys):
    assert call(tmp_path, *COUNTED, "--device-name", "NVIDIA T4", "--steps", "2") == 0
    (path,) = (tmp_path / "machines").iterdir()
    assert path.name.startswith("nvidia-t4-")
    folder = MachineFolder(tmp_path, path.name)
    (environment,) = folder.rows(Environment)
    assert (environment.name, environment.device, environment.torch, environment.cores) == (
        "NVIDIA T4",
        "cuda",
        None,
        None,
    )
    (profile,) = folder.rows(HardwareCounterProfile)
    assert (profile.model, profile.batch, profile.phase, profile.steps) == ("resnet50", 64, "step", 2)
    assert (profile.tool, profile.capability, profile.environment_id) == ("imported", "8.0", environment.environment_id)
    assert [row.calls for row in folder.rows(KernelCounters)] == [1, 1]
    assert "2 kernels of resnet50 at batch size 64 into" in capsys.readouterr().out
    assert call(tmp_path, *COUNTED, "--device-name", "NVIDIA T4") == 0  # again, with other steps: it is replaced
    assert [row.calls for row in folder.rows(KernelCounters)] == [2, 2]
    assert len(folder.rows(Environment)) == len(folder.rows(HardwareCounterProfile)) == 1


def test_counters_of_a_machine_that_measured(tmp_path):
    folder = MachineFolder(tmp_path, "box")
    folder.put_environment(GPU)
    assert call(tmp_path, *COUNTED, "--machine", "box", "--phase", "inference", "--precision", "bf16") == 0
    (profile,) = folder.rows(HardwareCounterProfile)
    assert (profile.environment_id, profile.phase, profile.precision) == ("g1", "inference", "bf16")
    assert profile.input_shape == "3x224x224"
    assert call(tmp_path, *COUNTED, "--machine", "box", "--input-shape", "3x600x600", "--phase", "inference") == 0
    assert folder.rows(HardwareCounterProfile)[-1].input_shape == "3x600x600"
    assert folder.rows(Environment) == [GPU]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("none.csv", "--model", "resnet50", "--batch", "64", "--device-name", "X"), "none.csv: cannot be read"),
        ((FORMAT, "--model", "resnet5", "--batch", "64", "--device-name", "X"), "no model is called 'resnet5'"),
        ((FORMAT, "--model", "vgg*", "--batch", "64", "--device-name", "X"), "--model: 'vgg*' selects 3 models"),
        ((FORMAT, "--model", "resnet50", "--batch", "0", "--device-name", "X"), "--batch: '0' is not a valid number"),
        ((*COUNTED, "--device-name", "X", "--steps", "none"), "--steps: 'none' is no"),
        ((*COUNTED, "--device-name", "X", "--input-shape", "3*8"), "--input-shape: '3*8' is not a valid shape; use"),
        ((*COUNTED, "--device-name", "X", "--phase", "nap"), "--phase: 'nap' is not one of step, inference"),
        ((*COUNTED, "--device-name", "X", "--precision", "fp1"), "--precision: 'fp1' is not one of fp32"),
        ((*COUNTED, "--machine", "../up"), "--machine: '../up' is not a valid folder name"),
        (COUNTED, "--device-name: name the GPU that was counted"),
        ((*COUNTED, "--machine", "new"), "--device-name: name the GPU that was counted"),
    ],
)
def test_bad_input_is_answered_in_one_sentence(tmp_path, capsys, arguments, words):
    assert call(tmp_path, *arguments) == 2
    output = capsys.readouterr()
    assert words in output.err
    assert output.err.startswith("python -m measure import-ncu: ")
    assert output.err.count("\n") == 1
    assert not any(tmp_path.iterdir())


def test_another_gpus_counters_are_refused(tmp_path, capsys):
    MachineFolder(tmp_path, "box").put_environment(GPU)
    assert call(tmp_path, *COUNTED, "--machine", "box", "--device-name", "NVIDIA T4") == 2
    assert "belongs to Example GPU; name another --machine" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        *(('"54.00"', f'"{text}"', f"{text!r} in 'us' cannot be read") for text in ("nan", "inf", "1e400", "1,5")),
        ('"54.00"', '"1.234,5"', "in an English locale"),
        (f'"{LONG}"', '" "', "kernel 1 is incomplete: it needs a name"),
        ('"sm80_xmma', '"' + 131_100 * "x", "no table of kernels"),
    ],
)
def test_what_would_make_the_folder_unreadable_is_refused(tmp_path, capsys, old, new, words):
    folder = MachineFolder(tmp_path / "data", "box")
    folder.put_environment(GPU)
    assert call(tmp_path / "data", *COUNTED, "--machine", "box") == 0
    before = folder.rows(KernelCounters)
    bad = tmp_path / "bad.csv"
    text = FORMAT.read_text()
    assert old in text
    bad.write_text(text.replace(old, new))
    assert call(tmp_path / "data", bad, *COUNTED[1:], "--machine", "box") == 2
    output = capsys.readouterr()
    assert words in output.err
    assert f"{bad}: " in output.err
    assert output.err.count("\n") == 1
    assert folder.rows(KernelCounters) == before


def test_more_steps_than_a_kernel_has_launches_leave_a_folder_that_can_be_read(tmp_path):
    assert call(tmp_path, *COUNTED, "--device-name", "NVIDIA T4", "--steps", "8") == 0
    (path,) = (tmp_path / "machines").iterdir()
    assert [row.calls for row in MachineFolder(tmp_path, path.name).rows(KernelCounters)] == [1, 1]
