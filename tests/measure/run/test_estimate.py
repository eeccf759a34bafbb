"""How long tasks should take, and which cells cannot fit into memory."""

from dataclasses import replace

import pytest
from helpers.cells import changed, inference_task, profile_task, run_cache, training_task
from helpers.rows import roof_measurement, samples, workload

from measure.cache.table import write
from measure.domain.models import Model
from measure.domain.schema import file_of
from measure.published.records import Chip
from measure.run import estimate
from measure.run.estimate import DurationEstimate, MemoryFit
from measure.run.request import Request
from measure.run.tasks import RoofTask

NET = Model("net", "torchvision", "plain", (3, 2, 2))
BACKWARD = {"backward_flop": 8_000_000_000, "backward_traffic_byte": 200_000_000}
COUNTED = workload(flop=4_000_000_000, parameter_count=50_000_000, traffic_byte=100_000_000, **BACKWARD)


def roof(kernel, flop, byte, latency_s, **columns):
    return replace(roof_measurement(latency_s=latency_s), roof_kernel=kernel, flop=flop, byte=byte, **columns)


def timed(batch, latency_s, **changes):
    (sample,) = samples(1, batch=batch)
    return replace(sample, latency_s=latency_s, **changes)


def cell(batch, precision="fp32"):
    return inference_task(NET, batch, precision, "eager", 0)


def step(batch):
    return training_task(NET, batch, "fp32", "eager", 0)


CHIP = Chip(
    chip="Chip", alias="a driver's Chip", vendor="V", die="", chip_kind="gpu", year=2020, precision="fp32",
    unit="tensor", peak_flop_per_s=1e13, sparse_peak_flop_per_s=None, bandwidth_byte_per_s=1e12,
    memory_type="", power_w=None, derivation="", verified="no", source="someone", note="",
)  # fmt: skip


def estimated(tmp_path, rows, device="cpu", name="Chip", budget_s=None):
    path = file_of(Chip, tmp_path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, Chip, [CHIP, replace(CHIP, precision="fp16", peak_flop_per_s=1e14)])
    request = Request([NET], [1], ["fp32"], ["inference"], budget_s=budget_s)
    return DurationEstimate(request, run_cache(*rows, data=tmp_path, device=device, name=name))


# On a processor modules take 0.5 s, 50 million weights as much. Warm-up is cut at 3 s and a call, samples at 3 s.
ROOFS = [
    roof("matmul", 2e9, 0, 0.02),  # 100 GFLOP/s
    roof("matmul", 2e9, 0, 0.1),
    roof("stream_read", 0, 1e9, 0.1, round=0),  # 10 GB/s
    roof("stream_read", 0, 1e9, 0.001),  # of a cache
]
LARGER = workload(batch=64, flop=64 * 1_000_000_000, traffic_byte=0, parameter_count=0)
PASSES = [timed(1, 0.3), timed(1, 0.1), timed(64, 3.2), timed(64, 0.001, variant="compile")]
SLOW = [roof("matmul", 1e12, 0, 1.0), roof("stream_triad", 0, 1e10, 0.1, round=0)]  # 1 TFLOP/s, 100 GB/s
UNKNOWN = {"device": "cuda", "name": "A driver's chip"}

SECONDS = {
    # A call at batch 8: 32 GFLOP take 0.32 s, 0.8 GB less; at 0.4 of the roof 0.8 s.
    "by measured roofs": ([COUNTED, *ROOFS], {}, cell(8), 1.0 + (3.0 + 0.8) + 3.0),
    # By the count at batch 64, which is nearer: 48 GFLOP take 0.48 s, at 0.4 of the roof 1.2 s.
    "by the nearest count": ([COUNTED, LARGER, *ROOFS], {}, cell(48), 0.5 + (3.0 + 1.2) + 3.0),
    # 100 inputs at fp16: 400 GFLOP take 4 ms, half of 10 GB at fp32 5 ms; at 0.4 of the roof 12.5 ms. Two calls, then
    # twice the 0.2 s of a trend, and two seconds of samples for a GPU's energy.
    "by a datasheet": ([COUNTED], UNKNOWN, cell(100, "fp16"), 0.5 + (2 * 0.0125 + 2 * 0.2) + 2.0),
    # Forward and backward: 1.2 TFLOP take 0.12 s, at 0.4 of the roof 0.3 s, timed whole and by stages.
    "a step": ([COUNTED], UNKNOWN, step(100), 0.5 + (3.0 + 0.6) + 3.0),
    # Half a second of samples, a second of steps that take twice as long, and their attribution.
    "a profile": (
        [COUNTED], UNKNOWN, profile_task(NET, 100, "fp16", "eager", "inference"),
        0.5 + (2 * 0.0125 + 2 * 0.2) + 0.5 + 2 * 1.0 + 3.0,
    ),
    # A tenth of the datasheet's rates: 400 GFLOP take 0.4 s, 10 GB 0.1 s; at 0.4 of the roof 1 s.
    "not by a datasheet": ([COUNTED, *SLOW], {"device": "cuda"}, cell(100), 0.5 + (3.0 + 1.0) + 3.0),
    # At batch 8, as near to 1 as to 64 by its logarithm: the first of the two.
    "by a timed pass": ([COUNTED, *PASSES], {}, cell(8), 1.0 + (3.0 + 0.8) + 3.0),
    # At batch 32 half the time of 64, 1.6 s, and three times as much for a step: two samples are longer.
    "by a nearer one": ([COUNTED, *PASSES], {}, cell(32), 1.0 + (3.0 + 1.6) + 2 * 1.6),
    "a step by a pass": ([COUNTED, *PASSES], {}, step(32), 1.0 + (3.0 + 4.8) + 2 * 4.8),
    # Of a minute a sixtieth warms up, 1 s and a call; a 45th is sampled, less than two calls.
    "in a short budget": ([COUNTED, *PASSES], {"budget_s": 60.0}, cell(8), 1.0 + (1.0 + 0.8) + 2 * 0.8),
    "uncounted, large": ([], {}, step(256), 5 + 0.5 * 3 * 128),
    # A block's call of 5 ms twice, twice the 0.1 s of a trend, and 0.25 s of samples, after 0.4 s to set it up.
    "a roof": ([], {}, RoofTask("matmul", "fp32", 8, "sustained"), 0.4 + (0.01 + 0.2) + 0.25),
    # 2 * 5 * 10^11 FLOP at the datasheet's 10 TFLOP/s take 0.1 s: twice three blocks, and 2 s for the energy.
    "a roof with energy": (
        [], {"device": "cuda"}, RoofTask("fma", "fp32", 5 * 10**11, "sustained"), 0.4 + (0.2 + 0.6) + 2.0
    ),
    # Fourteen blocks of 5 ms, 50 ms apart.
    "a burst": ([], {"device": "cuda"}, RoofTask("stream_read", "fp32", 2**20, "burst"), 0.4 + 14 * 0.055),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "machine", "task", "seconds"), SECONDS.values(), ids=SECONDS)
def test_seconds_of_a_task(tmp_path, rows, machine, task, seconds):
    assert estimated(tmp_path, rows, **machine).seconds(task) == pytest.approx(seconds)


@pytest.mark.parametrize(("forks", "starts_s"), [(True, [8.0, 0.0, 3.0, 8.0]), (False, [8.0, 0.0, 8.0, 8.0])])
def test_processes_begin_where_tasks_need_fresh_ones(monkeypatch, tmp_path, forks, starts_s):
    monkeypatch.setattr(estimate, "FORKS", forks)
    estimates = estimated(tmp_path, [COUNTED], "cuda")
    first = cell(1)
    tasks = [first, changed(first, batch=8), changed(first, precision="fp16"), changed(first, 1)]
    # Importing takes 5 s, once a block where processes are forks, and beginning with the device 3 s.
    ends_s, now_s = [], 0.0
    for task, start_s in zip(tasks, starts_s, strict=True):
        now_s += start_s + estimates.seconds(task)
        ends_s.append(now_s)
    assert estimates.ends_s(tasks) == pytest.approx(ends_s)


def test_a_chip_is_heated_once_for_the_roofs_of_a_process(tmp_path):
    estimates = estimated(tmp_path, [], "cuda")
    tasks = [RoofTask("matmul", "fp32", size, "sustained") for size in (8, 16)]
    (first_s, second_s), (first_ends_s, ends_s) = map(estimates.seconds, tasks), estimates.ends_s(tasks)
    assert first_ends_s == pytest.approx(5 + 3 + 3 + first_s)  # torch, the device, and three seconds of heat
    assert ends_s - first_ends_s == pytest.approx(second_s)


GB = 10**9
OPTIMISER = {"momentum_byte": 6 * GB, "adam_byte": 12 * GB}
MEASURED = workload(batch=64, inference_peak_byte=16 * GB + 1, training_peak_byte=50 * GB, **OPTIMISER)
ADAM = training_task(NET, 64, "fp32", "channels_last+adam", 0)


@pytest.mark.parametrize(
    ("task", "least_byte"),
    [
        (cell(64), 16 * GB + 1),
        (cell(64, "tf32"), 16 * GB + 1),  # stored as fp32
        (profile_task(NET, 64, "fp32", "eager", "step"), 50 * GB),
        (ADAM, 56 * GB),  # 50 - 6 + 12
        # Uncounted cells are tried.
        (cell(64, "bf16"), 0),
        (cell(256), 0),
    ],
)
def test_a_cell_that_needs_more_memory_than_there_is_is_refused(task, least_byte):
    uncounted = {"inference_peak_byte": None, "training_peak_byte": None}
    counted = run_cache(MEASURED, replace(MEASURED, precision="bf16", **uncounted)).workloads
    assert MemoryFit(least_byte, counted).refusal(task) is None
    if least_byte:
        assert MemoryFit(least_byte - 1, counted).refusal(task).status == "oom"
