"""Figures of the chapter on utilisation: networks under the measured roofs, the gap, the allocator, the streams."""

from math import sqrt
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from measure.domain.names import model_name
from measure.domain.values import si
from measure.domain.words import EAGER
from report import display
from report.chapters.utilisation.facts import KEPT, base_cells, batch_sizes, gap_terms, stream_rates
from report.charts import forms, theme
from report.charts.annotations import ONCE, covered, end_names, names, tips
from report.charts.axes import Categories, LinearAxis, LogAxis, by_color, by_shape
from report.charts.roofline import DrawnRoof, Plane
from report.options import measure_command
from report.paper import BASE_PRECISION, Paper
from report.paper.frames import each, matching, spread
from report.paper.roofs import STREAMS, sustained
from report.stats.value import median_of

TERMS = {
    "whole_s": "roof of the whole network", "between_s": "bytes between layers", "outside_s": "operating system",
    "rest_s": "code below its roof",
}  # fmt: skip
HOST = "no kernel runs"
COLORS = (*theme.BOUND_COLORS.values(), theme.VERMILION, theme.GREY, theme.ORANGE)
NAMED = {
    "convolution": "convolution", "depthwise convolution": "depthwise convolution", "matrix product": "matrix product",
    "batch norm": "normalisation", "elementwise": "activation", "pooling": "pooling",
}  # fmt: skip


def command(sections: str) -> str:
    return measure_command(f"--sections {sections}")


@display.figure
def roofs(paper: Paper) -> alt.LayerChart:
    machine = display.required(paper.at_hand, command("roofs"))
    roof, batch = machine.roof(BASE_PRECISION), batch_sizes(machine)[2]
    if roof is None or batch is None:
        raise display.Missing(command("roofs inference"))
    cells = matching(base_cells(machine), batch=batch).assign(network=lambda rows: rows.model.map(model_name))
    caches = tuple(
        (f"{level.name} {si(level.bandwidth_byte_per_s, 'B/s')}", level.bandwidth_byte_per_s)
        for level in {level.name: level for level in (*machine.levels[:1], *machine.levels[-2:-1])}.values()
    )
    peak, bandwidth = si(roof.peak_flop_per_s, "FLOP/s"), si(roof.bandwidth_byte_per_s, "B/s")
    drawn = DrawnRoof(roof, f"{BASE_PRECISION} {peak}", f"memory {bandwidth}", caches)
    intensities = [*cells.traffic_intensity, *cells.compulsory_intensity]
    plane = Plane.over([drawn], theme.plot_width(unit="FLOP/s"), 280, intensities, cells.flop_per_s)
    color = by_color("network", theme.accents(cells.network), legend=None)
    tooltip = [
        ("network", "network", ""), ("flop_per_s", "performance", "FLOP/s"),
        ("traffic_intensity", "layer by layer (FLOP/B)", ".3~g"), ("compulsory_intensity", "whole (FLOP/B)", ".3~g"),
    ]  # fmt: skip
    columns = ["network", "flop_per_s", "traffic_intensity", "compulsory_intensity", "latency_s"]
    rows = cells[columns].sort_values("traffic_intensity")
    rows = rows[rows.index.isin(spread(rows, display.DRAWN).index) | rows.network.isin(theme.ACCENTS)]
    named = set(rows.network.iloc[::3]) | theme.ACCENTS.keys()
    places = ("traffic_intensity", "flop_per_s")
    base = alt.Chart(rows).encode(color=color)
    whole = base.mark_point(filled=False, fill=theme.PAPER, strokeWidth=1.5, size=28)
    return plane.chart(
        base.mark_rule(strokeWidth=0.6).encode(
            plane.x("traffic_intensity"), plane.y("flop_per_s"), x2=alt.X2("compulsory_intensity")
        ),
        plane.place(whole, "compulsory_intensity", "flop_per_s", *tooltip),
        plane.place(base.mark_point(), *places, *tooltip),
        *plane.names(rows[rows.network.isin(named)], "network", *places),
        name="utilisation-roofs",
        description=f"{len(rows)} networks at batch size {batch} under the measured roofs, all of them below the line.",
    )  # fmt: skip


@display.figure
def gap(paper: Paper) -> alt.LayerChart:
    """Draw each profiled latency as a bar of four terms, at the batch size of the gap."""
    machine = display.required(paper.at_hand, command("operators"))
    batch = batch_sizes(machine)[2]
    terms = gap_terms(machine)
    terms = terms[terms.batch == batch].sort_values("outside", ascending=False)
    terms = spread(display.required(terms, command("workload roofs operators")), display.DRAWN)
    outside = TERMS["outside_s"] if machine.chip_kind == "cpu" else HOST
    palette = dict(zip([*TERMS.values(), HOST], COLORS, strict=True))
    rows = pd.DataFrame(
        {
            "network": model_name(cell.model), "term": outside if column == "outside_s" else name,
            "share": getattr(cell, column) / cell.latency_s, "time_s": getattr(cell, column),
            "latency": si(cell.latency_s, "s"),
        }
        for cell in each(terms)
        for column, name in TERMS.items()
    )  # fmt: skip
    tooltip = [("network", "network", ""), ("term", "term", ""), ("share", "share", ".0%"), ("time_s", "time", "s")]
    chart = forms.stacked_bars(
        rows, "network", "term", "share", palette, note="latency", step=13, tooltip=tooltip, width=theme.HALF_WIDTH,
        name="utilisation-gap",
        description=f"Bars of four terms that sum to the latency of {len(terms)} networks at batch size {batch}.",
    )  # fmt: skip
    y = Categories.steps(rows.network, 13)
    x = LinearAxis(low=0, high=1, pixels=chart.width, format="%")
    before = (terms.whole_s + terms.between_s) / terms.latency_s
    hatching = [
        {"network": model_name(cell.model), "at": start + 7 / x.pixels * stroke, "stroke": "/"}
        for cell, start in zip(each(terms), before, strict=True)
        for stroke in range(1, int(cell.outside * x.pixels / 7))
    ]
    strokes = alt.Chart(pd.DataFrame(hatching, columns=["network", "at", "stroke"])).mark_text(
        color=theme.PAPER, size=12
    )
    chart += strokes.encode(x("at"), y("network"), text=alt.Text("stroke:N"))
    return chart


@display.figure
def throughput(paper: Paper) -> alt.ConcatChart:
    machine = display.required(paper.at_hand, command("inference"))
    small = batch_sizes(machine)[1]
    titles = {EAGER: "as PyTorch comes", KEPT: "freed memory kept"}
    cells = pd.concat([base_cells(machine, variant) for variant in titles])
    own = matching(cells, batch=small or 0)[["model", "variant", "throughput_per_s"]]
    cells = cells.merge(own, on=["model", "variant"], suffixes=("", "_small"))
    if KEPT not in set(cells.variant) or cells.batch.nunique() < 2:
        raise display.Missing(command("inference --variants eager kept_memory") if machine.chip_kind == "cpu" else None)
    ratios = cells.throughput_per_s / cells.throughput_per_s_small
    cells = cells.assign(ratio=ratios, network=cells.model.map(model_name))
    counts = cells.groupby("batch").model.nunique()
    cells = cells[cells.batch.isin(counts.index[2 * counts >= counts.max()])]
    ends = matching(cells, variant=EAGER).sort_values("batch").drop_duplicates("network", keep="last")
    drawn = spread(ends.sort_values("ratio"), display.LISTED).network
    cells = cells[cells.network.isin({*drawn, *theme.ACCENTS})]
    order = sorted(dict.fromkeys(cells.network), key=lambda name: name in theme.ACCENTS)  # the coloured lines on top
    cells = cells.set_index("network").loc[order].reset_index()[["network", "variant", "batch", "ratio"]]
    color = by_color("network", theme.accents(order), legend=None)
    width = theme.plot_width(2, right=53, shared=True, figure=theme.HALF_WIDTH)  # names right of the last panel alone
    panels: list[alt.LayerChart] = []
    for variant, title in titles.items():
        rows = cells[cells.variant == variant]
        x = LogAxis.of_batches(cells.batch, width)
        about: dict[str, Any] = {"title": f"speed over batch size {small}", "vertical": True, "shown": not panels}
        y = LinearAxis.around([*cells.ratio, 1], pixels=150, **about)
        tooltip = [("network", "network", ""), ("batch", "batch size", "d"), ("ratio", "ratio", ".2f")]
        base = alt.Chart(rows).encode(x("batch"), y("ratio"), color=color)
        ends = rows[rows.network.isin(theme.ACCENTS)].sort_values("batch").drop_duplicates("network", keep="last")
        panels.append(alt.layer(
            alt.Chart(ONCE).mark_rule(color=theme.MUTED, strokeDash=theme.DASH).encode(y(1)),
            base.mark_line(strokeWidth=1).encode(detail=alt.Detail("network:N")),
            tips(base.mark_point(size=20), *tooltip),
            *(end_names(ends, "network", x("batch"), y("ratio")) if panels else []),
            title=title, width=width, height=y.pixels,
        ))  # fmt: skip
    description = f"Throughput of {len(order)} networks by batch size, relative to batch size {small}."
    return alt.concat(*panels, name="utilisation-throughput", description=description)


@display.figure
def kept(paper: Paper) -> alt.LayerChart:
    """Draw the speed gained by keeping memory against the system's share, with the gain expected of that share."""
    machine = display.required(paper.at_hand, command("inference operators"))
    gains = base_cells(machine, KEPT)[["model", "batch", "speed_up", "speed_up_low", "speed_up_high"]]
    shares = gap_terms(machine)[["model", "batch", "outside"]]
    rows = shares.merge(gains, on=["model", "batch"]).dropna(subset="speed_up")
    if rows.empty or machine.chip_kind != "cpu":
        raise display.Missing(command("inference operators"))
    rows = rows.assign(network=rows.model.map(model_name), size=rows.batch.astype(str))
    drawn = spread(rows.sort_values("outside").drop_duplicates("network"), display.LISTED).network
    rows = rows[rows.network.isin({*drawn, *rows.nlargest(9, "outside").network})]
    about: dict[str, Any] = {"title": "share of the operating system", "format": "%", "margin": 0.08}
    x = LinearAxis.around(rows.outside, pixels=theme.plot_width(figure=theme.HALF_WIDTH), **about)
    top = 1.25 * rows.speed_up.max()  # some intervals reach farther
    y = LinearAxis.around([0.8, top], pixels=140, zero=False, title="speed, memory kept", vertical=True)
    curve = pd.DataFrame({"share": np.linspace(0, x.high, 61)}).assign(gain=lambda at: 1 / (1 - at.share))
    color = by_color("size", theme.batches(rows.batch), title="batch size")
    tooltip = [
        ("network", "network", ""), ("size", "batch size", ""), ("outside", "system", ".0%"),
        ("speed_up", "gain", ".2f"),
    ]  # fmt: skip
    places = x("outside"), y("speed_up")
    certain = rows.dropna(subset="speed_up_low")
    interval = x("outside"), y("speed_up_low")
    taken = covered(certain, *interval, "speed_up_high")
    taken += covered(curve, x("share"), y("gain"))
    return alt.layer(
        alt.Chart(certain).mark_rule(strokeWidth=0.7).encode(*interval, y2=alt.Y2("speed_up_high"), color=color),
        alt.Chart(curve).mark_line(strokeDash=theme.DASH).encode(x("share"), y("gain")),
        tips(alt.Chart(rows).mark_point().encode(*places, color=color), *tooltip),
        *names(rows.nlargest(9, "outside"), "network", *places, taken),
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
