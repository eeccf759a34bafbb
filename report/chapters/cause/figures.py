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
from report.charts.annotations import ONCE, names, tips
from report.charts.axes import Categories, LinearAxis, LogAxis, by_color, by_shape, by_size
from report.charts.roofline import DrawnRoof, Plane
from report.options import gpu_command
from report.paper import Paper
from report.paper.chips import short_name

PHONE = 360  # pixels of a figure that a phone shows without scrolling


@display.figure
def interventions(paper: Paper) -> alt.LayerChart:
    """Draw gains as coloured cells: kinds of layer and whole networks down, changes across; grey cells are empty."""
    shown = changed.table(paper.undisturbed)
    rows = display.required(shown.cells, gpu_command())
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
        width=x.pixels, height=y.pixels, name="cause-interventions",
        description="; ".join(f"{each.what}, {each.change}: {each.gain:.3g}" for each in rows.itertuples(index=False)),
    )  # fmt: skip


@display.figure
def sizes(paper: Paper) -> alt.ConcatChart:
    """Draw the layers' rates of bytes on both GPUs, and their gains from the faster memory, against a call's bytes."""
    rows = display.required(memory.layers(paper), gpu_command())
    pair = display.required(memory.memories(paper), gpu_command())
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
    return alt.concat(*panels, columns=3, name="cause-sizes", description=description)


@display.figure
def single(paper: Paper) -> alt.ConcatChart:
    """Draw the time of one input against its FLOP, and against the operators that the network calls."""
    rows = display.required(host.singles(paper), gpu_command())
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
    return alt.concat(*panels, name="cause-single", description=description)


@display.figure
def kinds(paper: Paper) -> alt.LayerChart:
    """Draw each kind's ratio of times, second GPU over first, and the ratios of bandwidths and of peaks."""
    rows = display.required(traced.ratios(paper)).sort_values("share", ascending=False)
    rows = rows[["network", "kind", "ratio", "share", "roof_share", "roof_share_other"]]
    promised = [getattr(traced.grown(paper), each) for each in ("bandwidth_byte_per_s", "peak_flop_per_s")]
    y = Categories.steps(rows.kind, 17)
    width = theme.plot_width(left=y.room, figure=theme.HALF_WIDTH)
    x = LogAxis.around(
        [1, *rows.ratio], pixels=width, title=f"time, {short_name(traced.GPUS[1])} over {short_name(traced.GPUS[0])}"
    )
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
        groups = of_chip.groups(found, "kind", "kind of layer", "step")
        named = of_chip.names(found, "kind", "intensity", "flop_per_s", ("share", 1.0))
        panels.append(of_chip.chart(groups, *named, title=short_name(chip)))
    description = f"Rooflines of two GPUs with {len(rows)} groups of the kernels of {traced.VIDEO}, sized by time."
    return alt.concat(*panels, name="cause-traced-roofs", description=description)
