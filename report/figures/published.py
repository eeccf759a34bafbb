"""Figures of published results: steps under hardware counters on their chips' roofs, and printed FLOP against ours."""

from itertools import pairwise
from typing import Any

import altair as alt
import pandas as pd

from measure.domain.roofs import Roofline
from measure.domain.values import significant
from report.analysis.available import DataMissingError, or_missing
from report.charts import axes, roofline, theme
from report.charts.axes import LogAxis
from report.charts.labels import along
from report.figures.marks import panel, styles, tips
from report.load.paper import BASE_PRECISION, Paper
from report.published import steps
from report.published.verdict import AGREES, DIFFERS, comparisons
from report.text.prose import intensity, number, percent, si

HEIGHT = 300
SQUARE = 400
"""The side of the figure with equal axes, in pixels."""

COLORS = (theme.BLUE, theme.ORANGE, theme.GREEN, theme.PURPLE, theme.SKY)
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross")


def _styles(names: list[str], title: str) -> dict[str, Any]:
    """Return a colour and a shape for each name."""
    colors = alt.Scale(domain=names, range=list(COLORS[: len(names)]))
    return styles(title, colors, alt.Scale(domain=names, range=list(SHAPES[: len(names)])))


@or_missing
@theme.building()
def steps_on_roofs(paper: Paper) -> alt.LayerChart:
    """Draw the printed training steps at their counted intensity, under the datasheet roofs of their GPUs."""
    known = [(step, steps.chip_roof(paper, step.row.chip_key)) for step in steps.steps(paper)]
    found = [(step, roof) for step, roof in known if roof]
    if not found:
        raise DataMissingError(
            "No chip of data/published/training_steps.csv has a roof in data/chips.csv; restore both tables."
        )
    shares = [step.row.flop_per_s / roof.attainable(step.intensity) for step, roof in found]
    points = pd.DataFrame(
        {
            "model": step.row.model,
            "GPU": step.row.gpu,
            "x": float(f"{step.intensity:.5g}"),
            "rate": float(f"{step.row.flop_per_s:.5g}"),
            "intensity": intensity(step.intensity),
            "achieved": si(step.row.flop_per_s, "FLOP/s"),
            "of attainable": percent(share),
        }
        for (step, _), share in zip(found, shares, strict=True)
    )
    roofs = {step.row.gpu: roof for step, roof in found}
    ridges = [roof.ridge_flop_per_byte for roof in roofs.values()]
    peaks = [roof.peak_flop_per_s for roof in roofs.values()]
    x = LogAxis.around([*points.x, *ridges], theme.WIDTH, "operational intensity by DRAM counters", "FLOP/B")
    y = LogAxis.around([*points.rate, *peaks], HEIGHT, "achieved, or attainable", "FLOP/s", vertical=True)
    style = _styles(list(roofs), "GPU")
    lines = alt.Chart(roofline.outline([({"GPU": gpu}, roof) for gpu, roof in roofs.items()], x))
    lines = lines.mark_line(strokeWidth=1.4, clip=True)
    lines = lines.encode(x.channel("intensity"), y.channel("rate"), color=style["color"], detail=alt.Detail("GPU:N"))
    dots = alt.Chart(points).mark_point(filled=True, size=50).encode(
        x.channel("x"), y.channel("rate"), **style,
        tooltip=tips("model", "GPU", "intensity", "achieved", "of attainable"),
    )  # fmt: skip
    names = axes.named_points(points, "model", x, "x", y, "rate", _covered(roofs, x, y))
    above = sum(share > 1 for share in shares)
    description = (
        f"Achieved rate against intensity by counters of {number(len(points), 'training step')} under the datasheet "
        f"roofs of {number(len(roofs), 'GPU')} at {BASE_PRECISION}, on logarithmic axes; {above or 'none'} lie above."
    )
    return theme.finish(panel(x, y, lines, names, dots), "published-steps", description)


def _covered(roofs: dict[str, Roofline], x: LogAxis, y: LogAxis) -> tuple[axes.Box, ...]:
    """Return what names must not cover: the roofs."""
    boxes = []
    for roof in roofs.values():
        corners = [(x.pixel(corner["intensity"]), y.pixel(corner["rate"])) for corner in roofline.corners(roof, x)]
        boxes += [box for start, end in pairwise(corners) for box in along(start, end)]
    return tuple(boxes)


@or_missing
@theme.building()
def flop_against_ours(paper: Paper) -> alt.LayerChart:
    """Draw every printed number of FLOP against our count, on equal axes, with the diagonal of equal numbers."""
    found = [row for row in comparisons(paper) if row.unit == "FLOP" and row.ours]
    if not found:
        raise DataMissingError(
            "No printed number of FLOP in data/published has been counted; `python -m measure --sections workload` "
            "counts the models."
        )
    points = pd.DataFrame(
        {
            "of": row.subject,
            "quantity": row.quantity,
            "study": row.study,
            "ours": float(f"{row.ours:.5g}"),
            "printed": float(f"{row.printed:.5g}"),
            "ratio": significant(row.ratio),
            "verdict": str(row.verdict),
            "agrees": row.verdict.outcome == AGREES,
        }
        for row in found
        if row.ours and row.ratio
    ).drop_duplicates(["of", "quantity", "printed"])
    values = [*points.ours, *points.printed]
    x = LogAxis.around(values, SQUARE, "counted by us", "FLOP")
    y = LogAxis.around(values, SQUARE, "printed", "FLOP", vertical=True)
    ends = pd.DataFrame({"ours": [x.low, x.high], "printed": [x.low, x.high]})
    diagonal = alt.Chart(ends).mark_line(color=theme.MUTED, strokeWidth=1)
    diagonal = diagonal.encode(x.channel("ours"), y.channel("printed"))
    dots = alt.Chart(points).mark_point(size=40).encode(
        x.channel("ours"), y.channel("printed"), **_styles(sorted(set(points.study)), "study"),
        fill=alt.condition("datum.agrees", alt.value("transparent"), alt.Color("study:N", legend=None)),
        tooltip=tips("of", "quantity", "study", "ratio", "verdict"),
    )  # fmt: skip
    apart = points[~points.agrees]
    taken = tuple(along((0, SQUARE), (SQUARE, 0)))
    names = axes.named_points(apart, "of", x, "ours", y, "printed", taken) if len(apart) else None
    outcomes = [row.verdict.outcome for row in found]
    description = (
        f"Printed against counted FLOP, {number(len(points), 'figure')} on equal logarithmic axes with the diagonal. "
        f"{outcomes.count(AGREES)} agree, {outcomes.count(DIFFERS)} differ."
    )
    return theme.finish(panel(x, y, diagonal, names, dots), "published-flop", description)
