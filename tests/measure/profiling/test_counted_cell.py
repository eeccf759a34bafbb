"""Nsight Compute is played by a function that gives ``tests/data/ncu-raw-format.csv``, written by hand."""

import json
from types import SimpleNamespace

import pytest
from helpers.places import TESTS
from helpers.tasks import cell

from measure.errors import UserError
from measure.machine import devices
from measure.machine.cuda import Rocm
from measure.models import catalog
from measure.profiling import ncu

pytest.importorskip("torch", reason="steps are torch's")
FORMAT = TESTS / "data" / "ncu-raw-format.csv"
GPU = SimpleNamespace(kind="cuda", torch_name="cuda:0", is_nvidia=True)
(RESNET,) = catalog.find(["resnet18"])


def measure(monkeypatch, count):
    monkeypatch.setattr(ncu, "count", count)
    return ncu.measure(GPU, RESNET, cell(RESNET, 8, phase="step"), lambda: None)


def test_the_counters_of_a_step(monkeypatch):
    asked = []

    def count(program, _beat):
        asked.extend(program)
        return FORMAT.read_text().splitlines(), "ncu 1.2"

    result = measure(monkeypatch, count)
    assert (result.steps, result.tool, len(result.kernels)) == (ncu.STEPS, "ncu 1.2", 2)
    assert json.loads(asked[-1])["cell"]["model"] == "torchvision:resnet18"
    assert json.loads(asked[-1])["steps"] == ncu.STEPS


def test_forbidden_counters_are_unsupported_and_a_table_without_kernels_is_an_error(monkeypatch):
    def refuse(program, beat):
        raise NotImplementedError(ncu.PERMISSION)

    with pytest.raises(NotImplementedError, match="an administrator allows it"):
        measure(monkeypatch, refuse)
    with pytest.raises(RuntimeError, match="the output of ncu: no kernel"):
        measure(monkeypatch, lambda program, beat: ([], "ncu"))


def test_what_has_no_hardware_counters_is_refused_before_anything_is_measured(monkeypatch, tmp_path):
    with pytest.raises(UserError, match="cpu is not an NVIDIA GPU"):
        ncu.check(devices.find("cpu"))
    with pytest.raises(UserError, match="cuda:0 is not an NVIDIA GPU"):
        ncu.check(Rocm(0))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="is not on the PATH"):
        ncu.check(GPU)


@pytest.mark.gpu
def test_a_gpus_counters_see_the_work_of_a_model():
    if "cuda:0" not in devices.available_names():
        pytest.skip("no NVIDIA GPU on this machine")
    device = devices.find("cuda")
    try:
        ncu.check(device)
        result = ncu.measure(device, RESNET, cell(RESNET, 8), lambda: None)
    except (UserError, NotImplementedError) as refusal:
        pytest.skip(str(refusal))
    kernels = result.kernels
    assert all(each.time_s > 0 for each in kernels)
    # At fp32 its 11.7 M parameters are read at least.
    assert sum(each.dram_read_byte or 0 for each in kernels) > 4 * 11.7e6
    if result.tensor_gap:
        pytest.skip(result.tensor_gap)
    # ResNet18 does 3.63 GFLOP an input; an algorithm may do less than half of a convolution's, or more by its tiles.
    flop = sum((each.fp32_flop or 0) + (each.tensor_flop or 0) for each in kernels)
    assert 0.3 < flop / (8 * 3.63e9) < 3
