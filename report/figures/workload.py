"""Figures of what the models ask for, on any device."""

from typing import Any

import altair as alt
import pandas as pd

from measure.domain.values import SPACE
from report.analysis import available
from report.analysis.long_lists import LINES, evenly, left_out
from report.charts import axes, theme
from report.charts.axes import Layers, LogAxis
from report.figures.bars import PERCENT, dashed_at, model_rows, stacked_bars
from report.figures.chip_marks import diagonals
from report.figures.marks import color_of, controlled, family_styles, opacity_where, panel, rounded, tips, widest, zoom
from report.figures.thinning import counts, covered, named, thinned
from report.load.paper import BASE_PRECISION, Paper
from report.load.steps import MEMORY_PARTS
from report.text.frame_rows import highest, lowest
from report.text.prose import exact, intensity, number, percent, si

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


def _ranked(models: pd.DataFrame, column: str, title: str, unit: str, picked: alt.Parameter) -> Layers:
    """Return a mark for each model, or for some of many, the largest at the top, with its value beside it."""
    rows = models.sort_values(column, ascending=False)
    rows = rows[rows.model.isin(evenly(rows.model.tolist()))]
    brief = [intensity(value, "") if column == "footprint_intensity" else si(value, unit) for value in rows[column]]
    bars = rows[["model", "family"]].assign(
        value=rounded(rows[column], 6),
        exactly=[_exactly(column, value) for value in rows[column]],
        briefly=[text.strip(SPACE) for text in brief],
    )
    width = theme.WIDTH / 2 - widest(rows.model)
    x = LogAxis.around(rows[column], width, title, unit, margins=(0.08, 0.28))
    axis = alt.Axis(labelFontSize=theme.LABEL_SIZE, ticks=False, grid=True)
    y = alt.Y("model:N", sort=bars.model.tolist(), title=None, axis=axis)
    base = alt.Chart(bars).encode(x.channel("value"), y)
    drawn = base.mark_point(filled=True, size=36, clip=True).encode(
        **family_styles(models.family), opacity=opacity_where(picked, otherwise=0.15),
        tooltip=tips("model", "family", alt.Tooltip("exactly:N", title=title)),
    )  # fmt: skip
    texts = base.mark_text(align="left", dx=6, fontSize=theme.LABEL_SIZE, color=theme.INK)
    return alt.layer(drawn, texts.encode(alt.Text("briefly:N")), width=width, height=13 * len(bars))


@available.or_missing
@theme.building()
def demands(paper: Paper) -> alt.ConcatChart:
    """Draw FLOP, parameters, footprint and intensity of each model at batch size 1, each sorted by itself."""
    models = available.workloads(paper, batch=1)
    picked = theme.choice("family")
    panels: list[Any] = []
    for column, title, unit in QUANTITIES:
        panels.append(controlled(_ranked(models, column, title, unit, picked), panels, picked))
    most, least = highest(models, "forward_flop"), lowest(models, "forward_flop")
    description = (
        f"Four dot plots of {len(models)} models at batch size 1, on logarithmic axes: FLOP, parameters, footprint "
        f"and operational intensity. One forward pass takes from {si(least.forward_flop, 'FLOP')} ({least.model}) to "
        f"{si(most.forward_flop, 'FLOP')} ({most.model})."
    )
    note = left_out(evenly(models.model.tolist()), models)
    return theme.finish(alt.concat(*panels, columns=2, spacing=14), "workload-demands", description, note)


DIAGONALS = (1, 3, 10, 30, 100, 300)
"""Intensities (FLOP/B) whose diagonals are drawn in the plane of FLOP and footprint."""


@available.or_missing
@theme.building()
def flop_by_footprint(paper: Paper) -> alt.LayerChart:
    """Draw FLOP against footprint of each model at batch size 1, with diagonals of equal intensity."""
    models = available.workloads(paper, batch=1)
    columns = {
        "model": models.model,
        "family": models.family,
        "byte": models.footprint_byte,
        "flop": models.forward_flop,
        "FLOP": [si(value, "FLOP", 4) for value in models.forward_flop],
        "footprint": [si(value, "B", 4) for value in models.footprint_byte],
        "intensity": [intensity(value, digits=4) for value in models.footprint_intensity],
    }
    points = pd.DataFrame(columns)
    margins = (0.06, 0.08)
    x = LogAxis.around(points.byte, theme.WIDTH, f"footprint, {BASE_PRECISION}", "B", margins=margins)
    y = LogAxis.around(points.flop, 380, "FLOP of one forward pass", "FLOP", vertical=True, margins=margins)
    grid, taken = diagonals(x, y, {at: intensity(at, digits=len(str(at))) for at in DIAGONALS})
    picked = theme.choice("family")
    marks = thinned(points, x, "byte", y, "flop", ("family",))
    dots = alt.Chart(marks).mark_point(filled=True, size=52, clip=True).encode(
        x.channel("byte"), y.channel("flop"), opacity=theme.faded_unless(picked), **family_styles(points.family),
        tooltip=tips("model", "family", "FLOP", "footprint", "intensity", *counts(marks)),
    )  # fmt: skip
    dots = dots.add_params(picked, zoom())
    names = axes.named_points(named(points, "byte", "flop"), "model", x, "byte", y, "flop", taken)
    least, most = lowest(models, "footprint_intensity"), highest(models, "footprint_intensity")
    description = (
        f"Scatter plot of FLOP against footprint for {len(models)} models at batch size 1, on logarithmic axes. "
        f"Intensity by footprint runs from {intensity(least.footprint_intensity)} ({least.model}) to "
        f"{intensity(most.footprint_intensity)} ({most.model})."
    )
    chart = panel(x, y, *grid, names, dots)
    return theme.finish(chart, "workload-flop-footprint", description, covered([marks]))


@available.or_missing
@theme.building()
def intensity_by_batch(paper: Paper) -> alt.LayerChart:
    """Draw operational intensity by footprint against batch size, a line a model."""
    rows = available.workloads(paper)
    order = rows.groupby("model").footprint_intensity.max().sort_values(ascending=False).index.tolist()
    shown = evenly(order, LINES)
    rows = rows[rows.model.isin(shown)]
    words = {
        "by footprint": [intensity(value, digits=5) for value in rows.footprint_intensity],
        "by compulsory bytes": [intensity(value, digits=5) for value in rows.compulsory_intensity],
    }
    lines = rows[["model", "family", "batch"]].assign(intensity=rounded(rows.footprint_intensity, 6), **words)
    room = widest(lines.model) + 18
    x = LogAxis.of_batches(lines.batch, theme.WIDTH, room)
    title = f"operational intensity by footprint, {BASE_PRECISION}"
    y = LogAxis.around(lines.intensity, 320, title, "FLOP/B", vertical=True)
    picked = theme.choice("family")
    style = family_styles(lines.family)
    base = alt.Chart(lines).encode(
        x.channel("batch"), y.channel("intensity"), style["color"], opacity=theme.faded_unless(picked)
    )
    drawn = base.mark_line(strokeWidth=1.2, clip=True).encode(alt.Detail("model:N"))
    tooltip = ["model", "family", "batch", *words]
    dots = base.mark_point(filled=True, size=36, clip=True).encode(style["shape"], tooltip=tips(*tooltip))
    dots = dots.add_params(picked, zoom())
    ends = lines.sort_values("batch").drop_duplicates("model", keep="last")
    names = axes.named_ends(ends, "model", x, "batch", y, "intensity", theme.WIDTH - room)
    most = highest(rows, "footprint_intensity")
    description = (
        f"Line chart of operational intensity by footprint against batch size for {number(len(shown), 'model')}. The "
        f"highest is {intensity(most.footprint_intensity)} ({most.model} at batch size {most.batch})."
    )
    chart = panel(x, y, drawn, names, dots)
    return theme.finish(chart, "workload-intensity", description, left_out(shown, order))


@available.or_missing
@theme.building()
def training(paper: Paper) -> alt.LayerChart:
    """Draw parameters, gradients, momentum and saved activations of models as shares of a training step's peak."""
    every = available.trained(paper).sort_values("training_peak_byte", ascending=False)
    order = evenly(every.model.tolist())
    rows = every[every.model.isin(order)]
    bars = _memory_parts(rows)
    whole = max(1.0, bars.groupby("model").share.sum().max())
    scale = alt.Scale(domain=[0, 1.15 * whole], nice=False)
    axis = alt.Axis(labelExpr=PERCENT, values=[0, 0.25, 0.5, 0.75, 1])
    x = alt.X("share:Q", title="share of the peak in training", scale=scale, axis=axis, stack=True)
    y = model_rows(order, sort=order, ticks=False, labelPadding=4)
    color, picked = color_of("part", theme.colors_of(bars.part, theme.MEMORY_COLORS)), theme.choice("part")
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
        alt.X("inference:Q", scale=scale), tooltip=tips("model", "peak in inference", "peak in training")
    )
    texts = base.mark_text(align="left", dx=8, fontSize=theme.LABEL_SIZE, color=theme.INK)
    texts = texts.encode(alt.X("end:Q", scale=scale), alt.Text("peak in training:N"))
    written = texts.transform_calculate(end=f"{whole:.5g}")
    most = highest(rows, "training_peak_byte")
    description = (
        f"Stacked bars for {number(len(rows), 'model')} at batch size {int(rows.batch.iloc[0])} and {BASE_PRECISION}: "
        "parameters, gradients, momentum and saved activations as shares of the peak of live memory in a training "
        f"step. The highest peak is {si(most.training_peak_byte, 'B')} ({most.model})."
    )
    chart = alt.layer(drawn.add_params(picked), dashed_at([1], "share", scale), inference, written)
    chart = chart.properties(width=theme.WIDTH - 55, height=15 * len(order))
    return theme.finish(chart, "training-memory", description, left_out(order, every))


def _memory_parts(rows: pd.DataFrame) -> pd.DataFrame:
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
