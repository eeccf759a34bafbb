"""Figures of the memory that a training step asks for."""

import altair as alt
import pandas as pd

from report.analysis import available
from report.analysis.available import or_missing
from report.charts import theme
from report.figures.layers import PERCENT
from report.load.paper import BASE_PRECISION, Paper
from report.load.steps import MEMORY_PARTS
from report.text.frame_rows import highest
from report.text.quantities import number, percent, si


@or_missing
def training(paper: Paper) -> alt.LayerChart:
    """Parameters, gradients, momentum and saved activations of each model as shares of the peak of a training step."""
    rows = available.trained(paper).sort_values("training_peak_byte", ascending=False)
    batch = int(rows.batch.iloc[0])
    order = rows.model.tolist()
    bars = pd.concat(
        pd.DataFrame(
            {
                "model": rows.model,
                "part": part,
                "rank": rank,
                "share": [float(f"{value:.5g}") for value in rows[column] / rows.training_peak_byte],
                "size": [si(value, "B", 4) for value in rows[column]],
                "of the peak": [percent(value, 3) for value in rows[column] / rows.training_peak_byte],
            }
        )
        for rank, (part, column) in enumerate(MEMORY_PARTS.items())
    )
    peaks = pd.DataFrame(
        {
            "model": rows.model,
            "inference": [
                float(f"{value:.5g}") for value in rows.inference_peak_byte / rows.training_peak_byte
            ],
            "peak in training": [si(value, "B") for value in rows.training_peak_byte],
            "peak in inference": [si(value, "B") for value in rows.inference_peak_byte],
        }
    )
    whole = max(1.0, bars.groupby("model").share.sum().max())
    scale = alt.Scale(domain=[0, 1.15 * whole], nice=False)
    axis = alt.Axis(labelExpr=PERCENT, values=[0, 0.25, 0.5, 0.75, 1])
    x = alt.X("share:Q", title="share of the peak in training", scale=scale, axis=axis, stack=True)
    y = alt.Y(
        "model:N",
        sort=order,
        scale=alt.Scale(domain=order),
        title=None,
        axis=alt.Axis(ticks=False, labelPadding=4),
    )
    picked = theme.choice("part")
    drawn = alt.Chart(bars).mark_bar(height={"band": 0.75}, stroke="#ffffff", strokeWidth=0.4).encode(
        x, y, order=alt.Order("rank:Q"), opacity=theme.faded_unless(picked),
        color=alt.Color("part:N", scale=theme.memory_colors(), title=None, legend=alt.Legend(orient="top")),
        tooltip=["model", "part", "size", "of the peak"],
    ).add_params(picked)  # fmt: skip
    base = alt.Chart(peaks)
    tips = ["model", "peak in inference", "peak in training"]
    inference = base.mark_tick(color=theme.INK, thickness=2.5, height={"band": 0.9}).encode(
        alt.X("inference:Q", scale=scale), y, tooltip=tips
    )
    line = alt.Chart(pd.DataFrame({"share": [1]})).mark_rule(color=theme.INK, strokeDash=[4, 3])
    written = base.mark_text(align="left", dx=8, fontSize=theme.LABEL_SIZE, color=theme.INK).encode(
        alt.X("end:Q", scale=scale), y, text="peak in training:N"
    ).transform_calculate(end=f"{whole:.5g}")  # fmt: skip
    most = highest(rows, "training_peak_byte")
    description = (
        f"Stacked bars for {number(len(rows), 'model')} at batch size {batch} and {BASE_PRECISION}: parameters, "
        "gradients, momentum and saved activations as shares of the peak of live memory in a training step. The "
        f"highest peak is {si(most.training_peak_byte, 'B')} ({most.model})."
    )
    chart = alt.layer(drawn, line.encode(alt.X("share:Q", scale=scale)), inference, written)
    return theme.finish(
        chart.properties(width=theme.WIDTH - 40, height=15 * len(order)), "training-memory", description
    )
