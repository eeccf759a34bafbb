from dataclasses import replace

import pytest
from helpers.charts import drawn, rows, titles
from helpers.papers import tiny, with_eight_bits
from helpers.sentences import plain

from report import figures
from report.analysis.available import Missing

CPU, GPU = tiny().machine("cpu"), tiny().machine("gpu")


def test_the_hierarchy_has_a_slope_for_each_level_and_a_flat_for_each_kernel():
    chart = drawn(figures.roofs.hierarchy, tiny())
    lines = {}
    for row in rows(chart, "line", "intensity", "rate"):
        lines.setdefault(plain(row["line"]), []).append((row["intensity"], row["rate"]))
    assert set(lines) == {
        "L1, 500 GB/s", "L2, 200 GB/s", "memory, 10.0 GB/s",
        "fp32 multiply-add, 100 GFLOP/s", "fp64 multiply-add, 20.0 GFLOP/s", "fp32 matrix product, 80.0 GFLOP/s",
    }  # fmt: skip
    # 100 GFLOP/s meet 500, 200 and 10 GB/s at 0.2, 0.5 and 10 FLOP/B
    for name, flow, ridge in (
        ("L1, 500 GB/s", 500e9, 0.2),
        ("L2, 200 GB/s", 200e9, 0.5),
        ("memory, 10.0 GB/s", 10e9, 10),
    ):
        (low, rate), top = sorted(lines[name])
        assert rate / low == pytest.approx(flow, rel=1e-4)
        assert top == pytest.approx((ridge, 100e9))
    # A peak begins where the fastest level's slope reaches it: 20 GFLOP/s over 500 GB/s
    assert min(lines["fp64 multiply-add, 20.0 GFLOP/s"]) == pytest.approx((0.04, 20e9))
    assert "on the CPU" in chart["description"]


def test_every_line_of_the_hierarchy_is_named():
    names = {plain(row["text"]) for row in rows(drawn(figures.roofs.hierarchy, tiny()), "text", "dx")}
    assert names >= {"L1, 500 GB/s", "L2, 200 GB/s", "memory, 10.0 GB/s", "fp32 multiply-add, 100 GFLOP/s"}


def test_no_roofline_is_flat_at_what_products_of_8_bits_reach():
    for figure in (figures.roofs.hierarchy, figures.utilisation.models_on_roof):
        with_them, without = (drawn(figure, paper)["description"] for paper in (with_eight_bits(), tiny()))
        assert with_them == without


def test_the_sweep_shows_every_stream_level_and_reported_cache():
    chart = drawn(figures.roofs.sweep, tiny())
    points = rows(chart, "stream", "byte", "flow")
    assert len(points) == 4 * 9
    (triad,) = [row for row in points if (row["stream"], row["byte"]) == ("triad", 12_000_000)]
    assert (triad["flow"], triad["low"], triad["high"]) == pytest.approx((10e9, 8e9, 12e9))
    assert plain(triad["working set"]) == "12.00 MB"
    bands = {row["name"]: (row["first"], row["last"]) for row in rows(chart, "name", "first")}
    assert bands["L1"] == (15_000, 60_000)
    assert bands["memory"] == (12_000_000, 24_000_000)
    reported = [row["byte"] for row in rows(chart, "byte") if set(row) == {"byte"}]
    assert sorted(reported) == [65536, 2097152, 16777216]
    assert "reading comes at 400 GB/s from L1, 200 GB/s from L2 and 8.00 GB/s from memory" in plain(
        chart["description"]
    )


def test_a_system_that_reports_no_caches_has_a_sweep_all_the_same():
    paper = replace(tiny(), machines=(replace(CPU, caches=()),))
    assert not [row for row in rows(drawn(figures.roofs.sweep, paper), "byte") if set(row) == {"byte"}]


def test_two_machines_stand_side_by_side():
    both = replace(tiny(), machines=(CPU, replace(GPU, roof_measurements=CPU.roof_measurements, levels=CPU.levels)))
    for figure in (figures.roofs.hierarchy, figures.roofs.sweep):
        assert titles(drawn(figure, both)) == ["CPU", "GPU"]


def test_what_was_not_measured_is_a_sentence():
    only_gpu = replace(tiny(), machines=(GPU,))
    for figure in (figures.roofs.hierarchy, figures.roofs.sweep):
        assert "levels of memory of the Example GPU have not been measured" in str(figure(only_gpu))
    flat = replace(tiny(), machines=(replace(CPU, roofs=CPU.roofs.iloc[:0]),))
    assert isinstance(figures.roofs.hierarchy(flat), Missing)
