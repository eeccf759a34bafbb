from dataclasses import replace

import pytest
from helpers.rows import workload

from measure.domain.growth import GREW, QUANTITIES, SAME, SHRANK, _sum, compare_counts

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


@pytest.mark.parametrize(("before", "after", "change"), [(0, 5, GREW), (0, 0, SAME), (5, 0, SHRANK), (0, 1, GREW)])
def test_a_count_of_nothing_is_compared_too(before, after, change):
    sides = [[replace(BEFORE, parameter_count=count)] for count in (before, after)]
    (found,) = (row for row in compare_counts(*sides) if row.quantity == "parameters")
    assert (found.a, found.b, found.change) == (before, after, change)


def test_a_quantity_is_the_sum_of_its_columns_or_unknown():
    step = _sum("forward_flop", "backward_flop", "recompute_flop")
    assert step(replace(BEFORE, forward_flop=10, backward_flop=20, recompute_flop=3)) == 33
    assert step(replace(BEFORE, forward_flop=10, backward_flop=None, recompute_flop=3)) is None
    # A step is the forward and the backward pass
    whole = replace(
        BEFORE, parameter_count=1, forward_flop=2, backward_flop=4, recompute_flop=8, traffic_byte=16,
        backward_traffic_byte=32, inference_peak_byte=64, training_peak_byte=128,
    )  # fmt: skip
    assert {name: (unit, read(whole)) for name, (unit, read) in QUANTITIES.items()} == {
        "parameters": ("", 1), "FLOP": ("FLOP", 2), "bytes": ("B", 16), "peak memory": ("B", 64),
        "FLOP of a step": ("FLOP", 14), "bytes of a step": ("B", 48), "peak memory of a step": ("B", 128),
    }  # fmt: skip


def test_equal_growth_is_sorted_by_model_batch_and_quantity():
    cells = [("b", 1), ("a", 2), ("a", 1)]
    before = [replace(BEFORE, model=model, batch=batch) for model, batch in cells]
    after = [replace(row, parameter_count=200, traffic_byte=100) for row in before]
    found = [(row.model, row.batch, row.quantity) for row in compare_counts(before, after) if row.change == GREW]
    assert found == [
        (model, batch, quantity) for model, batch in reversed(cells) for quantity in ("parameters", "bytes")
    ]


def test_a_compared_count_says_what_and_in_which_unit():
    found = compare_counts([BEFORE], [BEFORE])
    first = next(row for row in found if row.quantity == "FLOP")
    assert first.describe() == f"FLOP of {BEFORE.model} batch {BEFORE.batch} {BEFORE.precision}"
    assert [row.unit for row in found if row.quantity in ("FLOP", "bytes", "parameters")] == ["", "FLOP", "B"]
