"""Figures of what a training step's layers cost, as bars of all models."""

from typing import Any

import altair as alt
import pandas as pd

from measure.cache.records import BACKWARD, FORWARD
from report.analysis import available, layer_costs
from report.analysis.available import or_missing
from report.analysis.layer_costs import PASSES, QUANTITIES
from report.charts import theme
from report.charts.theme import OUTSIDE
from report.figures.layers import PERCENT
from report.load.paper import BASE_PRECISION, Paper
from report.load.workloads import PRODUCTS
from report.text.quantities import number, percent, si

SMALL, OTHER = 0.02, "other"
"""A kind with a smaller share than this is drawn with the others."""

UNITS = {"time_s": "s", "flop": "FLOP", "byte": "B"}

KEY = ["model", "stage", "quantity"]


def drawn(kinds: pd.DataFrame) -> pd.DataFrame:
    """The rows of ``layer_costs.of_kinds``, one for each quantity, as shares, small kinds added up in ``OTHER``."""
    parts = [
        kinds.assign(quantity=quantity, amount=kinds[quantity], share=layer_costs.shares(kinds, quantity))
        for quantity in QUANTITIES
    ]
    rows = pd.concat(parts)
    rows = rows.assign(kind=rows.kind.mask((rows.share.abs() < SMALL) & (rows.kind != OUTSIDE), OTHER))
    sums = rows.groupby([*KEY, "kind"], as_index=False)[["amount", "share"]].sum()
    return sums[sums.share.round(3) != 0]


@or_missing
def stacked(paper: Paper) -> alt.ConcatChart:
    """Time, FLOP and memory of each model by kind of layer: a bar a model, forward above, backward below."""
    rows = available.rows_of_each(paper, lambda of: drawn(layer_costs.of_kinds(paper, of)))
    products = rows[(rows.quantity == "time_s") & (rows.stage == FORWARD) & rows.kind.isin(PRODUCTS)]
    work = products.groupby("model").share.sum().reindex(rows.model.unique(), fill_value=0.0)
    order = work.sort_values(ascending=False, kind="stable").index.tolist()
    ranks = {part: rank for rank, part in enumerate(theme.PART_COLORS)}
    devices = list(dict.fromkeys(rows.device))
    picked = theme.choice("part")
    color = alt.Color(
        "part:N", scale=theme.part_colors(rows.kind), title=None, legend=alt.Legend(orient="top", columns=5)
    )
    columns = [("time_s", device) for device in devices] + [("flop", devices[0]), ("byte", devices[0])]
    panels: list[Any] = []
    for stage in PASSES:
        for quantity, device in columns:
            own = rows[(rows.stage == stage) & (rows.quantity == quantity) & (rows.device == device)]
            bars = pd.DataFrame(
                {
                    "model": own.model,
                    "part": own.kind,
                    "rank": own.kind.map(ranks),
                    "share": [float(f"{value:.3g}") for value in own.share],
                    "amount": [si(value, UNITS[quantity]).replace("-", "−") for value in own.amount],
                }
            )
            name = f"{QUANTITIES[quantity]}, {stage}"
            title = f"{name}, {device}" if quantity == "time_s" and len(devices) > 1 else name
            axis = alt.Axis(
                labels=len(panels) % len(columns) == 0, ticks=False, domain=False, labelPadding=4,
                labelFontSize=theme.LABEL_SIZE,
            )  # fmt: skip
            panel = alt.Chart(bars).mark_bar(height={"band": 0.8}, stroke="#ffffff", strokeWidth=0.3).encode(
                alt.X("share:Q", stack=True, title=None, scale=alt.Scale(domain=_extent(bars), nice=False),
                      axis=alt.Axis(labelExpr=PERCENT, values=[0, 0.5, 1], labelOverlap=True, grid=False)),
                alt.Y("model:N", sort=order, scale=alt.Scale(domain=order), title=None, axis=axis),
                color, order=alt.Order("rank:Q"), opacity=theme.faded_unless(picked),
                tooltip=["model", "part", "amount"],
            )  # fmt: skip
            panel = panel if panels else panel.add_params(picked)
            width = (theme.WIDTH - 60) / len(columns) - 15
            panels.append(panel.properties(title=title, width=width, height=12 * len(order)))
    first = layer_costs.most_costly(layer_costs.of_shown(paper, layer_costs.of_kinds)[1])
    told = [
        f"{QUANTITIES[quantity]} {stage} {first[quantity, stage][0]} ({percent(first[quantity, stage][2])})"
        for quantity in QUANTITIES
        for stage in (FORWARD, BACKWARD)
    ]
    description = (
        f"Stacked bars for {number(len(order), 'model')} at {BASE_PRECISION}: the shares of kinds of layer in time, "
        f"FLOP and memory, forward and backward. Largest in most models, with its median share in them: "
        f"{', '.join(told)}."
    )
    return theme.finish(alt.concat(*panels, columns=len(columns), spacing=12), "training-layers", description)


def _extent(bars: pd.DataFrame) -> list[float]:
    """From the lowest sum of a model's negative shares to the highest of its positive ones, 0 to 1 among them."""
    negative = bars.share.clip(upper=0).groupby(bars.model).sum().min()
    positive = bars.share.clip(lower=0).groupby(bars.model).sum().max()
    return [min(0.0, float(negative)), max(1.0, float(positive))]
