from dataclasses import replace

import pytest
import vl_convert
from helpers.charts import drawn, rows, titles
from helpers.papers import many, tiny
from helpers.sentences import plain

from report import figures
from report.analysis.available import Missing


def test_matrices():
    chart = drawn(figures.correlations.matrices, many())
    assert titles(chart) == ["all, per input", "batch size 1", "batch size 4", "batch size 16"]
    panels = {
        panel["title"]: [chart["datasets"][layer["data"]["name"]] for layer in panel["layer"]]
        for panel in chart["concat"]
    }
    squares, coefficients, counts = panels["batch size 4"]
    assert squares == coefficients
    found = {(row["kind"], row["x"], row["y"]): row for row in squares}
    assert len(found) == 2 * 8 * 7 / 2
    # 1 3 7 4 5 2 6 8 against 1 to 8
    gpu = found["Spearman", "GPU latency", "FLOP"]
    assert gpu["value"] == pytest.approx(1 - 6 * 34 / 504, abs=5e-4)
    assert found["Kendall", "GPU latency", "FLOP"]["value"] == 0.5
    assert (gpu["points"], gpu["models"]) == (8, 8)
    assert found["Spearman", "CPU latency", "FLOP"]["settled"] is True
    assert found["Spearman", "CPU latency", "parameters"]["settled"] is False
    assert plain(found["Spearman", "CPU latency", "FLOP"]["told"]) == "1.00 (1.00 to 1.00)"
    assert {row["x"]: row["count"] for row in counts}["GPU latency"] == 8
    of_last = {row["x"]: row["count"] for row in panels["batch size 16"][2]}
    assert (of_last["CPU latency"], of_last["GPU latency"]) == (7, 8)  # one ran out of memory


def test_a_pair_counts_the_cells_that_both_have():
    chart = drawn(figures.correlations.matrices, many())
    points = {
        row["points"]
        for row in rows(chart, "told")
        if (row["x"], row["y"]) == ("CPU latency", "GPU latency") and row["kind"] == "Spearman"
    }
    assert points == {23, 8, 7}


def test_either_coefficient_can_be_chosen():
    chart = drawn(figures.correlations.matrices, many())
    (choice,) = [each for each in chart["params"] if each["name"] == "coefficient"]
    assert choice["bind"]["options"] == ["Spearman", "Kendall"]

    def texts(chosen):
        picture = vl_convert.vegalite_to_svg(chart | {"params": [choice | {"value": chosen}]})
        return picture.count(">0.60<"), picture.count(">0.50<")

    assert texts("Spearman")[0] > 0
    assert texts("Kendall")[1] > 0


def test_with_one_device_there_are_fewer_rows():
    chart = drawn(figures.correlations.matrices, replace(many(), machines=(many().machine("cpu"),)))
    names = {row["x"] for row in rows(chart, "count")}
    assert names == {
        "CPU latency", "FLOP", "parameters", "activations", "traffic", "CPU roofline time",
    }  # fmt: skip


def test_too_few_models_for_an_interval_or_a_coefficient():
    chart = drawn(figures.correlations.matrices, tiny())
    assert rows(chart, "told")
    assert not any(row["settled"] for row in rows(chart, "told"))
    two = replace(tiny(), machines=(tiny().machine("gpu"),))
    assert isinstance(figures.correlations.matrices(two), Missing)
    assert "needs 3 models" in figures.correlations.matrices(two)
