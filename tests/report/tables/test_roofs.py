from dataclasses import replace

import pypandoc
import pytest
from helpers.papers import empty, tiny, with_eight_bits
from helpers.sentences import cells

from report.analysis.available import Missing
from report.tables import roofs

NAME = "Example CPU \\(4 cores\\)"


def test_arithmetic():
    assert cells(roofs.arithmetic(tiny())) == [
        [NAME, "fp32", "matrix product (torch)", "1000", "80.0 GFLOP/s", "80.0 to 80.0 GFLOP/s", "–"],
        # 2 GFLOP in 20 ms that last, in 16 ms in a burst
        [NAME, "fp32", "multiply-add", "–", "100 GFLOP/s", "80.0 to 125 GFLOP/s", "125 GFLOP/s"],
        [NAME, "fp64", "multiply-add", "–", "20.0 GFLOP/s", "20.0 to 20.0 GFLOP/s", "–"],
        ["Example GPU", "fp32", "matrix product (torch)", "4000", "8.00 TFLOP/s", "8.00 to 8.00 TFLOP/s", "–"],
    ]


def test_integers_do_operations():
    added = [row for row in cells(roofs.arithmetic(with_eight_bits())) if row[1] in ("fp8", "int8")]
    assert added == [
        [NAME, "int8", "matrix product (torch)", "1000", "200 GOP/s", "200 to 200 GOP/s", "–"],
        ["Example GPU", "fp8", "matrix product (torch)", "4000", "100 TFLOP/s", "100 to 100 TFLOP/s", "–"],
        ["Example GPU", "int8", "matrix product (torch)", "4000", "100 TOP/s", "100 to 100 TOP/s", "–"],
    ]
    assert roofs.measured_roofs(with_eight_bits()) == roofs.measured_roofs(tiny())  # and have no ridge point


def test_levels():
    assert cells(roofs.levels(tiny())) == [
        ["L1", "15.0 to 60.0 kB", "65.5 kB", "400 GB/s", "200 GB/s", "400 GB/s", "500 GB/s"],
        ["L2", "240 kB to 1.92 MB", "2.10 MB", "200 GB/s", "100 GB/s", "100 GB/s", "150 GB/s"],
        ["memory", "12.0 to 24.0 MB", "–", "8.00 GB/s", "5.00 GB/s", "8.00 GB/s", "10.0 GB/s"],
    ]


def test_a_stream_that_was_not_measured_is_a_dash():
    cpu = tiny().machine("cpu")
    levels = tuple(
        replace(level, kernels={name: row for name, row in level.kernels.items() if name != "write"})
        for level in cpu.levels
    )
    rows = cells(roofs.levels(replace(tiny(), machines=(replace(cpu, levels=levels),))))
    assert [row[4] for row in rows] == ["–"] * 3


def test_a_rate_of_a_single_block_has_no_interval():
    """As a short budget leaves it."""
    cpu = tiny().machine("cpu")
    short = cpu.roofs.assign(bandwidth_low_byte_per_s=float("nan"), bandwidth_high_byte_per_s=float("nan"))
    rows = cells(roofs.measured_roofs(replace(tiny(), machines=(replace(cpu, roofs=short),))))
    assert rows[-1] == ["memory", "triad", "10.0 GB/s", "–", "–"]


@pytest.mark.parametrize("table", [roofs.arithmetic, roofs.levels, roofs.measured_roofs])
def test_pandoc_reads_each_table_as_one(table):
    html = pypandoc.convert_text(table(tiny()), "html", format="markdown")
    assert html.count("<table") == 1
    assert "|" not in html


def test_what_was_not_measured_is_a_sentence():
    for table in (roofs.arithmetic, roofs.levels, roofs.measured_roofs):
        assert isinstance(table(empty()), Missing)
    gpu = tiny().machine("gpu")
    only_gpu = replace(tiny(), machines=(gpu,))
    assert "levels of memory of the Example GPU have not been measured; `python -m measure --device cuda" in str(
        roofs.levels(only_gpu)
    )
    bare = replace(gpu, roof_measurements=gpu.roof_measurements.iloc[:0], roofs=gpu.roofs.iloc[:0])
    assert "The fp32 roof of the Example GPU has not been measured" in str(
        roofs.arithmetic(replace(tiny(), machines=(bare,)))
    )


def test_measured_roofs():
    cpu, gpu = "Example CPU \\(4 cores\\)", "Example GPU"
    rows = cells(roofs.measured_roofs(tiny()))
    assert rows[0] == [cpu, "fp32", "multiply-add", "100 GFLOP/s", "80 to 125 GFLOP/s", "10.0 FLOP/B"]
    assert rows[1][:4] == [cpu, "fp64", "multiply-add", "20.0 GFLOP/s"]
    assert rows[2] == [cpu, "memory", "triad", "10.0 GB/s", "8.0 to 12.0 GB/s", "–"]
    assert rows[3][:3] == [gpu, "fp32", "matrix product (torch)"]
    assert rows[4][:3] == [gpu, "memory", "triad"]


def test_datasheet_roofs():
    rows = cells(roofs.datasheet_roofs(tiny()))
    # 2 cores * 32 FLOP/cycle * 2 GHz, 100 GFLOP/s of it measured; 20 of 64 GFLOP/s at fp64
    assert rows[0] == [
        "Example CPU \\(4 cores\\)", "fp32", "2 cores × 32 FLOP/cycle \\(Example core, avx2\\) × 2\\.00 GHz",
        "128 GFLOP/s", "–", "78 %", "[@epoch_hw; @stas_mle]",
    ]  # fmt: skip
    assert rows[1][1:4:2] == ["fp64", "64.0 GFLOP/s"]
    assert rows[1][5] == "31 %"
    # 8 of 10 TFLOP/s
    assert rows[2] == [
        "Example GPU",
        "fp32",
        "Bead 2: as printed, vector units",
        "10.0 TFLOP/s",
        "1.00 TB/s",
        "80 %",
        "[@epoch_hw]",
    ]


def test_the_share_of_the_datasheets_peak_that_products_of_8_bits_reach():
    rows = {row[1]: row for row in cells(roofs.datasheet_roofs(with_eight_bits())) if row[0] == "Example GPU"}
    assert list(rows) == ["fp32", "bf16", "fp8", "int8"]
    # 100 of 200 TFLOP/s, and 100 of 400 TOP/s
    assert [rows["fp8"][at] for at in (3, 5)] == ["200 TFLOP/s", "50 %"]
    assert [rows["int8"][at] for at in (3, 5)] == ["400 TOP/s", "25 %"]
    assert rows["bf16"][5] == "–"


def test_an_unconfirmed_datasheet_roof_is_marked():
    doubtful = replace(tiny(), chips=tiny().chips.assign(verified="no"))
    assert [row[1] for row in cells(roofs.datasheet_roofs(doubtful))] == ["fp32", "fp64", "fp32 \\*", "bf16 \\*"]


def test_no_datasheet_roof_at_all_is_a_sentence():
    bare = replace(tiny(), machines=(replace(tiny().machine("cpu"), clock=None),))
    assert "its clock was not measured" in roofs.datasheet_roofs(bare)
    assert isinstance(roofs.datasheet_roofs(bare), Missing)
