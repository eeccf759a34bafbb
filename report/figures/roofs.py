"""Figures of the measured roofs: of arithmetic, of every level of memory, and the sweep that shows the levels."""

from math import sqrt
from typing import Any

import altair as alt
import pandas as pd

from report.analysis import available
from report.charts import axes, roofline, theme
from report.charts.axes import Layers, LogAxis
from report.charts.labels import Box, along
from report.figures.marks import axis_before_names, controlled, panel, rounded, styles, tips, widest, zoom
from report.load.chips import KINDS
from report.load.paper import Machine, Paper
from report.load.roofs import STREAMS, fastest_arithmetic, sustained
from report.text.frame_rows import each
from report.text.prose import listing, si

HEIGHT = 220
"""Of a panel, in pixels."""


def _swept(paper: Paper) -> list[Machine]:
    """Return the machines that figures show and whose memory was swept; at least one."""
    swept = [machine for machine in paper.shown if machine.levels]
    if not swept:
        available.levels(available.machines(paper)[0])
    return swept


@available.or_missing
@theme.building()
def hierarchy(paper: Paper) -> alt.ConcatChart:
    """Draw attainable rate against intensity by the bytes of each level of memory, under the roof of each kernel."""
    machines = [machine for machine in _swept(paper) if not machine.roofs.empty]
    if not machines:
        available.roof(_swept(paper)[0])
    panels, parts = [], []
    for machine in machines:
        kind = KINDS[machine.chip_kind]
        fastest = fastest_arithmetic(machine.roof_measurements)
        names = [f"{row.precision} {what}, {si(row.flop_per_s, 'FLOP/s')}" for what, row in fastest]
        peaks = pd.DataFrame({"name": names, "peak": [float(row.flop_per_s) for _, row in fastest]})
        bandwidths = [level.bandwidth_byte_per_s for level in machine.levels]
        levels = [f"{level.name}, {si(level.bandwidth_byte_per_s, 'B/s')}" for level in machine.levels]
        flows = pd.DataFrame({"name": levels, "flow": bandwidths})
        panels.append(_hierarchy(peaks, flows).properties(title=kind))
        parts.append(f"on the {kind}, {listing(names)} over the slopes of {listing(levels)}")
    description = f"Rooflines with a slope for each level of memory, on logarithmic axes: {'; '.join(parts)}."
    return theme.finish(alt.concat(*panels, columns=1), "measured-hierarchy", description)


def _hierarchy(peaks: pd.DataFrame, flows: pd.DataFrame) -> Layers:
    """Return slopes up to the highest peak, and each peak from the fastest level's slope on."""
    top, fastest, slowest = peaks.peak.max(), flows.flow.max(), flows.flow.min()
    end = theme.WIDTH - widest(peaks.name) - 16
    low, high = peaks.peak.min() / fastest / 20, 4 * top / slowest
    title = "operational intensity (FLOP per byte from the level)"
    x = axis_before_names(low, high, theme.WIDTH, end, title)
    y = LogAxis.around([slowest * low, top], HEIGHT, "attainable", "FLOP/s", vertical=True, margins=(0, 0.06))
    slopes = {row.name: ((low, row.flow * low), (top / row.flow, top)) for row in each(flows)}
    flats = {row.name: ((row.peak / fastest, row.peak), (high, row.peak)) for row in each(peaks)}
    ends = [(name, at, rate) for name, both in (slopes | flats).items() for at, rate in both]
    names, intensities, rates = zip(*ends, strict=True)
    columns = {"line": names, "intensity": rounded(intensities, 6), "rate": rounded(rates, 6)}
    lines = roofline.lines(pd.DataFrame(columns), x, y, "line")
    middles = flows.assign(intensity=[sqrt(low * top / flow) for flow in flows.flow])
    middles = middles.assign(rate=middles.intensity * middles.flow)
    taken: list[Box] = []
    for middle, slope in zip(each(middles), slopes.values(), strict=True):
        place = (x.pixel(middle.intensity), y.pixel(middle.rate))
        taken += [box for at, rate in slope for box in along((x.pixel(at), y.pixel(rate)), place)]
    named = axes.named_points(middles, "name", x, "intensity", y, "rate", tuple(taken))
    kernels = axes.named_ends(peaks.assign(end=high), "name", x, "end", y, "peak", end)
    return panel(x, y, lines, kernels, named)


@available.or_missing
@theme.building()
def sweep(paper: Paper) -> alt.ConcatChart:
    """Draw sustained bandwidth against the working set for each stream, with the levels found and caches reported."""
    machines = _swept(paper)
    width = theme.WIDTH if len(machines) == 1 else theme.WIDTH / 2 - 40
    picked = theme.choice("stream")
    panels: list[Any] = []
    parts = []
    for machine in machines:
        panels.append(_sweep(machine, width, panels, picked))
        levels = [f"{si(level.kernels['read'].byte_per_s, 'B/s')} from {level.name}" for level in machine.levels]
        parts.append(f"on the {KINDS[machine.chip_kind]}, reading comes at {listing(levels)}")
    description = (
        f"Bandwidth of {listing(list(STREAMS.values()))} against the working set, on logarithmic axes: "
        f"{'; '.join(parts)}."
    )
    return theme.finish(alt.concat(*panels, columns=2), "measured-bandwidths", description)


def _sweep(machine: Machine, width: float, panels: list[Any], picked: alt.Parameter) -> Layers:
    """Return the panel of a machine: its streams over its levels of memory and the caches that it reports."""
    points = _points(machine)
    x = LogAxis.around(points.byte, width, "working set", "B", margins=(0.03, 0.03))
    flows = [*points.low, *points.high]
    y = LogAxis.around(flows, HEIGHT, "bandwidth", "B/s", vertical=True, margins=(0.06, 0.12))
    style = styles("stream", *theme.scales(theme.STREAM_STYLES), title="stream")
    base = alt.Chart(points).encode(x.channel("byte"), style["color"])
    lines = base.mark_line(strokeWidth=1.2, clip=True).encode(y.channel("flow"))
    whiskers = base.mark_rule(clip=True).encode(y.channel("low"), alt.Y2("high:Q"))
    dots = base.mark_point(filled=True, size=30, clip=True)
    dots = dots.encode(y.channel("flow"), style["shape"], tooltip=tips("stream", "working set", "bandwidth"))
    dots = controlled(dots, panels, picked, zoom(machine.chip_kind))
    bands = pd.DataFrame(
        {
            "name": level.name,
            "first": level.level.first_byte,
            "last": level.level.last_byte,
            "middle": sqrt(level.level.first_byte * level.level.last_byte),
            "over": y.value(8),
        }
        for level in machine.levels
    )
    areas = alt.Chart(bands).mark_rect(color=theme.GRID, opacity=0.6, clip=True)
    areas = areas.encode(x.channel("first"), alt.X2("last:Q"))
    names = alt.Chart(bands).mark_text(fontSize=theme.LABEL_SIZE, color=theme.INK, clip=True)
    names = names.encode(x.channel("middle"), y.channel("over"), alt.Text("name:N"))
    caches = alt.Chart(pd.DataFrame({"byte": [cache.byte for cache in machine.caches]}))
    ends = caches.mark_rule(color=theme.MUTED, strokeDash=roofline.DASHED, clip=True).encode(x.channel("byte"))
    layers = [areas, ends if machine.caches else None, lines, whiskers, dots]
    return panel(x, y, *layers, names, title=KINDS[machine.chip_kind])


def _points(machine: Machine) -> pd.DataFrame:
    """Return a row for each stream at each working set, with its bandwidth and the interval of that."""
    rows = sustained(machine.roof_measurements, STREAMS)
    return pd.DataFrame(
        {
            "stream": [STREAMS[kernel] for kernel in rows.roof_kernel],
            "byte": [int(size) for size in rows["size"]],
            "flow": rounded(rows.byte_per_s, 6),
            "low": rounded(rows.byte_per_s_low, 6),
            "high": rounded(rows.byte_per_s_high, 6),
            "working set": [si(size, "B", 4) for size in rows["size"]],
            "bandwidth": [si(value, "B/s", 4) for value in rows.byte_per_s],
        }
    )
