"""Figures of what measured latencies are made of."""

from typing import Any

import altair as alt
import pandas as pd

from report.analysis import available, waterfall
from report.analysis.long_lists import evenly, left_out
from report.analysis.operator_groups import GROUPS, OTHER
from report.analysis.waterfall import BOUND
from report.charts import theme
from report.figures.bars import PERCENT, bar_rows, dashed_at, stack_extent, stacked_bars
from report.figures.marks import color_of, controlled, rounded
from report.load.paper import BASE_PRECISION, Paper
from report.text.frame_rows import highest
from report.text.prose import number, percent, si

SMALL = 0.01
"""A group of operators whose inefficiency is a smaller share of a latency is drawn with the other operators."""


def drawn(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the terms without small ones, which are added to the other operators of their cell."""
    small = rows.term.isin(GROUPS) & (rows.share.abs() < SMALL)
    rows = rows.assign(term=rows.term.mask(small, OTHER))
    key = ["device", "batch", "model", "term"]
    return rows.groupby(key, as_index=False).agg(
        time_s=("time_s", "sum"), share=("share", "sum"), latency_s=("latency_s", "first")
    )


@available.or_missing
@theme.building()
def stacked(paper: Paper) -> alt.ConcatChart:
    """Draw the terms of each profiled cell as shares of its latency: a bar a model, a panel a batch size and device."""
    rows = drawn(available.rows_of_each(paper, lambda machine: waterfall.terms(paper, machine)))
    bound = rows[rows.term == BOUND]
    every = bound.groupby("model").share.mean().sort_values(ascending=False).index.tolist()
    order = evenly(every)
    rows = rows[rows.model.isin(order)]
    bars = rows[["device", "batch", "model", "term"]].assign(
        rank=rows.term.map(list(theme.TERM_COLORS).index),
        part=rounded(rows.share, 4),
        time=[si(value, "s").replace("-", "−") for value in rows.time_s],
        latency=[si(value, "s") for value in rows.latency_s],
    )
    picked = theme.choice("term")
    color = color_of("term", theme.colors_of(bars.term, theme.TERM_COLORS), columns=5)
    axis = alt.Axis(labelExpr=PERCENT, tickCount=5, grid=False)
    groups = list(bars.groupby(["device", "batch"]))
    columns = min(len(groups), 2)
    panels: list[Any] = []
    before = None
    for (device, batch), shown in groups:
        of_device = bars[bars.device == device]
        own = [model for model in order if model in set(of_device.model)]
        extent = stack_extent(of_device.part, [of_device.batch, of_device.model])
        scale = alt.Scale(domain=list(extent), nice=False)
        x = alt.X("part:Q", stack=True, scale=scale, title="share of the measured latency", axis=axis)
        y = bar_rows(own, labels=len(panels) % columns == 0 or device != before)
        before = device
        terms = shown.drop(columns=["device", "batch"])
        stack = stacked_bars(terms, x, y, color, picked, ["model", "term", "time", "latency"])
        layers = alt.layer(controlled(stack, panels, picked), dashed_at([0, 1], "part", scale))
        size = {"width": theme.WIDTH / columns - 45, "height": 12 * len(own)}
        panels.append(layers.properties(title=f"{device}, batch size {batch}", **size))
    most = highest(bound, "share")
    description = (
        f"Stacked bars at {BASE_PRECISION} for {number(len(order), 'model')} in {number(len(panels), 'panel')}, one "
        "for each batch size and device: what a latency is made of, in shares of it, from the bound of the whole "
        "model over running it operator by operator and the inefficiency of groups of operators to the framework. "
        f"The bound is the largest share in {most.model} on the {most.device} at batch size {most.batch} "
        f"({percent(most.share)})."
    )
    chart = alt.concat(*panels, columns=columns, spacing=12)
    return theme.finish(chart, "waterfall", description, left_out(order, every))
