from dataclasses import replace

import pytest
from helpers.published_papers import printed

from report.published import chips
from report.published.verdict import AGREES, DIFFERS, NOT_COMPARABLE


def row_of(paper, study, chip, quantity):
    (found,) = (
        row
        for row in chips.comparisons(paper)
        if (row.study, row.quantity) == (study, quantity) and row.subject.startswith(chip)
    )
    return found


def test_a_sparse_peak_is_recognised():
    row = row_of(printed(), "madani2026", "NVIDIA H100 SXM", "peak")
    assert row.ours == 989.4e12
    assert str(row.verdict) == "differs because it is the peak with 2:4 sparsity"
    assert row.ratio == pytest.approx(2, abs=0.001)
    assert "2:4 sparsity" in str(row_of(printed(), "a1rooflines", "NVIDIA H100 SXM", "peak").verdict)  # fp8


def test_the_factor_two_of_amx():
    # 2 of 32 cores at 4.1 for 2.1 GHz, of 137.6 TOP/s: 137.6 x 8.2 / 67.2 = 16.79, of which 33.58 is twice
    row = row_of(printed(), "a1rooflines", "Intel Xeon Gold 6448Y", "peak")
    assert row.ours == pytest.approx(16.79e12, rel=0.001)
    assert "counts multiply and add already" in row.verdict.reason
    # 2 of 8 channels of 307.2 GB/s
    assert row_of(printed(), "a1rooflines", "Intel Xeon Gold 6448Y", "bandwidth").ours == pytest.approx(76.8e9)


def test_a_peak_without_a_precision_is_held_against_that_of_the_measurements():
    row = row_of(printed(), "madani2026", "NVIDIA T4", "peak")
    assert row.ours == 8.1e12
    assert row.verdict.reason == "because it is the fp16 peak of the tensor units"


def test_a_precision_that_the_chip_has_not():
    row = row_of(printed(), "a1rooflines", "Apple M1", "peak")
    assert row.ours is None
    assert row.verdict.outcome == DIFFERS
    assert "fp32 peak of the vector units" in row.verdict.reason


def test_roofs_that_are_right_and_chips_that_are_not_named():
    assert row_of(printed(), "pham2024", "NVIDIA L4", "peak").verdict.outcome == AGREES
    assert row_of(printed(), "a1rooflines", "Intel Gaudi 3", "bandwidth").verdict.outcome == AGREES  # 3.67 is 3.7
    assert row_of(printed(), "madani2026", "Intel Xeon 1-core", "peak").verdict.outcome == NOT_COMPARABLE


def test_other_figures_that_the_note_of_the_chip_names():
    # data/chips.csv: "NVIDIA's T4 datasheet of 2019 and FluidX3D list 300 GB/s", 256 bit x 10 Gb/s are 320
    row = row_of(printed(), "a1rooflines", "NVIDIA T4", "bandwidth")
    assert (row.printed, row.ours) == (300e9, 320e9)
    assert str(row.verdict) == "differs because it is what NVIDIA's T4 datasheet of 2019 and FluidX3D list"
    # "Intel's announcement, at 1.75 GHz, lists 1835 TFLOP/s"
    row = row_of(printed(), "a1rooflines", "Intel Gaudi 3", "peak")
    assert (row.ours, row.verdict.outcome) == (1678e12, DIFFERS)
    assert row.verdict.reason == "because it is what Intel's announcement, at 1.75 GHz, lists"


def test_a_chip_that_the_table_lost():
    paper = printed()
    less = replace(paper, chips=paper.chips[paper.chips.chip != "NVIDIA L4"])
    assert "holds no chip NVIDIA L4" in row_of(less, "pham2024", "NVIDIA L4", "peak").verdict.reason
    none = replace(paper, chips=paper.chips.iloc[:0])
    assert {row.verdict.outcome for row in chips.comparisons(none)} == {NOT_COMPARABLE}


def test_own_arithmetic():
    assert chips.product("2 cores x 4.1 GHz x 2048 x 2") == pytest.approx(33.5872e12)
    assert chips.product("2.20 GHz x 1 core x 32 FLOP per cycle") == pytest.approx(70.4e9)
    rows = list(chips.roof_products(printed()))
    assert len(rows) == 4
    (wrong,) = (row for row in rows if row.verdict.outcome == DIFFERS)
    assert (wrong.quantity, wrong.ours) == ("bandwidth", pytest.approx(70.4e9))  # 4400 MT/s x 8 B x 2
