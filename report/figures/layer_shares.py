"""Figures of what layers ask for and what they cost in a training step, as bars of all models."""

from itertools import product
from typing import Any

import altair as alt
import pandas as pd

from measure.domain.words import BACKWARD, FORWARD, PRODUCT_KINDS
from report.analysis import available, layer_costs
from report.analysis.layer_costs import OUTSIDE, PASSES, QUANTITIES, shares_by_kind
from report.analysis.long_lists import evenly, left_out
from report.charts import theme
from report.figures.bars import PERCENT, bar_rows, stack_extent, stacked_bars
from report.figures.marks import color_of, controlled, rounded
from report.load.paper import BASE_PRECISION, Paper
from report.text.prose import number, percent, si

SMALL, OTHER = 0.02, "other"
"""A kind with a smaller share than this is drawn with the others."""

COUNTED = {"flop": "FLOP", "parameter_count": "parameters", "traffic_byte": "traffic"}
"""Column of ``shares_by_kind`` and title of each panel of ``kinds``."""

UNITS = {"time_s": "s", "flop": "FLOP", "byte": "B"}

KEY = ["model", "stage", "quantity"]


@available.or_missing
@theme.building()
def kinds(paper: Paper) -> alt.ConcatChart:
    """Draw where FLOP, parameters and traffic of each model sit at batch size 1: a bar a model, a colour a kind."""
    shares = shares_by_kind(available.layers(paper))
    traffic = shares[~shares.layer_kind.isin(["linear", "attention"])].groupby("model").traffic_byte.sum()
    traffic = traffic.reindex(shares.model.unique(), fill_value=0.0)
    every = traffic.sort_values(ascending=False, kind="stable").index.tolist()
    order = evenly(every)
    picked = theme.choice("kind")
    color = color_of("kind", theme.colors_of(shares.layer_kind, theme.LAYER_COLORS), "kind of layer", columns=5)
    scale, axis = alt.Scale(domain=[0, 1]), alt.Axis(labelExpr=PERCENT, values=[0, 0.5, 1], grid=False)
    size = {"width": theme.WIDTH / 3 - 45, "height": 14 * len(order)}
    panels: list[Any] = []
    for column, title in COUNTED.items():
        shown = shares[(shares[column] > 0) & shares.model.isin(order)]
        bars = shown[["model"]].assign(
            kind=shown.layer_kind,
            rank=shown.layer_kind.map(list(theme.LAYER_COLORS).index),
            part=rounded(shown[column]),
            share=[percent(value, 3) for value in shown[column]],
        )
        x = alt.X("part:Q", stack=True, title=f"share of {title}", scale=scale, axis=axis)
        y = bar_rows(order, labels=not panels, sort=order)
        tooltip = ["model", "kind", alt.Tooltip("share:N", title=f"share of {title}")]
        stack = stacked_bars(bars, x, y, color, picked, tooltip, strokeWidth=0.4)
        panels.append(controlled(stack, panels, picked).properties(**size))
    largest = {column: shares.loc[shares.groupby("model")[column].idxmax()].layer_kind.mode()[0] for column in COUNTED}
    description = (
        f"Stacked bars for {number(len(order), 'model')}: the shares that kinds of layer have in FLOP, parameters and "
        f"traffic at batch size 1. The kind with the largest share in most models is {largest['flop']} for FLOP, "
        f"{largest['parameter_count']} for parameters and {largest['traffic_byte']} for traffic."
    )
    chart = alt.concat(*panels, columns=3, spacing=10)
    return theme.finish(chart, "layer-kinds", description, left_out(order, every))


def drawn(kinds: pd.DataFrame) -> pd.DataFrame:
    """Return ``layer_costs.of_kinds`` as shares, a row a quantity, small kinds added up in ``OTHER``."""
    parts = [
        kinds.assign(quantity=quantity, amount=kinds[quantity], share=layer_costs.shares(kinds, quantity))
        for quantity in QUANTITIES
    ]
    rows = pd.concat(parts)
    rows = rows.assign(
        layer_kind=rows.layer_kind.mask((rows.share.abs() < SMALL) & (rows.layer_kind != OUTSIDE), OTHER)
    )
    sums = rows.groupby([*KEY, "layer_kind"], as_index=False)[["amount", "share"]].sum()
    return sums[sums.share.round(3) != 0]


@available.or_missing
@theme.building()
def stacked(paper: Paper) -> alt.ConcatChart:
    """Draw time, FLOP and memory of each model by kind of layer: a bar a model, forward above, backward below."""
    rows = available.rows_of_each(paper, lambda machine: drawn(layer_costs.of_kinds(paper, machine)))
    products = rows[(rows.quantity == "time_s") & (rows.stage == FORWARD) & rows.layer_kind.isin(PRODUCT_KINDS)]
    work = products.groupby("model").share.sum().reindex(rows.model.unique(), fill_value=0.0)
    every = work.sort_values(ascending=False, kind="stable").index.tolist()
    order = evenly(every)
    rows = rows[rows.model.isin(order)]
    devices = list(dict.fromkeys(rows.device))
    picked = theme.choice("part")
    color = color_of("part", theme.colors_of(rows.layer_kind, theme.PART_COLORS), columns=5)
    columns = [("time_s", device) for device in devices] + [("flop", devices[0]), ("byte", devices[0])]
    size = {"width": (theme.WIDTH - 60) / len(columns) - 15, "height": 12 * len(order)}
    panels: list[Any] = []
    for stage, (quantity, device) in product(PASSES, columns):
        shown = rows[(rows.stage == stage) & (rows.quantity == quantity) & (rows.device == device)]
        title = f"{QUANTITIES[quantity]}, {stage}"
        title += f", {device}" if quantity == "time_s" and len(devices) > 1 else ""
        y = bar_rows(order, labels=len(panels) % len(columns) == 0, sort=order)
        stack = _stack(shown, UNITS[quantity], y, color, picked)
        panels.append(controlled(stack, panels, picked).properties(title=title, **size))
    most = layer_costs.most_costly(layer_costs.of_shown(paper, layer_costs.of_kinds)[1])
    largest = [
        f"{QUANTITIES[quantity]} {stage} {most[quantity, stage][0]} ({percent(most[quantity, stage][2])})"
        for quantity, stage in product(QUANTITIES, (FORWARD, BACKWARD))
    ]
    description = (
        f"Stacked bars for {number(len(order), 'model')} at {BASE_PRECISION}: the shares of kinds of layer in time, "
        f"FLOP and memory, forward and backward. Largest in most models, with its median share in them: "
        f"{', '.join(largest)}."
    )
    chart = alt.concat(*panels, columns=len(columns), spacing=12)
    return theme.finish(chart, "training-layers", description, left_out(order, every))


def _stack(rows: pd.DataFrame, unit: str, y: alt.Y, color: alt.Color, picked: alt.Parameter) -> alt.Chart:
    """Return the bars of a quantity and pass, on an axis that holds 0, 1 and every sum of negative shares."""
    bars = pd.DataFrame(
        {
            "model": rows.model,
            "part": rows.layer_kind,
            "rank": rows.layer_kind.map(list(theme.PART_COLORS).index),
            "share": rounded(rows.share, 3),
            "amount": [si(value, unit).replace("-", "−") for value in rows.amount],
        }
    )
    low, high = stack_extent(bars.share, [bars.model])
    scale = alt.Scale(domain=[min(0.0, low), max(1.0, high)], nice=False)
    axis = alt.Axis(labelExpr=PERCENT, values=[0, 0.5, 1], labelOverlap=True, grid=False)
    x = alt.X("share:Q", stack=True, title=None, scale=scale, axis=axis)
    return stacked_bars(bars, x, y, color, picked, ["model", "part", "amount"])
