"""Figures of the memory that a training step asks for."""

from typing import Any

import altair as alt
import pandas as pd

from report.analysis import available
from report.analysis.available import or_missing
from report.charts import theme
from report.figures.bars import PERCENT, dashed_at, model_rows, stacked_bars
from report.figures.marks import color_of, rounded
from report.load.paper import BASE_PRECISION, Paper
from report.load.steps import MEMORY_PARTS
from report.text.frame_rows import highest
from report.text.quantities import number, percent, si


@or_missing
def training(paper: Paper) -> alt.LayerChart:
    """Draw parameters, gradients, momentum and saved activations of models as shares of a training step's peak."""
    rows = available.trained(paper).sort_values("training_peak_byte", ascending=False)
    order = rows.model.tolist()
    bars = _parts(rows)
    whole = max(1.0, bars.groupby("model").share.sum().max())
    scale = alt.Scale(domain=[0, 1.15 * whole], nice=False)
    axis = alt.Axis(labelExpr=PERCENT, values=[0, 0.25, 0.5, 0.75, 1])
    x = alt.X("share:Q", title="share of the peak in training", scale=scale, axis=axis, stack=True)
    y = model_rows(order, sort=order, ticks=False, labelPadding=4)
    color, picked = color_of("part", theme.memory_colors()), theme.choice("part")
    look = {"height": {"band": 0.75}, "strokeWidth": 0.4}
    drawn = stacked_bars(bars, x, y, color, picked, ["model", "part", "size", "of the peak"], **look)
    peaks = {
        "model": rows.model,
        "inference": rounded(rows.inference_peak_byte / rows.training_peak_byte),
        "peak in training": [si(value, "B") for value in rows.training_peak_byte],
        "peak in inference": [si(value, "B") for value in rows.inference_peak_byte],
    }
    base = alt.Chart(pd.DataFrame(peaks)).encode(y)
    inference = base.mark_tick(color=theme.INK, thickness=2.5, height={"band": 0.9}).encode(
        alt.X("inference:Q", scale=scale), tooltip=["model", "peak in inference", "peak in training"]
    )
    texts = base.mark_text(align="left", dx=8, fontSize=theme.LABEL_SIZE, color=theme.INK)
    texts = texts.encode(alt.X("end:Q", scale=scale), text="peak in training:N")
    written = texts.transform_calculate(end=f"{whole:.5g}")
    most = highest(rows, "training_peak_byte")
    description = (
        f"Stacked bars for {number(len(rows), 'model')} at batch size {int(rows.batch.iloc[0])} and {BASE_PRECISION}: "
        "parameters, gradients, momentum and saved activations as shares of the peak of live memory in a training "
        f"step. The highest peak is {si(most.training_peak_byte, 'B')} ({most.model})."
    )
    chart = alt.layer(drawn.add_params(picked), dashed_at([1], "share", scale), inference, written)
    chart = chart.properties(width=theme.WIDTH - 40, height=15 * len(order))
    return theme.finish(chart, "training-memory", description)


def _parts(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each part of each model's memory."""
    parts = []
    for rank, (part, column) in enumerate(MEMORY_PARTS.items()):
        shares = rows[column] / rows.training_peak_byte
        columns: dict[str, Any] = {
            "part": part,
            "rank": rank,
            "share": rounded(shares),
            "size": [si(value, "B", 4) for value in rows[column]],
            "of the peak": [percent(value, 3) for value in shares],
        }
        parts.append(rows[["model"]].assign(**columns))
    return pd.concat(parts)
