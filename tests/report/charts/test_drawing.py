import pytest

from report.charts import drawing

CHART = {
    "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
    "config": {},
    "data": {"values": [{"x": 1}]},
    "mark": "point",
    "encoding": {"x": {"field": "x", "type": "quantitative"}},
}


def test_pictures_are_there_when_they_are_finished(tmp_path):
    places = [tmp_path / f"{number}.svg" for number in range(3)]
    for place in places:
        drawing.begin(CHART, place)
    drawing.finish()
    assert all(place.read_text().startswith("<svg") for place in places)


def test_a_picture_that_cannot_be_drawn_is_an_error_and_no_other_one_suffers(tmp_path):
    drawing.begin(CHART | {"mark": "no mark"}, tmp_path / "wrong.svg")
    with pytest.raises(ValueError, match=r"wrong\.svg"):
        drawing.finish()
    drawing.begin(CHART, tmp_path / "right.svg")
    drawing.finish()
    assert (tmp_path / "right.svg").exists()
