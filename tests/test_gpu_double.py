"""Whole runs of the program on GPUs that are not there (``helpers.gpu``), each in processes of its own."""

import json
import re
import shutil
import subprocess
import sys
from statistics import median

import pytest
from helpers.gpu import environment
from helpers.gpu.catalogue import A100_SLICE, DRIVER, HOPPER, MIB, SLOW, T4
from helpers.gpu.torch_side import CUDNN
from helpers.pages import Page, complaints, render
from helpers.places import ROOT, TESTS

from measure.cache.folders import MachineFolder, Workloads, machine_names
from measure.cache.traces import read_trace, trace_names
from measure.domain import records
from measure.domain.workload_records import Workload
from report.chapters.energy import facts as energy
from report.paper import load

pytestmark = pytest.mark.slow

MAC, PARAMETERS = 0.819e9, 1_248_424
"""SqueezeNet's, of one 3 x 224 x 224 image and in all, as torchvision publishes them (``_ops``, ``num_params``)."""

CONVOLUTIONS = 26
"""SqueezeNet's: two, and three in each of eight fire modules (Iandola et al. 2016, table 1)."""


def run(machine, *arguments, **variables):
    """Run a program on a machine of the catalogue; return the finished process."""
    command, given = [sys.executable, *map(str, arguments)], environment(machine, variables)
    return subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, check=False, timeout=600)


def measure(machine, data, *flags, precisions=("fp32",), variants=("eager",), models=("squeezenet1_0",), **variables):
    """Measure a GPU into a cache; return the folder of its tables, and standard error.

    One short round suffices to see the device's time. Each round starts processes, which import torch.
    """
    selection = ["--device", "cuda", "--models", *models, "--precisions", *precisions, "--variants", *variants]
    short = ["--target", "50%", "--max-rounds", 1, "--data", data]
    answer = run(machine, "-m", "measure", *selection, *short, *flags, **variables)
    assert answer.returncode == 0, answer.stderr + answer.stdout
    (name,) = machine_names(data)
    return MachineFolder(data, name), answer.stderr


@pytest.fixture(scope="module")
def data(shared):
    """The tables of a quick run of two models on a Hopper, and of a look into one of them.

    CUDA would count the machine's T4 first, the driver counts the Hopper first.
    """
    quick = ["--quick", "--sections", "workload", "roofs", "inference"]
    look = ["--batch-sizes", 64, "--sections", "training", "operators", "hardware-counters"]

    def make(data):
        shutil.copytree(ROOT / "data", data, ignore=shutil.ignore_patterns("machines"))
        for flags, models in ((quick, ("alexnet", "squeezenet1_0")), (look, ("squeezenet1_0",))):
            measure("hopper-and-t4", data, *flags, models=models, CUDA_DEVICE_ORDER="FASTEST_FIRST")

    return shared("hopper", make)


@pytest.fixture(scope="module")
def hopper(data):
    (name,) = machine_names(data)
    return MachineFolder(data, name)


def of_squeezenet(rows, batch, phase):
    return [row for row in rows if (row.model, row.batch, row.phase) == ("squeezenet1_0", batch, phase)]


def least_s(gpu, precision, batch):
    """Two FLOP for each multiply-add take so long at the GPU's peak: 64 images at fp32 17.5 ms on ``HOPPER``."""
    return batch * 2 * MAC / gpu.flop_per_s[precision]


def test_inference_and_steps_go_from_identification_to_csv(hopper):
    (machine,) = hopper.rows(records.Environment)
    assert (machine.device, machine.name, machine.memory_byte) == ("cuda", "NVIDIA H100 NVL", 95830 * MIB)
    assert machine.driver == DRIVER
    runs = hopper.rows(records.Run)
    assert {row.status for row in runs} == {"ok"}
    cells = {(row.model, row.batch) for row in runs if row.phase == "inference"}
    assert cells == {(model, batch) for model in ("alexnet", "squeezenet1_0") for batch in (1, 64)}
    assert len(of_squeezenet(runs, 64, "inference")) == 1
    for sample in of_squeezenet(hopper.rows(records.Sample), 64, "inference"):
        assert sample.event_s >= least_s(HOPPER, "fp32", 64)
        assert sample.latency_s >= 0.999 * sample.event_s  # but for rounding
        assert (sample.temperature_c, sample.throttle) == (60.0, None)
        assert 345e6 <= sample.clock_hz <= 1785e6  # it may fall before it is read: calls so short are the host's
    assert {row.phase for row in runs} == {"inference", "step", "forward", "backward", "update"}
    for row in runs:
        if row.phase == "step":  # weights, gradients and momentum, at four bytes each, and activations
            assert 3 * 4 * PARAMETERS < row.peak_byte < HOPPER.torch_memory_byte


@pytest.mark.parametrize(
    ("phase", "batch", "stages"), [("inference", 64, {"inference"}), ("step", 32, {"forward", "backward", "update"})]
)
def test_a_profile_has_each_modules_kernels_and_is_a_trace_too(data, hopper, phase, batch, stages):
    """Its table is an imported trace's: 26 convolutions of known work, with the times of the profile's own kernels."""
    (profile,) = of_squeezenet(hopper.rows(records.Profile), batch, phase)
    assert profile.status == "ok"
    assert 0 < profile.busy_s <= profile.profiled_s
    kernels = hopper.rows(records.KernelTime, [profile])
    paths = {row.path for row in kernels if row.operator == "conv2d" and row.stage in ("inference", "forward")}
    assert len(paths) == CONVOLUTIONS
    traces = [read_trace(data, name) for name in trace_names(data)]
    network = f"SqueezeNet, batch {batch}, fp32, {phase}"
    (trace,) = (each for each in traces if each.devices[0].network == network)
    (device,) = trace.devices
    assert (device.chip, device.device_name, device.capability) == ("NVIDIA H100 NVL", "NVIDIA H100 NVL", "9.0")
    assert device.source == f"machines/{hopper.name}"
    assert len(trace.steps) == 3
    assert {row.stage for row in trace.operators} == stages
    forward = [
        row for row in trace.operators if row.stage in ("inference", "forward") and row.operator == "convolution"
    ]
    assert sum(row.calls for row in forward) == 3 * CONVOLUTIONS
    assert sum(row.flop for row in forward) == pytest.approx(3 * batch * 2 * MAC, rel=0.001)
    assert sum(row.time_s for row in trace.operators) / 3 == pytest.approx(sum(row.time_s for row in kernels), rel=1e-6)


def test_roofs_are_those_of_the_device(hopper):
    pytest.importorskip("triton", reason="a GPU's multiply-adds and streams are written in it")
    roofs = hopper.rows(records.RoofMeasurement)
    assert {row.roof_kernel for row in roofs} == {"matmul", "fma", "stream_read", "stream_triad", "idle"}
    products = {row.precision for row in roofs if row.roof_kernel == "matmul"}
    assert products == {"fp32", "tf32", "fp16", "bf16", "fp8", "int8"}
    # Small products take the host's time: products of 8 bits may look slower than fp32 there, and large ones end.
    ended = [row for row in roofs if "not worth their time" in (row.reason or "")]
    assert {row.precision for row in ended} <= {"fp8", "int8"}
    for row in roofs:
        if row in ended:
            continue
        assert (row.status, row.reason) == ("ok", None)
        is_in_l2 = "stream" in row.roof_kernel and row.size <= HOPPER.l2_byte
        byte_per_s = HOPPER.byte_per_s * (HOPPER.l2_gain if is_in_l2 else 1)
        bound_s = max(
            row.flop / HOPPER.flop_per_s[row.precision], row.byte / byte_per_s, 0.01 * (row.roof_kernel == "idle")
        )
        assert row.latency_s >= 0.999 * bound_s
        assert row.throttle is None
        if row.roof_kernel != "matmul":  # a launch of these lasts milliseconds, and the host's part is small
            assert row.latency_s < 2 * bound_s

    (machine,) = hopper.rows(records.Environment)
    assert (machine.caches, machine.power_limit_w, machine.cudnn) == (f"2:{60 * MIB}:1", 400.0, str(CUDNN))
    reads = {row.size: row.byte / row.latency_s for row in roofs if row.roof_kernel == "stream_read"}
    assert len(reads) == 7
    assert min(rate for size, rate in reads.items() if size <= HOPPER.l2_byte) > 1.2 * reads[max(reads)]
    watts = {(row.roof_kernel, row.size): row.energy_j / row.latency_s for row in roofs if row.energy_j is not None}
    assert {kernel for kernel, _ in watts} == {"matmul", "fma", "stream_read", "stream_triad", "idle"}
    # At rest, and with all of memory's or the multiply-adds' power: the counter steps twenty times in a sampling
    assert watts["idle", 10] == pytest.approx(HOPPER.idle_w, rel=0.05)
    assert watts["stream_read", max(reads)] == pytest.approx(HOPPER.idle_w + HOPPER.memory_w, rel=0.1)


def test_hardware_counters_count_the_work_of_the_layers(hopper):
    profiles = {(row.phase, row.status, row.capability) for row in hopper.rows(records.HardwareCounterProfile)}
    assert profiles == {(phase, "ok", "9.0") for phase in ("inference", "step")}
    counters = of_squeezenet(hopper.rows(records.KernelCounters), 64, "inference")
    # Its convolutions do all that counts: two FLOP for each multiply-add.
    assert sum(row.fp32_flop for row in counters) == pytest.approx(64 * 2 * MAC, rel=0.001)
    assert sum(row.tensor_flop for row in counters) == 0
    assert sum(row.dram_read_byte for row in counters) > 4 * PARAMETERS


FIGURES = {
    "fig-roofs", "fig-gap", "fig-latency-here", "suppfig-throughput", "fig-ratios", "fig-pies", "fig-training-steps",
    "suppfig-training-kernels",
}  # fmt: skip
"""The figures that a GPU's measurements fill."""


def test_the_paper_of_a_gpu_has_its_figures_and_its_shape(data, tmp_path):
    site = render(data, tmp_path / "project", "--formats", "html")
    html = (site / "index.html").read_text("utf-8")
    page = Page(html).root
    drawn = {figure.attributes.get("id") for figure in page.all("figure") if figure.all("script.chart")}
    assert FIGURES - drawn == set()
    facts = json.loads((site / "facts.json").read_text("utf-8"))
    assert facts["latency.here.name"]["value"] == "H100 NVL"
    assert complaints(html) == []


def test_a_slice_of_a_gpu_is_measured_as_itself(tmp_path):
    flags = ["--sections", "inference", "--batch-sizes", 2, 64, "-v"]
    folder, log = measure("a100-slice", tmp_path, *flags)
    (machine,) = folder.rows(records.Environment)
    assert (machine.name, machine.memory_byte) == ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4864 * MIB)
    assert [row.status for row in folder.rows(records.Run)] == ["ok"] * 2
    # The batch sizes of a round share a process.
    assert len(re.findall(r"measure\.run\.worker: process \d+ is ready", log)) == 1
    for sample in of_squeezenet(folder.rows(records.Sample), 64, "inference"):
        assert sample.event_s >= least_s(A100_SLICE, "fp32", 64)
        # The slice has the clock of the board, but not its power and energy.
        assert 210e6 <= sample.clock_hz <= 1410e6
        assert (sample.power_w, sample.energy_j) == (None, None)


def test_a_call_takes_the_energy_of_its_kernels(tmp_path):
    folder, _ = measure("capped", tmp_path, "--sections", "workload", "inference", "--batch-sizes", 16, 32)
    for work in Workloads(tmp_path).rows(Workload):
        samples = of_squeezenet(folder.rows(records.Sample), work.batch, "inference")
        kernels_j = SLOW.joule_per_flop("fp32") * work.batch * 2 * MAC + SLOW.joule_per_byte * work.traffic_byte
        call_s = median(sample.latency_s for sample in samples)
        for sample in samples:
            period_s = sample.energy_j / sample.power_w  # with the pauses of a busy host, in which the GPU idles
            assert 0.99 * call_s < period_s < 1.5 * call_s
            assert sample.energy_j - SLOW.idle_w * period_s == pytest.approx(kernels_j, rel=0.05)
            assert (sample.clock_hz, sample.throttle) == (1785e6, "power cap")
    assert all("capped" in row.flags.split(";") for row in folder.rows(records.Run))


def test_the_prices_of_its_energy_come_back_from_the_cells_of_networks(tmp_path):
    models = ("alexnet", "squeezenet1_0", "mobilenet_v2", "resnet18", "shufflenet_v2_x1_0", "vgg11")
    # Long calls: a busy host takes no share of them.
    flags = ["--sections", "workload", "inference", "--batch-sizes", 128, 512]
    measure("slow", tmp_path, *flags, models=models)
    found = energy.fit_of(load(tmp_path).machine("gpu"), "fp32")
    assert (found.constant.count, found.cells.number) == (6, 12)
    prices = found.flop.number, found.byte.number
    assert prices == pytest.approx((SLOW.joule_per_flop("fp32"), SLOW.joule_per_byte), rel=0.05)
    assert found.constant.number == pytest.approx(SLOW.idle_w, rel=0.1)  # which the pauses of a busy host move


def test_tensor_operations_are_counted(tmp_path):
    sizes = ["--batch-sizes", 64, "--training-batch-sizes", 8]
    network = "helpers.small_network:products"
    sections = ["--sections", "inference", "hardware-counters"]
    folder, _ = measure("hopper", tmp_path, *sections, *sizes, precisions=["bf16"], models=[network])
    assert {(row.precision, row.status) for row in folder.rows(records.Run)} == {("bf16", "ok")}
    flop = 3 * 2 * 64 * 2048**2  # of three products of 64 rows with 2048 x 2048
    assert all(sample.event_s >= flop / HOPPER.flop_per_s["bf16"] for sample in folder.rows(records.Sample))
    profiles = folder.rows(records.HardwareCounterProfile)
    assert {(row.status, row.tensor_gap) for row in profiles} == {("ok", None)}
    counters = [row for row in folder.rows(records.KernelCounters) if row.phase == "inference"]
    assert sum(row.tensor_flop for row in counters) == flop


def test_a_cell_that_a_gpu_cannot_run_has_its_reason(tmp_path):
    # The first activations alone, 96 x 109 x 109 numbers of two bytes for each of 8192 images, take 18.7 GB.
    flags = ["--sections", "inference", "--batch-sizes", 1, 8192]
    folder, _ = measure("t4", tmp_path, *flags, precisions=["fp16", "bf16"])
    rows = folder.rows(records.Run)
    assert {(row.precision, row.batch, row.status) for row in rows} == {
        ("fp16", 1, "ok"), ("fp16", 8192, "oom"), ("bf16", 1, "unsupported"), ("bf16", 8192, "unsupported"),
    }  # fmt: skip
    reasons = {row.status: row.reason for row in rows}
    assert "CUDA out of memory" in reasons["oom"]
    assert "Tesla T4 has no units for bf16 (compute capability 7.5)" in reasons["unsupported"]


def test_a_graph_takes_the_time_of_its_kernels_and_of_one_launch(tmp_path):
    names = products, weighted = [f"helpers.small_network:{name}" for name in ("products", "weighted")]
    flags, variants = ["--sections", "inference", "--batch-sizes", 1], ("eager", "cuda_graph", "compile+cuda_graph")
    folder, _ = measure("t4", tmp_path, *flags, models=names, variants=variants)
    # Each of three products reads a weight of 2048 x 2048 and a row, and writes a row, at four bytes a number and 320
    # GB/s: 52.5 us, so 157.4 us in all. A launch takes 3 us: eager mode has three of them, a graph one.
    kernels_s = 3 * 4 * (2048**2 + 2 * 2048) / T4.byte_per_s
    fastest = {}
    for sample in folder.rows(records.Sample):
        fastest[sample.model, sample.variant] = min(sample.event_s, fastest.get((sample.model, sample.variant), 1.0))
    assert fastest[products, "eager"] > kernels_s + 8.9e-6
    for variant in ("cuda_graph", "compile+cuda_graph"):
        assert fastest[products, variant] == pytest.approx(kernels_s + 3e-6, rel=0.01)
    rows = {row.variant: row for row in folder.rows(records.Run) if row.model == weighted}
    assert {name: row.status for name, row in rows.items()} == {
        "eager": "ok", "cuda_graph": "unsupported", "compile+cuda_graph": "unsupported"
    }  # fmt: skip
    assert "operation not permitted when stream is capturing" in rows["cuda_graph"].reason


def test_the_tests_for_a_gpu_pass_on_the_double():
    files = [path for path in (TESTS / "measure").rglob("test_*.py") if "@pytest.mark.gpu" in path.read_text("utf-8")]
    # With this variable no test for a GPU may skip.
    answer = run("slow", "-m", "pytest", "-p", "no:cacheprovider", "-m", "gpu", *files, ROOFWRIGHT_REQUIRE_GPU="1")
    assert answer.returncode == 0, answer.stdout
