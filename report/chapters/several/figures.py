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
from report.markdown import si
from report.paper import Paper
from report.paper.chips import short_name

NAMES = 145  # pixels of leaders and names next to the curves
SHARES = {"low": 0.1, "quarter": 0.25, "median": 0.5, "three_quarters": 0.75, "high": 0.9}


@display.figure
def links(paper: Paper) -> alt.ConcatChart:
    """Draw the bus bandwidth of all-reduces by size, and the share of collectives in the time of a token by GPUs."""
    panels: list[Any] = [_bandwidths(paper)]
    if len(shares := _quantiles(paper)):
        panels.append(_shares(shares))
    highest = timed.by_device(paper).bus
    said = "; ".join(f"{short_name(str(device))} {si(float(bus), 'B/s')}" for device, bus in highest.items())
    return alt.concat(*panels, name="several-links", description=f"Highest bus bandwidth of an all-reduce: {said}.")


def _quantiles(paper: Paper) -> pd.DataFrame:
    """Return quantiles of the share of collectives, a row for each number of GPUs with enough servers."""
    rows = timed.communication(paper.served)
    found = [
        {"label": f"{gpus:.0f} GPUs", "servers": len(part)}
        | {name: float(part.lost.quantile(share)) for name, share in SHARES.items()}
        for gpus, part in rows.groupby("plan_gpus") if len(part) >= FEWEST_MODELS
    ]  # fmt: skip
    return pd.DataFrame(found)


def _bandwidths(paper: Paper) -> alt.LayerChart:
    rows = display.required(timed.reductions(paper.served))
    rows = rows.assign(name=rows.device.map(_brief), message_byte=rows.message_byte.astype(float))
    width = theme.plot_width(2, right=NAMES, unit="B/s")
    x = LogAxis.around(rows.message_byte, pixels=width, title="array", unit="B")
    y = LogAxis.around(rows.bus, pixels=210, title="bus bandwidth", unit="B/s", vertical=True)
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


def _brief(device: str) -> str:
    return short_name(device).replace(" Blackwell Server", "")


def _shares(shares: Any) -> alt.LayerChart:
    down = Categories.steps(shares.label, 210 / len(shares))
    width = theme.plot_width(2, left=down.room)
    across = LinearAxis.around(shares.high, pixels=width, format="%", title="collectives, share of a token's time")
    tooltip = [
        ("label", "GPUs", ""), ("servers", "servers", "d"), ("low", "a tenth has less", ".0%"),
        ("median", "median", ".0%"), ("high", "a tenth has more", ".0%"),
    ]  # fmt: skip
    base = alt.Chart(shares)
    bars = base.mark_bar(color=theme.MUTED, size=16).encode(
        across("quarter"), down("label"), x2=alt.X2("three_quarters")
    )
    return alt.layer(
        base.mark_rule(color=theme.MUTED, strokeWidth=2).encode(across("low"), down("label"), x2=alt.X2("high")),
        tips(bars, *tooltip),
        base.mark_tick(color=theme.PAPER, thickness=3, size=16).encode(across("median"), down("label")),
        width=across.pixels, height=down.pixels, title="servers",
    )  # fmt: skip
