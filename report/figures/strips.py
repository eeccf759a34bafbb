"""Figures of what a training step's layers cost, one by one in the order in which they run."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from report.analysis import available, layer_costs
from report.analysis.available import or_missing
from report.analysis.layer_costs import PASSES, QUANTITIES
from report.charts import theme
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.text.frame_rows import highest
from report.text.quantities import number, percent

MODELS = ("alexnet", "vgg16", "squeezenet1_0", "resnet18")
"""Those that stand side by side in print, where they were measured; else the first of all models."""

SMALL = 0.005
"""A layer that has a smaller share than this of time, FLOP and memory is left out."""

UNSIGNED = "format(abs(datum.value), '~g') + ' %'"
"""How an axis writes shares of which those of the backward pass are drawn downwards."""

HEIGHT = 84
"""Of a panel, in pixels."""


def layer_shares(layers: pd.DataFrame) -> pd.DataFrame:
    """The rows of ``layer_costs.of_layers`` that are large enough, a column of shares for each quantity and pass.

    ``time_s_forward`` and so on are parts of what all layers cost in both passes.
    """
    rows = layers[["model", "position", "path", "kind"]].copy()
    for quantity in QUANTITIES:
        columns = [f"{stage}_{quantity}" for stage in PASSES]
        whole = layers[columns].sum(axis=1).groupby(layers.model).transform("sum")
        for stage, column in zip(PASSES, columns, strict=True):
            rows[f"{quantity}_{stage}"] = (layers[column] / whole).where(whole > 0, 0.0)
    largest = rows[[f"{quantity}_{stage}" for quantity in QUANTITIES for stage in PASSES]].max(axis=1)
    return rows[largest >= SMALL]


def _records(rows: pd.DataFrame, models: Sequence[str], kinds: list[str]) -> list[dict[str, Any]]:
    """A record a model, its layers in lists: a page holds those of all models, so that their names stand once."""
    return [
        {
            "model": model,
            "at": own.position.tolist(),
            "layer": own.path.tolist(),
            "k": [kinds.index(kind) for kind in own.kind],
        }
        | {
            f"{quantity}_{stage}": [float(f"{100 * share:.3g}") for share in own[f"{quantity}_{stage}"]]
            for quantity in QUANTITIES
            for stage in PASSES
        }
        for model in models
        for own in [rows[rows.model == model]]
    ]


def _panel(
    data: alt.InlineData,
    quantity: str,
    kinds: list[str],
    condition: str | alt.FieldEqualPredicate,
    is_first: bool = True,
) -> alt.Chart:
    """The layers of the model that a condition selects: forward upwards, backward downwards; the first is titled."""
    forward, backward = (f"{quantity}_{stage}" for stage in PASSES)
    color = alt.Color(
        "kind:N", title=None, scale=theme.layer_colors(kinds), legend=alt.Legend(orient="top", columns=5)
    )
    return (
        alt.Chart(data)
        .transform_filter(condition)
        .transform_flatten(["at", "layer", "k", forward, backward])
        .transform_calculate(kind=f"{kinds}[datum.k]")
        .transform_fold([forward, backward], ["which", "percent"])
        .transform_calculate(
            up=f"datum.which === '{forward}' ? datum.percent : -datum.percent",
            stage=f"datum.which === '{forward}' ? '{PASSES[0]}' : '{PASSES[1]}'",
        )
        .mark_bar()
        .encode(
            alt.X("at:O", title=None, axis=None),
            alt.Y(
                "up:Q", stack=None, title=QUANTITIES[quantity] if is_first else None,
                scale=alt.Scale(nice=False, padding=4), axis=alt.Axis(labelExpr=UNSIGNED, tickCount=4),
            ),
            color,
            tooltip=[
                "layer:N", "kind:N", alt.Tooltip("stage:N", title="pass"), alt.Tooltip("percent:Q", title="per cent"),
            ],
        )
    )  # fmt: skip


def _loaded(paper: Paper) -> tuple[Machine, pd.DataFrame, list[str]]:
    machine, layers = layer_costs.of_shown(paper, layer_costs.of_layers)
    rows = layer_shares(layers)
    return machine, rows, [kind for kind in theme.LAYER_COLORS if kind in set(rows.kind)]


def _described(machine: Machine, rows: pd.DataFrame, models: Sequence[str]) -> str:
    own = rows[rows.model.isin(models)]
    most = highest(own.assign(share=own.time_s_forward + own.time_s_backward), "share")
    return (
        f"Bars for the layers of {number(len(models), 'model')} on the {available.title(machine)} at {BASE_PRECISION}, "
        "in the order in which they run: the share of each in time, FLOP and memory of both passes, forward upwards "
        f"and backward downwards. The largest share of time is that of {most.path} in {most.model} "
        f"({percent(most.share)})."
    )


def chosen(present: set[str]) -> list[str]:
    """The models of ``MODELS`` that are present; where none is, as many of the others."""
    return [model for model in MODELS if model in present] or sorted(present)[: len(MODELS)]


@or_missing
def one(paper: Paper) -> alt.ConcatChart:
    """Time, FLOP and memory of each layer of a model that the reader chooses, one above the other."""
    machine, rows, kinds = _loaded(paper)
    models = sorted(rows.model.unique())
    choice = alt.param(
        name="model", value=chosen(set(models))[0], bind=alt.binding_select(options=models, name="Model ")
    )
    data = alt.InlineData(values=_records(rows, models, kinds))
    panels = [_panel(data, quantity, kinds, "datum.model === model") for quantity in QUANTITIES]
    panels[0] = panels[0].add_params(choice)
    drawn = [panel.properties(width=theme.WIDTH, height=HEIGHT) for panel in panels]
    description = _described(machine, rows, models)
    return theme.finish(alt.concat(*drawn, columns=1, spacing=8), "training-strip", description)


@or_missing
def several(paper: Paper) -> alt.ConcatChart:
    """The same of a few models side by side."""
    machine, rows, kinds = _loaded(paper)
    models = chosen(set(rows.model))
    data = alt.InlineData(values=_records(rows, models, kinds))
    width = theme.WIDTH / len(models) - 30
    panels: list[Any] = []
    for quantity in QUANTITIES:
        for model in models:
            panel = _panel(
                data, quantity, kinds, alt.FieldEqualPredicate(equal=model, field="model"), model == models[0]
            )
            title = {} if len(panels) >= len(models) else {"title": model}
            panels.append(panel.properties(width=width, height=HEIGHT, **title))
    description = _described(machine, rows, models)
    return theme.finish(alt.concat(*panels, columns=len(models), spacing=10), "training-strips", description)
