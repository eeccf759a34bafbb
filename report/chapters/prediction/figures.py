"""The figure of the errors of predictions."""

import altair as alt
import pandas as pd

from measure.predicting import records as tables
from measure.predicting.records import BY_DEVICE, BY_FAMILY
from report import display
from report.chapters.prediction.facts import FIT, of_gpus
from report.charts import theme
from report.charts.annotations import tips
from report.charts.axes import Categories, LogAxis
from report.paper import Paper

METHODS = {
    tables.OURS: "fitted terms", tables.LIKE_ROOFLINE: "roofline by kind", tables.LIKE_FLOP: "FLOP over peak",
}  # fmt: skip
TITLES = {BY_FAMILY: "a family without timings", BY_DEVICE: "a GPU without timings"}


@display.figure
def errors(paper: Paper) -> alt.ConcatChart:
    """Draw the median error of each way to predict, a dot for each GPU, a panel for each way to leave timings out."""
    found = {}
    for left_out in TITLES:
        ways = [of_gpus(paper, left_out, method).assign(method=method, way=way) for method, way in METHODS.items()]
        rows = pd.concat(ways).rename_axis("device").reset_index()
        found[left_out] = rows.assign(error=100 * rows.median_error)
    found = display.required({left_out: rows for left_out, rows in found.items() if len(rows)}, FIT)
    names = tuple(METHODS.values())
    y = Categories(names=names, pixels=22 * len(names))
    width = theme.plot_width(2, left=y.room, shared=True, figure=theme.TEXT_WIDTH)
    every = [error for rows in found.values() for error in rows.error]
    x = LogAxis.around(every, pixels=width, title="median error, %")
    panels = []
    for at, (left_out, rows) in enumerate(found.items()):
        y = Categories(names=names, pixels=y.pixels, shown=at == 0)
        middles = rows.groupby(["way", "method"], as_index=False).error.median()
        layers = []
        for is_ours, color in ((True, theme.BLUE), (False, theme.MUTED)):
            dots, ticks = (
                alt.Chart(each[(each.method == tables.OURS) == is_ours]).encode(x("error"), y("way"))
                for each in (rows, middles)
            )
            tooltip = ("device", "GPU", ""), ("way", "predicted by", ""), ("error", "median error, %", ".2~g")
            layers.append(tips(dots.mark_point(color=color), *tooltip))
            layers.append(ticks.mark_tick(color=color, size=18, thickness=2.5))
        panels.append(alt.layer(*layers, title=TITLES[left_out], width=width, height=y.pixels))
    description = "Median errors of three ways to predict a time, a dot for each GPU."
    return alt.concat(*panels, name="prediction-errors", description=description)
