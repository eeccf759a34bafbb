"""Figures of the backward pass beside the forward pass."""

from typing import Any

import altair as alt
import pandas as pd

from measure.domain.values import significant
from measure.domain.words import BACKWARD, FORWARD
from report.analysis import available
from report.analysis.layer_costs import shown_batch
from report.analysis.long_lists import evenly, left_out
from report.charts import theme
from report.charts.axes import Layers
from report.figures.bars import PERCENT, model_rows, spans
from report.figures.marks import color_of, rounded, styles, tips
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.text.frame_rows import highest, lowest
from report.text.prose import number, percent, si

MEASURED, COUNTED = "measured, in time", "counted, in FLOP"


def _shown(machine: Machine) -> pd.DataFrame:
    steps = available.steps(machine)
    return steps[steps.batch == shown_batch(steps)]


@available.or_missing
@theme.building()
def measured_and_counted(paper: Paper) -> alt.ConcatChart:
    """Draw backward over forward in time and in FLOP, and the share of the peak that each achieves: a row a device."""
    steps = available.rows_of_each(paper, _shown)
    every = steps.groupby("model").time_ratio.mean().sort_values(ascending=False).index.tolist()
    order = evenly(every)
    panels: list[Any] = []
    for (device, batch), shown in steps[steps.model.isin(order)].groupby(["device", "batch"]):
        own = [model for model in order if model in set(shown.model)]
        size = {"width": theme.WIDTH / 2 - 60, "height": 13 * len(own)}
        panels.append(_ratios(shown, own).properties(title=f"{device}, batch size {batch}", **size))
        if shown.forward_peak_share.notna().any():
            panels.append(_rates(shown, own).properties(**size))
    most, least = highest(steps, "time_ratio"), lowest(steps, "time_ratio")
    description = (
        f"Dot plots for {number(len(order), 'model')} at {BASE_PRECISION}: the time of the backward pass over that of "
        "the forward pass, beside the same of the FLOP counted, and the share of the peak that each pass achieves. "
        f"The ratio in time runs from {significant(least.time_ratio)} ({least.model}) to "
        f"{significant(most.time_ratio)} ({most.model})."
    )
    chart = alt.concat(*panels, columns=2, spacing=14).resolve_scale(color="independent", shape="independent")
    return theme.finish(chart, "training-ratios", description, left_out(order, every))


def _rows(order: list[str], labels: bool) -> alt.Y:
    return model_rows(order, order, grid=True, ticks=False, labels=labels, labelFontSize=theme.LABEL_SIZE)


def _ratios(steps: pd.DataFrame, order: list[str]) -> Layers:
    """Return the ratio in time with its interval, and that in FLOP."""
    ratios = steps[["model"]].assign(
        ratio=rounded(steps.time_ratio, 4),
        low=rounded(steps.time_ratio_low.fillna(steps.time_ratio), 4),
        high=rounded(steps.time_ratio_high.fillna(steps.time_ratio), 4),
        counted=rounded(steps.flop_ratio, 4),
        forward=[si(value, "s") for value in steps.forward_s],
        backward=[si(value, "s") for value in steps.backward_s],
        how=MEASURED,
    )
    colors = alt.Scale(domain=[MEASURED, COUNTED], range=[theme.BLUE, theme.INK])
    base = alt.Chart(ratios).encode(_rows(order, labels=True), color_of("how", colors, columns=2))
    points = [*ratios.ratio, *ratios.counted]
    scale = alt.Scale(domain=[0.9 * min(points), 1.1 * max(points)], nice=False)
    tooltip = ["model", "ratio", "low", "high", "counted", "forward", "backward"]
    interval = base.mark_rule(strokeWidth=1.5, clip=True).encode(alt.X("low:Q", scale=scale), alt.X2("high:Q"))
    dots = base.mark_point(filled=True, size=42, opacity=1)
    dots = dots.encode(alt.X("ratio:Q", title="backward over forward", scale=scale), tooltip=tips(*tooltip))
    ticks = base.mark_tick(thickness=2, height={"band": 0.8}).transform_calculate(how=f"'{COUNTED}'")
    return alt.layer(interval, ticks.encode(alt.X("counted:Q", scale=scale)), dots)


def _rates(steps: pd.DataFrame, order: list[str]) -> Layers:
    """Return the share of the peak that each pass achieves."""
    parts = []
    for stage in (FORWARD, BACKWARD):
        shares = steps[f"{stage}_peak_share"]
        columns: dict[str, Any] = {
            "pass": stage,
            "share": rounded(shares, 4),
            "of peak": [percent(value, 3) for value in shares],
            "achieved": [si(value, "FLOP/s") for value in steps[f"{stage}_flop_per_s"]],
        }
        parts.append(steps[["model"]].assign(**columns))
    rates = pd.concat(parts)
    base = alt.Chart(rates).encode(_rows(order, labels=False))
    scale = alt.Scale(domain=[0, 1.05 * rates.share.max()], nice=False)
    axis = alt.Axis(labelExpr=PERCENT, tickCount=5)
    passes = [FORWARD, BACKWARD]
    colors = alt.Scale(domain=passes, range=[theme.SKY, theme.VERMILION])
    shapes = alt.Scale(domain=passes, range=["circle", "diamond"])
    dots = base.mark_point(filled=True, size=42, opacity=1).encode(
        alt.X("share:Q", title="share of the peak", scale=scale, axis=axis),
        **styles("pass", colors, shapes, title=None), tooltip=tips("model", "pass", "of peak", "achieved"),
    )  # fmt: skip
    return alt.layer(spans(base, alt.X("least:Q", scale=scale), "share", "model"), dots)
