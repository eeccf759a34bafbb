"""What figures of many models share: a row for each set of them, with its median, half and eight of ten of them."""

from collections.abc import Mapping

import altair as alt
import pandas as pd

from report.analysis.elsewhere_pairs import FactorSpread
from report.charts import theme
from report.charts.axes import Layers, LogAxis
from report.figures.bars import dashed_at
from report.figures.marks import rounded, tips, widest

ROW = 19
"""Pixels from one row to the next."""


def plot_width(names: Mapping[str, FactorSpread]) -> float:
    """Return the pixels that the names of the rows leave to the plot."""
    return theme.WIDTH - widest(names) - 10


def rows(
    spreads: Mapping[str, FactorSpread], title: str, axis: alt.Axis, scale: alt.Scale, at: float | None = None
) -> Layers:
    """Return a row for each name: a line over eight of ten models, a bar over half of them, a tick at their median.

    A dashed line stands ``at`` a value, if one is given.
    """
    frame = pd.DataFrame(
        {
            "name": list(spreads),
            **{
                column: rounded([getattr(spread, column) for spread in spreads.values()], 4)
                for column in ("low", "quarter", "median", "three_quarters", "high")
            },
            "models": [spread.models for spread in spreads.values()],
            "least": [spread.least for spread in spreads.values()],
            "most": [spread.most for spread in spreads.values()],
        }
    )
    base = alt.Chart(frame).encode(row_axis(list(spreads)))
    x = alt.X("low:Q", title=title, scale=scale, axis=axis)
    tooltip = ["name", "models", "low", "quarter", "median", "three_quarters", "high", "least", "most"]
    layers = [
        base.mark_rule(color=theme.SKY, strokeWidth=2, clip=True).encode(x, alt.X2("high:Q")),
        base.mark_bar(color=theme.BLUE, height=8, clip=True).encode(
            alt.X("quarter:Q", scale=scale), alt.X2("three_quarters:Q"), tooltip=tips(*tooltip)
        ),
        base.mark_tick(color="#ffffff", thickness=2, height=8).encode(alt.X("median:Q", scale=scale)),
    ]
    if at is not None:
        layers.insert(0, dashed_at([at], "low", scale))
    return alt.layer(*layers)


def row_axis(names: list[str]) -> alt.Y:
    """Return the vertical axis of the rows, in their order."""
    axis = alt.Axis(labelFontSize=theme.LABEL_SIZE, labelLimit=theme.WIDTH, grid=True, ticks=False, domain=False)
    return alt.Y("name:N", sort=names, title=None, scale=alt.Scale(domain=names), axis=axis)


def factor_axis(values: list[float], pixels: float, title: str) -> LogAxis:
    """Return a logarithmic axis of factors that holds one and all of these."""
    return LogAxis.around([1, *values], pixels, title)
