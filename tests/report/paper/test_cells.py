import dataclasses
import math

import pandas as pd
import pytest
from helpers import rows
from helpers.rows import cell_columns

from measure.cache.records import Run, Sample
from measure.cache.workload_records import Operator
from measure.domain.roofs import Roofline
from report.paper import cells, frame
from report.paper.cells import operator_bounds

ROOF = Roofline(200.0, 20.0)


def run(model="net", number=0, status="ok", reason=None, flags=None, precision="fp32"):
    cell = cell_columns(model, 1, "inference", precision=precision)
    return Run(**cell, status=status, reason=reason, recorded_at="2026-01-01", round=number, flags=flags)


def sample(latency_s, index=0, number=0, model="net", precision="fp32"):
    cell = cell_columns(model, 1, "inference", precision=precision)
    return Sample(**cell, sample=index, block=1, latency_s=latency_s, round=number)


def in_variant(row, variant):
    return dataclasses.replace(row, variant=variant)


def counted(precision="fp32"):
    return pd.DataFrame(
        {
            "model": ["net"],
            "batch": [1],
            "precision": [precision],
            "input_shape": ["3x4x4"],
            "forward_flop": [100.0],
            "footprint_intensity": [5.0],
            "compulsory_byte": [8.0],
        }
    )


def operator(flop, byte, calls, stage="inference", precision="fp32"):
    asked = {"input_shape": "3x4x4", "precision": precision, "stage": stage, "layer_kind": "other", "byte": byte}
    return rows.operator(flop=flop, calls=calls, other_flop=900, recompute_flop=900, **asked)


def derived(runs, samples, workloads, operators=(), roof=ROOF):
    return cells.derive(
        frame(runs, Run), frame(samples, Sample), workloads, frame(list(operators), Operator), lambda _precision: roof
    )


def test_the_median_is_that_of_the_rounds_medians_whatever_their_numbers_of_samples():
    samples = [sample(2.0, index) for index in range(50)]
    samples += [sample(4.0, 0, 1), sample(5.0, 0, 2)]
    (row,) = derived([run(number=number) for number in range(3)], samples, counted()).itertuples()
    assert row.latency_s == 4.0  # of 2, 4 and 5
    assert row.latency_low_s < 2.0  # three rounds so far apart say little
    assert (row.rounds, row.sample_count) == (3, 52)
    assert row.flop_per_s == 25.0
    assert row.attained == 0.25  # 5 FLOP/B at 20 B/s: 100 FLOP/s are attainable


def test_one_round_has_the_interval_of_its_own():
    values = [1.0, 1.0, 2.0, 3.0, 4.0, 9.0]
    (row,) = derived([run()], [sample(value, index) for index, value in enumerate(values)], counted()).itertuples()
    # Of six sorted values the first and the last enclose the median.
    assert (row.latency_low_s, row.latency_s, row.latency_high_s) == (1.0, 2.5, 9.0)


def test_one_round_has_its_own_flags():
    (row,) = derived([run(flags="drifting;wide")], [sample(1.0)], counted()).itertuples()
    assert row.flags == "drifting;wide"


def test_of_several_rounds_their_interval_decides():
    flags = ["wide", None, "drifting;throttled;wide"]
    runs = [run(number=number, flags=flag) for number, flag in enumerate(flags)]
    (row,) = derived(runs, [sample(1.0, 0, number) for number in range(3)], counted()).itertuples()
    assert row.flags == "throttled"  # rounds that agree are an interval without width
    # Student's t of two degrees of freedom is 4.8 at 96 %: rounds of 1, 1.1 and 1.2 leave far more than 5 % open
    (row,) = derived(runs, [sample(1 + number / 10, 0, number) for number in range(3)], counted()).itertuples()
    assert row.flags == "throttled;wide"


def test_a_round_with_a_result_is_the_cells_outcome_and_without_one_the_first_failure():
    runs = [run(number=0, status="oom", reason="full"), run(number=1, status="timeout"), run(number=2)]
    (row,) = derived(runs, [sample(1.0, number=2)], counted()).itertuples()
    assert (row.status, row.latency_s, row.rounds) == ("ok", 1.0, 1)
    (row,) = derived(runs[:2], [], counted()).itertuples()
    assert (row.status, row.reason, row.rounds) == ("oom", "full", 0)


def test_tf32_asks_for_what_fp32_does():
    rows = derived([run(precision="tf32")], [sample(1.0, precision="tf32")], counted())
    assert rows.forward_flop.tolist() == [100.0]
    assert rows.precision.tolist() == ["tf32"]
    assert math.isnan(derived([run(precision="bf16")], [], counted()).forward_flop[0])


@pytest.mark.parametrize("runs", [[], [run(status="error", reason="no")]])
def test_cells_without_samples_have_no_latency(runs):
    rows = derived(runs, [], counted())
    assert len(rows) == len(runs)
    assert rows.latency_s.isna().all()


def test_bounds_of_the_model_and_of_its_operators():
    operators = [operator(40, 2, 2), operator(20, 40, 1), operator(1000, 1000, 1, "forward")]
    operators.append(operator(1000, 1000, 1, precision="bf16"))
    runs = [run(), run(precision="tf32")]
    rows = derived(runs, [sample(9.0), sample(5.0, precision="tf32")], counted(), operators)
    # 100 FLOP at 200 FLOP/s take longer than 8 B at 20 B/s
    assert rows.model_bound_s.tolist() == [0.5, 0.5]
    # Two calls of 40 FLOP in 0.2 s each (2 B take 0.1 s), one of 40 B in 2 s (20 FLOP take 0.1 s); tf32 stores fp32.
    assert rows.operator_bound_s.tolist() == [2.4, 2.4]


def test_without_operators_or_roof_there_are_no_bounds():
    rows = derived([run()], [sample(9.0)], counted())
    assert rows.model_bound_s.tolist() == [0.5]
    assert rows.operator_bound_s.isna().all()
    rows = derived([run()], [sample(9.0)], counted(), [operator(40, 2, 2)], None)
    assert rows[["model_bound_s", "operator_bound_s"]].isna().all(axis=None)


def test_training_steps_and_their_stages_are_no_cells_of_inference():
    phases = ("step", "forward", "backward", "update")
    runs = [run(), *(dataclasses.replace(run(), phase=phase) for phase in phases)]
    samples = [sample(2.0), *(dataclasses.replace(sample(9.0), phase=phase) for phase in phases)]
    (row,) = derived(runs, samples, counted()).itertuples()
    assert (row.phase, row.latency_s, row.sample_count) == ("inference", 2.0, 1)


def test_a_variant_is_a_cell_of_its_own():
    runs = [run(), in_variant(run(), "cold"), in_variant(run("other", status="oom"), "cold")]
    samples = [
        in_variant(sample(latency_s, index), variant)
        for variant, times in (("eager", (1.0, 1.0, 1.0)), ("cold", (2.0, 3.0, 9.0)))
        for index, latency_s in enumerate(times)
    ]
    found = derived(runs, samples, counted()).set_index(["model", "variant"])
    assert found.status.to_dict() == {("net", "eager"): "ok", ("net", "cold"): "ok", ("other", "cold"): "oom"}
    assert found.latency_s["net", "cold"] == 3
    assert found.flop_per_s["net", "cold"] == pytest.approx(100 / 3)
    assert found.speed_up["net", "cold"] == pytest.approx(1 / 3)
    assert found.speed_up.notna().sum() == 1


def test_a_variant_is_held_against_rounds_of_the_same_sitting():
    # The host gets slower, and a later sitting has eager rounds alone: 4 / 2, 8 / 4 and 6 / 3 are 2 each time.
    times = {
        ("eager", 0, "first"): 4.0, ("eager", 1, "first"): 8.0, ("eager", 2, "first"): 6.0,
        ("cold", 0, "first"): 2.0, ("cold", 1, "first"): 4.0, ("cold", 2, "first"): 3.0,
        ("eager", 3, "later"): 100.0, ("cold", 3, "first"): 1.0,
    }  # fmt: skip
    runs = [
        dataclasses.replace(in_variant(run(number=number), variant), sitting=sitting)
        for variant, number, sitting in times
    ]
    samples = [in_variant(sample(latency_s, 0, number), variant) for (variant, number, _), latency_s in times.items()]

    def cold(runs):
        (row,) = (row for row in derived(runs, samples, counted()).itertuples() if row.variant == "cold")
        return row

    together = cold(runs)
    assert (together.speed_up, together.speed_up_low, together.speed_up_high) == pytest.approx((2, 2, 2))
    apart = cold([dataclasses.replace(each, sitting=each.variant) for each in runs])
    assert math.isnan(apart.speed_up)  # nothing was measured together


def counted_operator(batch, stage, flop, byte, calls, precision="fp32", kind="other"):
    asked = {"input_shape": "3x4x4", "precision": precision, "stage": stage, "layer_kind": kind, "byte": byte}
    return rows.operator(batch=batch, flop=flop, calls=calls, other_flop=900, recompute_flop=900, **asked)


OPERATORS = [
    counted_operator(1, "inference", 40, 2, 2),
    counted_operator(1, "inference", 20, 40, 1),
    counted_operator(8, "inference", 400, 2, 3),
    counted_operator(1, "backward", 100, 1, 1),
    counted_operator(1, "inference", 40, 80, 1, "bf16"),
]


def test_a_stage_takes_the_sum_of_its_operators_each_the_longer_of_arithmetic_and_memory():
    rows = operator_bounds(frame(OPERATORS, Operator), "fp32", ROOF)
    # 40 / 200 = 0.2 > 2 / 20, twice, and 20 / 200 < 40 / 20 = 2; 400 / 200 = 2, thrice; 100 / 200
    assert {(row.batch, row.stage): row.bound_s for row in rows.itertuples()} == pytest.approx(
        {(1, "inference"): 2.4, (8, "inference"): 6.0, (1, "backward"): 0.5}
    )


def test_tf32_is_stored_as_fp32():
    rows = operator_bounds(frame(OPERATORS, Operator), "tf32", Roofline(2000.0, 20.0))
    # at ten times the peak: 2 * max(0.02, 0.1) + max(0.01, 2)
    assert rows[(rows.batch == 1) & (rows.stage == "inference")].bound_s.tolist() == pytest.approx([2.2])


def test_none_counted():
    assert operator_bounds(frame([], Operator), "fp32", ROOF).empty
