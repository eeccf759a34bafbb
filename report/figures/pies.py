"""Figures of what a training step's layers cost, as pies."""

from dataclasses import dataclass
from itertools import pairwise, product
from math import cos, pi, sin, sqrt
from typing import Any, Literal

import altair as alt
import pandas as pd

from report.analysis import available, layer_costs
from report.analysis.layer_costs import PASSES, QUANTITIES
from report.charts import theme
from report.charts.labels import spread, text_size
from report.figures.marks import color_of, first_of, tips
from report.load.paper import BASE_PRECISION, Paper
from report.text.prose import number, percent

MODELS = ("alexnet", "vgg16", "googlenet", "resnet50", "mobilenet_v3_large", "vit_b_16")
"""Whose pies are drawn, where they were measured; else the first of all models."""

MOST, SMALL, OTHER = 6, 0.05, "other"
"""A pie has at most so many slices, none smaller than this share, and a last one for all others."""

RADIUS, REACH, APART = 26.0, 33.0, 7.0
"""Pixels from a pie's centre to its edge, to its labels, and from its vertical axis to a label at the least."""

COLUMN, ROW, HEAD = 92.0, 86.0, 18.0
"""Pixels of a pie's column and row, and of the line of titles above the pies."""

ROWS = list(product(("time_s", "byte"), PASSES))
"""The quantity and pass of each row. Pies of FLOP would be of one colour each."""

LINE = 11.5
"""Pixels from one label to the next below it."""


@dataclass(frozen=True)
class Slice:
    """A part of a pie: its share, and the angles (rad, clockwise from twelve o'clock) where it begins and ends."""

    part: str
    share: float
    start: float
    end: float

    @property
    def text(self) -> str:
        """The share as the pie prints it, in per cent; empty where that is 0."""
        return str(round(100 * self.share) or "")


def slices(amounts: dict[str, float]) -> list[Slice]:
    """Return the slices of amounts by part, the largest first and ``OTHER`` last; what is not above 0 has none."""
    whole = sum(amount for amount in amounts.values() if amount > 0)
    shares = {part: amount / whole for part, amount in amounts.items() if amount > 0}
    ranked = sorted(shares, key=lambda part: (-shares[part], part))
    kept = [part for part in ranked if part != OTHER and shares[part] >= SMALL][:MOST]
    rest = sum(share for part, share in shares.items() if part not in kept)
    parts = [(part, shares[part]) for part in kept] + ([(OTHER, rest)] if rest > 0 else [])
    ends = [0.0]
    for _, share in parts:
        ends.append(ends[-1] + 2 * pi * share)
    return [Slice(*part, *angles) for part, angles in zip(parts, pairwise(ends), strict=True)]


def label_places(pie: list[Slice]) -> list[tuple[float, float]]:
    """Return where slices' labels are anchored, from the pie's centre (pixels, y downwards), so that none overlap.

    A label right of the centre begins at its anchor, one left of it ends there. Labels of a side stand ``LINE`` apart.
    """
    middles = [(each.start + each.end) / 2 for each in pie]
    places = {}
    for side in (1, -1):
        here = [at for at, middle in enumerate(middles) if (1 if sin(middle) >= 0 else -1) == side]
        limit = max(REACH, LINE * (len(here) - 1) / 2)
        heights = spread([-REACH * cos(middles[at]) for at in here], LINE, -limit, limit)
        for at, y in zip(here, heights, strict=True):
            places[at] = (side * max(APART, sqrt(max(REACH**2 - y**2, 0.0))), y)
    return [places[at] for at in range(len(pie))]


@available.or_missing
@theme.building()
def by_kind(paper: Paper) -> alt.LayerChart:
    """Draw time and memory of both passes by kind of layer: a column a model, a row a quantity and pass."""
    machine, rows = layer_costs.of_shown(paper, layer_costs.of_kinds)
    models = first_of(MODELS, rows.model, len(MODELS))
    names = max(text_size(_named(*row), theme.FONT_SIZE)[0] for row in ROWS)
    arcs, texts = _placed(rows, models, names)
    place = {"x": alt.X("x:Q", scale=None, axis=None), "y": alt.Y("y:Q", scale=None, axis=None)}
    drawn = pd.DataFrame(arcs)
    color = color_of("part", theme.colors_of(drawn.part, theme.PART_COLORS), columns=5, symbolType="square")
    picked = theme.choice("part")
    pies = alt.Chart(drawn).mark_arc(outerRadius=RADIUS, stroke="#ffffff", strokeWidth=0.6)
    pies = pies.encode(
        **place, theta=alt.Theta("start:Q", scale=None, stack=None), theta2="end:Q", color=color,
        opacity=theme.faded_unless(picked), tooltip=tips("model", "of", "part", "share"),
    )  # fmt: skip
    shown = pd.DataFrame([text for text in texts if text["text"]]).round(1)
    sides: tuple[Literal["left", "center", "right"], ...] = ("left", "center", "right")
    written = [
        alt.Chart(shown[shown["align"] == side].drop(columns="align"))
        .mark_text(align=side, fontSize=theme.LABEL_SIZE, color=theme.INK, limit=COLUMN - 4)
        .encode(**place, text=alt.Text("text:N"))
        for side in sides
    ]
    chart = alt.layer(pies.add_params(picked), *written).properties(
        width=names + COLUMN * len(models), height=HEAD + ROW * len(ROWS), view=alt.ViewBackground(stroke=None)
    )
    first = layer_costs.most_costly(rows)
    description = (
        f"Pies for {number(len(models), 'model')} on the {available.title(machine)} at batch size "
        f"{rows.batch.iloc[0]} and {BASE_PRECISION}: the shares of kinds of layer in time and memory, forward and "
        f"backward. The kind with the largest share in most models is {first['time_s', 'forward'][0]} for the "
        f"time of the forward pass and {first['time_s', 'backward'][0]} for that of the backward pass."
    )
    return theme.finish(chart, "training-pies", description)


Rows = list[dict[str, Any]]


def _placed(rows: pd.DataFrame, models: list[str], names: float) -> tuple[Rows, Rows]:
    """Return the slices and the texts of all pies, right of ``names`` pixels for what a row shows."""
    arcs: Rows = []
    texts: Rows = []
    for line, (quantity, stage) in enumerate(ROWS):
        y = HEAD + ROW * (line + 0.5)
        texts.append({"text": _named(quantity, stage), "x": 0, "y": y, "align": "left"})
        for column, model in enumerate(models):
            kinds = rows[(rows.model == model) & (rows.stage == stage)]
            pie = slices(dict(zip(kinds.layer_kind, kinds[quantity], strict=True)))
            x = names + COLUMN * (column + 0.5)
            for piece, (right, down) in zip(pie, label_places(pie), strict=True):
                about = {"model": model, "of": _named(quantity, stage), "part": piece.part}
                place = {"x": round(x, 1), "y": round(y, 1), "start": round(piece.start, 4), "end": round(piece.end, 4)}
                arcs.append(about | {"share": percent(piece.share, 3)} | place)
                align = "left" if right > 0 else "right"
                texts.append({"text": piece.text, "x": x + right, "y": y + down, "align": align})
    for column, model in enumerate(models):
        texts.append({"text": model, "x": names + COLUMN * (column + 0.5), "y": HEAD / 2, "align": "center"})
    return arcs, texts


def _named(quantity: str, stage: str) -> str:
    return f"{QUANTITIES[quantity]}, {stage}"
