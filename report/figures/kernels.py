"""Figures of what runs within a forward pass or a training step, kernel by kernel or operator by operator."""

from math import ceil
from typing import Any

import altair as alt
import pandas as pd

from report.analysis import available, counted_kernels, operator_shares
from report.analysis.available import or_missing
from report.analysis.operator_groups import OTHER
from report.analysis.operator_shares import CELL, GAP, PHASES
from report.charts import axes, roofline, theme
from report.charts.axes import LogAxis
from report.charts.labels import Box
from report.figures.layers import PERCENT
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.load.roofs import Roof
from report.text.frame_rows import each, highest
from report.text.quantities import intensity, listing, number, percent, si

HEIGHT = 200
LARGEST = 1200
"""The area (square pixels) of a mark that stands for the whole time."""

SMALL = 0.01
"""A group with a smaller share of a call is drawn with the other operators."""

SEEN = 0.005
"""A group with a smaller share of the time would be too small a mark to be seen."""

BYTES = {"ideal": theme.GREEN, "counted": theme.VERMILION, "unfused": theme.BLUE}
"""The ways to say how many bytes a cell moves, and their colours."""


def _cell_title(device: object, model: object, phase: object, batch: object) -> str:
    return f"{device}: {model}, {PHASES[str(phase)]} at {batch}"


def _roofs(of: Machine) -> list[tuple[dict[str, Any], Roof]]:
    """The measured roofs of a machine: over memory, and over every faster level of it."""
    roof = available.roof(of)
    faster = [(level.name, level.bandwidth_byte_per_s) for level in of.levels[:-1]]
    over = [("memory", roof.bandwidth_byte_per_s), *faster]
    return [({"roof": name}, Roof(roof.peak_flop_per_s, bandwidth)) for name, bandwidth in over]


def _axes(
    points: pd.DataFrame, roofs: list[tuple[dict[str, Any], Roof]], height: float
) -> tuple[LogAxis, LogAxis]:
    """Axes that hold a device's points, its ridge points and its peak."""
    x = LogAxis.around(
        [*points.intensity, *(roof.ridge_flop_per_byte for _, roof in roofs)], theme.WIDTH / 2 - 50,
        "operational intensity (FLOP per unfused byte)", margins=(0.06, 0.1),
    )  # fmt: skip
    rates = [*points.flop_per_s, roofs[0][1].peak_flop_per_s]
    return x, LogAxis.around(rates, height, "achieved", "FLOP/s", vertical=True, margins=(0.08, 0.1))


def _rounded(rows: pd.DataFrame) -> pd.DataFrame:
    """What a point on a roof shows: its place, and the same in words."""
    return rows.assign(
        x=[float(f"{value:.5g}") for value in rows.intensity],
        rate=[float(f"{value:.5g}") for value in rows.flop_per_s],
        intensity=[intensity(value) for value in rows.intensity],
        achieved=[si(value, "FLOP/s") for value in rows.flop_per_s],
        time=[si(value, "s") for value in rows.time_s],
    )


@or_missing
def groups_on_roof(paper: Paper) -> alt.ConcatChart:
    """Groups of operators under the roofs, their area the share of time: a panel a device and model."""

    def points(of: Machine) -> pd.DataFrame:
        available.roof(of)
        rows = operator_shares.on_roof(paper, of)
        rows = rows[rows.share >= SEEN]
        return rows.merge(operator_shares.pictured(rows), on=CELL).assign(folder=of.folder)

    rows = available.rows_of_each(paper, points)
    limits = {of.folder: _roofs(of) for of in paper.shown if of.folder in set(rows.folder)}
    picked = theme.choice("group")
    height = theme.panel_height(ceil(rows.groupby(["device", *CELL]).ngroups / 2), HEIGHT)
    panels: list[Any] = []
    for (device, folder, model, batch, phase), own in rows.groupby(["device", "folder", *CELL]):
        x, y = _axes(rows[rows.folder == folder], limits[str(folder)], height)
        shown = _rounded(own).assign(
            part=[float(f"{value:.4g}") for value in own.share], share=[percent(value) for value in own.share]
        )
        columns = ["group", "x", "rate", "part", "share", "time", "intensity", "achieved"]
        size = alt.Size(
            "part:Q", scale=alt.Scale(domain=[0, 1], range=[0, LARGEST]), title="share of time",
            legend=alt.Legend(values=[0.05, 0.25, 0.75], format=".0%", orient="top", symbolFillColor=theme.MUTED),
        )  # fmt: skip
        marks = alt.Chart(shown[columns]).mark_point(
            filled=True, stroke="#ffffff", strokeWidth=0.6, clip=True
        ).encode(
            x.channel("x"), y.channel("rate"), size=size,
            color=alt.Color(
                "group:N", scale=theme.term_colors(rows.group), title=None,
                legend=alt.Legend(orient="top", columns=5, symbolSize=60),
            ),
            opacity=alt.when(picked).then(alt.value(0.85)).otherwise(alt.value(0.1)),
            order=alt.Order("part:Q", sort="descending"),
            tooltip=["group", "time", "share", "intensity", "achieved"],
        )  # fmt: skip
        marks = marks if panels else marks.add_params(picked)
        lines = roofline.lines(roofline.outline(limits[str(folder)], x), x, y, "roof")
        title = _cell_title(device, model, phase, batch)
        panels.append(alt.layer(lines, marks).properties(title=title, width=x.pixels, height=y.pixels))
    longest = highest(rows, "share")
    description = (
        f"Rooflines of {available.titles(paper, rows)} at {BASE_PRECISION} in {number(len(panels), 'panel')}, one for "
        f"each device and model, with {number(len(rows), 'group')} of operators as marks whose area is their share of "
        f"the time. The largest is {longest.group} in {longest.model} on the {longest.device} "
        f"({percent(longest.share)} of the time at {si(longest.flop_per_s, 'FLOP/s')})."
    )
    chart = alt.concat(*panels, columns=2, spacing=12)
    return theme.finish(chart, "groups-on-roof", description)


@or_missing
def cells_on_roof(paper: Paper) -> alt.ConcatChart:
    """The whole of each profiled cell under the roofs, all FLOP over unfused bytes: a panel a device and phase."""

    def points(of: Machine) -> pd.DataFrame:
        available.roof(of)
        rows = (
            operator_shares.whole(paper, of)
            .sort_values("batch")
            .drop_duplicates(["model", "phase"], keep="last")
        )
        return rows.assign(folder=of.folder)

    rows = available.rows_of_each(paper, points)
    family = paper.workloads.drop_duplicates("model").set_index("model").family
    rows = rows.assign(family=rows.model.map(family))
    picked = theme.choice("family")
    panels: list[Any] = []
    for (device, folder, phase), own in rows.groupby(["device", "folder", "phase"]):
        (of,) = (each for each in paper.shown if each.folder == folder)
        limits = _roofs(of)
        x, y = _axes(rows[rows.folder == folder], limits, HEIGHT)
        columns = ["model", "family", "batch", "x", "rate", "intensity", "achieved", "time"]
        shown = _rounded(own.assign(time_s=own.plain_s))[columns]
        legend = alt.Legend(orient="top", columns=7)
        marks = alt.Chart(shown).mark_point(filled=True, size=40, clip=True).encode(
            x.channel("x"), y.channel("rate"), opacity=theme.faded_unless(picked),
            color=alt.Color("family:N", scale=theme.family_colors(rows.family), title="family", legend=legend),
            shape=alt.Shape("family:N", scale=theme.family_shapes(rows.family), title="family", legend=legend),
            tooltip=["model", "batch", "intensity", "achieved", "time"],
        )  # fmt: skip
        marks = marks if panels else marks.add_params(picked)
        flat = y.pixel(limits[0][1].peak_flop_per_s)
        names = axes.named_points(shown, "model", x, "x", y, "rate", (Box(0, flat - 1, x.pixels, flat + 1),))
        lines = roofline.lines(roofline.outline(limits, x), x, y, "roof")
        layers = [layer for layer in (lines, names, marks) if layer is not None]
        title = f"{device}, {PHASES[str(phase)]}"
        panels.append(alt.layer(*layers).properties(title=title, width=x.pixels, height=y.pixels))
    fastest = highest(rows, "flop_per_s")
    description = (
        f"Rooflines of {available.titles(paper, rows)} at {BASE_PRECISION} in {number(len(panels), 'panel')}, one for "
        f"each device and phase, with {number(len(rows), 'point')}: models at the largest batch size profiled. "
        f"The fastest is {fastest.model} on the {fastest.device} in {PHASES[fastest.phase]} with "
        f"{si(fastest.flop_per_s, 'FLOP/s')} at {intensity(fastest.intensity)}."
    )
    return theme.finish(alt.concat(*panels, columns=2, spacing=12), "cells-on-roof", description)


@or_missing
def shares(paper: Paper) -> alt.ConcatChart:
    """What each profiled call takes, by group of operators: a bar a model, a panel a device, phase and batch size."""
    rows = available.rows_of_each(paper, lambda of: operator_shares.parts(paper, of))
    rows = rows.assign(group=rows.group.mask((rows.part < SMALL) & (rows.group != GAP), OTHER))
    rows = rows.groupby(["device", *CELL, "group"], as_index=False)[["part", "time_s"]].sum()
    ranks = {group: rank for rank, group in enumerate(theme.TERM_COLORS)}
    bars = rows.assign(
        rank=rows.group.map(ranks),
        part=[float(f"{value:.4g}") for value in rows.part],
        time=[si(value, "s").replace("-", "−") for value in rows.time_s],
    )
    convolutions = rows[rows.group.str.contains("convolution")].groupby("model").part.sum()
    order = (
        convolutions.reindex(rows.model.unique(), fill_value=0.0).sort_values(ascending=False).index.tolist()
    )
    picked = theme.choice("group")
    panels: list[Any] = []
    groups = list(bars.groupby(["device", "phase", "batch"]))
    columns = min(len(groups), 2)
    for (device, phase, batch), own in groups:
        first = len(panels) % columns == 0
        axis = alt.Axis(
            labels=first, ticks=False, domain=False, labelPadding=4, labelFontSize=theme.LABEL_SIZE
        )
        x = alt.X(
            "part:Q", stack=True, title="share of a call under the profiler",
            scale=alt.Scale(domain=[min(0, own.part.min()), 1], nice=False),
            axis=alt.Axis(labelExpr=PERCENT, tickCount=5, grid=False),
        )  # fmt: skip
        stack = alt.Chart(own[["model", "group", "rank", "part", "time"]]).mark_bar(
            height={"band": 0.8}, stroke="#ffffff", strokeWidth=0.3, clip=True
        ).encode(
            x, alt.Y("model:N", scale=alt.Scale(domain=order), title=None, axis=axis),
            color=alt.Color(
                "group:N", scale=theme.term_colors(bars.group), title=None, legend=alt.Legend(orient="top", columns=5)
            ),
            order=alt.Order("rank:Q"), opacity=theme.faded_unless(picked), tooltip=["model", "group", "time"],
        )  # fmt: skip
        stack = stack if panels else stack.add_params(picked)
        width = theme.WIDTH / columns - 45
        title = f"{device}, {PHASES[str(phase)]} at batch size {batch}"
        panels.append(stack.properties(title=title, width=width, height=12 * len(order)))
    gap = highest(rows[rows.group == GAP], "part")
    description = (
        f"Stacked bars at {BASE_PRECISION} for {number(len(order), 'model')} in {number(len(panels), 'panel')}, one "
        "for each device, phase and batch size: the time of each group of operators, and that in which none runs, as "
        f"shares of a call under the profiler. None runs for the largest share in {gap.model} on the {gap.device} in "
        f"{PHASES[gap.phase]} at batch size {gap.batch} ({percent(max(gap.part, 0.0))})."
    )
    return theme.finish(alt.concat(*panels, columns=columns, spacing=12), "kernel-shares", description)


@or_missing
def counted_bytes(paper: Paper) -> alt.ConcatChart:
    """The bytes of each counted cell by hardware counters, between ideal and unfused ones: a panel a machine."""
    panels: list[Any] = []
    told = []
    for of in counted_kernels.machines(paper):
        cells = counted_kernels.with_bytes(paper, of)
        cells = cells[cells.dram_byte.notna()]
        rows = pd.DataFrame(
            [
                {"cell": f"{row.model}, {PHASES[row.phase]} at {row.batch}, {row.precision}", "bytes": kind,
                 "byte": float(f"{value:.5g}"), "exactly": si(value, "B")}
                for row in each(cells)
                for kind, value in zip(BYTES, (row.ideal_byte, row.dram_byte, row.unfused_byte), strict=True)
                if not pd.isna(value)
            ]
        )  # fmt: skip
        if rows.empty:
            continue
        x = LogAxis.around(rows.byte, theme.WIDTH - 160, "bytes of a call", "B", margins=(0.06, 0.06))
        base = alt.Chart(rows).encode(alt.Y("cell:N", title=None))
        span = base.mark_rule(color="#b5b5b5", strokeWidth=2).encode(
            x.channel("least"), x2="most:Q"
        ).transform_aggregate(least="min(byte)", most="max(byte)", groupby=["cell"])  # fmt: skip
        dots = base.mark_point(filled=True, size=60).encode(
            x.channel("byte"),
            color=alt.Color(
                "bytes:N", scale=alt.Scale(domain=list(BYTES), range=list(BYTES.values())), title=None,
                legend=alt.Legend(orient="top"),
            ),
            tooltip=["cell", "bytes", "exactly"],
        )  # fmt: skip
        title = available.title(of)
        height = 20 * rows.cell.nunique()
        panels.append(alt.layer(span, dots).properties(title=title, width=x.pixels, height=height))
        told.append(f"{number(rows.cell.nunique(), 'cell')} on the {title}")
    if not panels:
        raise available.DataMissingError(
            "The hardware counters that were read do not say the bytes of memory of any model that was counted; python "
            "-m measure --sections workload counts models, --sections counters --force reads the counters again."
        )
    description = (
        f"Dot plot on a logarithmic axis of the bytes of {listing(told)}: by hardware counters of memory, and, of what "
        "was asked for, ideally fused and not fused at all."
    )
    return theme.finish(alt.concat(*panels, columns=1, spacing=12), "counted-bytes", description)
