"""The figure of how well counts order the latencies that others measured."""

from typing import Any

import altair as alt
import pandas as pd

from report.analysis import available, elsewhere_predictors
from report.charts import theme
from report.figures.correlations import COLORS, DARK, WITHOUT_INTERVAL
from report.figures.marks import tips, widest
from report.load.paper import Paper
from report.text.frame_rows import extremes
from report.text.prose import number

ROW = 24
"""Pixels from one row to the next."""


@available.or_missing
@theme.building()
def matrix(paper: Paper) -> Any:
    """Draw the rank correlation of latency with each predictor, a row a device."""
    frame = pd.DataFrame(
        {
            "name": f"{order.device}, {order.computed}", "predictor": order.predictor,
            "value": round(order.coefficient.value, 3), "told": str(order.coefficient),
            "settled": order.coefficient.settled, "models": order.coefficient.models,
        }
        for order in elsewhere_predictors.orders(paper)
    )  # fmt: skip
    rows, columns = (list(dict.fromkeys(frame[name])) for name in ("name", "predictor"))
    legend = alt.Legend(orient="top", gradientLength=160, values=[-1, -0.5, 0, 0.5, 1], format=".1f")
    color = alt.Color("value:Q", scale=COLORS, title="rank correlation with the latency", legend=legend)
    plain: dict[str, Any] = {
        "labelFontSize": theme.LABEL_SIZE,
        "ticks": False,
        "domain": False,
        "labelLimit": theme.WIDTH,
    }
    base = alt.Chart(frame).encode(
        alt.X("predictor:N", title=None, sort=columns, axis=alt.Axis(labelAngle=-35, **plain)),
        alt.Y("name:N", title=None, sort=rows, axis=alt.Axis(**plain)),
    )
    squares = base.mark_rect(stroke=theme.MUTED, strokeWidth=0.4).encode(
        color=alt.when("datum.settled").then(color).otherwise(alt.value("#ffffff")),
        tooltip=tips("name", "predictor", alt.Tooltip("told:N", title="coefficient"), "models"),
    )
    numbers = base.mark_text(text=WITHOUT_INTERVAL, fontSize=theme.LABEL_SIZE).encode(
        color=alt.when(DARK).then(alt.value("#ffffff")).otherwise(alt.value(theme.INK))
    )
    least, most = extremes(frame, "value")
    description = (
        f"Rank correlations of latency with {number(len(columns), 'predictor')} on {number(len(rows), 'device')}: the "
        f"highest is that of {most.predictor} on the {most.name} ({most.told}), the lowest that of {least.predictor} "
        f"on the {least.name} ({least.told})."
    )
    size = {"width": theme.WIDTH - widest(rows) - 10, "height": ROW * len(rows)}
    return theme.finish(alt.layer(squares, numbers).properties(**size), "elsewhere-predictors", description)
