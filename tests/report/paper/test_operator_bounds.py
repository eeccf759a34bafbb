import pytest
from helpers import rows

from measure.cache.workload_records import Operator
from measure.domain.roofs import Roofline
from report.paper import frame
from report.paper.cells import operator_bounds

ROOF = Roofline(200.0, 20.0)


def operator(batch, stage, flop, byte, calls, precision="fp32", kind="other"):
    asked = {"input_shape": "3x4x4", "precision": precision, "stage": stage, "layer_kind": kind, "byte": byte}
    return rows.operator(batch=batch, flop=flop, calls=calls, other_flop=900, recompute_flop=900, **asked)


OPERATORS = [
    operator(1, "inference", 40, 2, 2),
    operator(1, "inference", 20, 40, 1),
    operator(8, "inference", 400, 2, 3),
    operator(1, "backward", 100, 1, 1),
    operator(1, "inference", 40, 80, 1, "bf16"),
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
