import re

import altair as alt
import pandas as pd
import pytest

from report.charts.axes import Categories, LinearAxis, LogAxis
from report.charts.drawing import picture
from report.charts.panels import specified

X = LogAxis(low=1, high=100, pixels=200, title="intensity", unit="FLOP/B")
Y = LogAxis(low=1, high=100, pixels=100, title="rate", unit="FLOP/s", vertical=True)


def test_pixels_and_values():
    # Two decades in 200 pixels: 10 is in the middle; a vertical axis counts from the top
    assert [X.pixel(value) for value in (1, 10, 100)] == pytest.approx([0, 100, 200])
    assert [Y.pixel(value) for value in (1, 10, 100)] == pytest.approx([100, 50, 0])
    assert (X.value(X.pixel(37)), Y.value(Y.pixel(37))) == pytest.approx((37, 37))


def test_around_leaves_margins_and_what_has_no_logarithm_out():
    axis = LogAxis.around([0, 10, float("nan"), 1000], (0.1, 0.3), pixels=100, title="t")
    assert (axis.pixel(10), axis.pixel(1000)) == pytest.approx((10, 70))
    # One value is in the middle of 0.8 decades: 100 pixels from 10^-0.4 to 10^0.4 around it, with 1 and 2 there
    axis = LogAxis.around([2], (0, 0), pixels=100, title="t")
    assert (axis.pixel(2), axis.pixel(1)) == pytest.approx((50, 50 - 0.30103 / 0.8 * 100))
    with pytest.raises(ValueError, match="no t is above zero"):
        LogAxis.around([0, float("nan")], pixels=100, title="t")
    with pytest.raises(ValueError, match="no t is a number"):
        LinearAxis.around([float("nan")], pixels=100, title="t")


@pytest.mark.parametrize(
    ("pixels", "apart"),
    [
        (400, []),  # four decades in 400 pixels: "100 MFLOP" takes about 60 of 100, and 66 with a gap
        (200, ["2"]),  # a decade has 50: every second one is named
        (90, ["3"]),  # 22: every third
    ],
)
def test_as_many_labels_as_fit(pixels, apart):
    axis = LogAxis(low=1, high=1e4, pixels=pixels, unit="FLOP")("x").to_dict()["axis"]
    assert re.findall(r"LN10\) % (\d+) == 0", axis["labelExpr"]) == apart
    # A column of labels has room for each
    column = LogAxis(low=1, high=1e4, pixels=pixels, unit="FLOP", vertical=True)("x").to_dict()["axis"]
    assert "LN10" not in column["labelExpr"]


def test_numbers_at_ticks_have_their_unit():
    x = LogAxis(low=0.05, high=50, pixels=400, title="intensity", unit="FLOP/B")
    y = LogAxis(low=1e-3, high=1, pixels=400, title="latency", unit="s", vertical=True)
    share = LinearAxis(low=0, high=1, pixels=400, title="share", format="%")
    memory = LinearAxis(low=0, high=4e9, pixels=400, title="memory", format="~s", unit="B", vertical=True)
    points = alt.Chart(pd.DataFrame({"x": [0.5], "y": 0.1, "byte": 1e9})).mark_point()
    drawn = picture(specified(points.encode(x("x"), y("y")) | points.encode(share("x"), memory("byte"))))
    labels = set(re.findall(r">([^<]+)</text>", drawn))
    assert {"0.1 FLOP/B", "10 FLOP/B", "100 ms"} <= labels  # an intensity is no thousandth
    assert {"0%", "100%", "4 GB"} <= labels


def test_batches():
    axis = LogAxis.of_batches([64, 1, 1, 256], 300)
    assert axis.ticks == (1, 64, 256)
    assert 0 < axis.pixel(1) < axis.pixel(256) < 300
    assert 0 < LogAxis.of_batches([8], 300).pixel(8) < 300


def test_linear():
    axis = LinearAxis(low=10, high=20, pixels=200)
    assert axis.pixel(15) == 100
    assert axis("year").to_dict()["scale"]["domain"] == [10, 20]
    # Zero is an end, and 4 % of 10 are free beyond the other
    above = LinearAxis.around([5, 10, float("nan")], pixels=1)
    assert (above.low, above.high) == (0, pytest.approx(10.4))
    # From 5 to 10, and 4 % of 5 at either end
    free = LinearAxis.around([5, 10], zero=False, pixels=1)
    assert (free.low, free.high) == pytest.approx((4.8, 10.2))


def test_categories():
    rows = Categories.steps(["b", "a", "b"], 20)
    assert rows.names == ("b", "a")
    assert [rows.pixel(name) for name in rows.names] == [10, 30]  # the middles of two steps, in their order
    assert rows("who").to_dict()["scale"]["domain"] == ["b", "a"]
    narrow = Categories(names=("a long name", "another"), pixels=40, vertical=False)
    assert narrow("who").to_dict()["axis"]["labelAngle"] == -40
