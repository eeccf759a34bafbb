"""The figure of the chapter on several GPUs."""

from typing import Any

import altair as alt
import pandas as pd

from measure.domain.statistics import FEWEST_MODELS
from report import display
from report.chapters.several import timed
from report.charts import theme
from report.charts.annotations import end_names, tips
from report.charts.axes import Categories, LinearAxis, LogAxis, by_color
from report.charts.forms import quantile_bars
from report.markdown import si
from report.paper import Paper
from report.paper.chips import brief_name, short_name
from report.paper.frames import quantiles

HEIGHT = 210  # pixels of both panels
NAMES = 145  # pixels of leaders and names next to the curves


@display.figure
def links(paper: Paper) -> alt.ConcatChart:
    """Draw the bus bandwidth of all-reduces by size, and the share of collectives in the time of a token by GPUs."""
    panels: list[Any] = [_bandwidths(paper)]
    shares = quantiles(timed.communication(paper.served), "plan_gpus", "lost", "servers", FEWEST_MODELS)
    if len(shares):
        panels.append(_shares(shares))
    highest = timed.by_device(paper).bus
    said = "; ".join(f"{short_name(str(device))} {si(float(bus), 'B/s')}" for device, bus in highest.items())
    return alt.concat(*panels, name="several-links", description=f"Highest bus bandwidth of an all-reduce: {said}.")


def _bandwidths(paper: Paper) -> alt.LayerChart:
    rows = display.required(timed.reductions(paper.served))
    rows = rows.assign(name=rows.device.map(brief_name), message_byte=rows.message_byte.astype(float))
    width = theme.plot_width(2, right=NAMES, unit="B/s")
    x = LogAxis.around(rows.message_byte, pixels=width, title="array", unit="B")
    y = LogAxis.around(rows.bus, pixels=HEIGHT, title="bus bandwidth", unit="B/s", vertical=True)
    color = by_color("name", theme.colors(rows.name.unique()), legend=None)
    tooltip = [
        ("name", "GPU", ""), ("message_byte", "array", "B"), ("bus", "bus bandwidth", "B/s"),
        ("latency_s", "time", "s"),
    ]  # fmt: skip
    base = alt.Chart(rows).encode(x("message_byte"), y("bus"), color=color)
    ends = rows.loc[rows.groupby("name", sort=False).message_byte.idxmax()]
    return alt.layer(
        base.mark_line(), tips(base.mark_point(size=16), *tooltip),
        *end_names(ends, "name", x("message_byte"), y("bus")),
        width=x.pixels, height=y.pixels, title="all-reduce of eight GPUs",
    )  # fmt: skip


def _shares(shares: pd.DataFrame) -> alt.LayerChart:
    shares = shares.assign(label=shares.plan_gpus.map("{:.0f} GPUs".format))
    width = theme.plot_width(2, left=Categories.steps(shares.label).room)
    across = LinearAxis.around(shares.high, pixels=width, format="%", title="collectives, share of a token's time")
    return quantile_bars(shares, "label", "GPUs", "servers", across, HEIGHT, size=16, title="servers")
