"""Figures of the chapter on utilisation: networks under the measured roofs, the gap, the allocator, the streams."""

from math import sqrt
from typing import Any

import pandas as pd

from measure.domain.names import model_name
from measure.domain.values import si
from measure.domain.words import EAGER
from report import display
from report.chapters.utilisation.facts import KEPT, base_cells, batch_sizes, gap_terms, stream_rates
from report.charts import forms, theme
from report.charts.axes import Categories, LinearAxis, LogAxis
from report.charts.marks import boxes, end_names, lines, names, points, rules, texts
from report.charts.panels import figure, panel, row
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
def roofs(paper: Paper) -> dict[str, Any]:
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
    palette = theme.accents(cells.network)
    x, y, color = (plane.x, "traffic_intensity"), (plane.y, "flop_per_s"), ("network", palette)
    tooltip = [
        ("network", "network", ""), ("flop_per_s", "performance", "FLOP/s"),
        ("traffic_intensity", "layer by layer (FLOP/B)", ".3~g"), ("compulsory_intensity", "whole (FLOP/B)", ".3~g"),
    ]  # fmt: skip
    columns = ["network", "flop_per_s", "traffic_intensity", "compulsory_intensity", "latency_s"]
    rows = cells[columns].sort_values("traffic_intensity")
    rows = rows[rows.index.isin(spread(rows, display.DRAWN).index) | rows.network.isin(theme.ACCENTS)]
    named = set(rows.network.iloc[::3]) | theme.ACCENTS.keys()
    marks = [
        rules(rows, x, y, x2="compulsory_intensity", color=color, width=0.6),
        points(rows, (plane.x, "compulsory_intensity"), y, color, hollow=True, size=28, tooltip=tooltip),
        points(rows, x, y, color, tooltip=tooltip),
        names(rows[rows.network.isin(named)], "network", x, y, tuple(plane.taken())),
    ]
    description = f"{len(rows)} networks at batch size {batch} under the measured roofs, all of them below the line."
    return figure("utilisation-roofs", description, plane.panel(*marks), legend=None)


@display.figure
def gap(paper: Paper) -> dict[str, Any]:
    """Draw each profiled latency as a bar of four terms, at the batch size of the gap."""
    machine = display.required(paper.at_hand, command("operators"))
    batch = batch_sizes(machine)[2]
    terms = gap_terms(machine)
    terms = terms[terms.batch == batch].sort_values("outside", ascending=False)
    terms = spread(display.required(terms, command("workload roofs operators")), display.DRAWN)
    outside = TERMS["outside_s"] if machine.chip_kind == "cpu" else HOST
    palette = dict(zip([*TERMS.values(), HOST], COLORS, strict=True))
    rows = [
        {
            "network": model_name(cell.model), "term": outside if column == "outside_s" else name,
            "share": getattr(cell, column) / cell.latency_s, "time_s": getattr(cell, column),
            "latency": si(cell.latency_s, "s"),
        }
        for cell in each(terms)
        for column, name in TERMS.items()
    ]  # fmt: skip
    tooltip = [("network", "network", ""), ("term", "term", ""), ("share", "share", ".0%"), ("time_s", "time", "s")]
    content = forms.stacked_bars(
        rows, "network", "term", "share", palette, note="latency", step=13, tooltip=tooltip, width=theme.HALF_WIDTH
    )
    y = Categories.steps((line["network"] for line in rows), 13)
    x = LinearAxis(low=0, high=1, pixels=content["width"], format="%")
    before = (terms.whole_s + terms.between_s) / terms.latency_s
    hatching = [
        {"network": model_name(cell.model), "at": start + 7 / x.pixels * stroke, "stroke": "/"}
        for cell, start in zip(each(terms), before, strict=True)
        for stroke in range(1, int(cell.outside * x.pixels / 7))
    ]
    content["layer"].append(texts(hatching, "stroke", (x, "at"), (y, "network"), theme.PAPER, size=12))
    description = f"Bars of four terms that sum to the latency of {len(terms)} networks at batch size {batch}."
    return figure("utilisation-gap", description, content)


@display.figure
def throughput(paper: Paper) -> dict[str, Any]:
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
    shown = sorted(dict.fromkeys(cells.network), key=lambda name: name in theme.ACCENTS)  # the coloured ones on top
    cells = cells.set_index("network").loc[shown].reset_index()[["network", "variant", "batch", "ratio"]]
    palette = theme.accents(shown)
    width = theme.plot_width(2, right=53, shared=True, figure=theme.HALF_WIDTH)  # names right of the last panel alone
    panels: list[dict[str, Any]] = []
    for variant, title in titles.items():
        rows = cells[cells.variant == variant]
        x = LogAxis.of_batches(cells.batch, width)
        about: dict[str, Any] = {"title": f"speed over batch size {small}", "vertical": True, "shown": not panels}
        y = LinearAxis.around([*cells.ratio, 1], pixels=150, **about)
        places, color = ((x, "batch"), (y, "ratio")), ("network", palette)
        tooltip = [("network", "network", ""), ("batch", "batch size", "d"), ("ratio", "ratio", ".2f")]
        marks = [rules([{}], y=(y, 1), color=theme.MUTED, dash=True), lines(rows, *places, color, "network", width=1)]
        ends = rows[rows.network.isin(theme.ACCENTS)].sort_values("batch").drop_duplicates("network", keep="last")
        marks.append(points(rows, *places, color, size=20, tooltip=tooltip))
        marks += [end_names(ends, "network", *places)] if panels else []
        panels.append(panel(marks, title))
    description = f"Throughput by batch size over that at batch size {small} for {len(shown)} networks."
    return figure("utilisation-throughput", description, row(panels), legend=None)


@display.figure
def kept(paper: Paper) -> dict[str, Any]:
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
    curve = [{"share": share, "gain": 1 / (1 - share)} for share in (x.high * step / 60 for step in range(61))]
    certain = rows.dropna(subset="speed_up_low")
    places, color = ((x, "outside"), (y, "speed_up")), ("size", theme.batches(rows.batch))
    tooltip = [
        ("network", "network", ""), ("size", "batch size", ""), ("outside", "system", ".0%"),
        ("speed_up", "gain", ".2f"),
    ]  # fmt: skip
    marks = [
        rules(certain, (x, "outside"), (y, "speed_up_low"), y2="speed_up_high", color=color, width=0.7),
        lines(curve, (x, "share"), (y, "gain"), dash=True),
        points(rows, *places, color, tooltip=tooltip),
        names(rows.nlargest(9, "outside"), "network", *places),
    ]
    description = "The more of a call the operating system takes, the more keeping memory gains."
    return figure("utilisation-kept", description, panel(marks), legend="batch size")


@display.figure
def streams(paper: Paper) -> dict[str, Any]:
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
    fields = ("kind", "rate", "low", "high")
    content = forms.dots(rows, *fields, axis, "batch", palette, reference=memory, step=26)
    description = "Bytes a second that kinds of operators move, against the bandwidth of memory as a dashed line."
    return figure("utilisation-streams", description, content, legend="batch size")


@display.figure
def sweep(paper: Paper) -> dict[str, Any]:
    machine = display.required(paper.at_hand, command("roofs"))
    found = display.required(machine.levels, command("roofs"))
    rows = sustained(machine.roof_measurements, STREAMS).sort_values("size")
    rows = rows.assign(stream=rows.roof_kernel.map(STREAMS), byte=rows["size"].astype(float))
    x = LogAxis.around(rows.byte, pixels=theme.plot_width(unit="B/s"), title="working set", unit="B")
    y = LogAxis.around(rows.byte_per_s, (0.06, 0.14), pixels=260, title="bandwidth", unit="B/s", vertical=True)
    levels = [
        {
            "name": level.name, "first": level.first_byte, "last": level.last_byte,
            "middle": sqrt(level.first_byte * level.last_byte), "top": y.value(10),
        }
        for level in found
    ]  # fmt: skip
    places, color = ((x, "byte"), (y, "byte_per_s")), ("stream", theme.STREAM_COLORS)
    tooltip = [("stream", "stream", ""), ("byte", "working set", "B"), ("byte_per_s", "bandwidth", "B/s")]
    drawn = rows[["stream", "byte", "byte_per_s"]]
    marks = [
        boxes(levels, (x, "first"), None, x2="last", color=theme.GRID, opacity=0.6),
        *(rules([{}], x=(x, float(cache.byte)), color=theme.MUTED, dash=True) for cache in machine.caches),
        lines(drawn, *places, color),
        points(drawn, *places, color, ("stream", theme.shapes(theme.STREAM_COLORS)), size=25, tooltip=tooltip),
        texts(levels, "name", (x, "middle"), (y, "top")),
    ]
    description = f"Bandwidth of {len(STREAMS)} streams falls in {len(levels)} steps as the working set grows."
    return figure("utilisation-sweep", description, panel(marks), legend="")
