import re
from math import pi

import pandas as pd
import pytest

from report.charts import theme
from report.charts.axes import LinearAxis, LogAxis, by_color
from report.charts.drawing import picture
from report.figure_files import as_csv
from report.charts.forms import curves, dots, matrix, slices
from report.charts.panels import specified


def texts(made):
    return re.findall(r">([^<]+)</text>", picture(made))


def width(made):
    return float(re.search(r'width="([\d.]+)"', picture(made))[1])


def test_dots_and_curves_of_two_networks_with_intervals():
    rows = pd.DataFrame(
        {"name": name, "batch": at, "rate": scale * at, "low": 0.9 * scale * at, "high": 1.1 * scale * at, "flop": 2}
        for name, scale in (("VGG-16", 2), ("AlexNet", 20)) for at in (1, 8, 64)
    )  # fmt: skip
    color = by_color("name", theme.accents(["VGG-16", "AlexNet"]), legend=None)
    y = LogAxis.around(rows.rate, pixels=200, title="throughput", unit="images/s", vertical=True)
    made = specified(curves(rows, "batch", "rate", y, color, 600))
    assert {"VGG-16", "AlexNet", "batch size", "64", "100 images/s"} <= set(texts(made))
    assert "AlexNet,64,1280,1152.0,1408.0" in as_csv(made)
    x = LinearAxis.around(rows.high, pixels=400, title="ratio")
    modes = {"eager": theme.BLUE, "memory kept": theme.VERMILION}
    dotted = dots(
        rows[:2].assign(mode=[*modes]), "name", ("rate", "low", "high"), x, "mode", modes, {"FLOP": "flop"}, 1.0
    )
    header, line, *_ = as_csv(specified(dotted)).splitlines()
    assert header.startswith("mark,name,ratio,from,to,mode")
    assert line.startswith("rule and point,VGG-16,2,1.8,2.2,eager")


def test_a_matrix_prints_its_coefficients():
    rows = pd.DataFrame([
        {"a": "FLOP", "b": "latency", "rho": 0.974, "sure": True},
        {"a": "bytes", "b": "latency", "rho": -0.5, "sure": False},
    ])  # fmt: skip
    made = specified(matrix(rows, "a", "b", "rho", ["FLOP", "bytes", "latency"], settled="sure"))
    assert {"0.97", "−0.50", "FLOP", "bytes", "latency"} <= set(texts(made))
    assert texts(made).count("latency") == 1  # it is correlated with both others: a row, no column
    assert as_csv(made).splitlines()[1:] == [
        "FLOP,latency,0.974,false",
        "bytes,latency,-0.5,true",
    ]  # the second is pale


def test_small_slices_are_one_and_stand_last():
    # Of 100: 60, 30, and 4 + 3 + 3 as "other"; quarter turns are pi / 2
    cut = slices({"b": 30, "a": 60, "c": 4, "d": 3, "other": 3, "none": 0})
    assert [(part, round(share, 2)) for part, share, *_ in cut] == [("a", 0.6), ("b", 0.3), ("other", 0.1)]
    assert cut[0][2:] == pytest.approx((0, 1.2 * pi))
    assert cut[-1][3] == pytest.approx(2 * pi)
