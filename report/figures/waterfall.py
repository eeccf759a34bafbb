"""Figures of what measured latencies are made of."""

from typing import Any

import altair as alt
import pandas as pd

from report.analysis import available, waterfall
from report.analysis.available import or_missing
from report.analysis.operator_groups import GROUPS, OTHER
from report.analysis.waterfall import BOUND
from report.charts import theme
from report.figures.layers import PERCENT
from report.load.paper import BASE_PRECISION, Paper
from report.text.frame_rows import highest
from report.text.quantities import number, percent, si

SMALL = 0.01
"""A group of operators whose inefficiency is a smaller share of a latency is drawn with the other operators."""


def drawn(rows: pd.DataFrame) -> pd.DataFrame:
    """The terms without small ones, which are added to the other operators of their cell."""
    small = rows.term.isin(GROUPS) & (rows.share.abs() < SMALL)
    rows = rows.assign(term=rows.term.mask(small, OTHER))
    key = ["device", "batch", "model", "term"]
    return rows.groupby(key, as_index=False).agg(
        time_s=("time_s", "sum"), share=("share", "sum"), latency_s=("latency_s", "first")
    )


@or_missing
def stacked(paper: Paper) -> alt.ConcatChart:
    """The terms of each profiled cell as shares of its latency: a bar a model, a panel a batch size and device."""
    rows = drawn(available.rows_of_each(paper, lambda of: waterfall.terms(paper, of)))
    bound = rows[rows.term == BOUND]
    order = bound.groupby("model").share.mean().sort_values(ascending=False).index.tolist()
    ranks = {term: rank for rank, term in enumerate(theme.TERM_COLORS)}
    bars = pd.DataFrame(
        {
            "device": rows.device,
            "batch": rows.batch,
            "model": rows.model,
            "term": rows.term,
            "rank": rows.term.map(ranks),
            "part": [float(f"{value:.4g}") for value in rows.share],
            "time": [si(value, "s").replace("-", "−") for value in rows.time_s],
            "latency": [si(value, "s") for value in rows.latency_s],
        }
    )
    picked = theme.choice("term")
    color = alt.Color(
        "term:N", scale=theme.term_colors(bars.term), title=None, legend=alt.Legend(orient="top", columns=5)
    )
    limits = alt.Chart(pd.DataFrame({"part": [0, 1]})).mark_rule(color=theme.INK, strokeDash=[4, 3])
    groups = list(bars.groupby(["batch", "device"]))
    columns = min(len(groups), 2)
    panels: list[Any] = []
    for (batch, device), own in groups:
        scale = alt.Scale(domain=_extent(bars[bars.device == device]), nice=False)
        x = alt.X(
            "part:Q", stack=True, scale=scale, title="share of the measured latency",
            axis=alt.Axis(labelExpr=PERCENT, tickCount=5, grid=False),
        )  # fmt: skip
        first = len(panels) % columns == 0
        axis = alt.Axis(
            labels=first, ticks=False, domain=False, labelPadding=4, labelFontSize=theme.LABEL_SIZE
        )
        stack = alt.Chart(own.drop(columns=["device", "batch"])).mark_bar(
            height={"band": 0.8}, stroke="#ffffff", strokeWidth=0.3
        ).encode(
            x, alt.Y("model:N", scale=alt.Scale(domain=order), title=None, axis=axis),
            color, order=alt.Order("rank:Q"), opacity=theme.faded_unless(picked),
            tooltip=["model", "term", "time", "latency"],
        )  # fmt: skip
        stack = stack if panels else stack.add_params(picked)
        panel = alt.layer(stack, limits.encode(alt.X("part:Q", scale=scale)))
        width = theme.WIDTH / columns - 45
        panels.append(
            panel.properties(title=f"{device}, batch size {batch}", width=width, height=12 * len(order))
        )
    most = highest(bound, "share")
    description = (
        f"Stacked bars at {BASE_PRECISION} for {number(len(order), 'model')} in {number(len(panels), 'panel')}, one "
        "for each batch size and device: what a latency is made of, in shares of it, from the bound of the whole "
        "model over running it operator by operator and the inefficiency of groups of operators to the framework. "
        f"The bound is the largest share in {most.model} on the {most.device} at batch size {most.batch} "
        f"({percent(most.share)})."
    )
    return theme.finish(alt.concat(*panels, columns=columns, spacing=12), "waterfall", description)


def _extent(bars: pd.DataFrame) -> list[float]:
    """From the lowest sum of a cell's negative terms to the highest of its positive ones."""
    cells = [bars.batch, bars.model]
    negative, positive = (
        bars.part.clip(upper=0).groupby(cells).sum(),
        bars.part.clip(lower=0).groupby(cells).sum(),
    )
    return [float(negative.min()), float(positive.max())]
