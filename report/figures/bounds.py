"""Figures of what roofs allow the models, whatever they achieve."""

from typing import Any

import altair as alt
import pandas as pd

from report.analysis import available
from report.analysis.bounds import DEFINITIONS, NamedRoof, compared_roofs
from report.charts import roofline, theme
from report.charts.axes import LogAxis
from report.figures.marks import color_of, controlled, panel, rounded, texts, tips, zoom
from report.figures.thinning import counts, covered, thinned
from report.load.paper import BASE_PRECISION, Paper
from report.text.prose import intensity, listing, number, si

LONGEST = 22
"""Pixels of the longest mark, that of the smallest batch size."""


@available.or_missing
@theme.building()
def attainable(paper: Paper) -> alt.ConcatChart:
    """Draw the models on a CPU's and a GPU's roof at every batch size, a panel for each definition of intensity."""
    models, named_roofs = available.workloads(paper), compared_roofs(paper)
    batches = sorted(models.batch.unique())
    color = color_of("batch", theme.batch_colors(batches), "batch size", symbolType="square")
    picked = theme.choice("batch")
    every = pd.concat([models[f"{definition}_intensity"] for definition in DEFINITIONS])
    span = [every.min(), every.max(), *(named_roof.roof.ridge_flop_per_byte for named_roof in named_roofs)]
    rates = [named_roof.roof.attainable(value) for named_roof in named_roofs for value in (min(span), max(span))]
    y = LogAxis.around(rates, 175, "attainable", "FLOP/s", vertical=True, margins=(0.1, 0.24))
    panels: list[Any] = []
    drawn: list[pd.DataFrame] = []
    for definition, title in DEFINITIONS.items():
        title = f"operational intensity by {title} (FLOP/B)"
        x = LogAxis.around(span, theme.WIDTH, title, margins=(0.03, 0.05))
        outline = roofline.outline([({"roof": named_roof.name}, named_roof.roof) for named_roof in named_roofs], x)
        drawn.append(thinned(_points(models, definition, named_roofs), x, "intensity", y, "rate", ("batch", "roof")))
        marks = alt.Chart(drawn[-1]).mark_tick(
            orient="vertical", thickness=1.5, clip=True
        ).encode(
            x.channel("intensity"), y.channel("rate"), color, opacity=theme.faded_unless(picked),
            size=alt.Size("length:Q", scale=None, legend=None),
            tooltip=tips("model", "batch", "roof", "FLOP per byte", "attainable", "bound", *counts(drawn[-1])),
        )  # fmt: skip
        marks = controlled(marks, panels, picked, zoom(definition))
        panels.append(panel(x, y, roofline.lines(outline, x, y, "roof"), _names(named_roofs, x, y), marks))
    flats = [
        f"that of the {named_roof.name} is flat at {si(named_roof.roof.peak_flop_per_s, 'FLOP/s')} from "
        f"{intensity(named_roof.roof.ridge_flop_per_byte)} on"
        for named_roof in named_roofs
    ]
    description = (
        f"Rooflines with {number(models.model.nunique(), 'model')} at {number(len(batches), 'batch size')} in "
        f"{number(len(panels), 'panel')}, one for each definition of intensity, at {BASE_PRECISION}. Of the roofs "
        f"{listing(flats)}."
    )
    chart = alt.concat(*panels, columns=1, spacing=12)
    return theme.finish(chart, "models-attainable", description, covered(drawn))


def _points(models: pd.DataFrame, definition: str, named_roofs: list[NamedRoof]) -> pd.DataFrame:
    """Return a row for each model at a batch size on a roof."""
    values = models[f"{definition}_intensity"]
    batches = sorted(models.batch.unique())
    shorter = {batch: round(LONGEST * (1 - place / len(batches)), 1) for place, batch in enumerate(batches)}
    parts = []
    for named_roof in named_roofs:
        rates = [named_roof.roof.attainable(value) for value in values]
        columns: dict[str, Any] = {
            "roof": named_roof.name,
            "intensity": rounded(values),
            "length": models.batch.map(shorter),
            "rate": rounded(rates),
            "FLOP per byte": [intensity(value, digits=4) for value in values],
            "attainable": [si(rate, "FLOP/s", 4) for rate in rates],
            "bound": [named_roof.bound(value) for value in values],
        }
        parts.append(models[["model", "batch"]].assign(**columns))
    return pd.concat(parts, ignore_index=True)


def _names(named_roofs: list[NamedRoof], x: LogAxis, y: LogAxis) -> alt.Chart:
    """Return the roofs' names above the marks on their flat parts, at the right."""
    rows = []
    for named_roof in named_roofs:
        how = "measured" if named_roof.measured else "datasheet"
        over = y.pixel(named_roof.roof.peak_flop_per_s) - LONGEST / 2 - theme.LABEL_SIZE
        text = f"{named_roof.name}, {how}: {si(named_roof.roof.peak_flop_per_s, 'FLOP/s')}"
        rows.append({"text": text, "x": x.value(x.pixels - 4), "y": y.value(over)})
    return texts(rows, x, y, align="right")
