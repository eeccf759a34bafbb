import os
import re

import pytest
from PIL import ImageFont

from report import failures
from report.charts import drawing
from report.charts.drawing import picture
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
    monkeypatch.setattr(drawing, "_begun", [])  # without those of other tests, whose folders are gone
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


def test_a_text_carries_its_length_for_pages_without_its_font():
    """In ems a digit takes 0.5562, a space 0.2778 and a bold m 0.8892, a regular one 0.833."""
    layers = [{"mark": {"type": "text", "text": "1 1", "fontSize": 10}, "encoding": {}}]
    layers.append({"mark": {"type": "text", "text": "mm", "fontSize": 10, "fontWeight": "bold"}, "encoding": {}})
    layers.append({"mark": {"type": "text", "text": "論文", "fontSize": 10}, "encoding": {}})
    texts = re.findall(r"<text ([^>]*)>([^<]+)", picture({"config": {}, "data": {"values": [{}]}, "layer": layers}))
    lengths = {text: re.search(r'textLength="([\d.]+)"', attributes) for attributes, text in texts}
    assert (lengths["1 1"][1], lengths["mm"][1], lengths["論文"]) == ("13.9", "17.78", None)


@pytest.mark.parametrize("weight", ["regular", "bold"])
def test_texts_are_as_wide_as_their_font_draws_them(weight):
    font = ImageFont.truetype(FONTS / f"RoofwrightSans-{weight.title()}.ttf", 1000)
    for text in ("NVIDIA AV To 1.0", "wide_resnet101_2 (µs, 95 %)", "−1 × 10⁶ ≥ α → β"):
        assert text_width(text, 1000, weight) == pytest.approx(font.getlength(text), abs=len(text))
