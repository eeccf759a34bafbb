import re

import pandas as pd

from report.charts import theme
from report.charts.axes import LinearAxis, LogAxis, by_color
from report.charts.drawing import picture
from report.charts.forms import curves, dots
from report.charts.panels import specified
from report.figure_files import as_csv


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
