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
    Repeats,
    RoofKernel,
    Side,
    SideResult,
    compare,
    geometric_mean_ratio,
)
from measure.domain.latency import Cell


def cell(model):
    return Cell(model, 1, "fp32", "inference", "eager")


def rounds(*latencies):
    return SideResult("ok", None, Repeats(latencies, 0.001, 12))


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
        cell("never"): SideResult("oom", "no memory", None),
    }
)
B = side(
    {
        cell("only b"): rounds(*STEADY),
        cell("same"): rounds(1.0, 0.99, 1.01),
        cell("slower"): rounds(1.29, 1.3, 1.31),
        cell("slowest"): rounds(1.99, 2.0, 2.01),
        cell("faster"): SideResult("ok", None, Repeats((0.49, 0.5, 0.51), 0.001, 12), frozenset({"wide", "drifting"})),
        cell("breaks"): SideResult("timeout", "took longer than 60 s", None),
        cell("never"): SideResult("oom", "no memory", None),
    }
)


def test_what_changed_comes_first_the_slowest_before_the_faster():
    rows = compare(A, B)
    assert [row.model for row in rows[:4]] == ["slowest", "slower", "faster", "same"]
    assert [row.change for row in rows] == [SLOWER, SLOWER, FASTER, WITHIN_ERROR, None, None, None, None]
    assert {row.model for row in rows[4:]} == {"breaks", "only a", "only b", "never"}


def test_a_row_says_what_both_sides_measured():
    rows = {row.model: row for row in compare(A, B)}
    faster = rows["faster"]
    assert faster.a_latency_s == pytest.approx((0.99 * 1.0 * 1.01) ** (1 / 3))
    assert faster.ratio == pytest.approx(((0.49 * 0.5 * 0.51) / (0.99 * 1.0 * 1.01)) ** (1 / 3))
    assert faster.ratio_low < faster.ratio < faster.ratio_high < 1
    assert (faster.a_rounds, faster.b_rounds, faster.basis) == (3, 3, ROUNDS)
    assert (faster.a_flags, faster.b_flags) == (None, "drifting;wide")
    assert faster.label == "faster batch 1 fp32 inference eager"
    breaks = rows["breaks"]
    assert (breaks.a_status, breaks.b_status, breaks.b_reason) == ("ok", "timeout", "took longer than 60 s")
    assert (breaks.ratio, breaks.b_latency_s) == (None, None)
    assert (rows["only a"].b_status, rows["only b"].a_status) == (None, None)


def test_what_no_longer_runs_ran_and_was_tried():
    assert [row.model for row in compare(A, B) if row.no_longer_runs] == ["breaks"]


def test_cells_with_inputs_of_another_shape_are_not_compared():
    one = SideResult("ok", None, Repeats(STEADY, 0.001, 12), input_shape="16000")
    ten, failed = dataclasses.replace(one, input_shape="160000"), SideResult("oom", "no", None, input_shape="160000")
    unknown = dataclasses.replace(one, input_shape=None)
    for theirs, ratio in ((one, 1.0), (unknown, 1.0), (ten, None), (failed, None)):
        (row,) = compare(side({cell("net"): one}), side({cell("net"): theirs}))
        assert row.ratio == ratio
        assert not row.no_longer_runs
        assert (row.a_input_shape, row.b_input_shape) == ("16000", theirs.input_shape)


def test_a_regression_is_significant_and_larger_than_allowed():
    rows = compare(A, B)
    assert [row.model for row in rows if row.is_regression(0.05)] == ["slowest", "slower"]
    assert [row.model for row in rows if row.is_regression(0.5)] == ["slowest"]
    assert not ComparedRow("runs", ratio=1.2, change=WITHIN_ERROR).is_regression(0.05)


def test_ceilings_follow_the_cells_and_take_their_spread():
    kernel = RoofKernel("matmul", 512, "fp32", "burst")
    a, b = (side(each.cells, {kernel: rounds(latency)}) for each, latency in ((A, 1.0), (B, 1.02)))
    row = compare(a, b)[-1]
    assert row.label == "matmul 512 fp32 burst"
    # The cells' rounds lie 1 % apart, so one process a side leaves some 1.4 % uncertain, whatever its samples say.
    assert (row.change, row.basis) == (WITHIN_ERROR, OTHERS)


def test_ratios_are_averaged_as_factors():
    rows = [ComparedRow("runs", ratio=2.0), ComparedRow("runs", ratio=0.5), ComparedRow("runs")]
    assert geometric_mean_ratio(rows) == pytest.approx(1.0)
    assert geometric_mean_ratio(rows[:1]) == pytest.approx(2.0)
