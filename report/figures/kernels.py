"""Figures of what runs within a forward pass or a training step, kernel by kernel or operator by operator."""

from math import ceil
from typing import Any

import altair as alt
import pandas as pd

from measure.domain.roofs import Roofline
from report.analysis import available, counted_kernels, operator_shares
from report.analysis.long_lists import evenly, left_out
from report.analysis.operator_groups import OTHER
from report.analysis.operator_shares import CELL, GAP, PHASES
from report.charts import axes, roofline, theme
from report.charts.axes import LogAxis
from report.charts.labels import Box
from report.figures.bars import PERCENT, bar_rows, spans, stacked_bars
from report.figures.marks import color_of, controlled, family_styles, opacity_where, panel, rounded, tips
from report.figures.stand_in import OPEN_SQUARES
from report.figures.thinning import counts, covered, named, thinned
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.text.frame_rows import each, highest
from report.text.prose import intensity, listing, number, percent, si

HEIGHT = 200
LARGEST = 1200
"""The area (square pixels) of a mark that stands for the whole time."""

SMALL = 0.01
"""A group with a smaller share of a call is drawn with the other operators."""

SEEN = 0.005
"""A group with a smaller share of the time would be too small a mark to be seen."""

BYTES = {"ideal": theme.GREEN, "counted": theme.VERMILION, "unfused": theme.BLUE}
"""The ways to say how many bytes a cell moves, and their colours."""


def _roofs(machine: Machine) -> list[tuple[dict[str, Any], Roofline]]:
    """Return the measured roofs of a machine: over memory, and over every faster level of it."""
    roof = available.roof(machine)
    faster = [(level.name, level.bandwidth_byte_per_s) for level in machine.levels[:-1]]
    over = [("memory", roof.bandwidth_byte_per_s), *faster]
    return [({"roof": name}, Roofline(roof.peak_flop_per_s, bandwidth)) for name, bandwidth in over]


def _axes(points: pd.DataFrame, roofs: list[tuple[dict[str, Any], Roofline]], height: float) -> tuple[LogAxis, LogAxis]:
    """Return axes that hold a device's points, its ridge points and its peak."""
    intensities = [*points.intensity, *(roof.ridge_flop_per_byte for _, roof in roofs)]
    title = "operational intensity (FLOP per unfused byte)"
    x = LogAxis.around(intensities, theme.WIDTH / 2 - 50, title, margins=(0.06, 0.1))
    rates = [*points.flop_per_s, roofs[0][1].peak_flop_per_s]
    return x, LogAxis.around(rates, height, "achieved", "FLOP/s", vertical=True, margins=(0.08, 0.1))


def _rounded(rows: pd.DataFrame) -> pd.DataFrame:
    """Return what a point on a roof shows: its place, and the same in words."""
    return rows.assign(
        x=rounded(rows.intensity),
        rate=rounded(rows.flop_per_s),
        intensity=[intensity(value) for value in rows.intensity],
        achieved=[si(value, "FLOP/s") for value in rows.flop_per_s],
        time=[si(value, "s") for value in rows.time_s],
    )


@available.or_missing
@theme.building()
def groups_on_roof(paper: Paper) -> alt.ConcatChart:
    """Draw groups of operators under the roofs, their area the share of time: a panel a device and model."""

    def points(machine: Machine) -> pd.DataFrame:
        available.roof(machine)
        rows = operator_shares.on_roof(paper, machine)
        rows = rows[rows.share >= SEEN]
        return rows.merge(operator_shares.pictured(rows), on=CELL).assign(folder=machine.folder)

    rows = available.rows_of_each(paper, points)
    roofs = {machine.folder: _roofs(machine) for machine in paper.shown if machine.folder in set(rows.folder)}
    picked = theme.choice("group")
    color = color_of("group", theme.colors_of(rows.group, theme.TERM_COLORS), columns=3, symbolSize=60)
    height = theme.panel_height(ceil(rows.groupby(["device", *CELL]).ngroups / 2), HEIGHT)
    panels: list[Any] = []
    for (device, folder, model, batch, phase), groups in rows.groupby(["device", "folder", *CELL]):
        x, y = _axes(rows[rows.folder == folder], roofs[str(folder)], height)
        marks = controlled(_groups(groups, x, y, color, picked), panels, picked)
        lines = roofline.lines(roofline.outline(roofs[str(folder)], x), x, y, "roof")
        title = f"{device}: {model}, {PHASES[str(phase)]} at {batch}"
        panels.append(panel(x, y, lines, marks, title=title))
    longest = highest(rows, "share")
    description = (
        f"Rooflines of {available.titles(paper, rows)} at {BASE_PRECISION} in {number(len(panels), 'panel')}, one for "
        f"each device and model, with {number(len(rows), 'group')} of operators as marks whose area is their share of "
        f"the time. The largest is {longest.group} in {longest.model} on the {longest.device} "
        f"({percent(longest.share)} of the time at {si(longest.flop_per_s, 'FLOP/s')})."
    )
    return theme.finish(alt.concat(*panels, columns=2, spacing=12), "groups-on-roof", description)


def _groups(groups: pd.DataFrame, x: LogAxis, y: LogAxis, color: alt.Color, picked: alt.Parameter) -> alt.Chart:
    """Return a mark for each group of operators, its area the share of time."""
    words = [percent(value) for value in groups.share]
    shown = _rounded(groups).assign(part=rounded(groups.share, 4), share=words)
    columns = ["group", "x", "rate", "part", "share", "time", "intensity", "achieved"]
    legend = alt.Legend(values=[0.05, 0.25, 0.75], format=".0%", orient="top", symbolFillColor=theme.MUTED)
    areas = alt.Scale(domain=[0, 1], range=[0, LARGEST])
    marks = alt.Chart(shown[columns]).mark_point(filled=True, stroke="#ffffff", strokeWidth=0.6, clip=True)
    return marks.encode(
        x.channel("x"), y.channel("rate"), color, opacity=opacity_where(picked, 0.85, 0.1),
        size=alt.Size("part:Q", scale=areas, title="share of time", legend=legend),
        order=alt.Order("part:Q", sort="descending"), tooltip=tips("group", "time", "share", "intensity", "achieved"),
    )  # fmt: skip


@available.or_missing
@theme.building()
def cells_on_roof(paper: Paper) -> alt.ConcatChart:
    """Draw the whole of each profiled cell under the roofs, all FLOP over unfused bytes: a panel a device and phase."""

    def points(machine: Machine) -> pd.DataFrame:
        available.roof(machine)
        rows = operator_shares.whole(paper, machine).sort_values("batch").assign(folder=machine.folder)
        return rows.drop_duplicates(["model", "phase"], keep="last")

    families = paper.workloads.drop_duplicates("model").set_index("model").family
    rows = available.rows_of_each(paper, points)
    rows = rows.assign(family=rows.model.map(families))
    picked = theme.choice("family")
    panels: list[Any] = []
    drawn: list[pd.DataFrame] = []
    for (device, folder, phase), cells in rows.groupby(["device", "folder", "phase"]):
        (roofs,) = (_roofs(machine) for machine in paper.shown if machine.folder == folder)
        x, y = _axes(rows[rows.folder == folder], roofs, HEIGHT)
        columns = ["model", "family", "batch", "x", "rate", "intensity", "achieved", "time"]
        shown = _rounded(cells.assign(time_s=cells.plain_s))[columns]
        drawn.append(thinned(shown, x, "x", y, "rate", ("family",)))
        marks = alt.Chart(drawn[-1]).mark_point(filled=True, size=40, clip=True).encode(
            x.channel("x"), y.channel("rate"), opacity=theme.faded_unless(picked), **family_styles(rows.family),
            tooltip=tips("model", "batch", "intensity", "achieved", "time", *counts(drawn[-1])),
        )  # fmt: skip
        marks = controlled(marks, panels, picked)
        flat = y.pixel(roofs[0][1].peak_flop_per_s)
        ends = named(shown, "x", "rate")
        names = axes.named_points(ends, "model", x, "x", y, "rate", (Box(0, flat - 1, x.pixels, flat + 1),))
        lines = roofline.lines(roofline.outline(roofs, x), x, y, "roof")
        panels.append(panel(x, y, lines, names, marks, title=f"{device}, {PHASES[str(phase)]}"))
    fastest = highest(rows, "flop_per_s")
    description = (
        f"Rooflines of {available.titles(paper, rows)} at {BASE_PRECISION} in {number(len(panels), 'panel')}, one for "
        f"each device and phase, with {number(len(rows), 'point')}: models at the largest batch size profiled. "
        f"The fastest is {fastest.model} on the {fastest.device} in {PHASES[fastest.phase]} with "
        f"{si(fastest.flop_per_s, 'FLOP/s')} at {intensity(fastest.intensity)}."
    )
    chart = alt.concat(*panels, columns=2, spacing=12)
    return theme.finish(chart, "cells-on-roof", description, covered(drawn))


@available.or_missing
@theme.building()
def shares(paper: Paper) -> alt.ConcatChart:
    """Draw what a profiled call takes by group of operators: a bar a model, a panel a device, phase and batch size."""
    rows = available.rows_of_each(paper, lambda machine: operator_shares.parts(paper, machine))
    rows = rows.assign(group=rows.group.mask((rows.part < SMALL) & (rows.group != GAP), OTHER))
    rows = rows.groupby(["device", *CELL, "group"], as_index=False)[["part", "time_s"]].sum()
    bars = rows.assign(
        rank=rows.group.map(list(theme.TERM_COLORS).index),
        part=rounded(rows.part, 4),
        time=[si(value, "s").replace("-", "−") for value in rows.time_s],
    )
    convolutions = rows[rows.group.str.contains("convolution")].groupby("model").part.sum()
    work = convolutions.reindex(rows.model.unique(), fill_value=0.0)
    every = work.sort_values(ascending=False).index.tolist()
    order = evenly(every)
    bars = bars[bars.model.isin(order)]
    picked = theme.choice("group")
    color = color_of("group", theme.colors_of(bars.group, theme.TERM_COLORS), columns=5)
    axis = alt.Axis(labelExpr=PERCENT, tickCount=5, grid=False)
    groups = list(bars.groupby(["device", "phase", "batch"]))
    columns = min(len(groups), 2)
    size = {"width": theme.WIDTH / columns - 45, "height": 12 * len(order)}
    panels: list[Any] = []
    for (device, phase, batch), shown in groups:
        scale = alt.Scale(domain=[min(0, shown.part.min()), 1], nice=False)
        x = alt.X("part:Q", stack=True, title="share of a call under the profiler", scale=scale, axis=axis)
        y = bar_rows(order, labels=len(panels) % columns == 0)
        parts = shown[["model", "group", "rank", "part", "time"]]
        stack = stacked_bars(parts, x, y, color, picked, ["model", "group", "time"], clip=True)
        title = f"{device}, {PHASES[str(phase)]} at batch size {batch}"
        panels.append(controlled(stack, panels, picked).properties(title=title, **size))
    gap = highest(rows[rows.group == GAP], "part")
    description = (
        f"Stacked bars at {BASE_PRECISION} for {number(len(order), 'model')} in {number(len(panels), 'panel')}, one "
        "for each device, phase and batch size: the time of each group of operators, and that in which none runs, as "
        f"shares of a call under the profiler. None runs for the largest share in {gap.model} on the {gap.device} in "
        f"{PHASES[gap.phase]} at batch size {gap.batch} ({percent(max(gap.part, 0.0))})."
    )
    chart = alt.concat(*panels, columns=columns, spacing=12)
    return theme.finish(chart, "kernel-shares", description, left_out(order, every))


@available.or_missing
@theme.building()
def counted_bytes(paper: Paper) -> alt.ConcatChart:
    """Draw the bytes of each counted cell by hardware counters, between ideal and unfused ones: a panel a machine.

    Where no counters were read here they are those of training steps that others printed, a panel a GPU.
    """
    color = color_of("bytes", alt.Scale(domain=list(BYTES), range=list(BYTES.values())))
    panels: list[Any] = []
    drawn = []
    for title, counted, look in _counted(paper):
        rows = _bytes(counted)
        if rows.empty:
            continue
        x = LogAxis.around(rows.byte, theme.WIDTH - 160, "bytes of a call", "B", margins=(0.06, 0.06))
        base = alt.Chart(rows).encode(alt.Y("cell:N", title=None))
        dots = base.encode(x.channel("byte"), color, tooltip=tips("cell", "bytes", "exactly"))
        by_counters = alt.datum.bytes == "counted"
        asked = dots.transform_filter(~by_counters).mark_point(filled=True, size=60)
        read = dots.transform_filter(by_counters).mark_point(**look, size=60)
        cells = rows.cell.nunique()
        layers = alt.layer(spans(base, x.channel("least"), "byte", "cell"), asked, read)
        panels.append(layers.properties(title=title, width=x.pixels, height=20 * cells))
        drawn.append(f"{number(cells, 'cell')} on the {title}")
    if not panels:
        raise available.DataMissingError(
            "The hardware counters that were read do not say the bytes of memory of any model that was counted; "
            "`python -m measure --sections workload` counts models, "
            "`python -m measure --sections hardware-counters --force` reads the counters again."
        )
    description = (
        f"Dot plot on a logarithmic axis of the bytes of {listing(drawn)}: by hardware counters of memory, and, of "
        "what was asked for, ideally fused and not fused at all."
    )
    return theme.finish(alt.concat(*panels, columns=1, spacing=12), "counted-bytes", description)


def _counted(paper: Paper) -> list[tuple[str, pd.DataFrame, dict[str, Any]]]:
    """Return the title and the cells of each panel, and how bytes by counters look: open squares where others read."""
    read = available.or_missing(counted_kernels.machines)(paper)
    if not isinstance(read, available.Missing):
        return [
            (available.title(machine), counted_kernels.with_bytes(paper, machine), {"filled": True}) for machine in read
        ]
    printed = available.at_least_one(counted_kernels.printed_steps(paper), available.DataMissingError(read))
    return [
        (f"{gpu}, counters read by others ({study})", cells, OPEN_SQUARES)
        for (study, gpu), cells in printed.groupby(["study", "gpu"])
    ]


def _bytes(cells: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each of the ways in which it is known how many bytes a cell moves."""
    rows = []
    for cell in each(cells[cells.dram_byte.notna()]):
        name = f"{cell.model}, {PHASES[cell.phase]} at {cell.batch}, {cell.precision}"
        for way, value in zip(BYTES, (cell.ideal_byte, cell.dram_byte, cell.unfused_byte), strict=True):
            if not pd.isna(value):
                rows.append({"cell": name, "bytes": way, "byte": float(f"{value:.5g}"), "exactly": si(value, "B")})
    return pd.DataFrame(rows)
