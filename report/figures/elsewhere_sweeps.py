"""The figure of throughput against batch size as others timed it, beside the training steps that a study printed."""

from itertools import pairwise
from typing import Any

import altair as alt
import pandas as pd

from report.analysis import available, elsewhere_sweeps, saturation
from report.charts import axes, theme
from report.charts.axes import LogAxis
from report.charts.labels import Box, along
from report.charts.roofline import DASHED, SOLID
from report.figures.marks import TOP, controlled, opacity_where, panel, rounded, styles, tips, widest, zoom
from report.load.elsewhere import RATES
from report.load.paper import Paper
from report.text import prose
from report.text.frame_rows import highest
from report.text.prose import listing, number

HEIGHT = 300
"""Of a panel, in pixels."""

STYLES = {"fp32": (theme.BLUE, "circle"), "fp16": (theme.VERMILION, "square"), "fp64": (theme.GREEN, "diamond")}
"""Colour and shape of a precision of arithmetic."""


@available.or_missing
@theme.building()
def throughput(paper: Paper) -> alt.ConcatChart:
    """Draw throughput against batch size, a line a model and precision, a panel a GPU, with printed training steps."""
    sweeps = elsewhere_sweeps.swept(paper)
    lines, steps = _lines(sweeps), _steps(paper, sweeps)
    precisions = [precision for precision in RATES if precision in set(lines.precision)]
    colors, shapes = theme.scales({precision: STYLES[precision] for precision in precisions})
    dashes = [DASHED if precision == "fp16" else SOLID for precision in precisions]
    dash = alt.StrokeDash("precision:N", scale=alt.Scale(domain=precisions, range=dashes), legend=TOP)
    style = styles("precision", colors, shapes, hollow=True)
    picked = theme.choice("precision")
    room = widest(lines.line) + 18
    panels: list[Any] = []
    for device, shown in lines.groupby("device", sort=False):
        beside = steps[steps.device == device]
        x = LogAxis.of_batches([*shown.batch, *beside.batch.astype(int)], theme.WIDTH, room)
        y = LogAxis.around([*shown.rate, *beside.rate], HEIGHT, "throughput (images per second)", vertical=True)
        base = alt.Chart(shown).encode(x.channel("batch"), y.channel("rate"), opacity=theme.faded_unless(picked))
        drawn = base.mark_line(strokeWidth=1.2, clip=True).encode(style["stroke"], dash, alt.Detail("sweep:N"))
        dots = base.mark_point(size=30, strokeWidth=1.2, clip=True).encode(
            **style,
            fillOpacity=opacity_where("datum.saturated"),
            tooltip=tips("model", "precision", "batch", "throughput"),
        )
        ends = shown.drop_duplicates("sweep", keep="last")
        names = axes.named_ends(ends, "line", x, "batch", y, "rate", theme.WIDTH - room)
        dots = controlled(dots, panels, picked, zoom(len(panels)))
        layers = [drawn, names, *_printed(beside, x, y, _covered(shown, x, y)), dots]
        panels.append(panel(x, y, *layers, title=str(device)))
    best = highest(lines, "rate")
    printed = f", with {number(len(steps), 'printed training step')}" if len(steps) else ""
    description = (
        f"Line chart of throughput against batch size for {number(lines.model.nunique(), 'model')} on the "
        f"{listing(list(dict.fromkeys(lines.device)))} at {listing(precisions)}, as others timed them{printed}. The "
        f"highest is {best.throughput} ({best.line} on the {best.device} at batch size {best.batch})."
    )
    return theme.finish(alt.concat(*panels, columns=1, spacing=14), "elsewhere-sweeps", description)


def _lines(sweeps: pd.DataFrame) -> pd.DataFrame:
    """Return the points, each with the name of its ``line`` and whether its model is ``saturated`` from there on."""
    one = [*elsewhere_sweeps.SET, "model"]
    best = sweeps.groupby(one, dropna=False).throughput_per_s.transform("max")
    enough = sweeps[sweeps.throughput_per_s >= saturation.SHARE * best]
    first = enough.drop_duplicates(one).index
    points = sweeps[["device", "model", "batch"]].assign(
        precision=sweeps.computed,
        rate=rounded(sweeps.throughput_per_s),
        throughput=[prose.throughput(value) for value in sweeps.throughput_per_s],
        saturated=sweeps.index.isin(first),
        sweep=sweeps.groupby(one, dropna=False).ngroup(),
    )
    points["line"] = points.model.str.removeprefix("timm:") + ", " + points.precision
    return points.sort_values(["device", "line", "batch"], kind="stable")


def _steps(paper: Paper, sweeps: pd.DataFrame) -> pd.DataFrame:
    steps = elsewhere_sweeps.printed_steps(paper, sweeps)
    return steps[["device", "model", "batch"]].assign(
        rate=rounded(steps.throughput_per_s),
        throughput=[prose.throughput(value) for value in steps.throughput_per_s],
        step="step of " + steps.model.astype(str),
    )


def _printed(steps: pd.DataFrame, x: LogAxis, y: LogAxis, taken: tuple[Box, ...]) -> list[Any]:
    """Return the printed steps as crosses with their names, free of the lines; nothing where there is none."""
    if steps.empty:
        return []
    crosses = alt.Chart(steps).mark_point(shape="cross", size=50, filled=True, color=theme.INK, clip=True).encode(
        x.channel("batch"), y.channel("rate"), tooltip=tips("step", "batch", "throughput")
    )  # fmt: skip
    return [axes.named_points(steps, "step", x, "batch", y, "rate", taken), crosses]


def _covered(lines: pd.DataFrame, x: LogAxis, y: LogAxis) -> tuple[Box, ...]:
    """Return the room that the lines take."""
    boxes: list[Box] = []
    for _, line in lines.groupby("sweep"):
        marks = [(x.pixel(batch), y.pixel(rate)) for batch, rate in zip(line.batch, line.rate, strict=True)]
        for start, end in pairwise(marks):
            boxes += along(start, end)
    return tuple(boxes)
