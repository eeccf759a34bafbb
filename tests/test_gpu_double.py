"""Whole runs of the program on GPUs that are not there (``helpers.gpu``), each in processes of its own."""

import subprocess
import sys

import pytest
from helpers.gpu import environment
from helpers.gpu.catalogue import DRIVER, H100_NVL, L4, MIB, T4
from helpers.places import ROOT

from measure.cache.folders import MachineFolder, machine_names

pytest.importorskip("torch", reason="measuring needs torch")
pytest.importorskip("pynvml", reason="nvidia-ml-py is part of the measure extra")
pytestmark = pytest.mark.long

SQUEEZENET_MAC, SQUEEZENET_PARAMETERS = 0.819e9, 1_248_424
"""Of one 3 x 224 x 224 image, and in all, as torchvision publishes them (``_ops``, ``num_params``)."""


def run(machine, *arguments, **variables):
    """Run a program on a machine of the catalogue; return what it answered."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(
        command, cwd=ROOT, env=environment(machine, variables), capture_output=True, text=True, check=False, timeout=300
    )


def measure(machine, data, *arguments, **variables):
    what = ["--device", "cuda", "--models", "squeezenet1_0", "--variants", "eager", "--data", data]
    what += [] if "--precisions" in arguments else ["--precisions", "fp32"]
    short = ["--target", "50%", "--max-rounds", 3]  # no more of a busy host's time than it takes to see the device's
    return run(machine, "-m", "measure", *what, *short, *arguments, **variables)


def folder_in(data):
    (name,) = machine_names(data)
    return MachineFolder(data, name)


@pytest.mark.parametrize(
    ("machine", "precision"), [("t4", "fp16"), ("l4", "bf16"), ("a100-slice", "bf16"), ("gb10", "bf16")]
)
def test_a_gpu_is_measured_at_the_16_bits_that_it_has_units_for_unless_precisions_are_named(
    tmp_path, machine, precision
):
    what = ["--models", "squeezenet1_0", "--batch-sizes", 1, "--sections", "inference", "--variants", "eager"]
    answer = run(machine, "-m", "measure", "--device", "cuda", *what, "--data", tmp_path, "--plan")
    assert answer.returncode == 0, answer.stderr
    *planned, _ = answer.stdout.splitlines()
    cells = {f"squeezenet1_0 batch 1 {each}, round {number}" for each in ("fp32", precision) for number in (1, 2, 3)}
    assert set(planned) == cells


def test_what_a_gpu_would_emulate_is_refused_where_nothing_else_is_asked_for(tmp_path):
    answer = measure("t4", tmp_path, "--sections", "inference", "--batch-sizes", 1, "--precisions", "bf16")
    assert answer.returncode == 2
    assert "--precisions: Tesla T4 has no units for bf16 (compute capability 7.5)" in answer.stderr
    assert len(answer.stderr.strip().splitlines()) == 1
    assert not any(tmp_path.iterdir())


def test_inference_is_measured_from_identification_to_csv(tmp_path):
    answer = measure("t4", tmp_path, "--sections", "inference", "--batch-sizes", 64)
    assert answer.returncode == 0, answer.stderr + answer.stdout
    folder = folder_in(tmp_path)
    (machine,) = folder.environments()
    assert (machine.device, machine.name, machine.memory_byte) == ("cuda", "Tesla T4", 15360 * MIB)
    assert machine.driver == DRIVER
    runs, samples = folder.runs(), folder.samples()
    assert [row.status for row in runs] == ["ok"] * len(runs)
    assert len(runs) == 3
    for sample in samples:
        # Two FLOP for each multiply-add of 64 images take 12.9 ms at the T4's fp32 peak, and nothing can be faster.
        assert sample.event_s >= 64 * 2 * SQUEEZENET_MAC / T4.flop_per_s["fp32"]
        assert sample.latency_s >= 0.999 * sample.event_s  # but for rounding
        assert sample.temperature_c == 60.0
        assert (sample.clock_hz, sample.throttle) in {(1590e6, None), (900e6, "power cap")}


def test_a_training_step_is_measured_with_its_stages_and_its_memory(tmp_path):
    answer = measure("t4", tmp_path, "--sections", "training", "--training-batch-sizes", 2)
    assert answer.returncode == 0, answer.stderr + answer.stdout
    runs = folder_in(tmp_path).runs()
    assert {(row.phase, row.status) for row in runs} == {
        (phase, "ok") for phase in ("step", "forward", "backward", "update")
    }
    for row in runs:
        if row.phase == "step":  # weights, gradients and momentum, at four bytes each, and activations
            assert 3 * 4 * SQUEEZENET_PARAMETERS < row.peak_byte < T4.torch_memory_byte


def test_a_cell_that_does_not_fit_is_out_of_memory(tmp_path):
    # The first of its activations alone, 96 x 109 x 109 numbers of four bytes for each image, take 18.7 GB.
    answer = measure("t4", tmp_path, "--sections", "inference", "--batch-sizes", 4096)
    assert answer.returncode == 0, answer.stderr + answer.stdout
    (row,) = folder_in(tmp_path).runs()
    assert row.status == "oom"
    assert "CUDA out of memory" in row.reason


def test_roofs_are_those_of_the_device(tmp_path):
    pytest.importorskip("triton", reason="a GPU's multiply-adds and streams are written in it")
    answer = measure("h100-nvl", tmp_path, "--sections", "roofs", "--quick")
    assert answer.returncode == 0, answer.stderr + answer.stdout
    rows = folder_in(tmp_path).roof_measurements()
    assert {row.roof_kernel for row in rows} == {"matmul", "fma", "stream_triad"}
    products = {row.precision for row in rows if row.roof_kernel == "matmul"}
    assert products == {"fp32", "tf32", "fp16", "bf16", "fp8", "int8"}
    assert {row.status for row in rows} == {"ok"}
    for row in rows:
        least_s = max(row.flop / H100_NVL.flop_per_s[row.precision], row.byte / H100_NVL.byte_per_s)
        assert row.latency_s >= 0.999 * least_s
        if row.roof_kernel != "matmul":  # a launch of these lasts milliseconds, beside which the host's part is small
            assert row.latency_s < 2 * least_s


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        ("p100-new-wheel", "has no kernels for Tesla P100-PCIE-16GB of compute capability 6.0, only for sm_75, "),
        ("t4-old-driver", "cannot use the GPU; install one that is built for this driver"),
    ],
)
def test_a_gpu_that_torch_cannot_use_is_one_sentence_and_no_row(tmp_path, machine, words):
    answer = measure(machine, tmp_path, "--sections", "inference", "--batch-sizes", 1)
    assert answer.returncode == 2
    assert words in answer.stderr
    assert len(answer.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.glob("machines/*/runs.csv"))


def test_the_gpu_that_is_measured_is_the_one_that_is_named(tmp_path):
    """CUDA would count the L4 first, the driver counts the T4 first."""
    answer = measure(
        "t4-and-l4", tmp_path, "--sections", "inference", "--batch-sizes", 64, CUDA_DEVICE_ORDER="FASTEST_FIRST"
    )
    assert answer.returncode == 0, answer.stderr + answer.stdout
    folder = folder_in(tmp_path)
    (machine,) = folder.environments()
    assert machine.name == T4.name
    slowest_s = 64 * 2 * SQUEEZENET_MAC / T4.flop_per_s["fp32"]
    assert slowest_s > 2 * 64 * 2 * SQUEEZENET_MAC / L4.flop_per_s["fp32"]
    assert all(sample.event_s >= slowest_s for sample in folder.samples())


def test_what_a_gpu_would_emulate_is_unsupported(tmp_path):
    arguments = ["--sections", "inference", "--batch-sizes", 1, "--precisions", "fp16", "bf16"]
    answer = measure("t4", tmp_path, *arguments)
    assert answer.returncode == 0, answer.stderr + answer.stdout
    rows = folder_in(tmp_path).runs()
    assert {(row.precision, row.status) for row in rows} == {("fp16", "ok"), ("bf16", "unsupported")}
    (reason,) = {row.reason for row in rows if row.precision == "bf16"}
    assert "Tesla T4 has no units for bf16 (compute capability 7.5)" in reason


@pytest.mark.parametrize("machine", ["t4", "a100-slice", "gb10"])
def test_what_is_tested_on_a_gpu_holds_here(machine):
    those = ["-p", "no:cacheprovider", "-m", "gpu", "tests/measure/machine/test_devices.py"]
    answer = run(machine, "-m", "pytest", *those)
    assert "3 passed" in answer.stdout, answer.stdout


def test_nothing_of_it_reaches_the_data():
    probe = "from pathlib import Path; Path('data/of-no-gpu.csv').write_text('')"
    answer = run("t4", "-c", probe)
    assert answer.returncode == 1
    assert "a GPU that is not there measures nothing for" in answer.stderr
    tables = [path for path in (ROOT / "data").rglob("*") if path.is_file()]
    assert tables
    assert not [path for path in tables if DRIVER.encode() in path.read_bytes()]
