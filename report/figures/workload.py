"""Figures of what the models ask for, on any device."""

import altair as alt
import pandas as pd

from report.analysis import available
from report.analysis.available import or_missing
from report.charts import axes, theme
from report.charts.axes import Layers, LogAxis
from report.charts.labels import text_size
from report.figures.chip_marks import diagonals
from report.load.paper import BASE_PRECISION, Paper
from report.text.frame_rows import highest, lowest
from report.text.quantities import SPACE, exact, intensity, si

QUANTITIES = (
    ("forward_flop", "FLOP of one forward pass", "FLOP"),
    ("parameter_count", "parameters", ""),
    ("footprint_byte", f"footprint ({BASE_PRECISION})", "B"),
    ("footprint_intensity", "intensity by footprint (FLOP/B)", ""),
)
"""Column, title and unit of each panel of ``demands``."""


def _exactly(column: str, value: float) -> str:
    if column == "footprint_intensity":
        return intensity(value, digits=5)
    return exact(int(value), {"forward_flop": "FLOP", "footprint_byte": "B"}.get(column, "parameters"))


def _bars(models: pd.DataFrame, column: str, title: str, unit: str, picked: alt.Parameter) -> Layers:
    rows = models.sort_values(column, ascending=False)
    briefly = [
        si(value, unit) if column != "footprint_intensity" else intensity(value, "") for value in rows[column]
    ]
    bars = pd.DataFrame(
        {
            "model": rows.model,
            "family": rows.family,
            "value": [float(f"{value:.6g}") for value in rows[column]],
            "exactly": [_exactly(column, value) for value in rows[column]],
            "briefly": [text.strip(SPACE) for text in briefly],
        }
    )
    longest = max(text_size(text, theme.LABEL_SIZE)[0] for text in rows.model)
    width = theme.WIDTH / 2 - longest
    x = LogAxis.around(rows[column], width, title, unit, margins=(0.08, 0.28))
    opacity = alt.when(picked).then(alt.value(1)).otherwise(alt.value(0.15))
    order = alt.Y(
        "model:N",
        sort=bars.model.tolist(),
        title=None,
        axis=alt.Axis(labelFontSize=theme.LABEL_SIZE, ticks=False),
    )
    drawn = alt.Chart(bars).mark_bar(height={"band": 0.72}, clip=True)
    written = alt.Chart(bars).mark_text(align="left", dx=3, fontSize=theme.LABEL_SIZE - 1, color=theme.INK)
    color = alt.Color(
        "family:N",
        scale=theme.family_colors(models.family),
        title="family",
        legend=alt.Legend(orient="top", columns=7),
    )
    tooltip = ["model", "family", alt.Tooltip("exactly:N", title=title)]
    return alt.layer(
        drawn.encode(x.channel("value"), order, color, x2=alt.datum(x.low), opacity=opacity, tooltip=tooltip),
        written.encode(x.channel("value"), order, text="briefly:N"),
        width=width,
        height=12.5 * len(bars),
    )


@or_missing
def demands(paper: Paper) -> alt.ConcatChart:
    """Bars of FLOP, parameters, footprint and intensity of each model at batch size 1, each sorted by itself."""
    models = available.workloads(paper, batch=1)
    picked = theme.choice("family")
    first, *others = [_bars(models, column, title, unit, picked) for column, title, unit in QUANTITIES]
    most, least = highest(models, "forward_flop"), lowest(models, "forward_flop")
    description = (
        f"Four bar charts of {len(models)} models at batch size 1, on logarithmic axes: FLOP, parameters, "
        "footprint and "
        f"operational intensity. One forward pass takes from {si(least.forward_flop, 'FLOP')} ({least.model}) to "
        f"{si(most.forward_flop, 'FLOP')} ({most.model})."
    )
    return theme.finish(
        alt.concat(first.add_params(picked), *others, columns=2, spacing=14), "workload-demands", description
    )


DIAGONALS = (1, 3, 10, 30, 100, 300)
"""Intensities (FLOP/B) whose diagonals are drawn in the plane of FLOP and footprint."""


@or_missing
def flop_by_footprint(paper: Paper) -> alt.LayerChart:
    """FLOP against footprint of each model at batch size 1, with diagonals of equal intensity."""
    models = available.workloads(paper, batch=1)
    points = pd.DataFrame(
        {
            "model": models.model,
            "family": models.family,
            "byte": models.footprint_byte,
            "flop": models.forward_flop,
            "FLOP": [si(value, "FLOP", 4) for value in models.forward_flop],
            "footprint": [si(value, "B", 4) for value in models.footprint_byte],
            "intensity": [intensity(value, digits=4) for value in models.footprint_intensity],
        }
    )
    margins = (0.06, 0.08)
    x = LogAxis.around(points.byte, theme.WIDTH, f"footprint, {BASE_PRECISION}", "B", margins=margins)
    y = LogAxis.around(points.flop, 380, "FLOP of one forward pass", "FLOP", vertical=True, margins=margins)
    grid, taken = diagonals(x, y, {at: intensity(at, digits=len(str(at))) for at in DIAGONALS})
    picked = theme.choice("family")
    legend = alt.Legend(orient="top", columns=7)
    dots = alt.Chart(points).mark_point(filled=True, size=52, clip=True).encode(
        x.channel("byte"), y.channel("flop"), opacity=theme.faded_unless(picked),
        color=alt.Color("family:N", scale=theme.family_colors(points.family), title="family", legend=legend),
        shape=alt.Shape("family:N", scale=theme.family_shapes(points.family), title="family", legend=legend),
        tooltip=["model", "family", "FLOP", "footprint", "intensity"],
    )  # fmt: skip
    dots = dots.add_params(picked, alt.selection_interval(bind="scales", name="zoom"))
    names = axes.named_points(points, "model", x, "byte", y, "flop", taken)
    least, most = lowest(models, "footprint_intensity"), highest(models, "footprint_intensity")
    description = (
        f"Scatter plot of FLOP against footprint for {len(models)} models at batch size 1, on logarithmic axes. "
        f"Intensity by footprint runs from {intensity(least.footprint_intensity)} ({least.model}) to "
        f"{intensity(most.footprint_intensity)} ({most.model})."
    )
    chart = alt.layer(*grid, *([names] if names else []), dots)
    return theme.finish(
        chart.properties(width=x.pixels, height=y.pixels), "workload-flop-footprint", description
    )


@or_missing
def intensity_by_batch(paper: Paper) -> alt.LayerChart:
    """Operational intensity by footprint against batch size, a line a model."""
    rows = available.workloads(paper)
    lines = pd.DataFrame(
        {
            "model": rows.model,
            "family": rows.family,
            "batch": rows.batch,
            "intensity": [float(f"{value:.6g}") for value in rows.footprint_intensity],
            "by footprint": [intensity(value, digits=5) for value in rows.footprint_intensity],
            "by compulsory bytes": [intensity(value, digits=5) for value in rows.compulsory_intensity],
        }
    )
    room = max(text_size(name, theme.LABEL_SIZE)[0] for name in lines.model) + 18
    x = LogAxis.of_batches(lines.batch, theme.WIDTH, room)
    y = LogAxis.around(
        lines.intensity, 320, f"operational intensity by footprint, {BASE_PRECISION}", "FLOP/B", vertical=True
    )
    picked = theme.choice("family")
    opacity = theme.faded_unless(picked)
    legend = alt.Legend(orient="top", columns=7)
    color = alt.Color("family:N", scale=theme.family_colors(lines.family), title="family", legend=legend)
    shape = alt.Shape("family:N", scale=theme.family_shapes(lines.family), title="family", legend=legend)
    base = alt.Chart(lines).encode(x.channel("batch"), y.channel("intensity"), color, opacity=opacity)
    drawn = base.mark_line(strokeWidth=1.2, clip=True).encode(detail="model:N")
    tooltip = ["model", "family", "batch", "by footprint", "by compulsory bytes"]
    dots = base.mark_point(filled=True, size=36, clip=True).encode(shape, tooltip=tooltip)
    dots = dots.add_params(picked, alt.selection_interval(bind="scales", name="zoom"))
    ends = lines.sort_values("batch").drop_duplicates("model", keep="last")
    chart = alt.layer(
        drawn, axes.named_ends(ends, "model", x, "batch", y, "intensity", theme.WIDTH - room), dots
    )
    most = highest(rows, "footprint_intensity")
    description = (
        f"Line chart of operational intensity by footprint against batch size for {rows.model.nunique()} models. The "
        f"highest is {intensity(most.footprint_intensity)} ({most.model} at batch size {most.batch})."
    )
    return theme.finish(chart.properties(width=x.pixels, height=y.pixels), "workload-intensity", description)
