from math import exp, isnan, log, sqrt
from statistics import fmean, stdev

import pytest
from helpers.rows import cell_columns
from helpers.world import world

from measure.cache.records import Run, Sample
from measure.cache.workload_records import Operator
from report.paper import cells, frame

STUDENT_2 = 4.848732  # at 0.98 of 2 degrees of freedom: 0.96 * sqrt(1 / (2 * 0.98 * 0.02))
"""Student's t at 95 % for 2 degrees of freedom, from tables."""


def cell(kind, model):
    rows = world().machine(kind).steps
    (row,) = rows[(rows.model == model) & (rows.batch == 8)].itertuples()
    return row


def derived(ratios):
    """A cell of which each round has six samples of a forward pass of 1 s and a backward pass ``ratio`` times as long,

    all of which a slow spell doubles in every other sample.
    """
    runs, samples = [], []
    for number, ratio in enumerate(ratios):
        went = {"status": "ok", "reason": None, "recorded_at": "2026-01-01", "round": number}
        runs.append(Run(**cell_columns("net", 8, "step"), **went))
        for name, latency_s in (("forward", 1), ("backward", ratio), ("update", 0.5), ("step", ratio + 1.5)):
            timed = cell_columns("net", 8, name)
            samples += [
                Sample(**timed, sample=index, block=1, latency_s=latency_s * (1 + index % 2), round=number)
                for index in range(6)
            ]
    counted = world().workloads[world().workloads.model == "lean"].assign(model="net")
    empty = frame([], Operator)
    return cells.derive_steps(frame(runs, Run), frame(samples, Sample), counted, empty, lambda _precision: None)


def test_the_ratio_is_of_times_of_one_sample_and_rounds_are_joined_by_students_interval_of_logarithms():
    (row,) = derived([2.5]).itertuples()
    assert (row.time_ratio_low, row.time_ratio, row.time_ratio_high) == (2.5, 2.5, 2.5)  # whatever slows both down
    assert row.forward_s == 1.5  # the median of 1, 2, 1, 2, ...
    (row,) = derived([1.9, 2.0, 2.2]).itertuples()
    logs = [log(1.9), log(2.0), log(2.2)]
    half = STUDENT_2 * stdev(logs) / sqrt(3)
    ends = exp(fmean(logs) - half), exp(fmean(logs) + half)
    assert (row.time_ratio_low, row.time_ratio, row.time_ratio_high) == pytest.approx((ends[0], 2.0, ends[1]), rel=1e-5)


def test_times_rates_and_least_times_of_a_step():
    lean, deep = cell("cpu", "lean"), cell("cpu", "deep")
    assert (lean.forward_s, lean.backward_s, lean.update_s, lean.latency_s) == (0.01, 0.024, 0.002, 0.036)
    assert (lean.rounds, lean.sample_count, lean.peak_byte) == (3, 18, 66e6)
    assert (lean.time_ratio, lean.flop_ratio) == pytest.approx((2.4, 1.9))  # 1520 over 800 MFLOP
    # 800 MFLOP in 10 ms and 1520 MFLOP in 24 ms, of 100 GFLOP/s; on the GPU in 1.7 ms, of 8 TFLOP/s
    assert (lean.forward_peak_share, lean.backward_peak_share) == pytest.approx((0.8, 0.6333), rel=1e-3)
    assert cell("gpu", "lean").backward_peak_share == pytest.approx(0.11176, rel=1e-3)
    bounds = lean.flop_bound_s, lean.forward_bound_s, lean.backward_bound_s, lean.update_bound_s, lean.operator_bound_s
    # 2320 MFLOP at 100 GFLOP/s; 7.3 + 4.0 + 1.9 ms; 14.6 + 8.0 + 3.8 ms; weights and momentum of 4 MB each twice,
    # gradients of 4 MB once, so 20 MB at 10 GB/s
    assert bounds == pytest.approx((0.0232, 0.0132, 0.0264, 0.002, 0.0416))
    # 392 + 7.4 + 8, 776 + 14.8 + 16, and 200 MB
    assert deep.operator_bound_s == pytest.approx(0.4074 + 0.8068 + 0.02)


def test_without_operators_a_roof_or_a_result_there_is_no_least_time():
    assert isnan(cell("cpu", "broad").operator_bound_s)
    (row,) = derived([2.0]).itertuples()
    assert isnan(row.flop_bound_s)
    assert isnan(row.forward_peak_share)
    row = cell("cpu", "tokens")
    assert (row.status, row.reason, isnan(row.latency_s)) == ("oom", "needs 9 GB", True)
