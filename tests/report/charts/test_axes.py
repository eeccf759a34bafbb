import re

import altair as alt
import pandas as pd
import pytest

from report.charts import theme
from report.charts.axes import LABELS, LogAxis, YearAxis, named_ends, named_points
from report.charts.drawing import picture
from report.charts.labels import Box

X = LogAxis(1, 100, 200, "intensity", "FLOP/B")
Y = LogAxis(1, 100, 100, "rate", "FLOP/s", vertical=True)


def test_pixels_and_values():
    # Two decades in 200 pixels: 10 is in the middle; a vertical axis counts from the top.
    assert [X.pixel(value) for value in (1, 10, 100)] == pytest.approx([0, 100, 200])
    assert [Y.pixel(value) for value in (1, 10, 100)] == pytest.approx([100, 50, 0])
    assert X.value(X.pixel(37)) == pytest.approx(37)
    assert Y.value(Y.pixel(37)) == pytest.approx(37)


def test_around_leaves_margins():
    axis = LogAxis.around([10, 1000], 100, "t", margins=(0.1, 0.3))
    assert axis.pixel(10) == pytest.approx(10)
    assert axis.pixel(1000) == pytest.approx(70)


def test_around_equal_values_has_an_extent():
    axis = LogAxis.around([5, 5], 100, "t")
    assert axis.low < 5 < axis.high


def test_around_leaves_out_what_has_no_logarithm():
    assert LogAxis.around([0, 10, float("nan"), 1000], 100, "t") == LogAxis.around([10, 1000], 100, "t")


def test_around_nothing_that_has_a_logarithm():
    with pytest.raises(ValueError, match="no t is above zero"):
        LogAxis.around([0, float("nan")], 100, "t")


@pytest.mark.parametrize(
    ("pixels", "apart"),
    [
        # Four decades in 400 pixels: "100 MFLOP" takes 54 of 100, and 60 with a gap.
        (400, None),
        # In 200 pixels a decade has 50: every second one is named.
        (200, 2),
        # In 80 pixels it has 20: every third.
        (80, 3),
    ],
)
def test_as_many_labels_as_fit(pixels, apart):
    expression = LogAxis(1, 1e4, pixels, "t", "FLOP").axis.to_dict()["labelExpr"]
    found = re.findall(r"LN10\) % (\d+) == 0", expression)
    assert found == ([str(apart)] if apart else [])
    # a column of labels has room for each
    assert "LN10" not in LogAxis(1, 1e4, pixels, "t", "FLOP", vertical=True).axis.to_dict()["labelExpr"]


def test_an_intensity_below_one_is_no_thousandth():
    x, y = LogAxis(0.05, 50, 400, "intensity", "FLOP/B"), LogAxis(1e-3, 1, 400, "latency", "s", vertical=True)
    chart = alt.Chart(pd.DataFrame({"x": [0.5], "y": [0.1]})).mark_point().encode(x.channel("x"), y.channel("y"))
    texts = re.findall(r">([^<]+)</text>", picture(chart.properties(width=400, height=400).to_dict() | {"config": {}}))
    assert {"0.1 FLOP/B", "10 FLOP/B", "100 ms"} <= {text.replace("\u00a0", " ") for text in texts}


def test_batches():
    axis = LogAxis.of_batches([64, 1, 1, 256], 300, 100)
    assert axis.ticks == (1, 64, 256)
    assert axis.pixel(256) == pytest.approx(200)
    assert 0 < axis.pixel(1) < 20
    lone = LogAxis.of_batches([8], 300, 100)
    assert 0 < lone.pixel(8) < 200


def test_names_of_points_are_tied_to_their_marks():
    points = pd.DataFrame({"who": ["one", "two"], "i": [10.0, 10.0], "r": [10.0, 12.0]})
    chart = named_points(points, "who", X, "i", Y, "r").to_dict()
    assert chart["description"] == LABELS
    (rows,) = chart["datasets"].values()
    assert [(row["text"], row["x"], row["y"]) for row in rows] == [("one", 10, 10), ("two", 10, 12)]
    centers = [(X.pixel(row["x"]) + row["dx"], Y.pixel(row["y"]) + row["dy"]) for row in rows]
    assert all(Box(0, 0, 200, 100).left <= x <= 200 and 0 <= y <= 100 for x, y in centers)


def test_a_point_without_a_logarithm_has_no_name():
    points = pd.DataFrame({"who": ["one", "none"], "i": [10.0, 0.0], "r": [10.0, 12.0]})
    (rows,) = named_points(points, "who", X, "i", Y, "r").to_dict()["datasets"].values()
    assert [row["text"] for row in rows] == ["one"]


def test_no_points_have_no_names():
    assert named_points(pd.DataFrame({"who": [], "i": [], "r": []}), "who", X, "i", Y, "r") is None


def test_names_of_ends_stand_in_a_column():
    ends = pd.DataFrame({"who": ["one", "two"], "i": [10.0, 5.0], "r": [10.0, 10.0]})
    (rows,) = named_ends(ends, "who", X, "i", Y, "r", 150).to_dict()["datasets"].values()
    assert [X.pixel(row["x"]) + row["dx"] for row in rows] == pytest.approx([164, 164], abs=0.2)
    first, second = (Y.pixel(row["y"]) + row["dy"] for row in rows)
    assert abs(first - second) >= 10


def test_years():
    years = YearAxis(2010, 2020, 200)
    assert years.pixel(2015) == 100
    assert years.channel("year").to_dict()["scale"]["domain"] == [2010, 2020]


def test_names_of_points_that_are_never_seen_together_are_placed_by_themselves():
    points = pd.DataFrame({"who": ["one", "eon"], "i": [10.0, 10.0], "r": [10.0, 10.0], "choice": ["a", "b"]})
    (rows,) = named_points(points, "who", X, "i", Y, "r", kept=("choice",)).to_dict()["datasets"].values()
    assert [(row["text"], row["choice"]) for row in rows] == [("one", "a"), ("eon", "b")]
    assert (rows[0]["dx"], rows[0]["dy"]) == (rows[1]["dx"], rows[1]["dy"])
    (rows,) = named_ends(points, "who", X, "i", Y, "r", 150, ("choice",)).to_dict()["datasets"].values()
    assert [row["choice"] for row in rows] == ["a", "b"]
    assert rows[0]["dy"] == rows[1]["dy"]


@pytest.mark.parametrize(("name", "whole"), [("n" * 100, False), ("NVIDIA Grace CPU Superchip (144 cores)", True)])
def test_a_name_that_is_too_long_is_cut(name, whole):
    ends = pd.DataFrame({"name": [name], "x": [10.0], "y": [10.0]})
    svg = picture(theme.finish(named_ends(ends, "name", X, "x", Y, "y", 100), "name", "d").to_dict())
    assert (name in svg) == whole
    assert ("…" in svg) != whole
