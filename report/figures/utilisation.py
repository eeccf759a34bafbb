"""Figures of achieved rates under the roofs of the machine."""

from collections.abc import Iterable
from math import ceil, inf, isfinite
from typing import Any

import altair as alt
import pandas as pd

from measure.domain.roofs import Roofline
from report.analysis import available, datasheet, elsewhere, stand_in
from report.analysis.available import Missing
from report.analysis.long_lists import evenly, left_out
from report.analysis.predictors import common_batches, comparable
from report.analysis.stand_in import StandIn
from report.charts import axes, roofline, theme
from report.charts.axes import LABEL_GAP, LogAxis
from report.charts.labels import Box
from report.figures import elsewhere as elsewhere_figures
from report.figures.bars import PERCENT, dashed_at, model_rows, spans
from report.figures.marks import controlled, family_styles, panel, rounded, styles, tips, zoom
from report.figures.stand_in import OPEN_SQUARES, title, told
from report.figures.thinning import counts, covered, named, thinned
from report.load.chips import KINDS
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.text.frame_rows import highest
from report.text.prose import intensity, listing, number, percent, si

Limits = list[tuple[dict[str, Any], Roofline]]
"""Roofs, each with the columns that describe it: ``roof``, its name, and ``printed``, whether it is a datasheet's."""

HEIGHT, COLUMNS = 250, 2
"""Of a panel, in pixels, at most; and how many panels stand beside each other."""

SLOPE = 4
"""An axis begins at the latest where a roof's slope has risen to this part of the peak, so that it is seen."""

TOOLTIP = ["model", "family", "batch", "intensity", "achieved", "of attainable", "of peak"]


@available.or_missing
@theme.building()
def models_on_roof(paper: Paper) -> alt.ConcatChart:
    """Draw achieved rate against intensity by footprint under the roofs of each machine.

    A device has a panel at the smallest and one at the largest batch size that most models were measured at, and one
    with a line for each family from the one to the other. Second stands the panel of the GPU that others timed, where
    none was measured here.
    """
    cells = available.shown_cells(paper)
    rated = [machine for machine in paper.shown if machine.roof(BASE_PRECISION)]
    limits = {KINDS[machine.chip_kind]: _limits(paper, machine) for machine in rated}
    cells = cells[cells.device.isin(list(limits))]
    if cells.empty:
        available.roof(paper.shown[0])
    points = _points(cells)
    sizes = {str(device): common_batches(shown) for device, shown in cells.groupby("device")}
    several = {device: batches for device, batches in sizes.items() if len(batches) > 1}
    asked = [
        *((device, batches[:1]) for device, batches in sizes.items()),
        *((device, batches[-1:]) for device, batches in several.items()),
        *several.items(),
    ]
    gpu = stand_in.of(paper)
    height = theme.panel_height(ceil((len(asked) + bool(gpu)) / COLUMNS), HEIGHT)
    families = {*points.family, *(gpu.cells.family if gpu else ())}
    picked = theme.choice("family")
    panels: list[Any] = []
    drawn: list[pd.DataFrame] = []
    for device, batches in asked:
        on_device, roofs = points[points.device == device], limits[device]
        x, y = _axes(on_device, roofs, height)
        names = None
        if len(batches) > 1:
            paths = _of_families(on_device)
            marks = _paths(paths, x, y, families)
            what = f"families from batch size {paths.batch.min()} to {paths.batch.max()}"
        else:
            shown = on_device[on_device.batch == batches[0]]
            drawn.append(thinned(shown, x, "x", y, "rate", ("family",)))
            marks = _dots(drawn[-1], x, y, families)
            names = axes.named_points(named(shown, "x", "rate"), "model", x, "x", y, "rate", _covered(roofs, x, y))
            what = f"batch size {batches[0]}"
        marks = marks.encode(opacity=theme.faded_unless(picked))
        marks = controlled(marks, panels, picked, zoom(f"{device}_{len(panels)}"))
        lines = roofline.lines(roofline.outline(roofs, x), x, y, "roof", "printed")
        panels.append(panel(x, y, lines, names, marks, title=f"{device}, {what}"))
    peaks = [_flat(device, roofs) for device, roofs in limits.items()]
    best = highest(cells, "flop_per_s")
    description = (
        f"Rooflines of {available.titles(paper, cells)} at {BASE_PRECISION} in {number(len(panels), 'panel')}: the "
        "models at the smallest and at the largest batch size that most were measured at, and a line for each family "
        f"from the one to the other. Of the measured roofs {listing(peaks)}. The fastest point is "
        f"{best.model} on the {best.device} at batch size {best.batch} with "
        f"{si(best.flop_per_s, 'FLOP/s')}.{told(gpu)}"
    )
    if gpu:
        panels.insert(1, _timed_by_others(gpu, families, height, picked))
    chart = alt.concat(*panels, columns=COLUMNS, spacing=12)
    return theme.finish(chart, "models-on-roof", description, covered(drawn))


@available.or_missing
@theme.building()
def overview(paper: Paper) -> alt.ConcatChart:
    """Draw the models under the measured roof of each device, at the middle one of its most common batch sizes.

    Where one device alone was measured, beside it stands the one of which most models were published, if any was.
    """
    cells = available.shown_cells(paper)
    timed = [machine for machine in paper.shown if KINDS[machine.chip_kind] in set(cells.device)]
    rated = [machine for machine in timed if machine.roof(BASE_PRECISION)]
    if not rated:
        available.roof(timed[0])
    panels, told_of = [], []
    for machine in rated:
        on_device = cells[cells.device == KINDS[machine.chip_kind]]
        batches = common_batches(on_device)
        batch = batches[len(batches) // 2]
        heading = f"{available.title(machine)}, {BASE_PRECISION}, batch size {batch}"
        panels.append(_at_batch(paper, machine, _points(on_device), batch).properties(title=heading))
        best = highest(on_device[on_device.batch == batch], "attained")
        told_of.append(f"{heading}: {best.model} comes nearest, with {percent(best.attained)} of the attainable rate")
    chart = alt.concat(*panels, columns=COLUMNS, spacing=12)
    published = available.or_missing(elsewhere.most_published)(paper)
    if len(panels) == 1 and not isinstance(published, Missing):
        device, computed, rows = published
        heading = f"{device}, {computed}, as published"
        nearest = highest(rows, "peak_share")
        chart = alt.concat(*panels, elsewhere_figures.of_device(rows, heading), columns=COLUMNS, spacing=12)
        chart = chart.resolve_scale(color="independent", shape="independent")
        told_of.append(f"{heading}: {nearest.model} has most of the peak, {percent(nearest.peak_share, 3)}")
    return theme.finish(chart, "overview", f"Rooflines with the models under them. {'; '.join(told_of)}.")


def _at_batch(paper: Paper, machine: Machine, points: pd.DataFrame, batch: int) -> Any:
    """Return the panel of a machine's models at one batch size under its roofs, on axes that hold them at all."""
    roofs = _limits(paper, machine)
    x, y = _axes(points, roofs, elsewhere_figures.HEIGHT)
    shown = points[points.batch == batch]
    marks = _dots(thinned(shown, x, "x", y, "rate", ("family",)), x, y, set(points.family), columns=3)
    names = axes.named_points(named(shown, "x", "rate"), "model", x, "x", y, "rate", _covered(roofs, x, y))
    lines = roofline.lines(roofline.outline(roofs, x), x, y, "roof", "printed")
    return panel(x, y, lines, names, marks.add_params(zoom(machine.chip_kind)))


def _timed_by_others(gpu: StandIn, families: Iterable[str], height: float, picked: alt.Parameter) -> Any:
    """Return the panel of the GPU that stands in: its models at all batch sizes, under the roof of its datasheet."""
    points = _points(gpu.cells)
    roofs: Limits = [({"roof": "datasheet", "printed": True}, gpu.roof)]
    x, y = _axes(points, roofs, height)
    marks = alt.Chart(points).mark_point(**OPEN_SQUARES, size=40, clip=True).encode(
        x.channel("x"), y.channel("rate"), opacity=theme.faded_unless(picked), tooltip=tips(*TOOLTIP),
        color=alt.Color("family:N", scale=theme.families(families)[0], title="family"),
    )  # fmt: skip
    largest = points.sort_values("batch").drop_duplicates("model", keep="last")
    names = axes.named_points(largest, "model", x, "x", y, "rate", _covered(roofs, x, y))
    drawn = roofline.lines(roofline.outline(roofs, x), x, y, "roof", "printed")
    return panel(x, y, drawn, names, marks.add_params(zoom("others")), title=title(gpu, gpu.batches))


def _flat(device: str, roofs: Limits) -> str:
    """Write where a device's measured roof is flat, and whether its datasheet's is drawn."""
    measured = roofs[0][1]
    beside = ", with the datasheet's beside it" if any(about["printed"] for about, _ in roofs) else ""
    return (
        f"that of the {device} is flat at {si(measured.peak_flop_per_s, 'FLOP/s')} from "
        f"{intensity(measured.ridge_flop_per_byte)} on{beside}"
    )


def _points(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the place of each cell, and the same in words."""
    words = {
        "of attainable": [percent(value, 3) for value in cells.attained],
        "of peak": [percent(value, 3) for value in cells.peak_share],
    }
    return cells[["model", "device", "family", "batch"]].assign(
        x=rounded(cells.footprint_intensity),
        rate=rounded(cells.flop_per_s),
        intensity=[intensity(value, digits=4) for value in cells.footprint_intensity],
        achieved=[si(value, "FLOP/s", 4) for value in cells.flop_per_s],
        **words,
    )


def _axes(points: pd.DataFrame, limits: Limits, height: float) -> tuple[LogAxis, LogAxis]:
    """Return axes that hold a device's points at all batch sizes, and the slopes and peaks of its roofs."""
    slopes = [roof.ridge_flop_per_byte / SLOPE for _, roof in limits if isfinite(roof.bandwidth_byte_per_s)]
    peaks = [roof.peak_flop_per_s for _, roof in limits]
    title = "operational intensity by footprint"
    x = LogAxis.around([*points.x, *slopes], theme.WIDTH / 2 - 50, title, "FLOP/B", margins=(0.05, 0.08))
    rates, margins = [*points.rate, *peaks], (0.06, 0.06)
    return x, LogAxis.around(rates, height, "achieved", "FLOP/s", vertical=True, margins=margins)


def _dots(points: pd.DataFrame, x: LogAxis, y: LogAxis, families: Iterable[str], columns: int = 7) -> alt.Chart:
    """Return the models at one batch size, with a legend of so many columns."""
    return alt.Chart(points).mark_point(filled=True, size=40, clip=True).encode(
        x.channel("x"), y.channel("rate"), **family_styles(families, columns=columns),
        tooltip=tips(*TOOLTIP, *counts(points)),
    )  # fmt: skip


def _paths(points: pd.DataFrame, x: LogAxis, y: LogAxis, families: Iterable[str]) -> alt.Chart:
    """Return a line for each family through its batch sizes, with a mark at each."""
    return alt.Chart(points).mark_line(strokeWidth=1.5, clip=True, point=alt.OverlayMarkDef(size=24)).encode(
        x.channel("x"), y.channel("rate"), alt.Order("batch:Q"),
        color=alt.Color("family:N", scale=theme.families(families)[0], title="family"),
        tooltip=tips("family", "models", "batch", "achieved"),
    )  # fmt: skip


def _of_families(points: pd.DataFrame) -> pd.DataFrame:
    """Return the median place of each family at each batch size, of models that all of them have."""
    places = comparable(points).groupby(["family", "batch"])
    found = places.agg(x=("x", "median"), rate=("rate", "median"), models=("model", "nunique")).reset_index()
    return found.assign(achieved=[si(rate, "FLOP/s", 4) for rate in found.rate])


def _covered(limits: Limits, x: LogAxis, y: LogAxis) -> tuple[Box, ...]:
    """Return what names of models must not cover: the roofs."""
    return tuple(roofline.room((roof for _, roof in limits), x, y))


def _limits(paper: Paper, machine: Machine) -> Limits:
    """Return a machine's measured roof over its memory, and its datasheet's, flat without a bandwidth."""
    limits: Limits = [({"roof": "measured", "printed": False}, available.roof(machine))]
    printed = datasheet.roof(paper, machine, BASE_PRECISION)
    if printed:
        bandwidth = inf if printed.bandwidth_byte_per_s is None else printed.bandwidth_byte_per_s
        limits.append(({"roof": "datasheet", "printed": True}, Roofline(printed.peak_flop_per_s, bandwidth)))
    return limits


@available.or_missing
@theme.building()
def attained(paper: Paper) -> alt.ConcatChart:
    """Draw the achieved share of the attainable rate: a row a model, a mark a batch size, a panel a precision.

    The last panel is of the GPU that others timed, where none was measured here.
    """
    cells = available.shown_cells(paper, None)
    if cells.attained.isna().all():
        available.roof(paper.shown[0], cells.iloc[0].precision)
    cells = cells[cells.attained.notna()]
    gpu = stand_in.of(paper)
    points = pd.concat(map(_shares, [cells, gpu.cells] if gpu else [cells]))
    every = points.groupby("model").share.max().sort_values(ascending=False).index.tolist()
    order = evenly(every)
    points = points[points.model.isin(order)]
    scale = alt.Scale(domain=[0, max(1.05, 1.05 * points.share.max())], nice=False)
    heading = "achieved share of the attainable rate"
    axis = alt.Axis(labelExpr=PERCENT, labelOverlap="greedy", labelSeparation=LABEL_GAP)
    batches = sorted(cells.batch.unique())
    style = styles("batch", theme.batch_colors(batches), theme.batch_shapes(batches), title="batch size")
    picked = theme.choice("batch")
    ranked = points.assign(
        theirs=points.device == (gpu.device if gpu else ""),  # what was measured here comes first,
        rank=points.precision != BASE_PRECISION,  # and of it the base precision
    )
    groups = list(ranked.groupby(["theirs", "device", "rank", "precision"]))
    columns = min(len(groups), 2)
    panels: list[Any] = []
    for (theirs, device, _, precision), shown in groups:
        models = [model for model in order if model in set(shown.model)] if theirs else order
        base = alt.Chart(shown.drop(columns=["theirs", "rank"])).encode(model_rows(models, models, grid=True))
        look: dict[str, Any] = OPEN_SQUARES if theirs else {"filled": True}
        plain = {"shape": alt.value("square"), "color": alt.value(theme.INK)} if theirs else {}
        dots = base.mark_point(**look, size=52).encode(
            alt.X("share:Q", scale=scale, title=heading, axis=axis), **style | plain,
            opacity=theme.faded_unless(picked),
            tooltip=tips("model", "precision", "batch", "share of attainable", "share of peak", "achieved"),
        )  # fmt: skip
        span = spans(base, alt.X("least:Q", scale=scale), "share", "model")
        layers = alt.layer(span, dashed_at([1], "share", scale), controlled(dots, panels, picked))
        named = title(gpu, f"{precision}, {gpu.batches}") if gpu and theirs else f"{device}, {precision}"
        panels.append(layers.properties(title=named, width=theme.WIDTH / columns - 105, height=14 * len(models)))
    best = highest(cells, "attained")
    description = (
        f"Dot plot of the achieved share of the attainable rate for {number(cells.model.nunique(), 'model')} on "
        f"{available.titles(paper, cells)}, a mark for each batch size. The highest share is {percent(best.attained)} "
        f"({best.model} on the {best.device} at batch size {best.batch}, {best.precision}).{told(gpu)}"
    )
    chart = alt.concat(*panels, columns=columns, spacing=14)
    return theme.finish(chart, "attained", description, left_out(order, every))


def _shares(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the share of attainable rate and peak that each cell achieves."""
    words = {
        "share of attainable": [percent(value, 4) for value in cells.attained],
        "share of peak": [percent(value, 4) for value in cells.peak_share],
        "achieved": [si(value, "FLOP/s", 4) for value in cells.flop_per_s],
    }
    return cells[["model", "device", "batch", "precision"]].assign(share=rounded(cells.attained, 6), **words)
