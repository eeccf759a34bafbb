"""Figures of the chapter on utilisation: networks under the measured roofs, the gap, the allocator, the streams."""

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from measure.domain.names import model_name
from measure.domain.roofs import Roofline
from measure.domain.values import si
from measure.domain.words import EAGER
from report import display
from report.chapters.utilisation.gap import (
    KEPT,
    base_cells,
    batch_sizes,
    batching_of,
    devices,
    gap_terms,
    kept_terms,
    kernel_terms,
    short_name,
    shown_batches,
    stream_rates,
)
from report.charts import forms, theme
from report.charts.annotations import NAMES, ONCE, covered, names, tips
from report.charts.axes import Categories, LinearAxis, LogAxis, by_color, by_shape, longest
from report.charts.labels import Box, text_size
from report.charts.roofline import DrawnRoof, Plane
from report.options import measure_command
from report.paper import BASE_PRECISION, Machine, Paper
from report.paper.frames import each, spread
from report.paper.roofs import STREAMS, sustained
from report.stats.value import median_of

TERMS = {
    "whole_s": "whole network's bound", "between_s": "bytes between layers", "outside_s": "operating system",
    "rest_s": "code below its roof",
}  # fmt: skip
HOST = "no kernel runs"
COLORS = dict(zip(
    (*list(TERMS.values())[:3], HOST, TERMS["rest_s"]),
    (*theme.BOUND_COLORS.values(), theme.VERMILION, theme.ORANGE, theme.GREY), strict=True,
))  # fmt: skip
NAMED = {
    "convolution": "convolution", "depthwise convolution": "depthwise convolution", "matrix product": "matrix product",
    "batch norm": "normalisation", "elementwise": "activation", "pooling": "pooling",
}  # fmt: skip
DEFAULT, WITH_KEPT = "default", "freed memory kept"
STEP = 13  # pixels of a row
PLANE = 102  # pixels of a plane's height
FEW = 10  # the most bars of a device
NAMES_KEPT = 4  # the most networks with a name by their gain


def command(sections: str) -> str:
    return measure_command(f"--sections {sections}")


@display.figure
def roofs(paper: Paper) -> alt.ConcatChart:
    """Draw a row of planes for the processor and one for the GPU: a plane for each batch size, all over one axis."""
    rows = [(machine, cells) for machine in devices(paper) if machine is not None and len(cells := _marks(machine))]
    machines = [machine for machine, _ in display.required(rows, command("roofs inference"))]
    ridges = [roof.ridge_flop_per_byte for machine in machines for roof in _found(machine).values()]
    x = LogAxis.around(
        [min(ridges) / 14, 3 * max(ridges), *pd.concat([cells for _, cells in rows]).traffic_intensity], (0.02, 0.02),
        pixels=theme.plot_width(3, unit="FLOP/s", shared=True), title="intensity, layer by layer", unit="FLOP/B",
    )  # fmt: skip
    columns = max(cells.batch.nunique() for _, cells in rows)
    panels: list[alt.LayerChart] = []
    for at, (machine, cells) in enumerate(rows):
        below = rows[at + 1][1].batch.nunique() if rows[at + 1 :] else 0
        drawn = _planes(machine, cells, x, below)
        panels += [*drawn, *[_blank(drawn[0])] * (columns - len(drawn))]
    named = {panel.title for panel in panels if isinstance(panel.title, str)}
    description = f"Networks under measured roofs, layer by layer: {'; '.join(sorted(named))}."
    return alt.concat(*panels, columns=columns, name="utilisation-roofs", description=description)


def _blank(panel: alt.LayerChart) -> alt.LayerChart:
    """Return a panel without anything, as large as another."""
    text = alt.Chart(ONCE).mark_text(text="")
    return alt.layer(text, width=panel.width, height=panel.height, view=alt.ViewBackground(stroke=None))


def _found(machine: Machine) -> dict[str, Roofline]:
    """Return the measured roofs by precision, the base precision first."""
    return {each: roof for each in (BASE_PRECISION, machine.lower_precision) if (roof := machine.roof(each))}


def _marks(machine: Machine) -> pd.DataFrame:
    """Return the cells to draw at the batch sizes shown: those of each precision with a roof."""
    cells = pd.concat([base_cells(machine, EAGER, each) for each in _found(machine)] or [machine.cells[:0]])
    cells = cells[cells.operator_bound_s.notna() & cells.batch.isin(shown_batches(machine))]
    cells = cells.assign(network=cells.model.map(model_name), share=cells.operator_bound_s / cells.latency_s)
    order = cells.sort_values("traffic_intensity").drop_duplicates("network")
    return cells[cells.network.isin({*spread(order, display.DRAWN).network, *theme.ACCENTS})]


def _planes(machine: Machine, cells: pd.DataFrame, x: LogAxis, below: int) -> list[alt.LayerChart]:
    """Draw a plane for each batch size, with a mark for each network and precision.

    The first plane names the roofs. So many have another plane ``below``, which shows the horizontal axis of both.
    """
    roofs = _found(machine)
    found = [*roofs.values()]
    peaks = pd.DataFrame(
        {"text": f"{name}: {si(roof.peak_flop_per_s, '')}".strip(), "ridge": roof.ridge_flop_per_byte,
         "peak": roof.peak_flop_per_s}
        for name, roof in roofs.items()
    )  # fmt: skip
    y = LogAxis.around(
        [2.2 * peaks.peak.max(), *cells.flop_per_s], (0.06, 0.01), pixels=PLANE, title="performance", unit="FLOP/s",
        vertical=True,
    )  # fmt: skip
    memory = si(machine.roofs.bandwidth_byte_per_s.iloc[0], "B/s")
    panels: list[alt.LayerChart] = []
    for batch, rows in cells.groupby("batch"):
        first = not panels
        # Spaces tell the lines of the roofs apart
        drawn = tuple(DrawnRoof(roof, " " * at, memory if first and not at else "") for at, roof in enumerate(found))
        plane = Plane(drawn, replace(x, shown=len(panels) >= below), replace(y, shown=first))
        ran = " and ".join(each for each in roofs if each in set(rows.precision))
        heading = _heading(machine, f"batch {batch}, {ran}", first, x)
        panels.append(_plane(plane, peaks if first else peaks[:0], rows, heading))
    return panels


def _heading(machine: Machine, about: str, is_first: bool, x: LogAxis) -> str:
    """Return the title of a panel with as much of the device's name as has room. The first panel has most."""
    room = x.pixels + theme.GAP + (theme.FULL_WIDTH - 3 * (x.pixels + theme.GAP) if is_first else 0)
    titles = [f"{machine.name}, {about}"] * is_first + [f"{short_name(machine)}, {about}", about]
    return next((each for each in titles if theme.text_width(each, theme.FONT_SIZE, "bold") <= room), about)


def _plane(plane: Plane, peaks: pd.DataFrame, rows: pd.DataFrame, heading: str) -> alt.LayerChart:
    """Draw networks on a plane. Named are the nearest and the farthest from their bound.

    The names of the ``peaks`` are left of their ridges, where no mark can be.
    """
    looks = dict(zip((BASE_PRECISION, "bf16", "fp16"), (theme.BLUE, theme.VERMILION, theme.PURPLE), strict=True))
    tooltip = [
        ("network", "network", ""), ("precision", "precision", ""), ("flop_per_s", "performance", "FLOP/s"),
        ("traffic_intensity", "intensity, layer by layer", "FLOP/B"), ("share", "bound over latency", ".0%"),
    ]  # fmt: skip
    places = ("traffic_intensity", "flop_per_s")
    rows = rows[[field for field, *_ in tooltip]]
    marks = alt.Chart(rows).mark_point(size=28, opacity=0.75)
    marks = marks.encode(color=by_color("precision", looks), shape=by_shape("precision", theme.shapes(looks)))
    ends = rows.sort_values("share").iloc[[0, -1]]
    across, up = plane.x(places[0]), plane.y(places[1])
    roofs = alt.Chart(peaks, description=NAMES).mark_text(align="right", baseline="bottom", dx=-3, dy=2)
    taken = [*plane.taken(), *_boxes(rows.drop(ends.index), across, up)]
    for peak in each(peaks):
        width, height = text_size(peak.text, theme.LABEL_SIZE)
        right, bottom = plane.x.pixel(peak.ridge), plane.y.pixel(peak.peak)
        taken.append(Box(right - width - 6, bottom - height - 4, right, bottom))
    named = names(ends, "network", across, up, taken)
    return plane.chart(
        roofs.encode(plane.x("ridge"), plane.y("peak"), text=alt.Text("text:N")),
        plane.place(marks, *places, *tooltip), *named, title=heading, has_regimes=False,
    )  # fmt: skip


def _boxes(rows: pd.DataFrame, x: Any, y: Any, half: float = 4) -> list[Box]:
    """Return the boxes of marks, which names may not cover."""
    places = zip(rows[x["field"]].map(x["scale"].axis.pixel), rows[y["field"]].map(y["scale"].axis.pixel), strict=True)
    return [Box(at - half, down - half, at + half, down + half) for at, down in places]


@display.figure
def gap(paper: Paper, everything: bool = False) -> alt.ConcatChart:
    """Draw profiled latencies as bars of four terms: on the processor at the batch size of the gap, and on the GPU."""
    processor, gpu = devices(paper)
    found: list[tuple[Machine, pd.DataFrame]] = []
    if processor is not None:
        terms = gap_terms(processor)
        found.append((processor, terms[terms.batch == batch_sizes(processor)[2]]))
    if gpu is not None:
        precisions = dict.fromkeys((BASE_PRECISION, gpu.lower_precision))
        found.append((gpu, pd.concat([kernel_terms(gpu, each) for each in precisions])))
    found = [(machine, _drawn(terms, display.DRAWN if everything else FEW)) for machine, terms in found]
    found = display.required([each for each in found if len(each[1])], command("workload roofs operators"))
    room = max(longest(list(_names(terms)), theme.TICK_SIZE) + 12 for _, terms in found)
    width = theme.plot_width(2, left=room, right=58)
    panels = [_bars(machine.name, machine.chip_kind == "cpu", terms, width) for machine, terms in found]
    counts = " and ".join(f"{len(terms)} calls on the {machine.name}" for machine, terms in found)
    return alt.concat(
        *panels,
        name=f"utilisation-gap{'-all' if everything else ''}",
        description=f"Bars of four terms that sum to the latency of {counts}.",
    )


def _drawn(terms: pd.DataFrame, most: int) -> pd.DataFrame:
    """Return at most so many rows by their third term: the networks of the puzzle, and others at even steps.

    Networks that beat their bound have no terms.
    """
    terms = terms[terms.operator_bound_s <= terms.latency_s]
    terms = terms.sort_values("outside", ascending=False, ignore_index=True)
    is_named = terms.model.map(model_name).isin(theme.ACCENTS)
    others = spread(terms[~is_named], most - int(is_named.sum()))
    return terms[is_named | terms.index.isin(others.index)]


def _names(terms: pd.DataFrame) -> "pd.Series[str]":
    """Name profiled cells by network, and by precision if there are several."""
    several = terms.precision.nunique() > 1
    return terms.model.map(model_name) + (", " + terms.precision if several else "")


def _bars(heading: str, is_processor: bool, terms: pd.DataFrame, width: float) -> alt.LayerChart:
    terms = terms.assign(network=_names(terms))
    outside = TERMS["outside_s"] if is_processor else HOST
    rows = pd.DataFrame(
        {
            "network": cell.network, "batch": cell.batch, "term": outside if column == "outside_s" else name,
            "share": getattr(cell, column) / cell.latency_s, "time_s": getattr(cell, column),
            "latency": si(cell.latency_s, "s"),
        }
        for cell in each(terms)
        for column, name in TERMS.items()
    )  # fmt: skip
    tooltip = [
        ("network", "network", ""), ("batch", "batch size", "d"), ("term", "term", ""), ("share", "share", ".0%"),
        ("time_s", "time", "s"),
    ]  # fmt: skip
    x = LinearAxis(low=0, high=1, pixels=width, format="%")
    sizes = ", ".join(map(str, sorted(set(terms.batch))))
    chart = forms.stacked_bars(
        rows, "network", "term", "share", COLORS, x, note="latency", step=STEP, tooltip=tooltip,
        title=f"{heading}, batch {sizes}",
    )  # fmt: skip
    y = Categories.steps(rows.network, STEP)
    before = (terms.whole_s + terms.between_s) / terms.latency_s
    hatching = [
        {"network": cell.network, "at": start + 7 / x.pixels * stroke, "stroke": "/"}
        for cell, start in zip(each(terms), before, strict=True)
        for stroke in range(1, int(cell.outside * x.pixels / 7))
    ]
    strokes = alt.Chart(pd.DataFrame(hatching, columns=["network", "at", "stroke"])).mark_text(
        color=theme.PAPER, size=12
    )
    chart += strokes.encode(x("at"), y("network"), text=alt.Text("stroke:N"))
    return chart


@display.figure
def throughput(paper: Paper) -> alt.LayerChart:
    """Draw what a larger batch does to each network's throughput, by default and with freed memory kept."""
    machine = display.required(paper.at_hand, command("inference"))
    _, small, large = batch_sizes(machine)
    ratios = {name: batching_of(machine, variant, small, large) for name, variant in
              ((DEFAULT, EAGER), (WITH_KEPT, KEPT))}  # fmt: skip
    if ratios[WITH_KEPT].empty:
        raise display.Missing(command("inference --variants eager kept_memory") if machine.chip_kind == "cpu" else None)
    rows = pd.DataFrame(ratios).dropna().sort_values(DEFAULT)
    rows = spread(rows, display.DRAWN).rename(index=model_name).rename_axis("network").reset_index()
    y = Categories.steps(rows.network, STEP)
    x = LinearAxis.around(
        [*rows[DEFAULT], *rows[WITH_KEPT], 1], zero=False, title=f"throughput, batch {large} over {small}",
        pixels=theme.plot_width(left=y.room, figure=theme.HALF_WIDTH),
    )  # fmt: skip
    long = rows.melt("network", list(ratios), "memory", "ratio")
    looks = dict(zip(ratios, (theme.VERMILION, theme.BLUE), strict=True))
    points = alt.Chart(long).mark_point().encode(
        x("ratio"), y("network"), color=by_color("memory", looks, title="memory"),
        shape=by_shape("memory", theme.shapes(looks)),
    )  # fmt: skip
    return alt.layer(
        alt.Chart(ONCE).mark_rule(color=theme.MUTED, strokeDash=theme.DASH).encode(x(1)),
        alt.Chart(rows).mark_rule(color=theme.GREY).encode(x(DEFAULT), y("network"), x2=alt.X2(WITH_KEPT)),
        tips(points, ("network", "network", ""), ("memory", "memory", ""), ("ratio", "ratio", ".2f")),
        width=x.pixels, height=y.pixels, name="utilisation-throughput",
        description=f"Throughput of {len(rows)} networks at batch size {large} over batch size {small}, both ways.",
    )  # fmt: skip


@display.figure
def kept(paper: Paper) -> alt.LayerChart:
    """Draw the speed gained by keeping memory against the system's share, with the gain expected of that share."""
    machine = display.required(paper.at_hand, command("inference operators"))
    rows = kept_terms(machine)
    if rows.empty or machine.chip_kind != "cpu":
        raise display.Missing(command("inference operators"))
    rows = rows.assign(network=rows.model.map(model_name), size=rows.batch.astype(str))
    large = batch_sizes(machine)[2]
    drawn = spread(rows.sort_values("outside").drop_duplicates("network"), display.LISTED).network
    rows = rows[rows.network.isin(drawn)]
    certain = rows[rows.batch == large].dropna(subset="speed_up_low")
    about: dict[str, Any] = {"title": "share of the operating system", "format": "%"}
    x = LinearAxis.around(
        [*rows.outside, 1.15 * rows.outside.max()], pixels=theme.plot_width(figure=theme.HALF_WIDTH), **about
    )
    ends = [*rows.speed_up, *certain.speed_up_low, *certain.speed_up_high]
    y = LinearAxis.around(ends, pixels=115, zero=False, title="speed, memory kept", vertical=True)
    curve = pd.DataFrame({"share": np.linspace(0, x.high, 61)}).assign(gain=lambda at: 1 / (1 - at.share))
    curve = curve[curve.gain <= y.high]
    looks = theme.batches(rows.batch)
    color, shape = by_color("size", looks, title="batch size"), by_shape("size", theme.shapes(looks))
    tooltip = [
        ("network", "network", ""), ("size", "batch size", ""), ("outside", "system", ".0%"),
        ("speed_up", "gain", ".2f"), ("expected", "expected", ".2f"),
    ]  # fmt: skip
    places, interval = (x("outside"), y("speed_up")), (x("outside"), y("speed_up_low"))
    named = rows[rows.batch == large].nlargest(NAMES_KEPT, "outside")
    taken: Sequence[Box] = [
        *covered(certain, *interval, "speed_up_high"), *covered(curve, x("share"), y("gain")),
        *_boxes(rows.drop(named.index), *places),
    ]  # fmt: skip
    points = alt.Chart(rows).mark_point(size=36).encode(*places, color=color, shape=shape)
    return alt.layer(
        alt.Chart(certain).mark_rule(strokeWidth=0.7).encode(*interval, y2=alt.Y2("speed_up_high"), color=color),
        alt.Chart(curve).mark_line(strokeDash=theme.DASH).encode(x("share"), y("gain")),
        tips(points, *tooltip),
        *names(named, "network", *places, taken),
        width=x.pixels, height=y.pixels, name="utilisation-kept",
        description="The more of a call the operating system takes, the more keeping memory gains.",
    )  # fmt: skip


@display.figure
def streams(paper: Paper) -> alt.LayerChart:
    machine = display.required(paper.at_hand, command("operators"))
    roof, (first, _, large) = machine.roof(BASE_PRECISION), batch_sizes(machine)
    moved = [stream_rates(paper, machine, batch) for batch in {first, large} if batch]
    rates = pd.concat([rates[rates.group.isin(NAMED)] for rates in moved]) if moved else pd.DataFrame()
    if rates.empty or roof is None:
        raise display.Missing(command("workload roofs operators"))
    rows: list[dict[str, Any]] = []
    for (group, batch), found in rates.groupby([rates.group.map(NAMED), "batch"]):
        value = median_of(found.byte_per_s, "B/s")
        rows.append({
            "kind": group, "batch": str(batch), "rate": value.number, "low": value.low, "high": value.high,
            "networks": len(found),
        })  # fmt: skip
    rows.sort(key=lambda line: ([*NAMED.values()].index(line["kind"]), int(line["batch"])))
    ends = [number for line in rows for number in (line["rate"], line["low"], line["high"]) if number]
    room = Categories.steps(line["kind"] for line in rows).room
    memory = roof.bandwidth_byte_per_s
    axis = LogAxis.around([*ends, memory], pixels=theme.plot_width(left=room), title="bytes moved", unit="B/s")
    palette = theme.batches(int(line["batch"]) for line in rows)
    return forms.dots(
        pd.DataFrame(rows), "kind", ("rate", "low", "high"), axis, "batch", palette, reference=memory, step=26,
        legend="batch size", name="utilisation-streams",
        description="Bytes a second that kinds of operators move, against the bandwidth of memory as a dashed line.",
    )  # fmt: skip


@display.figure
def sweep(paper: Paper) -> alt.LayerChart:
    machine = display.required(paper.at_hand, command("roofs"))
    found = display.required(machine.levels, command("roofs"))
    rows = sustained(machine.roof_measurements, STREAMS).sort_values("size")
    rows = rows.assign(stream=rows.roof_kernel.map(STREAMS), byte=rows["size"].astype(float))
    x = LogAxis.around(rows.byte, pixels=theme.plot_width(unit="B/s"), title="working set", unit="B")
    y = LogAxis.around(rows.byte_per_s, (0.06, 0.14), pixels=260, title="bandwidth", unit="B/s", vertical=True)
    levels = pd.DataFrame(
        {
            "name": level.name, "first": level.first_byte, "last": level.last_byte,
            "middle": sqrt(level.first_byte * level.last_byte), "top": y.value(10),
        }
        for level in found
    )  # fmt: skip
    tooltip = [("stream", "stream", ""), ("byte", "working set", "B"), ("byte_per_s", "bandwidth", "B/s")]
    drawn = alt.Chart(rows[["stream", "byte", "byte_per_s"]])
    drawn = drawn.encode(x("byte"), y("byte_per_s"), color=by_color("stream", theme.STREAM_COLORS))
    points = drawn.mark_point(size=25).encode(shape=by_shape("stream", theme.shapes(theme.STREAM_COLORS)))
    return alt.layer(
        alt.Chart(levels).mark_rect(color=theme.GRID, opacity=0.6).encode(x("first"), x2=alt.X2("last")),
        *(
            alt.Chart(ONCE).mark_rule(color=theme.MUTED, strokeDash=theme.DASH).encode(x(float(cache.byte)))
            for cache in machine.caches
        ),
        drawn.mark_line(), tips(points, *tooltip),
        alt.Chart(levels).mark_text().encode(x("middle"), y("top"), text=alt.Text("name:N")),
        width=x.pixels, height=y.pixels, name="utilisation-sweep",
        description=f"Bandwidth of {len(STREAMS)} streams falls in {len(levels)} steps as the working set grows.",
    )  # fmt: skip
