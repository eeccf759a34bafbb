import os
import re
from io import BytesIO

import altair as alt
import numpy as np
import pandas as pd
import pytest
import vl_convert
from PIL import Image, ImageFont

from report import failures
from report.charts import drawing
from report.charts.annotations import names
from report.charts.axes import LogAxis
from report.charts.drawing import lean, picture
from report.charts.panels import specified
from report.charts.theme import FONTS, text_width

CHART = {
    "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
    "config": {},
    "data": {"values": [{"x": 1}]},
    "mark": "point",
    "encoding": {"x": {"field": "x", "type": "quantitative"}},
}


def test_a_picture_that_crashes_says_so_and_the_others_are_drawn(tmp_path, monkeypatch):
    monkeypatch.delenv(failures.STRICT)
    before, wrong, deadly, after = [tmp_path / f"{name}.svg" for name in ("before", "wrong", "deadly", "after")]
    drawing.begin(CHART, before)
    drawing.begin(CHART | {"mark": "no mark"}, wrong)
    drawing._begun.append((CHART, deadly, drawing._process().submit(os._exit, 1)))
    drawing.begin(CHART, after)
    drawing.finish()
    assert "drawing wrong failed" in wrong.read_text()
    assert "https://" not in wrong.read_text().replace("http://www.w3.org", "")  # of the lines of Vega's stack
    assert "drawing deadly failed with BrokenProcessPool" in deadly.read_text()
    assert before.read_text() == after.read_text() == picture(CHART)
    assert not re.search("drawing", before.read_text())


def test_a_lean_picture_looks_the_same():
    x = LogAxis(low=1, high=1e4, pixels=400, title="operations", unit="FLOP")
    y = LogAxis(low=1e-3, high=1, pixels=200, title="latency", unit="s", vertical=True)
    rows = pd.DataFrame({"who": f"network {at}", "x": 3.0**at, "y": 0.7**at} for at in range(8))
    places = x("x"), y("y")
    chart = specified(alt.layer(alt.Chart(rows).mark_point().encode(*places), *names(rows, "who", *places)))
    whole, small = vl_convert.vegalite_to_svg(chart), picture(chart)
    assert len(small) < 0.75 * len(whole)
    texts = [re.findall(r"<text[^>]*>([^<]+)</text>", svg) for svg in (whole, small)]
    assert texts[0] == texts[1]
    before, after = (np.asarray(Image.open(BytesIO(vl_convert.svg_to_png(svg))), dtype=float) for svg in (whole, small))
    # Hundredths of a pixel move a letter by what the renderer rounds to, and shade its edges anew; what is missing or
    # elsewhere differs by nearly all of 255 levels.
    difference = np.abs(before - after)
    assert difference.max() < 100
    assert difference.mean() < 0.5


def test_a_picture_is_drawn_without_what_waits_for_a_pointer():
    across = {"field": "x", "type": "quantitative"}
    view = {
        "params": [{"name": "near", "select": "point"}, {"name": "width", "value": 400}],
        "transform": [{"calculate": "datum.x + ' s'", "as": "told"}, {"calculate": "2 * datum.x", "as": "twice"}],
        "encoding": {
            "x": across,
            "tooltip": [{"field": "told"}],
            "opacity": {"condition": {"param": "near", "value": 0.7}, "value": 0.1},
        },
    }
    # Nothing is selected, so the condition holds of every mark; the text of the tooltip has no other use
    still = {
        "params": [{"name": "width", "value": 400}],
        "transform": [{"calculate": "2 * datum.x", "as": "twice"}],
        "encoding": {"x": across, "opacity": {"value": 0.7}},
    }
    assert drawing._still({"concat": [{"layer": [view, {"mark": "rule"}]}]}) == {
        "concat": [{"layer": [still, {"mark": "rule"}]}]
    }
    by_value = {"encoding": {"opacity": {"condition": {"test": "datum.x > 1", "value": 1}, "value": 0.5}}}
    assert drawing._still(by_value) == by_value


def test_a_text_carries_its_length_for_pages_without_its_font():
    """In ems a digit takes 0.5562, a space 0.2778 and a bold m 0.8892, a regular one 0.833."""
    svg = '<svg><text font-size="10px">1 1</text><text font-size="10px" font-weight="bold">mm</text></svg>'
    assert re.findall(r'textLength="([\d.]+)"', lean(svg)) == ["13.9", "17.78"]
    assert "textLength" not in lean('<svg><text font-size="10px">論文</text></svg>')


@pytest.mark.parametrize("weight", ["regular", "bold"])
def test_texts_are_as_wide_as_their_font_draws_them(weight):
    font = ImageFont.truetype(FONTS / f"RoofwrightSans-{weight.title()}.ttf", 1000)
    for text in ("NVIDIA AV To 1.0", "wide_resnet101_2 (µs, 95 %)", "−1 × 10⁶ ≥ α → β"):
        assert text_width(text, 1000, weight) == pytest.approx(font.getlength(text), abs=len(text))
