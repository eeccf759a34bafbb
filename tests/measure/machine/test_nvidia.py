import os
from dataclasses import replace

import pytest
from helpers.gpu import pretend
from helpers.gpu.catalogue import A100_IN_SLICES, A100_SLICE, L4, MACHINES, T4, Machine

from measure.machine import devices
from measure.machine.nvidia import nvidia_handles

BESIDE = MACHINES["t4-and-l4"]
SLICED_BESIDE = Machine((T4, A100_IN_SLICES, L4))
WITHOUT_SLICES = Machine((replace(A100_IN_SLICES, sliced=()),))


@pytest.mark.parametrize(
    ("machine", "visible", "seen"),
    [
        (BESIDE, None, [T4, L4]),
        (BESIDE, "1", [L4]),
        (BESIDE, "1,0", [L4, T4]),
        (BESIDE, "0,7,1", [T4]),  # nothing from the first invalid name on
        (BESIDE, "0,-1,1", [T4]),
        (BESIDE, "", []),
        (BESIDE, "NoDevFiles", []),
        (BESIDE, L4.uuid, [L4]),
        (BESIDE, "GPU-8932f9", [L4]),
        (BESIDE, "GPU-8,GPU-39cd", [L4, T4]),
        (BESIDE, "0,GPU-", [T4]),  # both begin so
        (MACHINES["a100-slice"], None, [A100_SLICE]),
        (MACHINES["a100-slice"], "0", [A100_SLICE]),
        (MACHINES["a100-slice"], A100_SLICE.uuid, [A100_SLICE]),
        (MACHINES["a100-slice"], "MIG-8c4c", [A100_SLICE]),
        (MACHINES["a100-slice"], A100_IN_SLICES.uuid, [A100_SLICE]),
        (SLICED_BESIDE, None, [A100_SLICE]),  # no whole GPU beside a slice
        (SLICED_BESIDE, "0,2", [T4, L4]),
        (WITHOUT_SLICES, None, []),
    ],
)
def test_gpus_are_those_that_cuda_shows(monkeypatch, machine, visible, seen):
    pretend(monkeypatch, machine, **({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}))
    assert nvidia_handles() == seen
    assert machine.seen_by_cuda(os.environ) == seen


def test_gpus_are_counted_as_the_driver_does_whatever_was_asked_of_cuda(monkeypatch):
    pretend(monkeypatch, BESIDE, CUDA_DEVICE_ORDER="FASTEST_FIRST")
    assert BESIDE.seen_by_cuda(os.environ)[0] is L4
    assert nvidia_handles() == [T4, L4]
    assert BESIDE.seen_by_cuda(os.environ)[0] is T4  # for the processes that measure, too


def test_spaces_between_names_are_no_part_of_them(monkeypatch):
    pretend(monkeypatch, BESIDE, CUDA_VISIBLE_DEVICES=" 1 , 0")
    assert nvidia_handles() == [L4, T4]


def test_a_lost_gpu_is_left_out(monkeypatch):
    pretend(monkeypatch, BESIDE)
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is part of the measure extra")

    def handle(index):
        if index == 0:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return L4

    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", handle)
    assert nvidia_handles() == [L4]
    assert devices.available_names() == ["cuda:0", "cpu"]


def test_a_driver_that_cannot_count_its_gpus_has_none(monkeypatch):
    pretend(monkeypatch, BESIDE)
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is part of the measure extra")

    def fail():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", fail)
    assert nvidia_handles() == []
