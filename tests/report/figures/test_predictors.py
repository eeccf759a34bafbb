from dataclasses import replace

import pytest
from helpers.charts import drawn, on, rows
from helpers.papers import many, tiny
from helpers.sentences import plain
from helpers.timed_papers import timed

from report import figures


def titles(chart):
    return [panel["title"]["text"] for panel in chart["concat"]]


def test_latency():
    chart = drawn(figures.predictors.latency, tiny(), "cpu")
    points = on("CPU", chart, "model", "latency_s")
    assert len(points) == 7  # the failed cell is not a point
    assert len(on("GPU", drawn(figures.predictors.latency, tiny(), "gpu"), "model", "latency_s")) == 2
    lean = points["lean", 1]
    assert (lean["forward_flop"], lean["latency_s"], lean["low"], lean["high"]) == (100e6, 0.004, 0.0038, 0.005)
    assert plain(lean["latency"]) == "4.0000 ms"
    assert plain(lean["95 % interval"]) == "3.800 ms to 5.000 ms"
    assert points["broad", 1]["sound"] is False
    assert points["broad", 1]["95 % interval"] == "none (one round of fewer than 6 samples)"


def test_without_the_device_one_short_sentence():
    only_cpu = replace(tiny(), machines=tiny().machines[:1])
    assert figures.predictors.latency(only_cpu, "gpu") == "There is nothing to draw here without a GPU."


def test_a_panel_a_predictor_all_from_one_data_set():
    chart = drawn(figures.predictors.latency, many(), "cpu")
    assert titles(chart) == ["FLOP", "parameters", "activations", "traffic", "roofline time"]
    sets = [data for data in chart["datasets"].values() if "sound" in data[0]]
    assert [len(data) for data in sets] == [23]
    assert titles(drawn(figures.predictors.latency, tiny(), "cpu")) == ["FLOP", "parameters", "activations", "traffic"]


def test_a_line_a_batch_size_with_its_exponent():
    chart = drawn(figures.predictors.latency, many(), "cpu")
    # At batch size 1 10 ms a GFLOP, from 1 to 128 GFLOP
    ends = {row["x"]: row["y"] for row in rows(chart, "batch", "x", "y") if row["batch"] == 1}
    assert (ends[1e9], ends[128e9]) == pytest.approx((0.01, 1.28), rel=1e-4)
    title = chart["concat"][0]["title"]
    assert plain(title["subtitle"][0]) == "1: 1.00 (1.00 to 1.00)    4: 1.00 (1.00 to 1.00)"
    assert title["subtitle"][1].startswith("16: ")
    (first, *_) = drawn(figures.predictors.latency, tiny(), "gpu")["concat"]  # two models
    assert first["title"]["subtitle"] == []


def test_a_model_without_flop_is_not_on_the_axis_of_flop():
    cpu = many().machine("cpu")
    without = replace(cpu, cells=cpu.cells.assign(forward_flop=cpu.cells.forward_flop.where(cpu.cells.model != "a", 0)))
    chart = drawn(figures.predictors.latency, replace(many(), machines=(without,)), "cpu")
    panels = {panel["title"]["text"]: panel["layer"][-1]["data"]["name"] for panel in chart["concat"]}
    models = {title: {row["model"] for row in chart["datasets"][panels[title]]} for title in ("FLOP", "traffic")}
    assert models["traffic"] - models["FLOP"] == {"a"}


def test_the_axis_holds_the_whiskers():
    cpu = many().machine("cpu")
    wide = replace(
        cpu, cells=cpu.cells.assign(latency_low_s=cpu.cells.latency_s / 5, latency_high_s=cpu.cells.latency_s * 5)
    )
    chart = drawn(figures.predictors.latency, replace(many(), machines=(wide,)), "cpu")
    (least, most) = chart["concat"][0]["layer"][-1]["encoding"]["y"]["scale"]["domain"]
    # a at batch size 1 takes 10 ms, h at 4 128 * 40 ms / 2
    assert least < 0.002
    assert most > 12.8


def test_latency_equal_to_the_roofline_time_is_a_line():
    *_, bound = drawn(figures.predictors.latency, many(), "cpu")["concat"]
    (dashed,) = [layer for layer in bound["layer"] if "strokeDash" in layer.get("mark", {})]
    assert dashed["encoding"]["x"]["field"] == "x"


def test_the_points_farthest_from_their_lines_are_named():
    chart = drawn(figures.predictors.latency, many(), "gpu")
    names = [row["text"] for row in rows(chart, "text", "dx")]
    assert {"c", "f"} <= set(names)
    flop = chart["concat"][0]
    named = [layer for layer in flop["layer"] if layer.get("description") == "labels"]
    assert len(named) == 1


def test_where_no_gpu_was_measured_latencies_are_of_one_that_others_timed():
    chart = drawn(figures.predictors.latency, timed(), "gpu")
    assert titles(chart) == ["FLOP", "parameters", "activations", "traffic"]
    points = on("Bead 2", chart, "model", "latency_s")
    lean = points["lean", 4]
    assert (lean["latency_s"], lean["traffic_byte"], lean["low"], lean["sound"]) == (1e-4, 68e6, None, False)
    assert (lean["timed by"], lean["samples"], plain(lean["latency"])) == ("lamikr_benchmark", "50", "100.00 µs")
    encoding = chart["concat"][0]["layer"][-1]["encoding"]
    assert encoding["shape"] == {"value": "square"}
    assert encoding["stroke"]["title"] == "batch size on the Bead 2, timed by others (lamikr_benchmark)"
    assert "Bead 2, as others (lamikr_benchmark) timed it" in chart["description"]


def test_a_gpu_that_was_measured_takes_the_place_of_the_one_that_others_timed():
    own = replace(timed(), machines=tiny().machines)
    chart = drawn(figures.predictors.latency, own, "gpu")
    assert len(on("GPU", chart, "model", "latency_s")) == 2
    assert "others" not in str(chart)
