import os
from dataclasses import replace

import pynvml
import pytest
from helpers.gpu import pretend
from helpers.gpu.catalogue import A100_IN_SLICES, A100_SLICE, H100, MACHINES, T4, Machine

from measure.machine import devices
from measure.machine.nvidia import nvidia_handles

BESIDE, SLICED = MACHINES["t4-and-h100"], MACHINES["a100-slice"]
SLICED_BESIDE = Machine((T4, A100_IN_SLICES, H100))


@pytest.mark.parametrize(
    ("machine", "visible", "seen"),
    [
        (BESIDE, None, [T4, H100]), (BESIDE, "1", [H100]), (BESIDE, "1,0", [H100, T4]), (BESIDE, "", []),
        (BESIDE, "0,7,1", [T4]), (BESIDE, "0,-1,1", [T4]),  # nothing from the first invalid name on
        (BESIDE, H100.uuid, [H100]), (BESIDE, "GPU-8,GPU-39cd", [H100, T4]),
        (BESIDE, "0,GPU-", [T4]),  # both begin so
        (SLICED, None, [A100_SLICE]), (SLICED, "0", [A100_SLICE]), (SLICED, A100_SLICE.uuid, [A100_SLICE]),
        (SLICED, "MIG-8c4c", [A100_SLICE]), (SLICED, A100_IN_SLICES.uuid, [A100_SLICE]),
        (SLICED_BESIDE, None, [A100_SLICE]), (SLICED_BESIDE, "0,2", [T4, H100]),  # no whole GPU with a slice
        (Machine((replace(A100_IN_SLICES, sliced=()),)), None, []),
    ],
)  # fmt: skip
def test_gpus_are_those_that_cuda_shows(monkeypatch, machine, visible, seen):
    pretend(monkeypatch, machine, **({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}))
    assert nvidia_handles() == seen
    assert machine.seen_by_cuda(os.environ) == seen


@pytest.mark.parametrize(
    ("question", "error", "seen"),
    [("nvmlInit", "LIBRARY_NOT_FOUND", []), ("nvmlDeviceGetHandleByIndex", "GPU_IS_LOST", [H100])],
)
def test_a_lost_gpu_is_left_out_and_no_driver_means_no_gpu(monkeypatch, question, error, seen):
    pretend(monkeypatch, BESIDE)

    def answer(index=0):
        if index == 0:
            raise pynvml.NVMLError(getattr(pynvml, f"NVML_ERROR_{error}"))
        return H100

    monkeypatch.setattr(pynvml, question, answer)
    assert nvidia_handles() == seen
    assert devices.available_names() == [*(["cuda:0"] if seen else []), "cpu"]
