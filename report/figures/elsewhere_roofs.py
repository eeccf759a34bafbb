"""Figures of what devices deliver of their datasheets, by streams and products that others timed."""

from typing import Any

import altair as alt
import pandas as pd

from report.analysis import available, elsewhere_roofs
from report.charts import axes, theme
from report.charts.axes import LogAxis
from report.figures import distributions
from report.figures.bars import PERCENT, dashed_at
from report.figures.marks import axis_before_names, panel, rounded, styles, tips, widest
from report.load.paper import Paper
from report.text.frame_rows import extremes, highest
from report.text.prose import number, percent, si

PRECISION_STYLES = {"bf16": (theme.BLUE, "circle"), "fp8": (theme.VERMILION, "diamond")}


@available.or_missing
@theme.building()
def delivered(paper: Paper) -> alt.ConcatChart:
    """Draw the share of its datasheet that each device delivers: by streams of its memory, and by matrix products."""
    streams, products = elsewhere_roofs.streams(paper), elsewhere_roofs.products(paper)
    panels = [
        _shares(streams, "stream", theme.STREAM_STYLES, "share of the datasheet's bandwidth"),
        _shares(products, "precision", PRECISION_STYLES, "share of the datasheet's dense peak"),
    ]
    slow, quick = extremes(streams, "share")
    least, most = extremes(products, "share")
    description = (
        f"Dots for {number(streams.device.nunique(), 'device')}: streams reach from {percent(slow.share)} "
        f"({slow.device}, {slow.stream}) to {percent(quick.share)} ({quick.device}, {quick.stream}) of the datasheet's "
        f"bandwidth; for {number(products.device.nunique(), 'device')} the fastest matrix products reach from "
        f"{percent(least.share)} ({least.device}, {least.precision}) to {percent(most.share)} ({most.device}, "
        f"{most.precision}) of their peaks."
    )
    chart = alt.concat(*panels, columns=1, spacing=14).resolve_scale(color="independent", shape="independent")
    return theme.finish(chart, "elsewhere-delivered", description)


def _shares(rows: pd.DataFrame, field: str, looks: dict[str, tuple[str, str]], title: str) -> Any:
    best = rows.groupby("device").share.max().sort_values(ascending=False)
    order = [str(device) for device in best.index]
    marks = pd.DataFrame(
        {
            "name": rows.device, field: rows[field], "share": rounded(rows.share, 4),
            "of datasheet": [percent(share, 3) for share in rows.share],
        }
    )  # fmt: skip
    present = {name: looks[name] for name in looks if name in set(rows[field])}
    scale = alt.Scale(domain=[0, max(1.05, 1.02 * float(rows.share.max()))], nice=False)
    dots = alt.Chart(marks).mark_point(filled=True, size=46, opacity=1).encode(
        distributions.row_axis(order),
        alt.X("share:Q", title=title, scale=scale, axis=alt.Axis(labelExpr=PERCENT, tickCount=6)),
        **styles(field, *theme.scales(present), title=None), tooltip=tips("name", field, "of datasheet"),
    )  # fmt: skip
    size = {"width": theme.WIDTH - widest(order) - 10, "height": distributions.ROW * len(order)}
    return alt.layer(dashed_at([1.0], "share", scale), dots).properties(**size)


@available.or_missing
@theme.building()
def levels(paper: Paper) -> Any:
    """Draw the rate at which each device reads a working set again and again, against its size."""
    rows = elsewhere_roofs.levels(paper)
    sets, end = rows.working_set_byte, theme.WIDTH - widest(rows.device) - 24
    x = axis_before_names(sets.min() / 1.1, sets.max() * 1.1, theme.WIDTH, end, "working set", "B")
    y = LogAxis.around(rows.byte_per_s, 260, "read by all units together", "B/s", vertical=True)
    marks = pd.DataFrame(
        {
            "device": rows.device, "set": rounded(rows.working_set_byte, 4),
            "rate": rounded(rows.byte_per_s, 3),
        }
    )  # fmt: skip
    lines = alt.Chart(marks).mark_line(color=theme.BLUE, strokeWidth=1.4, clip=True).encode(
        x.channel("set"), y.channel("rate"), alt.Detail("device:N"),
        tooltip=tips("device", "set", "rate"),
    )  # fmt: skip
    last = marks.sort_values("set").drop_duplicates("device", keep="last")
    named = axes.named_ends(last, "device", x, "set", y, "rate", end)
    fastest = highest(rows, "byte_per_s")
    description = (
        f"Lines of {number(rows.device.nunique(), 'device')}: bandwidth against the working set. The highest is "
        f"{si(fastest.byte_per_s, 'B/s')} of {fastest.device} at {si(fastest.working_set_byte, 'B')}."
    )
    return theme.finish(panel(x, y, lines, named), "elsewhere-levels", description)
