import dataclasses

import pytest
from helpers.comparing import ENVIRONMENT

from measure.domain.comparison import (
    FASTER,
    OTHERS,
    ROUNDS,
    SLOWER,
    WITHIN_ERROR,
    ComparedRow,
    Difference,
    Repeats,
    RoofKernel,
    Side,
    compare,
)
from measure.domain.latency import Cell


def cell(model):
    return Cell(model, 1, "fp32", "inference", "eager")


def rounds(*latencies):
    return Repeats(latencies, 0.001, 12)


def side(cells, roofs=None):
    return Side("folder", ENVIRONMENT, cells, roofs or {})


STEADY = (0.99, 1.0, 1.01)
A = side(
    {
        cell("same"): rounds(*STEADY),
        cell("slower"): rounds(*STEADY),
        cell("slowest"): rounds(*STEADY),
        cell("faster"): rounds(*STEADY),
        cell("breaks"): rounds(*STEADY),
        cell("only a"): rounds(*STEADY),
        cell("never"): Repeats(status="oom", reason="no memory"),
    }
)
B = side(
    {
        cell("only b"): rounds(*STEADY),
        cell("same"): rounds(1.0, 0.99, 1.01),
        cell("slower"): rounds(1.29, 1.3, 1.31),
        cell("slowest"): rounds(1.99, 2.0, 2.01),
        cell("faster"): Repeats((0.49, 0.5, 0.51), 0.001, 12, flags="drifting;wide"),
        cell("breaks"): Repeats(status="timeout", reason="took longer than 60 s"),
        cell("never"): Repeats(status="oom", reason="no memory"),
    }
)


def test_what_changed_comes_first_the_slowest_before_the_faster():
    rows = compare(A, B)
    assert [row.key.model for row in rows[:4]] == ["slowest", "slower", "faster", "same"]
    assert [row.change for row in rows] == [SLOWER, SLOWER, FASTER, WITHIN_ERROR, None, None, None, None]
    assert {row.key.model for row in rows[4:]} == {"breaks", "only a", "only b", "never"}


def test_a_row_says_what_both_sides_measured():
    rows = {row.key.model: row for row in compare(A, B)}
    faster = rows["faster"].columns()
    assert faster["a_latency_s"] == pytest.approx((0.99 * 1.0 * 1.01) ** (1 / 3))
    assert faster["ratio"] == pytest.approx(((0.49 * 0.5 * 0.51) / (0.99 * 1.0 * 1.01)) ** (1 / 3))
    assert faster["ratio_low"] < faster["ratio"] < faster["ratio_high"] < 1
    assert (faster["a_rounds"], faster["b_rounds"], faster["basis"]) == (3, 3, ROUNDS)
    assert (faster["a_flags"], faster["b_flags"]) == (None, "drifting;wide")
    assert rows["faster"].label == "faster batch 1 fp32 inference eager"
    breaks = rows["breaks"].columns()
    assert (breaks["a_status"], breaks["b_status"], breaks["b_reason"]) == ("ok", "timeout", "took longer than 60 s")
    assert (breaks["ratio"], breaks["b_latency_s"], breaks["roof_kernel"]) == (None, None, None)
    assert (rows["only a"].b.status, rows["only b"].a.status) == (None, None)


def test_cells_with_inputs_of_another_shape_are_not_compared():
    one = Repeats(STEADY, 0.001, 12, input_shape="16000")
    ten, failed = (
        dataclasses.replace(one, input_shape="160000"),
        Repeats(status="oom", reason="no", input_shape="160000"),
    )
    unknown = dataclasses.replace(one, input_shape=None)
    for theirs, ratio in ((one, 1.0), (unknown, 1.0), (ten, None), (failed, None)):
        (row,) = compare(side({cell("net"): one}), side({cell("net"): theirs}))
        assert row.ratio == ratio
        assert not row.is_regression(0.0)


def test_a_regression_is_significant_and_larger_than_allowed():
    rows = compare(A, B)
    assert [row.key.model for row in rows if row.is_regression(0.05)] == ["slowest", "slower", "breaks"]
    assert [row.key.model for row in rows if row.is_regression(0.5)] == ["slowest", "breaks"]
    unsure = Difference(1.2, change=WITHIN_ERROR)
    assert not ComparedRow(cell("net"), rounds(1.0), rounds(1.2), unsure).is_regression(0.05)


def test_ceilings_follow_the_cells_and_take_their_spread():
    kernel = RoofKernel("matmul", 512, "fp32", "burst")
    a, b = (side(each.cells, {kernel: rounds(latency)}) for each, latency in ((A, 1.0), (B, 1.02)))
    row = compare(a, b)[-1]
    assert row.label == "matmul 512 fp32 burst"
    # The cells' rounds lie 1 % apart, so one process a side leaves some 1.4 % uncertain, whatever its samples say.
    assert (row.change, row.difference.basis) == (WITHIN_ERROR, OTHERS)
