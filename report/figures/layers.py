"""Figures of the layers that a model's work and bytes sit in."""

from typing import Any

import altair as alt

from report.analysis import available
from report.analysis.available import or_missing
from report.analysis.layer_costs import shares_by_kind
from report.charts import theme
from report.figures.bars import PERCENT, bar_rows, stacked_bars
from report.figures.marks import color_of, controlled, rounded
from report.load.paper import Paper
from report.text.quantities import number, percent

QUANTITIES = {"flop": "FLOP", "parameter_count": "parameters", "traffic_byte": "traffic"}
"""Column of ``shares_by_kind`` and title of each panel of ``kinds``."""


@or_missing
def kinds(paper: Paper) -> alt.ConcatChart:
    """Draw where FLOP, parameters and traffic of each model sit at batch size 1: a bar a model, a colour a kind."""
    shares = shares_by_kind(available.layers(paper))
    traffic = shares[~shares.kind.isin(["linear", "attention"])].groupby("model").traffic_byte.sum()
    order = traffic.sort_values(ascending=False).index.tolist()
    picked = theme.choice("kind")
    color = color_of("kind", theme.layer_colors(shares.kind), "kind of layer", columns=5)
    scale, axis = alt.Scale(domain=[0, 1]), alt.Axis(labelExpr=PERCENT, values=[0, 0.5, 1], grid=False)
    size = {"width": theme.WIDTH / 3 - 45, "height": 14 * len(order)}
    panels: list[Any] = []
    for column, title in QUANTITIES.items():
        shown = shares[shares[column] > 0]
        bars = shown[["model", "kind"]].assign(
            rank=shown.kind.map(list(theme.LAYER_COLORS).index),
            part=rounded(shown[column]),
            share=[percent(value, 3) for value in shown[column]],
        )
        x = alt.X("part:Q", stack=True, title=f"share of {title}", scale=scale, axis=axis)
        y = bar_rows(order, labels=not panels, sort=order)
        tooltip = ["model", "kind", alt.Tooltip("share:N", title=f"share of {title}")]
        stack = stacked_bars(bars, x, y, color, picked, tooltip, strokeWidth=0.4)
        panels.append(controlled(stack, panels, picked).properties(**size))
    largest = {
        column: shares.loc[shares.groupby("model")[column].idxmax()].kind.mode()[0] for column in QUANTITIES
    }
    description = (
        f"Stacked bars for {number(len(order), 'model')}: the shares that kinds of layer have in FLOP, parameters and "
        f"traffic at batch size 1. The kind with the largest share in most models is {largest['flop']} for FLOP, "
        f"{largest['parameter_count']} for parameters and {largest['traffic_byte']} for traffic."
    )
    return theme.finish(alt.concat(*panels, columns=3, spacing=10), "layer-kinds", description)
