"""The figures of the chapter on GPUs that others timed."""

from dataclasses import replace
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from report import display
from report.chapters.gpus import energy, host, memory, traced
from report.chapters.gpus import interventions as changed
from report.chapters.gpus.facts import changes
from report.charts import theme
from report.charts.annotations import ONCE, covered, names, tips
from report.charts.axes import Categories, LinearAxis, LogAxis, by_color, by_shape, by_size
from report.charts.forms import dots
from report.charts.roofline import DrawnRoof, Plane
from report.paper import BASE_PRECISION, Paper, published
from report.paper.chips import short_name
from report.paper.published import SOURCE, TWINS, network_name

PHONE = 360  # pixels of a figure that a phone shows without scrolling

STREAMS = {"read": "read", "init": "write", "scale": "copy", "triad": "triad"}
"""The streams of gpu-benches by the names that they have here."""


@display.figure
def roofs(paper: Paper) -> alt.ConcatChart:
    best = display.required(published.best_timed(paper.published), SOURCE.command)
    rows, drawn = best.of_usual_size, DrawnRoof.of(best.roof)
    named = {TWINS[each]: network_name(each) for each in ("mobilenet_v2", "resnet18", "vgg16", "vit_b_16")}
    moved = (rows.whole_byte, rows.layers_byte)
    found = {bound: rows.flop / byte for bound, byte in zip(theme.BOUND_COLORS, moved, strict=True)}
    plane = Plane.over([drawn], theme.plot_width(2, unit="FLOP/s"), 200, pd.concat(found.values()), rows.flop_per_s)
    panels = []
    for bound, intensity in found.items():
        marks = rows[["flop_per_s"]].assign(
            name=rows.model.map(network_name), label=rows.model.map(named).fillna(""), intensity=intensity
        )
        labelled, places = marks[marks.label != ""], ("intensity", "flop_per_s")
        panels.append(plane.chart(
            plane.place(alt.Chart(marks).mark_point(color=theme.BOUND_COLORS[bound], size=12, opacity=0.3), *places),
            plane.place(alt.Chart(labelled).mark_point(color=theme.INK, size=30), *places),
            *plane.names(labelled, "label", *places, 30),
            title=f"{short_name(best.device)}, {bound}",
        ))  # fmt: skip
    middles = [f"{bound} {intensity.median():.0f} FLOP/B" for bound, intensity in found.items()]
    description = f"{len(rows)} networks under the roof of the {best.device}. Middle intensities: {', '.join(middles)}."
    return alt.concat(*panels, name="gpus-roofs", description=description)


@display.figure
def gains(paper: Paper) -> alt.LayerChart:
    """Draw a row for each change: eight networks in ten, half of them, the median, and the bounds' promises."""
    rows = display.required(changes(paper), SOURCE.command)
    y = Categories.steps(rows.name, 18)
    values = [1, *rows.low, *rows.high, *rows.whole.dropna(), *rows.layers.dropna()]
    x = LogAxis.around(values, pixels=theme.plot_width(left=y.room, figure=theme.HALF_WIDTH), title="times as fast")
    tooltip = [
        ("name", "change", ""), ("networks", "networks", "d"), ("low", "a tenth gains less", ".3~g"),
        ("speed", "typical gain", ".3~g"), ("high", "a tenth gains more", ".3~g"),
    ]  # fmt: skip
    promised = rows.rename(columns=dict(zip(("whole", "layers"), theme.BOUND_COLORS, strict=True)))
    promised = promised.melt("name", list(theme.BOUND_COLORS), "roofline", "promised", ignore_index=False)
    promised = promised.dropna().sort_index(kind="stable")
    layers = [
        alt.Chart(ONCE).mark_rule(color=theme.MUTED, strokeDash=theme.DASH).encode(x(1)),
        alt.Chart(rows).mark_rule(color=theme.GREY, strokeWidth=2).encode(x("low"), y("name"), x2=alt.X2("high")),
        tips(
            alt.Chart(rows).mark_rect(color=theme.GREY).encode(x("quarter"), y("name"), x2=alt.X2("three_quarters")),
            *tooltip,
        ),
        alt.Chart(rows).mark_tick(color=theme.PAPER, thickness=3, size=14).encode(x("speed"), y("name")),
    ]
    if len(promised):
        color = by_color("roofline", theme.BOUND_COLORS, title="promised by roofline")
        points = alt.Chart(promised).mark_point(shape="diamond", size=80).encode(x("promised"), y("name"), color=color)
        tooltip = [("name", "change", ""), ("roofline", "roofline", ""), ("promised", "promised gain", ".3~g")]
        layers.append(tips(points, *tooltip))
    description = "; ".join(f"{each.name}: {each.speed:.2f} times as fast" for each in rows.itertuples(index=False))
    return alt.layer(*layers, width=x.pixels, height=y.pixels, name="gpus-gains", description=description)


@display.figure
def single(paper: Paper) -> alt.ConcatChart:
    """Draw the time of one input against its FLOP, and against the operators that the network calls."""
    rows = display.required(host.singles(paper), host.COMMAND)
    y = LogAxis.around(rows.latency_s, pixels=150, title="time of one input", unit="s", vertical=True)
    panels = []
    for column, title, unit in (("flop", "FLOP of the input", "FLOP"), ("calls", "operators called", "")):
        x = LogAxis.around(rows[column], pixels=theme.plot_width(2, unit="s"), title=title, unit=unit)
        places, ends = (x(column), y("latency_s")), alt.Chart(rows.dropna(subset="latency_low_s"))
        tooltip = [("name", "network", ""), (column, title, unit or "d"), ("latency_s", "time", "s")]
        panels.append(alt.layer(
            ends.mark_rule(color=theme.GREY).encode(x(column), y("latency_low_s"), y2=alt.Y2("latency_high_s")),
            tips(alt.Chart(rows).mark_point(size=34).encode(*places), *tooltip), *names(rows, "name", *places),
            width=x.pixels, height=y.pixels,
        ))  # fmt: skip
    description = f"Time of one input in {len(rows)} networks, against their FLOP and the operators that they call."
    return alt.concat(*panels, name="gpus-single", description=description)


@display.figure
def sizes(paper: Paper) -> alt.ConcatChart:
    """Draw the layers' rates of bytes on both GPUs, and their gains from the faster memory, against a call's bytes."""
    rows = display.required(memory.layers(paper), host.COMMAND)
    pair = display.required(memory.memories(paper), host.COMMAND)
    rows = display.required(rows[rows.kind.isin(memory.STREAMED)])
    rows = rows[["network", "kind", "shape", "call_byte", "memory_share", "memory_share_other", "gain"]]
    palette = {kind: theme.LAYER_COLORS.get(kind, theme.ORANGE) for kind in memory.STREAMED}
    first, second = (short_name(card.chip) for card in pair)
    x = LogAxis.around(rows.call_byte, pixels=theme.plot_width(3, left=52), title="bytes of a call", unit="B")
    about: dict[str, Any] = {"pixels": 150, "vertical": True}
    share = LinearAxis.around([1, *rows.memory_share, *rows.memory_share_other], format="%", **about)
    gain = LinearAxis.around([1, pair.bandwidth, *rows.gain], False, 0.1, **about)
    looks = {"color": by_color("kind", palette), "shape": by_shape("kind", theme.shapes(palette))}
    tooltip = [
        ("network", "network", ""), ("kind", "kind of layer", ""), ("shape", "shapes", ""), ("call_byte", "bytes", "B"),
        ("memory_share", "of the memory on the first", ".0%"), ("memory_share_other", "on the second", ".0%"),
        ("gain", "times as fast on the second", ".2f"),
    ]  # fmt: skip
    panels = []
    for y, field, card, line, title in (
        (share, "memory_share", pair.first, 1, f"{first}: share of bandwidth"),
        (share, "memory_share_other", pair.second, 1, f"{second}: share of bandwidth"),
        (gain, "gain", pair.first, pair.bandwidth, f"Times as fast on the {second}"),
    ):
        points = alt.Chart(rows).mark_point(size=34, opacity=0.8).encode(x("call_byte"), y(field), **looks)
        size = card.roof.cache_byte
        panels.append(alt.layer(
            alt.Chart(ONCE).mark_rule(color=theme.MUTED, strokeDash=theme.DASH).encode(y(line)),
            *([alt.Chart(ONCE).mark_rule(color=theme.MUTED).encode(x(size))] if size else []),
            tips(points, *tooltip), width=x.pixels, height=y.pixels, title=title,
        ))  # fmt: skip
    description = f"Shares of the memory's bandwidth and gains of {len(rows)} layers against the bytes of a call."
    return alt.concat(*panels, columns=3, name="gpus-sizes", description=description)


@display.figure
def interventions(paper: Paper) -> alt.LayerChart:
    """Draw gains as coloured cells: kinds of layer and whole networks down, changes across; grey cells are empty."""
    shown = changed.table(paper.undisturbed)
    rows = display.required(shown.cells, host.COMMAND)
    rows = rows.assign(
        shade=np.log2(rows.gain.astype(float)).clip(-1, 1), count=rows.networks.map(str),
        text=rows.gain.map(lambda gain: f"{gain:.{2 if gain < 9.95 else 0}f}"),
    )  # fmt: skip
    every = pd.DataFrame([(row, column) for row in shown.rows for column in shown.columns], columns=["what", "change"])
    y = Categories.steps(shown.rows, 31, padding=0.06)
    x = Categories(
        names=shown.columns, pixels=theme.plot_width(left=y.room, figure=PHONE), vertical=False, padding=0.06
    )
    range_ = [theme.VERMILION, theme.PAPER, theme.BLUE]
    shade = alt.Color("shade:Q", legend=None).scale(domain=[-1, 0, 1], range=range_, interpolate="rgb")
    tooltip = [
        ("what", "what", ""), ("change", "change", ""), ("gain", "times as fast", ".3~g"),
        ("networks", "networks", "d"), ("kernels", "kernels", "d"),
    ]  # fmt: skip
    base = alt.Chart(rows).encode(x("change"), y("what"))
    ink = alt.when("abs(datum.shade) > 0.8").then(alt.value(theme.PAPER)).otherwise(alt.value(theme.INK))
    return alt.layer(
        alt.Chart(every).mark_rect(color=theme.GRID).encode(x("change"), y("what")),
        tips(base.mark_rect(stroke=theme.GRID).encode(color=shade), *tooltip),
        base.mark_text(dy=-5).encode(text="text:N", color=ink),
        base.mark_text(dy=9, fontSize=10).encode(text="count:N", color=ink),
        width=x.pixels, height=y.pixels, name="gpus-interventions",
        description="; ".join(f"{each.what}, {each.change}: {each.gain:.3g}" for each in rows.itertuples(index=False)),
    )  # fmt: skip


@display.figure
def delivered(paper: Paper) -> alt.ConcatChart:
    streams, products = paper.published.bandwidths, paper.published.products
    printed = paper.chips.drop_duplicates("chip").set_index("chip").bandwidth_byte_per_s
    streams = streams[(streams.benchmark == "gpu-stream") & streams.stream.isin(STREAMS)]
    streams = streams.assign(share=streams.byte_per_s / streams.device.map(printed), what=streams.stream.map(STREAMS))
    peaks = paper.chips.groupby(["chip", "precision"]).peak_flop_per_s.max()
    keys = pd.MultiIndex.from_frame(products[["device", "precision"]])
    products = products.assign(share=products.flop_per_s / peaks.reindex(keys).to_numpy(), what=products.precision)
    panels = []
    for rows, palette, title in (
        (streams, theme.STREAM_COLORS, "share of printed bandwidth"),
        (products, theme.colors(sorted(set(products.precision))), "share of printed peak"),
    ):
        found = rows.dropna(subset="share").sort_values("share", ascending=False).drop_duplicates(["device", "what"])
        found = display.required(found, SOURCE.command)
        found = found.assign(name=found.device.map(short_name), low=None, high=None)
        x = LinearAxis.around([1, *found.share], pixels=theme.plot_width(2, left=130), title=title, format="%")
        tooltip = [("name", "device", ""), ("what", "kind", ""), ("share", title, ".0%")]
        ends = ("share", "low", "high")
        panels.append(dots(found, "name", ends, x, "what", palette, reference=1, step=16, tooltip=tooltip))
    counts = streams.device.nunique(), products.device.nunique()
    description = "Shares that {} devices deliver in streams, {} in products.".format(*counts)
    own = alt.Resolve(scale=alt.LegendResolveMap(yOffset="independent"))  # each panel has its own series
    return alt.concat(*panels, resolve=own, name="gpus-delivered", description=description)


@display.figure
def kinds(paper: Paper) -> alt.LayerChart:
    """Draw each kind's ratio of times, second GPU over first, and the ratios of bandwidths and of peaks."""
    rows = display.required(traced.ratios(paper)).sort_values("share", ascending=False)
    rows = rows[["network", "kind", "ratio", "share", "roof_share", "roof_share_other"]]
    promised = [getattr(traced.grown(paper), each) for each in ("bandwidth_byte_per_s", "peak_flop_per_s")]
    y = Categories.steps(rows.kind, 17)
    width = theme.plot_width(left=y.room, figure=theme.HALF_WIDTH)
    x = LogAxis.around([1, *rows.ratio], pixels=width, title="time on the second over the first")
    palette = theme.colors(sorted(set(rows.network)))
    tooltip = [
        ("network", "network", ""), ("kind", "kind of layer", ""), ("ratio", "ratio of times", ".2f"),
        ("share", "share of the step on the first", ".1%"), ("roof_share", "of the roof on the first", ".0%"),
        ("roof_share_other", "of the roof on the second", ".0%"),
    ]  # fmt: skip
    points = alt.Chart(rows).mark_point(opacity=0.7).encode(x("ratio"), y("kind"), size=by_size("share", 0.6))
    ends = f"from {rows.ratio.min():.2f} to {rows.ratio.max():.2f}"
    return alt.layer(
        alt.Chart(ONCE).mark_rule(color=theme.MUTED).encode(x(1)),
        *(
            alt.Chart(ONCE).mark_rule(color=theme.MUTED, strokeDash=theme.DASH).encode(x(1 / each))
            for each in promised
        ),
        tips(points.encode(color=by_color("network", palette)), *tooltip),
        width=x.pixels, height=y.pixels, name="gpus-kinds",
        description=f"Ratios of times of {len(rows)} kinds of layer, {ends}.",
    )  # fmt: skip


@display.figure
def traced_roofs(paper: Paper) -> alt.ConcatChart:
    """Draw the kinds of layer of one network under the roofs of both GPUs, their area the share of the time."""
    rows = display.required(traced.kinds(paper))
    rows = rows[(rows.network == traced.VIDEO) & (rows.flop_per_s > 0) & (rows.share >= traced.SEEN)]
    rows = display.required(rows)
    roofs = [roof.at(traced.PRECISION) for roof in traced.roofs(paper)]
    drawn = [DrawnRoof.of(roof) for roof in roofs if roof]
    reach = [rows.intensity.min() / 2, rows.intensity.max()]
    plane = Plane.over(drawn, theme.plot_width(2, unit="FLOP/s"), 190, reach, rows.flop_per_s / 6)
    panels = []
    for chip, roof in zip(traced.GPUS, drawn, strict=True):
        of_chip, found = replace(plane, roofs=(roof,)), rows[rows.chip == chip]
        groups = of_chip.groups(found, "kind", "kind of layer", "step")
        named = of_chip.names(found, "kind", "intensity", "flop_per_s", ("share", 1.0))
        panels.append(of_chip.chart(groups, *named, title=short_name(chip)))
    description = f"Rooflines of two GPUs with {len(rows)} groups of the kernels of {traced.VIDEO}, sized by time."
    return alt.concat(*panels, name="gpus-traced-roofs", description=description)


@display.figure
def efficiency(paper: Paper) -> alt.ConcatChart:
    """Draw the FLOP that a joule buys against FLOP per byte, of networks and by the fit at the roof's speed."""
    machine = display.required(next(iter(energy.machines_with_energy(paper)), None), host.COMMAND)
    rows = display.required(energy.efficiencies(machine), host.COMMAND)
    about: dict[str, Any] = {"title": "intensity layer by layer", "unit": "FLOP/B"}
    x = LogAxis.around(rows.intensity, (0.08, 0.08), pixels=theme.plot_width(2, unit="FLOP/J"), **about)
    along = pd.Series([x.value(pixel) for pixel in range(0, int(x.pixels) + 1, 4)])
    arches = {each: energy.arch(machine, each, along) for each in (BASE_PRECISION, machine.lower_precision)}
    drawn = {precision: line for precision, line in arches.items() if line is not None}
    values = pd.concat([rows.flop_per_j, *(line.flop_per_j for line in display.required(drawn, host.COMMAND).values())])
    y = LogAxis.around(values, pixels=170, title="FLOP for a joule", unit="FLOP/J", vertical=True)
    palette, places = {"one image": theme.SKY, "a batch": theme.BLUE}, (x("intensity"), y("flop_per_j"))
    looks: Any = {"color": by_color("inputs", palette), "shape": by_shape("inputs", theme.shapes(palette))}
    tooltip = [
        ("name", "network", ""), ("batch", "batch size", "d"), ("intensity", "intensity", "FLOP/B"),
        ("flop_per_j", "FLOP for a joule", "FLOP/J"), ("input_j", "energy of an image", "J"),
    ]  # fmt: skip
    panels = []
    for precision, line in drawn.items():
        found = rows[rows.precision == precision][["inputs", *(field for field, *_ in tooltip)]]
        points = alt.Chart(found).mark_point(size=34).encode(*places, **looks)
        labelled = found.assign(label=found.name.where(found.name.isin(theme.ACCENTS), ""))
        panels.append(alt.layer(
            alt.Chart(line).mark_line(color=theme.INK, strokeWidth=1.6).encode(*places), tips(points, *tooltip),
            *names(labelled, "label", *places, covered(line, *places), 34),
            width=x.pixels, height=y.pixels, title=f"{machine.name}, {precision}",
        ))  # fmt: skip
    middles = [f"{name} {of.flop_per_j.median():.2g}" for name, of in rows.groupby("inputs")]
    description = f"FLOP for a joule of {rows.model.nunique()} networks; the middle of each: {', '.join(middles)}."
    return alt.concat(*panels, name="gpus-efficiency", description=description)
