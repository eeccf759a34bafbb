"""The figures of the chapter on causes."""

from dataclasses import replace
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from report import display
from report.chapters.cause import host, memory, traced
from report.chapters.cause import interventions as changed
from report.charts import theme
from report.charts.annotations import NAMES, ONCE, covered, names, tips
from report.charts.axes import Categories, LinearAxis, LogAxis, by_color, by_shape, by_size
from report.charts.roofline import DrawnRoof, Plane
from report.options import gpu_command
from report.paper import Paper
from report.paper.chips import short_name
from report.stats.value import exact

NOTE = {"color": theme.MUTED, "fontSize": 10, "clip": False}  # names of lines


@display.figure
def interventions(paper: Paper) -> alt.ConcatChart:
    """Draw gains as coloured cells, of kinds of layer by changes and of whole networks, with the networks' number."""
    shown = changed.table(paper.undisturbed)
    panels = [
        _cells(rows, title)
        for rows, title in (
            (shown.kinds, f"Kinds of layer, {shown.gpu}, {shown.recorded}"), (shown.networks, "Whole networks")
        )
        if len(rows)
    ]  # fmt: skip
    every = [each for rows in (shown.kinds, shown.networks) for each in rows.itertuples(index=False)]
    description = "; ".join(f"{each.what}, {each.change}: {each.gain:.3g}" for each in every)
    return alt.concat(*display.required(panels, gpu_command()), name="cause-interventions", description=description)


def _cells(rows: pd.DataFrame, title: str) -> alt.LayerChart:
    rows = rows.assign(
        shade=np.log2(rows.gain.astype(float)).clip(-1, 1), count=rows.networks.map(str),
        text=rows.gain.map(lambda gain: f"{gain:.{2 if gain < 9.95 else 1}f}"),
    )  # fmt: skip
    y = Categories.steps(rows["what"], 16, padding=0.06)
    columns = tuple(dict.fromkeys(rows.change))
    x = Categories(names=columns, pixels=86 * len(columns), vertical=False, padding=0.03)
    colors = [theme.VERMILION, theme.PAPER, theme.BLUE]
    shade = alt.Color("shade:Q", legend=None).scale(domain=[-1, 0, 1], range=colors, interpolate="rgb")
    ink = alt.when("abs(datum.shade) > 0.8").then(alt.value(theme.PAPER)).otherwise(alt.value(theme.INK))
    tooltip = [
        ("what", "what", ""), ("change", "change", ""), ("gain", "times as fast", ".3~g"), ("networks", "networks", "d")
    ]  # fmt: skip
    base = alt.Chart(rows).encode(x("change"), y("what"))
    return alt.layer(
        tips(base.mark_rect(stroke=theme.GRID).encode(color=shade), *tooltip),
        base.mark_text(dx=-8).encode(text="text:N", color=ink),
        base.mark_text(dx=28, fontSize=10).encode(text="count:N", color=ink),
        width=x.pixels, height=y.pixels, title=title,
    )  # fmt: skip


@display.figure
def sizes(paper: Paper) -> alt.ConcatChart:
    """Draw the layers' rates of bytes on the first GPU, and their gains from the faster memory, by a call's bytes."""
    rows = display.required(memory.layers(paper), gpu_command())
    pair = display.required(memory.memories(paper), gpu_command())
    batch = memory.batches(rows)
    rows = display.required(rows[rows.kind.isin(memory.STREAMED)])
    rows = rows[["network", "kind", "shape", "call_byte", "memory_share", "memory_share_other", "gain"]]
    palette = {kind: theme.LAYER_COLORS.get(kind, theme.ORANGE) for kind in memory.STREAMED}
    first, second = (short_name(card.chip) for card in pair)
    x = LogAxis.around(
        rows.call_byte,
        pixels=theme.plot_width(2, left=46, figure=theme.TEXT_WIDTH - 10),
        title="bytes of a call",
        unit="B",
    )
    about: dict[str, Any] = {"pixels": 112, "vertical": True}
    share = LinearAxis.around([1, *rows.memory_share], format="%", **about)
    gain = LinearAxis.around([1, pair.bandwidth, *rows.gain], False, 0.1, **about)
    looks = {"color": by_color("kind", palette), "shape": by_shape("kind", theme.shapes(palette))}
    tooltip = [
        ("network", "network", ""), ("kind", "kind of layer", ""), ("shape", "shapes", ""), ("call_byte", "bytes", "B"),
        ("memory_share", "of the memory on the first", ".0%"), ("memory_share_other", "on the second", ".0%"),
        ("gain", "times as fast on the second", ".2f"),
    ]  # fmt: skip
    panels, size = [], pair.first.roof.cache_byte
    above, below = {"align": "right", "dx": -4, "dy": -6}, {"align": "left", "dx": 4, "dy": 7}  # where few points are
    for y, field, line, name, place, title in (
        (share, "memory_share", 1, "printed bandwidth", above, f"{first}, fp32, {batch}: share of bandwidth"),
        (gain, "gain", pair.bandwidth, "ratio of the bandwidths", below, f"Times as fast on the {second}"),
    ):
        points = alt.Chart(rows).mark_point(size=30, opacity=0.8).encode(x("call_byte"), y(field), **looks)
        note = alt.Chart(ONCE, description=NAMES).mark_text(**NOTE, **place)
        panels.append(alt.layer(
            alt.Chart(ONCE).mark_rule(color=theme.MUTED, strokeDash=theme.DASH).encode(y(line)),
            note.encode(y(line), x=alt.XValue("width" if place is above else 0), text=alt.TextValue(name)),
            *(_cache(x, size) if size else []),
            tips(points, *tooltip), width=x.pixels, height=y.pixels, title=title,
        ))  # fmt: skip
    description = f"Shares of the memory's bandwidth and gains of {len(rows)} layers against the bytes of a call."
    return alt.concat(*panels, name="cause-sizes", description=description)


def _cache(x: LogAxis, size: float) -> list[alt.Chart]:
    note = alt.Chart(ONCE, description=NAMES).mark_text(**NOTE, align="left", dx=4, dy=-6)
    return [
        alt.Chart(ONCE).mark_rule(color=theme.MUTED).encode(x(size)),
        note.encode(x(size), y=alt.YValue("height"), text=alt.TextValue(f"cache, {exact(size, 'B')}")),
    ]


@display.figure
def single(paper: Paper) -> alt.LayerChart:
    """Draw the time of one input against the operators that the network calls, its area the FLOP."""
    rows = display.required(host.singles(paper), gpu_command())
    y = LogAxis.around(rows.latency_s, (0.05, 0.1), pixels=135, title="time of one input", unit="s", vertical=True)
    width = theme.plot_width(unit="s", figure=theme.TEXT_WIDTH - 10)
    x = LogAxis.around(rows.calls, (0.05, 0.14), pixels=width, title="operators called")
    per_call = float((rows.latency_s / rows.calls).median())
    line = pd.DataFrame({"calls": [x.low, x.high], "latency_s": [x.low * per_call, x.high * per_call]})
    places, ends = (x("calls"), y("latency_s")), rows.dropna(subset="latency_low_s").assign(line="95 % interval")
    tooltip = [
        ("name", "network", ""),
        ("flop", "FLOP", "FLOP"),
        ("calls", "operators", "d"),
        ("latency_s", "time", "s"),
    ]
    most = 2 * float(rows.flop.max())
    areas = alt.Chart(rows).mark_point(opacity=0.35).encode(*places, size=by_size("flop", most))
    points = alt.Chart(rows).mark_point(size=16).encode(*places)
    return alt.layer(
        alt.Chart(line).mark_line(color=theme.MUTED, strokeDash=theme.DASH).encode(*places),
        *([_intervals(ends, x, y)] if len(ends) else []),
        tips(areas, *tooltip), tips(points, *tooltip),
        *names(rows, "name", *places, covered(line, *places), size=("flop", most)),
        width=x.pixels, height=y.pixels, title=f"{rows.machine.iloc[0]}, {rows.precision.iloc[0]}, one input",
        name="cause-single",
        description=f"Time of one input in {len(rows)} networks against the operators that they call.",
    )  # fmt: skip


def _intervals(ends: pd.DataFrame, x: LogAxis, y: LogAxis) -> alt.Chart:
    """Draw vertical lines, which only the legend explains: most data have none."""
    rules = alt.Chart(ends).mark_rule().encode(x("calls"), y("latency_low_s"), y2=alt.Y2("latency_high_s"))
    return rules.encode(color=by_color("line", dict.fromkeys(ends.line, theme.GREY)))


@display.figure
def kinds(paper: Paper) -> alt.LayerChart:
    """Draw each kind's ratio of times, second GPU over first, and the ratios of bandwidths and of peaks."""
    rows = display.required(traced.ratios(paper)).sort_values("share", ascending=False)
    rows = rows[["network", "kind", "ratio", "share", "roof_share", "roof_share_other"]]
    grown = traced.grown(paper)
    promised = [  # lines with their names, the lower ratio of times to the left
        (1 / grown.bandwidth_byte_per_s, "bandwidth", "right", -4), (1 / grown.peak_flop_per_s, "peak", "left", 4)
    ]  # fmt: skip
    y = Categories.steps(rows.kind, 15)
    width = theme.plot_width(left=y.room, figure=theme.TEXT_WIDTH - 20)
    x = LogAxis.around(
        [1, *rows.ratio], pixels=width, title=f"time, {short_name(traced.GPUS[1])} over {short_name(traced.GPUS[0])}"
    )
    palette = theme.colors(sorted(set(rows.network)))
    tooltip = [
        ("network", "network", ""), ("kind", "kind of layer", ""), ("ratio", "ratio of times", ".2f"),
        ("share", "share of the kernel time on the first", ".1%"), ("roof_share", "of the roof on the first", ".0%"),
        ("roof_share_other", "of the roof on the second", ".0%"),
    ]  # fmt: skip
    points = alt.Chart(rows).mark_point(opacity=0.7, clip=False)  # the largest are higher than a row
    points = points.encode(x("ratio"), y("kind"), size=by_size("share", 0.6))
    ends = f"from {rows.ratio.min():.2f} to {rows.ratio.max():.2f}"
    return alt.layer(
        alt.Chart(ONCE).mark_rule(color=theme.MUTED).encode(x(1)),
        *(
            part
            for at, name, align, dx in promised
            for part in (
                alt.Chart(ONCE).mark_rule(color=theme.MUTED, strokeDash=theme.DASH).encode(x(at)),
                alt.Chart(ONCE, description=NAMES)
                .mark_text(**NOTE, align=align, dx=dx)
                .encode(x(at), y=alt.YValue(8), text=alt.TextValue(name)),
            )
        ),
        tips(points.encode(color=by_color("network", palette)), *tooltip),
        width=x.pixels, height=y.pixels, name="cause-kinds",
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
        groups = of_chip.groups(found, "kind", "kind of layer", "kernel time")
        named = of_chip.names(found, "kind", "intensity", "flop_per_s", ("share", 1.0))
        panels.append(of_chip.chart(groups, *named, title=short_name(chip)))
    description = f"Rooflines of two GPUs with {len(rows)} groups of the kernels of {traced.VIDEO}, sized by time."
    return alt.concat(*panels, name="cause-traced-roofs", description=description)
