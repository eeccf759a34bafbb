"""Figures of what others measured: models under the roofs of chips, and what a change brings to all of them."""

from typing import Any

import altair as alt
import pandas as pd

from measure.domain.roofs import Roofline
from measure.domain.values import SPACE
from report.analysis import available, elsewhere
from report.charts import axes, roofline, theme
from report.charts.axes import LogAxis
from report.charts.labels import Box
from report.figures.marks import panel, rounded, tips
from report.figures.thinning import ends, one_a_place
from report.load.paper import Paper
from report.text.frame_rows import each, highest
from report.text.prose import intensity, listing, number, percent, si

PANELS, COLUMNS, HEIGHT = 4, 2, 190
"""So many devices have a panel, those of which most models are known, and how high one is in pixels."""

HALF = 1.5
"""Pixels from a mark's middle to what no name may cover."""


@available.or_missing
@theme.building()
def on_roofs(paper: Paper) -> alt.ConcatChart:
    """Draw the rate that models achieved against their intensity, under the datasheet's roof, a panel a device."""
    rows = elsewhere.fastest(elsewhere.counted(paper))
    panels, told = [], []
    for device, computed in elsewhere.most_models(rows)[:PANELS]:
        points = rows[(rows.device == device) & (rows.computed == computed)]
        panels.append(of_device(points, f"{device}, {computed}"))
        best = highest(points, "peak_share")
        told.append(f"{percent(best.peak_share)} on the {device} ({best.model})")
    description = (
        f"Rooflines of {number(len(panels), 'device')} by their datasheets, with the models that others timed on them, "
        f"of each the fastest time. The highest share of the peak is {listing(told)}."
    )
    return theme.finish(alt.concat(*panels, columns=COLUMNS, spacing=14), "elsewhere-on-roofs", description)


def of_device(points: pd.DataFrame, title: str) -> Any:
    """Return the models of one device at one precision, under the roof that all of them have."""
    roof = Roofline(points.peak_flop_per_s.iloc[0], points.bandwidth_byte_per_s.iloc[0])
    x = LogAxis.around([*points.intensity, roof.ridge_flop_per_byte], theme.WIDTH / COLUMNS - 60,
                       "operational intensity by footprint", "FLOP/B")  # fmt: skip
    y = LogAxis.around([*points.flop_per_s, roof.peak_flop_per_s], HEIGHT, "achieved", "FLOP/s", vertical=True,
                       margins=(0.06, 0.1))  # fmt: skip
    thinned = one_a_place(points.sort_values("peak_share", ascending=False), x, "intensity", y, "flop_per_s")
    marks = thinned[["model", "models"]].assign(
        x=rounded(thinned.intensity, 4), rate=rounded(thinned.flop_per_s, 4),
        timed=[f"batch size {row.batch}{f', {row.input_size:.0f} pixels' if row.input_size > 0 else ''}"
               for row in each(thinned)],
        achieved=[f"{si(row.flop_per_s, 'FLOP/s', 3)}, {percent(row.peak_share)} of peak" for row in each(thinned)],
        at=[intensity(value) for value in thinned.intensity],
    )  # fmt: skip
    dots = alt.Chart(marks).mark_point(filled=True, size=14, clip=True, shape="square").encode(
        x.channel("x"), y.channel("rate"),
        color=alt.Color("models:Q", scale=alt.Scale(type="log", range=[theme.SKY, theme.BLUE, "#08244f"]),
                        title="models in one place", legend=alt.Legend(orient="top")),
        tooltip=tips("model", "timed", "at", "achieved", "models"),
    )  # fmt: skip
    places = [(x.pixel(row.x), y.pixel(row.rate)) for row in each(marks)]
    dotted = (Box(across - HALF, down - HALF, across + HALF, down + HALF) for across, down in places)
    taken = (*roofline.room([roof], x, y), *dotted)
    named = axes.named_points(ends(marks, "rate"), "model", x, "x", y, "rate", taken)
    lines = roofline.lines(
        roofline.outline([({"roof": "datasheet", "printed": True}, roof)], x), x, y, "roof", "printed"
    )
    return panel(x, y, lines, dots, named, title=title.replace(" ", SPACE, 1))
