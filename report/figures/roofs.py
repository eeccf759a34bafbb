"""Figures of the measured roofs: of arithmetic, of every level of memory, and the sweep that shows the levels."""

from math import sqrt
from typing import Any

import altair as alt
import pandas as pd

from report.analysis import available
from report.analysis.available import or_missing
from report.charts import axes, roofline, theme
from report.charts.axes import Layers, LogAxis
from report.charts.labels import Box, along, text_size
from report.load.chips import KINDS
from report.load.paper import Machine, Paper
from report.load.roofs import STREAMS, fastest_arithmetic, sustained
from report.text.frame_rows import each
from report.text.quantities import listing, si

HEIGHT = 260
"""Of a panel, in pixels."""


def _swept(paper: Paper) -> list[Machine]:
    """The machines that figures show and whose memory was swept; at least one."""
    swept = [machine for machine in paper.shown if machine.levels]
    if not swept:
        available.levels(available.machines(paper)[0])
    return swept


@or_missing
def hierarchy(paper: Paper) -> alt.ConcatChart:
    """Attainable rate against intensity by the bytes of each level of memory, under the roof of each kernel."""
    machines = [machine for machine in _swept(paper) if not machine.roofs.empty]
    if not machines:
        available.roof(_swept(paper)[0])
    panels, told = [], []
    for machine in machines:
        kind = KINDS[machine.kind]
        peaks: list[dict[str, Any]] = [
            {"name": f"{row.precision} {what}, {si(row.flop_per_s, 'FLOP/s')}", "peak": float(row.flop_per_s)}
            for what, row in fastest_arithmetic(machine.ceilings)
        ]
        flows = [
            {
                "name": f"{level.name}, {si(level.bandwidth_byte_per_s, 'B/s')}",
                "flow": level.bandwidth_byte_per_s,
            }
            for level in machine.levels
        ]
        panel = _hierarchy(pd.DataFrame(peaks), pd.DataFrame(flows))
        panels.append(panel.properties(title=kind))
        told.append(
            f"on the {kind}, {listing([peak['name'] for peak in peaks])} over the slopes of "
            f"{listing([str(flow['name']) for flow in flows])}"
        )
    description = f"Rooflines with a slope for each level of memory, on logarithmic axes: {'; '.join(told)}."
    return theme.finish(alt.concat(*panels, columns=1), "measured-hierarchy", description)


def _hierarchy(peaks: pd.DataFrame, flows: pd.DataFrame) -> Layers:
    """Slopes up to the highest peak, and each peak from the fastest level's slope on."""
    top, fastest, slowest = peaks.peak.max(), flows.flow.max(), flows.flow.min()
    end = theme.WIDTH - max(text_size(name, theme.LABEL_SIZE)[0] for name in peaks.name) - 16
    low, high = peaks.peak.min() / fastest / 20, 4 * top / slowest
    x = LogAxis(
        low, low * (high / low) ** (theme.WIDTH / end), theme.WIDTH,
        "operational intensity (FLOP per byte from the level)", last=high,
    )  # fmt: skip
    y = LogAxis.around([slowest * low, top], HEIGHT, "attainable", "FLOP/s", vertical=True, margins=(0, 0.06))
    slopes = {row.name: ((low, row.flow * low), (top / row.flow, top)) for row in each(flows)}
    flats = {row.name: ((row.peak / fastest, row.peak), (high, row.peak)) for row in each(peaks)}
    lines = pd.DataFrame(
        [
            {"line": name, "intensity": float(f"{at:.6g}"), "rate": float(f"{rate:.6g}")}
            for name, ends in (slopes | flats).items()
            for at, rate in ends
        ]
    )
    middles = flows.assign(intensity=[sqrt(low * top / flow) for flow in flows.flow])
    middles = middles.assign(rate=middles.intensity * middles.flow)
    taken: list[Box] = []
    for middle, ends in zip(each(middles), slopes.values(), strict=True):
        place = (x.pixel(middle.intensity), y.pixel(middle.rate))
        taken += [box for at, rate in ends for box in along((x.pixel(at), y.pixel(rate)), place)]
    named = axes.named_points(middles, "name", x, "intensity", y, "rate", tuple(taken))
    levels = [named] if named else []
    kernels = axes.named_ends(peaks.assign(end=high), "name", x, "end", y, "peak", end)
    layers = [roofline.lines(lines, x, y, "line"), kernels, *levels]
    return alt.layer(*layers).properties(width=x.pixels, height=y.pixels)


@or_missing
def sweep(paper: Paper) -> alt.ConcatChart:
    """Sustained bandwidth against the working set for each stream, with the levels found and the caches reported."""
    machines = _swept(paper)
    width = theme.WIDTH if len(machines) == 1 else theme.WIDTH / 2 - 40
    picked = theme.choice("stream")
    panels: list[Any] = []
    told = []
    for machine in machines:
        rows = sustained(machine.ceilings, STREAMS)
        points = pd.DataFrame(
            {
                "stream": [STREAMS[kernel] for kernel in rows.kernel],
                "byte": [int(size) for size in rows["size"]],
                "flow": [float(f"{value:.6g}") for value in rows.byte_per_s],
                "low": [float(f"{value:.6g}") for value in rows.byte_per_s_low],
                "high": [float(f"{value:.6g}") for value in rows.byte_per_s_high],
                "working set": [si(size, "B", 4) for size in rows["size"]],
                "bandwidth": [si(value, "B/s", 4) for value in rows.byte_per_s],
            }
        )
        x = LogAxis.around(points.byte, width, "working set", "B", margins=(0.03, 0.03))
        y = LogAxis.around(
            [*points.low, *points.high], HEIGHT, "bandwidth", "B/s", vertical=True, margins=(0.06, 0.12)
        )
        panels.append(_sweep(machine, points, x, y, picked if not panels else None))
        told.append(
            f"on the {KINDS[machine.kind]}, reading comes at "
            + listing(
                [
                    f"{si(level.kernels['read'].byte_per_s, 'B/s')} from {level.name}"
                    for level in machine.levels
                ]
            )
        )
    description = (
        f"Bandwidth of {listing(list(STREAMS.values()))} against the working set, on logarithmic axes: "
        f"{'; '.join(told)}."
    )
    return theme.finish(alt.concat(*panels, columns=2), "measured-bandwidths", description)


def _sweep(
    machine: Machine, points: pd.DataFrame, x: LogAxis, y: LogAxis, picked: alt.Parameter | None
) -> Layers:
    colors, shapes = theme.stream_styles()
    legend = alt.Legend(orient="top")
    base = alt.Chart(points).encode(
        x.channel("byte"),
        color=alt.Color("stream:N", scale=colors, title="stream", legend=legend),
    )
    lines = base.mark_line(strokeWidth=1.2, clip=True).encode(y.channel("flow"))
    whiskers = base.mark_rule(clip=True).encode(y.channel("low"), y2="high:Q")
    dots = base.mark_point(filled=True, size=30, clip=True).encode(
        y.channel("flow"),
        shape=alt.Shape("stream:N", scale=shapes, title="stream", legend=legend),
        tooltip=["stream", "working set", "bandwidth"],
    )
    zoom = alt.selection_interval(bind="scales", name=f"zoom_{machine.kind}")
    dots = dots.add_params(zoom) if picked is None else dots.add_params(picked, zoom)
    bands = pd.DataFrame(
        [
            {"name": level.name, "first": level.level.first_byte, "last": level.level.last_byte,
             "middle": sqrt(level.level.first_byte * level.level.last_byte), "over": y.value(8)}
            for level in machine.levels
        ]
    )  # fmt: skip
    spans = alt.Chart(bands).mark_rect(color=theme.GRID, opacity=0.6, clip=True).encode(
        x.channel("first"), x2="last:Q"
    )  # fmt: skip
    names = alt.Chart(bands).mark_text(fontSize=theme.LABEL_SIZE, color=theme.INK, clip=True).encode(
        x.channel("middle"), y.channel("over"), text="name:N"
    )  # fmt: skip
    reported = pd.DataFrame({"byte": [cache.byte for cache in machine.caches]})
    ends = alt.Chart(reported).mark_rule(color=theme.MUTED, strokeDash=roofline.DASHED, clip=True)
    layers = [
        spans,
        *([ends.encode(x.channel("byte"))] if machine.caches else []),
        lines,
        whiskers,
        dots,
        names,
    ]
    return alt.layer(*layers).properties(width=x.pixels, height=y.pixels, title=KINDS[machine.kind])
