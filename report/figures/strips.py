"""Figures of what a training step's layers cost, one by one in the order in which they run."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import altair as alt
import pandas as pd

from report.analysis import available, layer_costs
from report.analysis.layer_costs import PASSES, QUANTITIES
from report.analysis.long_lists import evenly, left_out
from report.charts import theme
from report.figures.marks import color_of, controlled, drop_down, first_of, rounded, tips
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.text.frame_rows import highest
from report.text.prose import number, percent

MODELS = ("alexnet", "resnet18")
"""The first of those that were measured is shown before a reader chooses; else the first of all models."""

SMALL = 0.005
"""A layer that has a smaller share than this of time, FLOP and memory is left out."""

UNSIGNED = "format(abs(datum.value), '~g') + ' %'"
"""How an axis writes shares of which those of the backward pass are drawn downwards."""

COLUMNS = [f"{quantity}_{stage}" for quantity, stage in product(QUANTITIES, PASSES)]

HEIGHT = 84
"""Of a panel, in pixels."""


def layer_shares(layers: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of ``layer_costs.of_layers`` that are large enough, with shares in each quantity and pass.

    ``time_s_forward`` and so on are parts of what all layers cost in both passes.
    """
    rows = layers[["model", "position", "path", "layer_kind"]].copy()
    for quantity in QUANTITIES:
        columns = [f"{stage}_{quantity}" for stage in PASSES]
        whole = layers[columns].sum(axis=1).groupby(layers.model).transform("sum")
        for stage, column in zip(PASSES, columns, strict=True):
            rows[f"{quantity}_{stage}"] = (layers[column] / whole).where(whole > 0, 0.0)
    return rows[rows[COLUMNS].max(axis=1) >= SMALL]


def _records(rows: pd.DataFrame, models: Sequence[str], kinds: list[str]) -> alt.InlineData:
    """Return a record a model, its layers in lists: a page holds those of all models, and their names only once."""
    records = []
    for model in models:
        layers = rows[rows.model == model]
        record = {"model": model, "at": layers.position.tolist(), "layer": layers.path.tolist()}
        record["k"] = [kinds.index(kind) for kind in layers.layer_kind]
        records.append(record | {column: rounded(100 * layers[column], 3) for column in COLUMNS})
    return alt.InlineData(values=records)


def _panel(data: alt.InlineData, quantity: str, kinds: list[str]) -> alt.Chart:
    """Return the layers of the model that a reader chooses: forward upwards, backward downwards."""
    forward, backward = (f"{quantity}_{stage}" for stage in PASSES)
    axis = alt.Axis(labelExpr=UNSIGNED, tickCount=4)
    title, scale = QUANTITIES[quantity], alt.Scale(nice=False, padding=4)
    layers = alt.Chart(data).transform_filter("datum.model === model")
    layers = layers.transform_flatten(["at", "layer", "k", forward, backward])
    passes = layers.transform_calculate(kind=f"{kinds}[datum.k]").transform_fold(
        [forward, backward], ["which", "percent"]
    )
    signed = passes.transform_calculate(
        up=f"datum.which === '{forward}' ? datum.percent : -datum.percent",
        stage=f"datum.which === '{forward}' ? '{PASSES[0]}' : '{PASSES[1]}'",
    )
    tooltip = [alt.Tooltip("stage:N", title="pass"), alt.Tooltip("percent:Q", title="per cent")]
    return signed.mark_bar().encode(
        alt.X("at:O", title=None, axis=None),
        alt.Y("up:Q", stack=None, title=title, scale=scale, axis=axis),
        color_of("kind", theme.colors_of(kinds, theme.LAYER_COLORS), columns=5),
        tooltip=tips("layer:N", "kind:N", *tooltip),
    )


def _loaded(paper: Paper) -> tuple[Machine, pd.DataFrame, list[str]]:
    """Return the machine, its layers, and their kinds in the order of the legend."""
    machine, layers = layer_costs.of_shown(paper, layer_costs.of_layers)
    rows = layer_shares(layers)
    return machine, rows, [kind for kind in theme.LAYER_COLORS if kind in set(rows.layer_kind)]


def _description(machine: Machine, rows: pd.DataFrame, models: Sequence[str]) -> str:
    drawn = rows[rows.model.isin(models)]
    most = highest(drawn.assign(share=drawn.time_s_forward + drawn.time_s_backward), "share")
    return (
        f"Bars for the layers of {number(len(models), 'model')} on the {available.title(machine)} at {BASE_PRECISION}, "
        "in the order in which they run: the share of each in time, FLOP and memory of both passes, forward upwards "
        f"and backward downwards. The largest share of time is that of {most.path} in {most.model} "
        f"({percent(most.share)})."
    )


@available.or_missing
@theme.building()
def one(paper: Paper) -> alt.ConcatChart:
    """Draw time, FLOP and memory of each layer of a model that the reader chooses, one above the other."""
    machine, rows, kinds = _loaded(paper)
    every = sorted(rows.model.unique())
    models = sorted({*evenly(every), *first_of(MODELS, every, 1)})
    choice = drop_down("model", models, first_of(MODELS, models, 1)[0], "Model")
    data = _records(rows, models, kinds)
    panels: list[Any] = []
    for quantity in QUANTITIES:
        panel = _panel(data, quantity, kinds)
        panels.append(controlled(panel, panels, choice).properties(width=theme.WIDTH, height=HEIGHT))
    description = _description(machine, rows, models)
    chart = alt.concat(*panels, columns=1, spacing=8)
    return theme.finish(chart, "training-strip", description, left_out(models, every))
