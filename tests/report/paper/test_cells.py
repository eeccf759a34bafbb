import dataclasses
import math
from statistics import fmean, stdev

import pandas as pd
import pytest
from helpers import rows
from helpers.rows import cell_columns
from helpers.world import world

from measure.domain.records import Run, Sample
from measure.domain.roofs import Roofline
from measure.domain.workload_records import Operator
from report.paper import cells, frame
from report.paper.roofs import LastCache

ROOF = Roofline(200.0, 20.0)


def run(model="net", number=0, status="ok", reason=None, flags=None, precision="fp32", **changed):
    cell = cell_columns(model, 1, "inference", precision=precision) | changed
    return Run(**cell, status=status, reason=reason, recorded_at="2026-01-01", round=number, flags=flags)


def samples(*times, number=0, precision="fp32", **changed):
    cell = cell_columns("net", 1, "inference", precision=precision) | changed
    return [Sample(**cell, sample=at, block=1, latency_s=time, round=number) for at, time in enumerate(times)]


COUNTED = pd.DataFrame({
    "model": ["net"], "batch": [1], "precision": ["fp32"], "input_shape": ["3x4x4"], "forward_flop": [100.0],
    "footprint_intensity": [5.0], "compulsory_byte": [8.0],
})  # fmt: skip


def operator(flop, byte, calls, stage="inference", precision="fp32", batch=1):
    fields = {"input_shape": "3x4x4", "precision": precision, "stage": stage, "layer_kind": "other", "byte": byte}
    return rows.operator(batch=batch, flop=flop, calls=calls, other_flop=900, recompute_flop=900, **fields)


def derived(runs, timed, operators=(), roof=ROOF, cache=None):
    return cells.derive_inference(
        frame(runs, Run),
        frame(timed, Sample),
        COUNTED,
        frame(list(operators), Operator),
        lambda _precision: roof,
        cache,
    )


@pytest.mark.parametrize(("event_s", "batch_2_s", "bounds"), [(1.0, 5.0, 1), (1.0, 1.0, 0), (None, 1.0, 2)])
def test_a_single_round_that_only_launches_has_no_interval(event_s, batch_2_s, bounds):
    """On a GPU, whose samples have its own time, the smallest batch and those that take less than twice as long."""
    timed = samples(*[1.0] * 6) + samples(*[batch_2_s] * 6, batch=2)
    timed = [dataclasses.replace(each, event_s=event_s) for each in timed]
    found = derived([run(), run(batch=2)], timed)
    assert list(found.latency_s) == [1.0, batch_2_s]
    assert found.latency_low_s.notna().sum() == found.latency_high_s.notna().sum() == bounds


def test_the_median_is_of_round_medians_whatever_their_samples():
    timed = samples(*[2.0] * 50) + samples(4.0, number=1) + samples(5.0, number=2)
    (row,) = derived([run(number=number) for number in range(3)], timed).itertuples()
    assert row.latency_s == 4.0  # of 2, 4 and 5
    assert row.latency_low_s < 2.0  # three rounds so far apart say little
    assert row.rounds == 3
    assert row.flop_per_s == 25.0
    assert row.attained == 0.25  # 5 FLOP/B at 20 B/s: 100 FLOP/s are attainable


def test_one_round_has_the_interval_and_the_flags_of_its_own():
    (row,) = derived([run(flags="drifting;wide")], samples(1.0, 1.0, 2.0, 3.0, 4.0, 9.0)).itertuples()
    # Of six sorted values the first and the last enclose the median.
    assert (row.latency_low_s, row.latency_s, row.latency_high_s) == (1.0, 2.5, 9.0)
    assert row.flags == "drifting;wide"


def test_bounds_of_the_model_and_of_its_operators():
    operators = [operator(40, 2, 2), operator(20, 40, 1), operator(1000, 1000, 1, "forward")]
    operators.append(operator(1000, 1000, 1, precision="bf16"))
    runs = [run(), run(precision="tf32"), run(precision="bf16")]
    found = derived(runs, samples(9.0) + samples(5.0, precision="tf32"), operators).set_index("precision")
    # tf32 needs the same as fp32; bf16 was not counted. 100 FLOP at 200 FLOP/s take longer than 8 B at 20 B/s
    assert found.forward_flop.tolist()[:2] == [100.0, 100.0]
    assert found.model_bound_s.tolist()[:2] == [0.5, 0.5]
    assert found.loc["bf16", ["forward_flop", "model_bound_s"]].isna().all()
    # Two calls of 40 FLOP in 0.2 s each (2 B take 0.1 s), one of 40 B in 2 s (20 FLOP take 0.1 s)
    assert found.operator_bound_s.tolist()[:2] == [2.4, 2.4]
    assert derived([run()], samples(9.0)).operator_bound_s.isna().all()
    # A cache of 39 B at 40 B/s does not hold the 40 B; from one of 40 B they take 1 s. The 2 B wait for 40 FLOP
    with_cache = [derived([run()], samples(9.0), operators, cache=LastCache(size, 40.0)) for size in (39, 40)]
    assert [each.operator_bound_s.item() for each in with_cache] == pytest.approx([2.4, 1.4])
    without_roof = derived([run()], samples(9.0), operators, None)
    assert without_roof[["model_bound_s", "operator_bound_s"]].isna().all(axis=None)


def test_steps_and_their_stages_are_no_cells_of_inference():
    phases = ("inference", "step", "forward", "backward", "update")
    timed = [each for at, phase in enumerate(phases) for each in samples(2.0 + at, phase=phase)]
    (row,) = derived([run(phase=phase) for phase in phases], timed).itertuples()
    assert (row.phase, row.latency_s) == ("inference", 2.0)


def test_a_variant_is_a_cell_of_its_own():
    runs = [run(), run(variant="cold"), run("other", status="oom", variant="cold")]
    found = derived(runs, samples(1.0, 1.0, 1.0) + samples(2.0, 3.0, 9.0, variant="cold"))
    found = found.set_index(["model", "variant"])
    assert found.status.to_dict() == {("net", "eager"): "ok", ("net", "cold"): "ok", ("other", "cold"): "oom"}
    cold = found.loc[("net", "cold")]
    assert (cold.latency_s, cold.flop_per_s, cold.speed_up) == pytest.approx((3, 100 / 3, 1 / 3))
    assert found.speed_up.notna().sum() == 1


def test_a_variant_is_held_against_rounds_of_the_same_sitting():
    # The host gets slower, and a later session has eager rounds alone: 4 / 2, 8 / 4 and 6 / 3 are 2 each time.
    times = {
        ("eager", 0, "first"): 4.0, ("eager", 1, "first"): 8.0, ("eager", 2, "first"): 6.0,
        ("cold", 0, "first"): 2.0, ("cold", 1, "first"): 4.0, ("cold", 2, "first"): 3.0,
        ("eager", 3, "later"): 100.0, ("cold", 3, "first"): 1.0,
    }  # fmt: skip
    timed = [each for (variant, at, _), time in times.items() for each in samples(time, number=at, variant=variant)]
    together = [run(number=at, variant=variant, session=session) for variant, at, session in times]
    apart = [dataclasses.replace(each, session=each.variant) for each in together]
    found, none = (derived(runs, timed).query("variant == 'cold'").iloc[0] for runs in (together, apart))
    assert (found.speed_up, found.speed_up_low, found.speed_up_high) == pytest.approx((2, 2, 2))
    assert math.isnan(none.speed_up)  # nothing was measured together


STUDENT_2 = 4.848732  # at 0.98 of 2 degrees of freedom: 0.96 * sqrt(1 / (2 * 0.98 * 0.02))
"""Student's t at 95 % for 2 degrees of freedom, from tables."""


def step(kind, model):
    rows = world().machine(kind).steps
    (row,) = rows[(rows.model == model) & (rows.batch == 8)].itertuples()
    return row


def derived_steps(ratios):
    """Steps of 1 s forward, ``ratio`` times that backward: six samples a round, every other doubled by a slow spell."""
    runs, timed = [], []
    for number, ratio in enumerate(ratios):
        runs.append(run(number=number, batch=8, phase="step"))
        for name, latency_s in (("forward", 1), ("backward", ratio), ("update", 0.5), ("step", ratio + 1.5)):
            times = [latency_s * (1 + index % 2) for index in range(6)]
            timed += samples(*times, number=number, batch=8, phase=name)
    counted = world().workloads[world().workloads.model == "lean"].assign(model="net")
    empty = frame([], Operator)
    return cells.derive_steps(frame(runs, Run), frame(timed, Sample), counted, empty, lambda _precision: None)


def test_a_ratio_is_of_paired_samples_with_students_interval():
    (row,) = derived_steps([2.5]).itertuples()
    assert (row.time_ratio_low, row.time_ratio, row.time_ratio_high) == (2.5, 2.5, 2.5)  # whatever slows both down
    assert row.forward_s == 1.5  # the median of 1, 2, 1, 2, ...
    (row,) = derived_steps([1.9, 2.0, 2.2]).itertuples()
    logs = [math.log(1.9), math.log(2.0), math.log(2.2)]
    half = STUDENT_2 * stdev(logs) / math.sqrt(3)
    ends = math.exp(fmean(logs) - half), math.exp(fmean(logs) + half)
    assert (row.time_ratio_low, row.time_ratio, row.time_ratio_high) == pytest.approx((ends[0], 2.0, ends[1]), rel=1e-5)


def test_without_operators_or_a_roof_there_is_no_least_time():
    assert math.isnan(step("cpu", "broad").operator_bound_s)
    (row,) = derived_steps([2.0]).itertuples()
    assert math.isnan(row.flop_bound_s)
    row = step("cpu", "tokens")
    assert (row.status, row.reason, math.isnan(row.latency_s)) == ("oom", "needs 9 GB", True)
