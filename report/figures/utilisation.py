"""Figures of achieved rates under the roofs of the machine."""

from math import inf, isfinite
from typing import Any

import altair as alt
import pandas as pd

from report import available, axes, datasheet, roofline, theme
from report.available import or_missing
from report.axes import LogAxis
from report.chips import KINDS
from report.labels import Box
from report.paper import BASE_PRECISION, Machine, Paper, Roof
from report.quantities import intensity, listing, number, percent, si
from report.rows import highest


@or_missing
def models_on_roof(paper: Paper) -> alt.ConcatChart:
    """Achieved rate against intensity by footprint under the roofs of each machine, a panel a batch size."""
    cells = available.shown_cells(paper)
    limits = {
        KINDS[machine.kind]: _limits(paper, machine)
        for machine in paper.shown
        if machine.roof(BASE_PRECISION)
    }
    cells = cells[cells.device.isin(list(limits))]
    if cells.empty:
        available.roof(paper.shown[0])
    points = pd.DataFrame(
        {
            "model": cells.model,
            "device": cells.device,
            "family": cells.family,
            "batch": cells.batch,
            "x": [float(f"{value:.6g}") for value in cells.footprint_intensity],
            "rate": [float(f"{value:.6g}") for value in cells.flop_per_s],
            "intensity": [intensity(value, digits=4) for value in cells.footprint_intensity],
            "achieved": [si(value, "FLOP/s", 4) for value in cells.flop_per_s],
            "attainable": [si(value, "FLOP/s", 4) for value in cells.attainable_flop_per_s],
            "share of attainable": [percent(value, 3) for value in cells.attained],
        }
    )
    picked = theme.choice("family")
    opacity = theme.faded_unless(picked)
    legend = alt.Legend(orient="top", columns=7)
    colors, shapes = theme.family_colors(points.family), theme.family_shapes(points.family)
    columns = points.device.nunique()
    width = theme.WIDTH if columns == 1 else theme.WIDTH / 2 - 40
    panels: list[Any] = []
    for (batch, device), own in points.groupby(["batch", "device"]):
        all_own, roofs = points[points.device == device], limits[str(device)]
        flat = [roof.peak_flop_per_s for _, roof in roofs]
        x = LogAxis.around(
            [
                *all_own.x,
                *(roof.ridge_flop_per_byte for _, roof in roofs if isfinite(roof.bandwidth_byte_per_s)),
            ],
            width,
            "operational intensity by footprint",
            "FLOP/B",
            margins=(0.05, 0.08),
        )
        y = LogAxis.around(
            [*all_own.rate, *flat], 215, "achieved", "FLOP/s", vertical=True, margins=(0.06, 0.1)
        )
        drawn = roofline.lines(roofline.outline(roofs, x), x, y, "roof", "printed")
        dots = alt.Chart(own).mark_point(filled=True, size=46, clip=True).encode(
            x.channel("x"), y.channel("rate"), opacity=opacity,
            color=alt.Color("family:N", scale=colors, title="family", legend=legend),
            shape=alt.Shape("family:N", scale=shapes, title="family", legend=legend),
            tooltip=["model", "family", "batch", "intensity", "achieved", "attainable", "share of attainable"],
        )  # fmt: skip
        own_zoom = alt.selection_interval(bind="scales", name=f"zoom_{device}_{batch}")
        dots = dots.add_params(own_zoom) if panels else dots.add_params(picked, own_zoom)
        taken = tuple(Box(0, y.pixel(peak) - 1, x.pixels, y.pixel(peak) + 1) for peak in flat)
        layers = (drawn, axes.named_points(own, "model", x, "x", y, "rate", taken), dots)
        panel = alt.layer(*[layer for layer in layers if layer is not None])
        panels.append(
            panel.properties(title=f"{device}, batch size {batch}", width=x.pixels, height=y.pixels)
        )
    peaks = [
        f"that of the {device} is flat at {si(roofs[0][1].peak_flop_per_s, 'FLOP/s')} from "
        f"{intensity(roofs[0][1].ridge_flop_per_byte)} on"
        + (", with the datasheet's beside it" if len(roofs) > 1 else "")
        for device, roofs in limits.items()
    ]
    best = highest(cells, "flop_per_s")
    description = (
        f"Rooflines of {available.titles(paper, cells)} at {BASE_PRECISION} with {number(len(points), 'point')} in "
        f"{number(len(panels), 'panel')}, one for each batch size. Of the measured roofs {listing(peaks)}. "
        f"The fastest point is {best.model} on the {best.device} at batch size {best.batch} with "
        f"{si(best.flop_per_s, 'FLOP/s')}."
    )
    return theme.finish(alt.concat(*panels, columns=columns, spacing=12), "models-on-roof", description)


def _limits(paper: Paper, machine: Machine) -> list[tuple[dict[str, Any], Roof]]:
    """A machine's measured roof, and its datasheet roof where there is one: flat where its bandwidth is not known."""
    limits = [({"roof": "measured", "printed": False}, available.roof(machine))]
    printed = datasheet.roof(paper, machine, BASE_PRECISION)
    if printed:
        bandwidth = inf if printed.bandwidth_byte_per_s is None else printed.bandwidth_byte_per_s
        limits.append(({"roof": "datasheet", "printed": True}, Roof(printed.peak_flop_per_s, bandwidth)))
    return limits


@or_missing
def attained(paper: Paper) -> alt.ConcatChart:
    """Achieved share of the attainable rate, a row a model, a mark a batch size, a panel a device and precision."""
    cells = available.shown_cells(paper, None)
    if cells.attained.isna().all():
        available.roof(paper.shown[0], cells.iloc[0].precision)
    cells = cells[cells.attained.notna()]
    points = pd.DataFrame(
        {
            "model": cells.model,
            "device": cells.device,
            "batch": cells.batch,
            "precision": cells.precision,
            "share": [float(f"{value:.6g}") for value in cells.attained],
            "share of attainable": [percent(value, 4) for value in cells.attained],
            "share of peak": [percent(value, 4) for value in cells.peak_share],
            "achieved": [si(value, "FLOP/s", 4) for value in cells.flop_per_s],
        }
    )
    order = points.groupby("model").share.max().sort_values(ascending=False).index.tolist()
    picked = theme.choice("batch")
    opacity = theme.faded_unless(picked)
    batches = sorted(points.batch.unique())
    legend = alt.Legend(orient="top")
    shapes = theme.batch_shapes(batches)
    scale = alt.Scale(domain=[0, max(1.05, 1.05 * points.share.max())], nice=False)
    ranked = points.assign(rank=points.precision != BASE_PRECISION)  # the base precision comes first
    groups = list(ranked.groupby(["device", "rank", "precision"]))
    columns = min(len(groups), 2)
    panels: list[Any] = []
    for (device, _, precision), own in groups:
        base = alt.Chart(own.drop(columns="rank"))
        rows = alt.Y(
            "model:N", sort=order, scale=alt.Scale(domain=order), title=None, axis=alt.Axis(grid=True)
        )
        x = alt.X(
            "share:Q",
            scale=scale,
            title="achieved share of the attainable rate",
            axis=alt.Axis(labelExpr="format(100 * datum.value, 'd') + ' %'"),
        )
        span = base.mark_rule(color="#b5b5b5", strokeWidth=2).encode(
            alt.X("least:Q", scale=scale), rows, x2="most:Q"
        ).transform_aggregate(least="min(share)", most="max(share)", groupby=["model"])  # fmt: skip
        dots = base.mark_point(filled=True, size=52).encode(
            x, rows, opacity=opacity,
            color=alt.Color("batch:N", scale=theme.batch_colors(batches), title="batch size", legend=legend),
            shape=alt.Shape("batch:N", scale=shapes, title="batch size", legend=legend),
            tooltip=["model", "precision", "batch", "share of attainable", "share of peak", "achieved"],
        )  # fmt: skip
        whole = alt.Chart(pd.DataFrame({"share": [1]})).mark_rule(color=theme.INK, strokeDash=[4, 3])
        panel = alt.layer(
            span, whole.encode(alt.X("share:Q", scale=scale)), dots if panels else dots.add_params(picked)
        )
        width = theme.WIDTH / columns - 60
        panels.append(panel.properties(title=f"{device}, {precision}", width=width, height=14 * len(order)))
    best = highest(cells, "attained")
    description = (
        f"Dot plot of the achieved share of the attainable rate for {number(len(order), 'model')} on "
        f"{available.titles(paper, cells)}, a mark for each batch size. The highest share is {percent(best.attained)} "
        f"({best.model} on the {best.device} at batch size {best.batch}, {best.precision})."
    )
    return theme.finish(alt.concat(*panels, columns=columns, spacing=14), "attained", description)
