import re

import numpy as np
import pandas as pd
import pytest

from report.charts import theme
from report.charts.axes import Categories, LinearAxis, LogAxis
from report.charts.drawing import picture
from report.charts.marks import bars, names, points, records
from report.charts.panels import figure, panel

X = LogAxis(low=1, high=100, pixels=200, title="work", unit="B")
Y = LogAxis(low=1, high=100, pixels=100, title="rate", unit="FLOP/s", vertical=True)


def svg(*layers, legend=None):
    return picture(figure("f", "d", panel(layers), legend=legend))


def test_rows_hold_what_json_does():
    frame = pd.DataFrame({"a": [np.float64(1 / 3), np.nan], "n": np.array([1, 2]), "yes": [True, False]})
    assert records(frame) == [{"a": 0.333333, "n": 1, "yes": True}, {"a": None, "n": 2, "yes": False}]
    assert records([{"x": float("inf"), "who": None, "na": pd.NA}]) == [{"x": None, "who": None, "na": None}]


def test_a_row_without_a_logarithm_is_on_no_logarithmic_axis():
    rows = [{"x": 10.0, "y": 10.0}, {"x": 0.0, "y": 10.0}, {"x": None, "y": 10.0}, {"y": 10.0}]
    assert points(rows, (X, "x"), (Y, "y"))["data"]["values"] == rows[:1]
    named = names([row | {"who": "n"} for row in rows], "who", (X, "x"), (Y, "y"))
    assert len(named["layer"][1]["data"]["values"]) == 1


def test_an_unknown_value_is_a_dash_in_a_tooltip_and_never_zero():
    told = [("who", "network", ""), ("t", "latency", "s"), ("s", "share", ".1%")]
    rows = [{"who": "a", "t": None, "s": None, "x": 10, "y": 10}, {"who": "b", "t": 0.02, "s": 0.5, "x": 20, "y": 10}]
    layer = points(rows, (X, "x"), (Y, "y"), tooltip=told)
    assert [line["title"] for line in layer["encoding"]["tooltip"]] == ["network", "latency", "share"]
    for number, texts in ((1, {"–", "20 ms"}), (2, {"–", "50.0%"})):
        shown = points(rows, (X, "x"), (Y, "y"), tooltip=told) | {"mark": {"type": "text"}}
        shown["encoding"] = {"text": layer["encoding"]["tooltip"][number], "x": {"field": "x", "type": "quantitative"}}
        assert texts <= set(re.findall(r">([^<]+)</text>", svg(shown)))


def test_bars_stack_in_the_order_of_the_palette():
    y = Categories.steps(["one"], 20)
    x = LinearAxis(low=0, high=1, pixels=100)
    rows = [{"who": "one", "kind": kind, "share": share} for kind, share in (("b", 0.75), ("a", 0.25))]
    drawn = svg(bars(rows, (x, "share"), (y, "who"), ("kind", {"a": theme.WINE, "b": theme.BLUE}), stacked=True))
    # The first quarter is a's, whatever the order of the rows
    (first,) = re.findall(rf'<path [^>]*d="M([\d.]+),[^"]*h([\d.]+)[^"]*"[^>]*fill="{theme.WINE}"', drawn)
    (second,) = re.findall(rf'<path [^>]*d="M([\d.]+),[^"]*h([\d.]+)[^"]*"[^>]*fill="{theme.BLUE}"', drawn)
    assert [float(at) for at in (*first, *second)] == pytest.approx([0, 25, 25, 75])
