"""Figures of achieved rates under the roofs of the machine."""

from collections.abc import Iterable
from math import ceil, inf, isfinite
from typing import Any

import altair as alt
import pandas as pd

from report.analysis import available, datasheet
from report.analysis.available import or_missing
from report.analysis.predictors import common_batches
from report.charts import axes, roofline, theme
from report.charts.axes import LogAxis
from report.charts.labels import Box, along, spread, text_size
from report.load.chips import KINDS
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.load.roofs import Roof
from report.text.frame_rows import highest
from report.text.quantities import intensity, listing, number, percent, si

Limits = list[tuple[dict[str, Any], Roof]]
"""Roofs, each with the columns that describe it: ``roof``, its name, and ``printed``, whether it is a datasheet's."""

HEIGHT, COLUMNS, MOST_ROWS = 230, 2, 4
"""Of a panel, in pixels, at most; and how many panels stand beside each other, and at most below each other."""

LEVELS, ABOVE = 9, 23
"""Pixels from the highest roof to the names of the levels of memory above it, and to the upper edge."""


@or_missing
def models_on_roof(paper: Paper) -> alt.ConcatChart:
    """Achieved rate against intensity by footprint under the roofs of each machine.

    A panel a device and batch size that most models were measured at, and one a device with trails through all; of
    more batch sizes than have room on a page, some from the smallest to the largest.
    """
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
            "x": [float(f"{value:.5g}") for value in cells.footprint_intensity],
            "rate": [float(f"{value:.5g}") for value in cells.flop_per_s],
            "intensity": [intensity(value, digits=4) for value in cells.footprint_intensity],
            "achieved": [si(value, "FLOP/s", 4) for value in cells.flop_per_s],
            "of attainable": [percent(value, 3) for value in cells.attained],
            "of peak": [percent(value, 3) for value in cells.peak_share],
        }
    )
    batches = sorted({batch for _, own in cells.groupby("device") for batch in common_batches(own)})
    batches = evenly(batches, COLUMNS * MOST_ROWS // len(limits) - 1)
    height = theme.panel_height(ceil((len(batches) + 1) * len(limits) / COLUMNS), HEIGHT)
    picked = theme.choice("family")
    panels: list[Any] = []
    for batch in [*batches, None]:
        for device, of_device in points.groupby("device"):
            own = of_device if batch is None else of_device[of_device.batch == batch]
            if own.empty or (batch is None and own.batch.nunique() == 1):
                continue
            x, y = _axes(of_device, limits[str(device)], height)
            marks = _trails(own, x, y, points.family) if batch is None else _dots(own, x, y, points.family)
            marks = marks.encode(opacity=theme.faded_unless(picked))
            own_zoom = alt.selection_interval(bind="scales", name=f"zoom_{device}_{batch or 'trails'}")
            marks = marks.add_params(own_zoom) if panels else marks.add_params(picked, own_zoom)
            drawn = roofline.lines(roofline.outline(limits[str(device)], x), x, y, "roof", "printed")
            levels, covered = _level_names(limits[str(device)], x, y), _covered(limits[str(device)], x, y)
            names = axes.named_points(own, "model", x, "x", y, "rate", covered) if batch else None
            layers = [layer for layer in (drawn, levels, names, marks) if layer is not None]
            title = f"{device}, " + (f"batch size {batch}" if batch else _span(own.batch))
            panels.append(alt.layer(*layers).properties(title=title, width=x.pixels, height=y.pixels))
    peaks = [
        f"that of the {device} is flat at {si(roofs[0][1].peak_flop_per_s, 'FLOP/s')} from "
        f"{intensity(roofs[0][1].ridge_flop_per_byte)} on"
        + (", with the datasheet's beside it" if any(about["printed"] for about, _ in roofs) else "")
        for device, roofs in limits.items()
    ]
    best = highest(cells, "flop_per_s")
    description = (
        f"Rooflines of {available.titles(paper, cells)} at {BASE_PRECISION} in {number(len(panels), 'panel')}: one for "
        f"each batch size that most models were measured at, and one with a line for each model through "
        f"{number(len(points), 'point')} in all. Of the measured roofs {listing(peaks)}. The fastest point is "
        f"{best.model} on the {best.device} at batch size {best.batch} with {si(best.flop_per_s, 'FLOP/s')}."
    )
    return theme.finish(alt.concat(*panels, columns=COLUMNS, spacing=12), "models-on-roof", description)


def _span(batches: pd.Series) -> str:
    return f"from batch size {batches.min()} to {batches.max()}"


def evenly(batches: list[int], most: int) -> list[int]:
    """So many of the batch sizes at most: the smallest, the largest, and some evenly from between."""
    if len(batches) <= most:
        return batches
    return [batches[round(step * (len(batches) - 1) / (most - 1))] for step in range(most)]


def _axes(points: pd.DataFrame, limits: Limits, height: float) -> tuple[LogAxis, LogAxis]:
    """Axes that hold a device's points at all batch sizes, and the ridge points and peaks of its roofs."""
    ridges = [roof.ridge_flop_per_byte for _, roof in limits if isfinite(roof.bandwidth_byte_per_s)]
    peaks = [roof.peak_flop_per_s for _, roof in limits]
    width = theme.WIDTH / 2 - 50
    title = "operational intensity by footprint"
    x = LogAxis.around([*points.x, *ridges], width, title, "FLOP/B", margins=(0.05, 0.08))
    return x, LogAxis.around(
        [*points.rate, *peaks], height, "achieved", "FLOP/s", vertical=True, margins=(0.06, ABOVE / height)
    )


def _dots(own: pd.DataFrame, x: LogAxis, y: LogAxis, families: Iterable[str]) -> alt.Chart:
    """The models at one batch size."""
    legend = alt.Legend(orient="top", columns=7)
    return alt.Chart(own).mark_point(filled=True, size=40, clip=True).encode(
        x.channel("x"), y.channel("rate"),
        color=alt.Color("family:N", scale=theme.family_colors(families), title="family", legend=legend),
        shape=alt.Shape("family:N", scale=theme.family_shapes(families), title="family", legend=legend),
        tooltip=["model", "family", "batch", "intensity", "achieved", "of attainable", "of peak"],
    )  # fmt: skip


def _trails(own: pd.DataFrame, x: LogAxis, y: LogAxis, families: Iterable[str]) -> alt.Chart:
    """A line for each model through its batch sizes, with a mark at each."""
    return alt.Chart(own[["model", "family", "batch", "x", "rate", "achieved"]]).mark_line(
        strokeWidth=1, clip=True, point=alt.OverlayMarkDef(size=9)
    ).encode(
        x.channel("x"), y.channel("rate"), detail="model:N", order="batch:Q",
        color=alt.Color("family:N", scale=theme.family_colors(families), title="family"),
        tooltip=["model", "batch", "achieved"],
    )  # fmt: skip


def _level_names(limits: Limits, x: LogAxis, y: LogAxis) -> alt.Chart:
    """The names of the levels of memory, in a row above the roofs, each from its ridge point on or as near as fits."""
    own = sorted((roof.ridge_flop_per_byte, about["roof"]) for about, roof in limits if not about["printed"])
    widths = [text_size(name, theme.LABEL_SIZE)[0] for _, name in own]
    starts = [x.pixel(ridge) for ridge, _ in own]
    places = spread(starts, max(widths[:-1], default=0) + 3, 0, x.pixels - widths[-1])
    rows = [
        {"text": name, "x": x.value(place), "y": y.value(_above(limits, y))}
        for (_, name), place in zip(own, places, strict=True)
    ]
    texts = alt.Chart(pd.DataFrame(rows)).mark_text(
        align="left", fontSize=theme.LABEL_SIZE, color=theme.INK, clip=True
    )
    return texts.encode(x.channel("x"), y.channel("y"), text="text:N")


def _above(limits: Limits, y: LogAxis) -> float:
    """The pixel at which the names of the levels of memory stand."""
    return y.pixel(max(roof.peak_flop_per_s for _, roof in limits)) - LEVELS


def _covered(limits: Limits, x: LogAxis, y: LogAxis) -> tuple[Box, ...]:
    """What names of models must not cover: the roofs, and the names of the levels of memory above them."""
    flats = [y.pixel(roof.peak_flop_per_s) for _, roof in limits]
    boxes = [Box(0, flat - 1, x.pixels, flat + 1) for flat in [*flats, _above(limits, y)]]
    for _, roof in limits:
        if isfinite(roof.bandwidth_byte_per_s):
            start, end = (
                (x.pixel(at), y.pixel(roof.attainable(at))) for at in (x.low, roof.ridge_flop_per_byte)
            )
            boxes += along(start, end)
    return tuple(boxes)


def _limits(paper: Paper, machine: Machine) -> Limits:
    """A machine's measured roofs, that over memory first, and its datasheet's, flat where no bandwidth is known."""
    roof = available.roof(machine)
    limits: Limits = [({"roof": "memory", "printed": False}, roof)]
    limits += [
        ({"roof": level.name, "printed": False}, Roof(roof.peak_flop_per_s, level.bandwidth_byte_per_s))
        for level in machine.levels[:-1]
    ]
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
