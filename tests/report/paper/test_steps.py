from math import exp, log, sqrt
from statistics import fmean, stdev

import pytest
from helpers.rows import cell_columns
from helpers.world import world

from measure.cache.records import Run, Sample
from measure.cache.workload_records import Operator
from report.paper import frame, steps

STUDENT_2 = 4.848732  # at 0.98 of 2 degrees of freedom: 0.96 * sqrt(1 / (2 * 0.98 * 0.02))
"""Student's t at 95 % for 2 degrees of freedom, from tables."""


def cell(kind, model):
    rows = world().machine(kind).steps
    (row,) = rows[(rows.model == model) & (rows.batch == 8)].itertuples()
    return row


def derived(ratios, status="ok", phase="step"):
    """A cell of which each round has six samples of a forward pass of 1 s and a backward pass ``ratio`` times as long,

    all of which a slow spell doubles in every other sample.
    """
    runs, samples = [], []
    for number, ratio in enumerate(ratios):
        went = {"status": status, "reason": None, "recorded_at": "2026-01-01", "round": number}
        runs.append(Run(**cell_columns("net", 8, phase), **went))
        for name, latency_s in (("forward", 1), ("backward", ratio), ("update", 0.5), ("step", ratio + 1.5)):
            timed = cell_columns("net", 8, name)
            samples += [
                Sample(**timed, sample=index, block=1, latency_s=latency_s * (1 + index % 2), round=number)
                for index in range(6)
            ]
    counted = world().workloads[world().workloads.model == "lean"].assign(model="net")
    empty = frame([], Operator)
    return steps.derive(frame(runs, Run), frame(samples, Sample), counted, empty, lambda _precision: None)


def test_a_slow_spell_of_a_whole_step_leaves_the_ratio_alone():
    (row,) = derived([2.5]).itertuples()
    assert (row.time_ratio_low, row.time_ratio, row.time_ratio_high) == (2.5, 2.5, 2.5)
    assert row.forward_s == 1.5  # the median of 1, 2, 1, 2, ...


def test_ratios_of_rounds_are_joined_by_students_interval_of_their_logarithms():
    (row,) = derived([1.9, 2.0, 2.2]).itertuples()
    logs = [log(1.9), log(2.0), log(2.2)]
    half = STUDENT_2 * stdev(logs) / sqrt(3)
    assert row.time_ratio == 2.0
    assert row.time_ratio_low == pytest.approx(exp(fmean(logs) - half), rel=1e-5)
    assert row.time_ratio_high == pytest.approx(exp(fmean(logs) + half), rel=1e-5)


def test_times_of_a_step_and_its_stages():
    row = cell("cpu", "lean")
    assert (row.forward_s, row.backward_s, row.update_s, row.latency_s) == (0.01, 0.024, 0.002, 0.036)
    assert (row.rounds, row.sample_count, row.peak_byte) == (3, 18, 66e6)
    assert row.time_ratio == pytest.approx(2.4)
    assert row.flop_ratio == pytest.approx(1.9)  # 1520 over 800 MFLOP


def test_rates_of_the_passes():
    row = cell("cpu", "lean")
    # 800 MFLOP in 10 ms and 1520 MFLOP in 24 ms, of 100 GFLOP/s
    assert row.forward_peak_share == pytest.approx(0.8)  # 80 GFLOP/s
    assert row.backward_peak_share == pytest.approx(0.6333, rel=1e-3)
    # 1520 MFLOP in 1.7 ms, of 8 TFLOP/s
    assert cell("gpu", "lean").backward_peak_share == pytest.approx(0.11176, rel=1e-3)


def test_least_times():
    lean, deep = cell("cpu", "lean"), cell("cpu", "deep")
    assert lean.flop_bound_s == pytest.approx(0.0232)  # 2320 MFLOP at 100 GFLOP/s
    assert lean.forward_bound_s == pytest.approx(0.0132)  # 7.3 + 4.0 + 1.9 ms
    assert lean.backward_bound_s == pytest.approx(0.0264)  # 14.6 + 8.0 + 3.8 ms
    # Weights and momentum of 4 MB each twice, gradients of 4 MB once: 20 MB at 10 GB/s
    assert lean.update_bound_s == pytest.approx(0.002)
    assert lean.operator_bound_s == pytest.approx(0.0416)
    # 392 + 7.4 + 8, 776 + 14.8 + 16, and 200 MB
    assert deep.operator_bound_s == pytest.approx(0.4074 + 0.8068 + 0.02)


def test_without_counted_operators_or_a_roof_there_is_no_least_time():
    assert cell("cpu", "broad").operator_bound_s != cell("cpu", "broad").operator_bound_s
    (row,) = derived([2.0]).itertuples()
    assert row.flop_bound_s != row.flop_bound_s
    assert row.forward_peak_share != row.forward_peak_share


def test_a_step_that_failed_keeps_its_reason():
    row = cell("cpu", "tokens")
    assert (row.status, row.reason) == ("oom", "needs 9 GB")
    assert row.latency_s != row.latency_s


def test_inference_is_no_training():
    assert derived([2.0], phase="inference").empty
    assert set(world().machine("cpu").cells.phase) == {"inference"}
