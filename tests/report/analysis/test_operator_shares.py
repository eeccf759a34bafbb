"""``report.analysis.operator_shares`` on the profiled paper (``profiled_papers``), milliseconds and bytes by hand."""

import pandas as pd
import pytest
from helpers.papers import tiny
from helpers.profiled_papers import profiled
from helpers.training_papers import trained

from report.analysis import operator_shares
from report.analysis.available import DataMissingError


def cell(rows, model, batch, column):
    own = rows[(rows.model == model) & (rows.batch == batch)]
    return dict(zip(own.group, own[column], strict=True))


def test_the_time_and_work_of_groups():
    rows = operator_shares.groups(profiled(), profiled().machine("cpu"))
    assert cell(rows, "lean", 8, "time_s") == pytest.approx(
        {"convolution": 8.3e-3, "elementwise": 2.0e-3, "matrix product": 2.4e-3}
    )
    # 8.3 + 2.0 + 2.4 = 12.7 ms
    assert cell(rows, "lean", 8, "share")["convolution"] == pytest.approx(8.3 / 12.7)
    assert cell(rows, "lean", 8, "flop") == {"convolution": 720e6, "elementwise": 0, "matrix product": 80e6}
    assert cell(rows, "deep", 1, "flop")["other"] == 0  # zeta was not counted


def test_groups_that_do_arithmetic_have_a_place_under_the_roof():
    rows = operator_shares.on_roof(profiled(), profiled().machine("cpu"))
    # 720 MFLOP over 73 MB in 8.3 ms; relu does none, batch norm neither
    assert cell(rows, "lean", 8, "intensity") == pytest.approx({"convolution": 720 / 73, "matrix product": 4})
    assert cell(rows, "lean", 8, "flop_per_s")["convolution"] == pytest.approx(720e6 / 8.3e-3)
    assert set(cell(rows, "deep", 1, "share")) == {"convolution", "matrix product"}


def test_the_work_of_a_step_is_that_of_both_passes_and_the_optimiser_has_time_alone():
    rows = operator_shares.groups(trained(), trained().machine("cpu"))
    assert set(rows.phase) == {"step"}
    # 1360 MFLOP of both gradients; the forward pass's 720
    flop = cell(rows, "lean", 8, "flop")
    assert (flop["convolution"], flop["convolution, both gradients"], flop["optimiser"]) == (720e6, 1360e6, 0)
    assert cell(rows, "lean", 8, "time_s")["optimiser"] == pytest.approx(2e-3)


def test_the_whole_of_a_cell():
    rows = operator_shares.whole(profiled(), profiled().machine("cpu")).set_index(["model", "batch"])
    # 90 + 10 MFLOP over 10 + 5 + 5 MB in 3.92 ms
    lean = rows.loc[("lean", 1)]
    assert (lean.intensity, lean.flop_per_s) == pytest.approx((5, 100e6 / 3.92e-3))


def test_the_parts_of_a_call_sum_to_it():
    rows = operator_shares.parts(profiled(), profiled().machine("cpu"))
    for (_, _, _), own in rows.groupby(operator_shares.CELL):
        assert own.time_s.sum() == pytest.approx(own.profiled_s.iloc[0])
        assert own.part.sum() == pytest.approx(1)
    lean = rows[(rows.model == "lean") & (rows.batch == 1)].set_index("group").time_s
    assert lean["framework"] == pytest.approx(1.7e-3)  # 4.5 - 1.5 - 0.7 - 0.6


def test_pictured_are_the_models_of_the_study_in_training_at_the_largest_batch_size():
    rows = [("resnet50", 1, "inference"), ("resnet50", 64, "step"), ("resnet50", 32, "step"), ("alexnet", 1, "step"),
            ("vit_b_32", 256, "inference"), ("vit_b_32", 64, "inference")]  # fmt: skip
    cells = pd.DataFrame(rows, columns=operator_shares.CELL)
    assert [tuple(row) for row in operator_shares.pictured(cells).to_numpy()] == [rows[1], rows[4]]
    others = cells[cells.model == "alexnet"]
    assert [tuple(row) for row in operator_shares.pictured(others).to_numpy()] == [rows[3]]


def test_the_time_of_a_step_is_that_of_its_rounds():
    cpu = trained().machine("cpu")
    assert operator_shares.step_s(cpu, "lean", 8) == pytest.approx(36e-3)  # 10 + 24 + 2 ms
    assert operator_shares.step_s(cpu, "lean", 64) is None
    assert operator_shares.step_s(profiled().machine("cpu"), "lean", 8) is None  # only inference was profiled


def test_what_is_missing_is_said():
    cpu = tiny().machine("cpu")
    with pytest.raises(DataMissingError, match="--device cpu --sections workload operators` profiles them"):
        operator_shares.groups(tiny(), cpu)
