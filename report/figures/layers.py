"""Figures of the layers that a model's work and bytes sit in."""

from typing import Any

import altair as alt
import pandas as pd

from report.analysis import available
from report.analysis.available import or_missing
from report.analysis.layer_costs import shares_by_kind
from report.charts import theme
from report.load.paper import Paper
from report.text.quantities import number, percent

QUANTITIES = (("flop", "FLOP"), ("parameter_count", "parameters"), ("traffic_byte", "traffic"))
"""Column of ``shares_by_kind`` and title of each panel of ``kinds``."""


PERCENT = "format(100 * datum.value, 'd') + ' %'"
"""How an axis of shares writes its ticks."""


@or_missing
def kinds(paper: Paper) -> alt.ConcatChart:
    """Where FLOP, parameters and traffic of each model sit at batch size 1: a bar a model, a colour a kind of layer."""
    shares = shares_by_kind(available.layers(paper))
    ranks = {kind: rank for rank, kind in enumerate(theme.LAYER_COLORS)}
    traffic = shares[~shares.kind.isin(["linear", "attention"])].groupby("model").traffic_byte.sum()
    order = traffic.sort_values(ascending=False).index.tolist()
    picked = theme.choice("kind")
    color = alt.Color(
        "kind:N",
        scale=theme.layer_colors(shares.kind),
        title="kind of layer",
        legend=alt.Legend(orient="top", columns=5),
    )
    panels: list[Any] = []
    for column, title in QUANTITIES:
        own = shares[shares[column] > 0]
        bars = pd.DataFrame(
            {
                "model": own.model,
                "kind": own.kind,
                "rank": own.kind.map(ranks),
                "part": [float(f"{value:.5g}") for value in own[column]],
                "share": [percent(value, 3) for value in own[column]],
            }
        )
        axis = alt.Axis(
            labels=not panels, ticks=False, domain=False, labelPadding=4, labelFontSize=theme.LABEL_SIZE
        )
        drawn = alt.Chart(bars).mark_bar(height={"band": 0.8}, stroke="#ffffff", strokeWidth=0.4).encode(
            alt.X("part:Q", stack=True, title=f"share of {title}", scale=alt.Scale(domain=[0, 1]),
                  axis=alt.Axis(labelExpr=PERCENT, values=[0, 0.5, 1], grid=False)),
            alt.Y("model:N", sort=order, scale=alt.Scale(domain=order), title=None, axis=axis),
            color, order=alt.Order("rank:Q"), opacity=theme.faded_unless(picked),
            tooltip=["model", "kind", alt.Tooltip("share:N", title=f"share of {title}")],
        )  # fmt: skip
        drawn = drawn if panels else drawn.add_params(picked)
        panels.append(drawn.properties(width=theme.WIDTH / 3 - 45, height=14 * len(order)))
    first = {
        column: shares.loc[shares.groupby("model")[column].idxmax()].kind.mode()[0]
        for column, _ in QUANTITIES
    }
    description = (
        f"Stacked bars for {number(len(order), 'model')}: the shares that kinds of layer have in FLOP, parameters and "
        f"traffic at batch size 1. The kind with the largest share in most models is {first['flop']} for FLOP, "
        f"{first['parameter_count']} for parameters and {first['traffic_byte']} for traffic."
    )
    return theme.finish(alt.concat(*panels, columns=3, spacing=10), "layer-kinds", description)
