from helpers.counted_papers import counted
from helpers.papers import tiny
from helpers.published_papers import printed
from helpers.sentences import plain

from report.tables import kernels


def rows(table):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in plain(table).splitlines()]


def test_steps_as_printed_and_as_counted():
    table = rows(kernels.steps(counted()))
    assert table[2] == ["resnet50", "NVIDIA T4", "[@pham2024]", "148 GB/s", "759 ms", "1.62 TFLOP/s", "10.9 FLOP/B"]
    imported = [row for row in table if row[1] == "NVIDIA T4" and row[2] == "hardware counters"]
    assert imported == [
        ["resnet50", "NVIDIA T4", "hardware counters", "100 GB/s", "400 ms", "not measured", "not measured"]
    ]
    # The study's nine rows, for each of four models one of each of two machines, and one that was imported.
    assert len(table) == 2 + 9 + 4 * 2 + 1
    assert ["vit\\_b\\_32", "Example GPU", "–", *["not measured"] * 4] in table


def test_flop_by_counters_and_by_formulas():
    table = rows(kernels.flop(counted()))
    assert ["Example GPU", "lean", "inference at 1, fp32", "convolutions", "90.0 MFLOP", "90.0 MFLOP",
            "100 %"] in table  # fmt: skip
    assert ["NVIDIA T4", "resnet50", "training at 64, fp32", "matrix products and attention", "not measured",
            "–", "–"] in table  # fmt: skip


def test_where_no_counters_were_read_flop_are_those_that_a_study_printed():
    table = rows(kernels.flop(printed()))
    # 1.615 TFLOP/s for 759 ms; 64 images of 3 * 4.089 - 0.118 GMAC, and 64 MFLOP beside: 1.226 of 1.555 TFLOP
    assert ["NVIDIA T4 [@pham2024]", "resnet50", "training at 64, fp32", "all", "1.23 TFLOP", "1.56 TFLOP",
            "78.8 %"] in table  # fmt: skip
    assert len(table) == 2 + 9
    assert "import-ncu" in kernels.flop(tiny())
