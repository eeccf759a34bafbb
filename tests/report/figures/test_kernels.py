import pytest
from helpers.charts import drawn, rows, titles
from helpers.counted_papers import counted
from helpers.papers import tiny
from helpers.profiled_papers import profiled
from helpers.published_papers import printed
from helpers.sentences import plain
from helpers.training_papers import trained

from report.analysis.available import Missing
from report.figures import kernels


def test_groups_on_roof():
    chart = drawn(kernels.groups_on_roof, profiled())
    assert titles(chart) == ["CPU: deep, inference at 1", "CPU: lean, inference at 8", "GPU: lean, inference at 1"]
    (row,) = [row for row in rows(chart, "group", "part") if row["part"] == pytest.approx(8.3 / 12.7, rel=1e-3)]
    assert row["group"] == "convolution"
    assert (row["x"], row["rate"]) == pytest.approx((720 / 73, 720e6 / 8.3e-3), rel=1e-4)
    assert (plain(row["time"]), plain(row["share"])) == ("8.30 ms", "65 %")


def test_cells_on_roof():
    chart = drawn(kernels.cells_on_roof, profiled())
    assert titles(chart) == ["CPU, inference", "GPU, inference"]
    points = {(row["model"], row["batch"]): row for row in rows(chart, "model", "x", "family")}
    # deep: 4900 + 100 MFLOP over 48 + 11 + 3.5 MB in 98.2 ms; lean at the larger batch size alone, and the GPU's at 1
    assert points["deep", 1]["x"] == pytest.approx(5000 / 62.5, rel=1e-4)
    assert set(points) == {("deep", 1), ("lean", 8), ("lean", 1)}


def test_shares_sum_to_a_call():
    chart = drawn(kernels.shares, profiled())
    assert titles(chart) == ["CPU, inference at batch size 1", "CPU, inference at batch size 8",
                             "GPU, inference at batch size 1"]  # fmt: skip
    bars = rows(chart, "group", "part", "rank")
    assert sum(row["part"] for row in bars) == pytest.approx(4, abs=1e-3)  # four cells
    deep = {row["group"]: row["part"] for row in bars if row["model"] == "deep"}
    assert deep["convolution"] == pytest.approx(90 / 99.2, rel=1e-3)
    # zeta's 0.5 of 99.2 ms is below 1 %, and other already
    assert deep["other"] == pytest.approx(0.5 / 99.2, rel=1e-3)


def test_counted_bytes():
    chart = drawn(kernels.counted_bytes, counted())
    points = {row["bytes"]: row["byte"] for row in rows(chart, "cell", "byte")}
    assert points == {"ideal": 4_504_000, "counted": 12e6, "unfused": 20e6}
    assert titles(chart) == ["Example GPU"]  # resnet50 was not counted in this cache


def test_where_no_counters_were_read_bytes_are_those_that_a_study_printed():
    chart = drawn(kernels.counted_bytes, printed())
    assert titles(chart) == [f"NVIDIA {name}, counters read by others (pham2024)" for name in ("L4", "T4", "V100")]
    t4 = chart["datasets"][chart["concat"][1]["data"]["name"]]
    (row,) = [row for row in t4 if row["cell"].startswith("resnet50") and row["bytes"] == "counted"]
    assert (row["byte"], plain(row["exactly"])) == (1.1218e11, "112 GB")  # 147.8 GB/s for 759 ms
    *_, squares = chart["concat"][1]["layer"]
    assert (squares["mark"]["shape"], squares["mark"]["filled"]) == ("square", False)
    *_, dots = drawn(kernels.counted_bytes, counted())["concat"][0]["layer"]
    assert dots["mark"]["filled"]


def test_what_was_not_measured_is_a_sentence():
    assert "--device cpu --sections workload operators` profiles them" in kernels.shares(tiny())
    assert "import-ncu" in kernels.counted_bytes(tiny())
    assert isinstance(kernels.counted_bytes(trained()), Missing)
