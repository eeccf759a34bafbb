from dataclasses import replace

import pytest
from helpers.rows import workload

from measure.domain.growth import GREW, QUANTITIES, SAME, SHRANK, compare_counts

BEFORE = workload(parameter_count=100, traffic_byte=50, inference_peak_byte=40, backward_flop=20, recompute_flop=0)


def test_any_growth_is_listed_and_the_largest_comes_first():
    after = replace(BEFORE, forward_flop=11, traffic_byte=75, inference_peak_byte=39)
    found = [(row.quantity, row.change, row.a, row.b) for row in compare_counts([BEFORE], [after])]
    # A step has 10 + 20 FLOP before and 11 + 20 after. Bytes grew by half, FLOP by 1/10, FLOP of a step by 1/30.
    assert found == [
        ("bytes", GREW, 50, 75), ("FLOP", GREW, 10, 11), ("FLOP of a step", GREW, 30, 31),
        ("peak memory", SHRANK, 40, 39), ("parameters", SAME, 100, 100),
    ]  # fmt: skip


def test_a_count_that_b_lacks_may_have_grown():
    gone = replace(BEFORE, status="unsupported", reason="no meta kernel", forward_flop=None)
    rows = compare_counts([BEFORE], [gone])
    assert {(row.b, row.change, row.reason) for row in rows} == {(None, GREW, "no meta kernel")}
    assert compare_counts([gone], [BEFORE]) == []


@pytest.mark.parametrize(
    ("a", "b", "shapes"),
    [
        (["3x2x2"], ["3x2x2"], [("3x2x2", "3x2x2")]),
        (["3x2x2"], ["3x4x4"], [("3x2x2", "3x4x4")]),  # a larger input is growth
        (["3x2x2", "3x4x4"], ["3x4x4"], [("3x4x4", "3x4x4")]),
        (["3x2x2", "3x8x8"], ["3x4x4"], []),  # which of two to hold it against is not known
    ],
)
def test_workloads_are_held_against_each_other_by_their_inputs(a, b, shapes):
    sides = [[replace(BEFORE, input_shape=shape) for shape in side] for side in (a, b)]
    assert list(dict.fromkeys((row.a_shape, row.b_shape) for row in compare_counts(*sides))) == shapes


@pytest.mark.parametrize("other", [{"model": "other"}, {"batch": 2}, {"precision": "bf16"}, {"autocast": "cpu"}])
def test_counts_of_other_cells_are_not_compared(other):
    assert compare_counts([BEFORE], [replace(BEFORE, **other)]) == []


def test_every_quantity_has_a_workload_column():
    whole = replace(BEFORE, backward_traffic_byte=90, training_peak_byte=200)
    assert [row.quantity for row in compare_counts([whole], [whole])] == list(QUANTITIES)
