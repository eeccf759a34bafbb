"""Figures of the backward pass beside the forward pass."""

from typing import Any

import altair as alt
import pandas as pd

from measure.cache.records import BACKWARD, FORWARD
from report.analysis import available
from report.analysis.available import or_missing
from report.analysis.layer_costs import shown_batch
from report.charts import theme
from report.charts.axes import Layers
from report.figures.layers import PERCENT
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.text.frame_rows import highest, lowest
from report.text.quantities import number, percent, si, significant

MEASURED, COUNTED = "measured, in time", "counted, in FLOP"


def _shown(of: Machine) -> pd.DataFrame:
    steps = available.steps(of)
    return steps[steps.batch == shown_batch(steps)]


@or_missing
def measured_and_counted(paper: Paper) -> alt.ConcatChart:
    """Backward over forward in time and in FLOP, and the share of the peak that each achieves: a row a device."""
    steps = available.rows_of_each(paper, _shown)
    order = steps.groupby("model").time_ratio.mean().sort_values(ascending=False).index.tolist()
    panels: list[Any] = []
    for (device, batch), own in steps.groupby(["device", "batch"]):
        title = f"{device}, batch size {batch}"
        panels.append(_ratios(own, order).properties(title=title))
        if own.forward_peak_share.notna().any():
            panels.append(_rates(own, order))
    panels = [panel.properties(width=theme.WIDTH / 2 - 60, height=13 * len(order)) for panel in panels]
    most, least = highest(steps, "time_ratio"), lowest(steps, "time_ratio")
    description = (
        f"Dot plots for {number(len(order), 'model')} at {BASE_PRECISION}: the time of the backward pass over that of "
        "the forward pass, beside the same of the FLOP counted, and the share of the peak that each pass achieves. "
        f"The ratio in time runs from {significant(least.time_ratio)} ({least.model}) to "
        f"{significant(most.time_ratio)} ({most.model})."
    )
    chart = alt.concat(*panels, columns=2, spacing=14).resolve_scale(color="independent", shape="independent")
    return theme.finish(chart, "training-ratios", description)


def _rows(order: list[str], labels: bool) -> alt.Y:
    axis = alt.Axis(grid=True, ticks=False, labels=labels, labelFontSize=theme.LABEL_SIZE)
    return alt.Y("model:N", sort=order, scale=alt.Scale(domain=order), title=None, axis=axis)


def _ratios(steps: pd.DataFrame, order: list[str]) -> Layers:
    ratios = pd.DataFrame(
        {
            "model": steps.model,
            "ratio": [float(f"{value:.4g}") for value in steps.time_ratio],
            "low": [float(f"{value:.4g}") for value in steps.time_ratio_low.fillna(steps.time_ratio)],
            "high": [float(f"{value:.4g}") for value in steps.time_ratio_high.fillna(steps.time_ratio)],
            "counted": [float(f"{value:.4g}") for value in steps.flop_ratio],
            "forward": [si(value, "s") for value in steps.forward_s],
            "backward": [si(value, "s") for value in steps.backward_s],
            "how": MEASURED,
        }
    )
    base, rows = alt.Chart(ratios), _rows(order, labels=True)
    color = alt.Color(
        "how:N", title=None, legend=alt.Legend(orient="top", columns=2),
        scale=alt.Scale(domain=[MEASURED, COUNTED], range=[theme.BLUE, theme.INK]),
    )  # fmt: skip
    points = [*ratios.ratio, *ratios.counted]
    scale = alt.Scale(domain=[0.9 * min(points), 1.1 * max(points)], nice=False)
    x = alt.X("ratio:Q", title="backward over forward", scale=scale)
    tooltip = ["model", "ratio", "low", "high", "counted", "forward", "backward"]
    interval = base.mark_rule(strokeWidth=1.5, clip=True).encode(
        alt.X("low:Q", scale=scale), rows, color, x2="high:Q"
    )
    dots = base.mark_point(filled=True, size=42, opacity=1).encode(x, rows, color, tooltip=tooltip)
    ticks = base.mark_tick(thickness=2, height={"band": 0.8}).transform_calculate(how=f"'{COUNTED}'").encode(
        alt.X("counted:Q", scale=scale), rows, color
    )  # fmt: skip
    return alt.layer(interval, ticks, dots)


def _rates(steps: pd.DataFrame, order: list[str]) -> Layers:
    rates = pd.concat(
        pd.DataFrame(
            {
                "model": steps.model,
                "pass": stage,
                "share": [float(f"{value:.4g}") for value in steps[f"{stage}_peak_share"]],
                "of peak": [percent(value, 3) for value in steps[f"{stage}_peak_share"]],
                "achieved": [si(value, "FLOP/s") for value in steps[f"{stage}_flop_per_s"]],
            }
        )
        for stage in (FORWARD, BACKWARD)
    )
    base, rows = alt.Chart(rates), _rows(order, labels=False)
    scale = alt.Scale(domain=[0, 1.05 * rates.share.max()], nice=False)
    x = alt.X(
        "share:Q", title="share of the peak", scale=scale, axis=alt.Axis(labelExpr=PERCENT, tickCount=5)
    )
    passes, legend = [FORWARD, BACKWARD], alt.Legend(orient="top")
    colors = alt.Scale(domain=passes, range=[theme.SKY, theme.VERMILION])
    shapes = alt.Scale(domain=passes, range=["circle", "diamond"])
    span = base.mark_rule(color="#b5b5b5", strokeWidth=2).encode(
        alt.X("least:Q", scale=scale), rows, x2="most:Q"
    ).transform_aggregate(least="min(share)", most="max(share)", groupby=["model"])  # fmt: skip
    dots = base.mark_point(filled=True, size=42, opacity=1).encode(
        x, rows, color=alt.Color("pass:N", scale=colors, title=None, legend=legend),
        shape=alt.Shape("pass:N", scale=shapes, title=None, legend=legend),
        tooltip=["model", "pass", "of peak", "achieved"],
    )  # fmt: skip
    return alt.layer(span, dots)
