from types import SimpleNamespace

import pytest
from helpers.rows import cell_columns, roof_measurement, workload
from helpers.tasks import changed, inference_task, profile_task, training_task

from measure.cache.hand_kept import Chip
from measure.cache.records import RoofMeasurement, Sample
from measure.cache.schema import file_of
from measure.cache.table import write
from measure.cache.workload_records import Workload
from measure.domain.models import Model
from measure.models import catalog
from measure.run import estimate
from measure.run.estimate import DurationEstimate, MemoryFit
from measure.run.request import Request
from measure.run.sections import RoofTask
from measure.run.task import Failure, RunCache

NET = Model("net", "torchvision", "plain", (3, 2, 2))
COUNTED = workload(
    flop=4_000_000_000,
    traffic_byte=100_000_000,
    parameter_count=50_000_000,
    backward_flop=8_000_000_000,
    backward_traffic_byte=200_000_000,
)


def measured(kernel, flop, byte, latency_s, **columns):
    row = roof_measurement(latency_s=latency_s)
    return type(row)(**vars(row) | {"roof_kernel": kernel, "flop": flop, "byte": byte, **columns})


def cache(device="cpu", name="Chip", roofs=(), workloads=(COUNTED,), data=None, samples=()):
    return RunCache(
        SimpleNamespace(rows=lambda record: workloads, data=data),
        SimpleNamespace(rows={RoofMeasurement: roofs, Sample: samples}.get),
        SimpleNamespace(environment_id="e1", device=device, name=name),
    )


def asked(**changes):
    return Request([NET], [1], ["fp32"], ["inference"], **changes)


def test_on_a_processor_a_round_takes_what_its_measured_roofs_allow():
    roofs = [
        measured("matmul", 2e9, 0, 0.02),  # 100 GFLOP/s
        measured("matmul", 2e9, 0, 0.1),
        measured("stream_read", 0, 1e9, 0.1, round=0),  # 10 GB/s
        measured("stream_read", 0, 1e9, 0.001),  # of a cache
    ]
    known = DurationEstimate(asked(), cache(roofs=roofs))
    # A call at batch 8: 32 GFLOP take 0.32 s, 0.8 GB less; at 0.4 of the roof 0.8 s. 0.5 s for modules and as much for
    # 50 million weights; warm-up of 2 + 2 * 3 calls is cut at 3 s and a call; six samples are cut at 3 s.
    round_s = 1.0 + (3.0 + 0.8) + 3.0
    assert known.seconds(inference_task(NET, 8, "fp32", "eager", 0)) == pytest.approx(round_s)
    # At batch 64 a call takes 6.4 s: two samples, the fewest, take longer than the 3 s that a round is sampled.
    long_s = 1.0 + (3.0 + 6.4) + 12.8
    assert known.seconds(inference_task(NET, 64, "fp32", "eager", 0)) == pytest.approx(long_s)


def chip(precision, peak_flop_per_s):
    return Chip(
        chip="Chip", alias="a driver's Chip", vendor="V", die="", chip_kind="gpu", year=2020, precision=precision,
        unit="tensor", peak_flop_per_s=peak_flop_per_s, sparse_peak_flop_per_s=None, bandwidth_byte_per_s=1e12,
        memory_type="", power_w=None, derivation="", verified="no", source="someone", note="",
    )  # fmt: skip


@pytest.fixture
def data(tmp_path):
    path = file_of(Chip, tmp_path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, Chip, [chip("fp32", 1e13), chip("fp16", 1e14)])
    return tmp_path


def test_on_a_gpu_that_was_not_measured_its_datasheet_counts(data):
    known = DurationEstimate(asked(), cache("cuda", "A driver's chip", data=data))
    # 100 inputs at fp16: 400 GFLOP take 4 ms, half of 10 GB at fp32 5 ms; at 0.4 of the roof 12.5 ms. Two calls, then
    # twice the 0.2 s of a trend, and the least second of samples.
    round_s = 0.5 + (2 * 0.0125 + 2 * 0.2) + 1.0
    assert known.seconds(inference_task(NET, 100, "fp16", "eager", 0)) == pytest.approx(round_s)
    # A step at fp32, forward and backward: 1.2 TFLOP take 0.12 s, at 0.4 of the roof 0.3 s, timed whole and by stages.
    step_s = 0.5 + (3.0 + 0.6) + 3.0
    assert known.seconds(training_task(NET, 100, "fp32", "eager", 0)) == pytest.approx(step_s)
    # Profiled at fp16: half a second of samples, a second of steps that take twice as long, and their attribution.
    profile_s = 0.5 + (2 * 0.0125 + 2 * 0.2) + 0.5 + 2 * 1.0 + 3.0
    assert known.seconds(profile_task(NET, 100, "fp16", "eager", "inference")) == pytest.approx(profile_s)


def test_what_was_measured_goes_before_the_datasheet(data):
    slow = [measured("matmul", 1e12, 0, 1.0), measured("stream_triad", 0, 1e10, 0.1, round=0)]  # 1 TFLOP/s, 100 GB/s
    known = DurationEstimate(asked(), cache("cuda", "Chip", slow, data=data))
    # A tenth of the datasheet's rates: 400 GFLOP take 0.4 s, 10 GB 0.1 s; at 0.4 of the roof 1 s.
    assert known.seconds(inference_task(NET, 100, "fp32", "eager", 0)) == pytest.approx(0.5 + (3.0 + 1.0) + 3.0)


def sample(batch, latency_s, **changes):
    columns = cell_columns("net", batch, "inference") | changes
    return Sample(**columns, sample=0, block=1, latency_s=latency_s, round=0)


def test_a_forward_pass_that_was_timed_tells_more_than_the_roof():
    samples = [sample(1, 0.3), sample(1, 0.1), sample(64, 3.2), sample(64, 0.001, variant="compile")]
    known = DurationEstimate(asked(), cache(samples=samples))
    # At batch 8, as near to 1 as to 64 by its logarithm: the first of the two. Then 0.8 s a call, as in the first test.
    assert known.seconds(inference_task(NET, 8, "fp32", "eager", 0)) == pytest.approx(1.0 + (3.0 + 0.8) + 3.0)
    # At batch 32 half of what 64 take, 1.6 s, and three times as much for a step: two samples of 4.8 s are longer.
    assert known.seconds(inference_task(NET, 32, "fp32", "eager", 0)) == pytest.approx(1.0 + (3.0 + 1.6) + 2 * 1.6)
    assert known.seconds(training_task(NET, 32, "fp32", "eager", 0)) == pytest.approx(1.0 + (3.0 + 4.8) + 2 * 4.8)


def test_a_short_budget_samples_less():
    samples = [sample(1, 0.1)]
    task = inference_task(NET, 8, "fp32", "eager", 0)  # calls of 0.8 s
    # Of 3 minutes a sixtieth warms up, 3 s and a call; a 45th would be 4 s, so 3 s are sampled.
    assert DurationEstimate(asked(budget_s=180.0), cache(samples=samples)).seconds(task) == pytest.approx(
        1.0 + 3.8 + 3.0
    )


def test_an_uncounted_cell_takes_5_s_and_half_a_second_a_pass_of_an_input():
    unknown = DurationEstimate(asked(), cache(workloads=()))
    assert unknown.seconds(inference_task(NET, 8, "fp32", "eager", 0)) == 5 + 0.5 * 8
    assert unknown.seconds(training_task(NET, 256, "fp32", "eager", 0)) == 5 + 0.5 * 3 * 128
    assert unknown.seconds(RoofTask("matmul", "fp32", 8, "sustained")) == 4


def test_the_nearest_count_stands_for_what_was_not_counted():
    roofs = [measured("matmul", 1e11, 0, 1.0), measured("stream_triad", 0, 1e10, 1.0, round=0)]
    larger = workload(batch=64, flop=64 * 1_000_000_000, traffic_byte=0, parameter_count=0)
    known = DurationEstimate(asked(), cache(roofs=roofs, workloads=(COUNTED, larger)))
    # By the count at batch 64, which is nearer: 48 GFLOP take 0.48 s, at 0.4 of the roof 1.2 s.
    assert known.seconds(inference_task(NET, 48, "fp32", "eager", 0)) == pytest.approx(0.5 + 4.2 + 3.0)


@pytest.mark.parametrize(("forks", "starts_s"), [(True, [8.0, 0.0, 3.0, 8.0]), (False, [8.0, 0.0, 8.0, 8.0])])
def test_processes_begin_where_tasks_need_fresh_ones(monkeypatch, data, forks, starts_s):
    monkeypatch.setattr(estimate, "FORKS", forks)
    known = DurationEstimate(asked(), cache("cuda", "Chip", data=data))
    first = inference_task(NET, 1, "fp32", "eager", 0)
    tasks = [first, changed(first, batch=8), changed(first, precision="fp16"), changed(first, 1)]
    # Importing takes 5 s, once a block where processes are forks, and beginning with the device 3 s.
    ends_s, now_s = [], 0.0
    for task, start_s in zip(tasks, starts_s, strict=True):
        now_s += start_s + known.seconds(task)
        ends_s.append(now_s)
    assert known.ends_s(tasks) == pytest.approx(ends_s)


ALEXNET = catalog.find(["alexnet"])[0]


def counted(batch, precision, peak_byte, autocast=None):
    return Workload(
        "alexnet", "torchvision", "plain", "3x224x224", batch, precision, autocast, "ok", None,
        inference_peak_byte=peak_byte,
    )  # fmt: skip


def holding(rows):
    return SimpleNamespace(rows=lambda record: rows)


def test_what_needs_more_than_the_device_has_is_refused_with_both_numbers():
    rows = [counted(1, "fp32", 2_000_000_000), counted(64, "fp32", 16_000_000_001), counted(64, "bf16", None)]
    memory = MemoryFit(16_000_000_000, holding(rows))

    def refusal(batch, precision):
        return memory.refusal(inference_task(ALEXNET, batch, precision, "eager", 0))

    assert refusal(1, "fp32") is None
    assert refusal(64, "fp32") == Failure("oom", "not tried: its tensors need 16.0 GB, the device has 16.0 GB")
    assert refusal(64, "tf32") == refusal(64, "fp32")  # what is stored is the same
    assert refusal(64, "bf16") is None  # not counted, so it is tried
    assert refusal(256, "fp32") is None


def test_a_training_step_needs_its_own_peak_and_with_adam_a_larger_state():
    row = Workload(
        "alexnet", "torchvision", "plain", "3x224x224", 32, "fp32", None, "ok", None,
        inference_peak_byte=1_000, training_peak_byte=5_000, momentum_byte=600, adam_byte=1_204,
    )  # fmt: skip

    def refusal(device_byte, variant="eager"):
        return MemoryFit(device_byte, holding([row])).refusal(training_task(ALEXNET, 32, "fp32", variant, 0))

    assert refusal(5_000) is None
    assert refusal(4_999) is not None
    assert refusal(5_604, "channels_last+adam") is None  # 5000 - 600 + 1204
    assert refusal(5_603, "channels_last+adam") is not None
    assert MemoryFit(1_000, holding([row])).refusal(inference_task(ALEXNET, 32, "fp32", "eager", 0)) is None


def test_a_profile_needs_what_its_phase_does():
    row = Workload(
        "alexnet", "torchvision", "plain", "3x224x224", 32, "fp32", None, "ok", None,
        inference_peak_byte=1_000, training_peak_byte=5_000,
    )  # fmt: skip
    memory = MemoryFit(1_000, holding([row]))
    assert memory.refusal(profile_task(ALEXNET, 32, "fp32", "eager", "inference")) is None
    assert memory.refusal(profile_task(ALEXNET, 32, "fp32", "eager", "step")).status == "oom"


def test_a_step_whose_memory_was_not_counted_is_tried():
    task = training_task(ALEXNET, 1, "fp32", "adam", 0)
    assert MemoryFit(1, holding([counted(1, "fp32", 2)])).refusal(task) is None
