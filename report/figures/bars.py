"""What figures with a row for each model share: stacked bars, spans and their axes."""

from typing import Any

import altair as alt
import pandas as pd

from report.charts import theme
from report.figures.marks import tips

PERCENT = "format(100 * datum.value, 'd') + ' %'"
"""How an axis of shares writes its ticks."""


def model_rows(order: list[str], sort: Any = alt.Undefined, **axis: Any) -> alt.Y:
    """Return the vertical axis of models, one below the other in this order."""
    return alt.Y("model:N", sort=sort, scale=alt.Scale(domain=order), title=None, axis=alt.Axis(**axis))


def bar_rows(order: list[str], labels: bool, sort: Any = alt.Undefined) -> alt.Y:
    """Return the vertical axis of models with a bar each, named in the first panel of a row."""
    small = theme.LABEL_SIZE
    return model_rows(order, sort, labels=labels, ticks=False, domain=False, labelPadding=4, labelFontSize=small)


def stacked_bars(
    bars: pd.DataFrame, x: alt.X, y: alt.Y, color: alt.Color, picked: alt.Parameter, tooltip: list[Any], **options: Any
) -> alt.Chart:  # fmt: skip
    """Return a bar for each model, its parts in the order of their ``rank``."""
    look: dict[str, Any] = {"height": {"band": 0.8}, "stroke": "#ffffff", "strokeWidth": 0.3} | options
    return alt.Chart(bars).mark_bar(**look).encode(
        x, y, color, alt.Order("rank:Q"), opacity=theme.faded_unless(picked), tooltip=tips(*tooltip)
    )  # fmt: skip


def stack_extent(parts: pd.Series, bars: list[pd.Series]) -> tuple[float, float]:
    """Return the lowest sum of a bar's negative parts and the highest of its positive ones."""
    below, above = (clipped.groupby(bars).sum() for clipped in (parts.clip(upper=0), parts.clip(lower=0)))
    return float(below.min()), float(above.max())


def spans(base: alt.Chart, least: Any, field: str, row: str) -> alt.Chart:
    """Return a grey line in each row from the least to the most of a field."""
    line = base.mark_rule(color="#b5b5b5", strokeWidth=2).encode(least, alt.X2("most:Q"))
    return line.transform_aggregate(least=f"min({field})", most=f"max({field})", groupby=[row])


def dashed_at(values: list[float], field: str, scale: alt.Scale) -> alt.Chart:
    """Return dashed vertical lines at values of a field."""
    lines = alt.Chart(pd.DataFrame({field: values})).mark_rule(color=theme.INK, strokeDash=[4, 3])
    return lines.encode(alt.X(f"{field}:Q", scale=scale))
