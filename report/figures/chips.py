"""Figures of the chips' datasheet roofs."""

from collections.abc import Callable
from typing import Any

import altair as alt
import pandas as pd

from report import available, axes, chips, roofline, theme
from report.available import or_missing
from report.axes import LogAxis
from report.labels import Box, text_size
from report.paper import Paper, Roof
from report.quantities import intensity, rate_unit, ridge_unit, si
from report.rows import each, highest, lowest

DIAGONALS = (1, 10, 100, 1000)
"""Ridge points (FLOP/B) whose diagonals are drawn in the plane."""

TOOLTIP = [
    "chip",
    "kind",
    "year",
    "rate",
    "dense peak",
    "sparse peak",
    "bandwidth",
    "memory",
    "ridge point",
    "sources",
]


def _each(rows: pd.DataFrame, told: Callable[[Any], str]) -> list[str]:
    return [told(row) for row in each(rows)]


def described(rows: pd.DataFrame) -> pd.DataFrame:
    """The columns that charts of chips need: the numbers drawn, and the tooltip's in words."""
    return pd.DataFrame(
        {
            "chip": rows.chip,
            "name": rows.chip.where(~chips.on_chip(rows), rows.chip + " †"),
            "kind": rows.kind.map(chips.KINDS),
            "year": rows.year.astype(int),
            "peak": rows.peak_flop_per_s,
            "flow": rows.bandwidth_byte_per_s,
            "ridge": rows.ridge_flop_per_byte.map(lambda value: float(f"{value:.6g}")),
            "confirmed": rows.verified == "yes",
            "rate": rows.precision + ", " + rows.unit + " units",
            "dense peak": _each(rows, lambda row: si(row.peak_flop_per_s, rate_unit(row.precision), 4)),
            "sparse peak": _each(
                rows,
                lambda row: (
                    "not printed"
                    if pd.isna(row.sparse_peak_flop_per_s)
                    else si(row.sparse_peak_flop_per_s, rate_unit(row.precision), 4)
                ),
            ),
            "bandwidth": _each(rows, lambda row: si(row.bandwidth_byte_per_s, "B/s", 4)),
            "memory": rows.memory_type,
            "ridge point": _each(rows, lambda row: intensity(row.ridge_flop_per_byte, ridge_unit(row.precision), 4)),
            "sources": rows.source.str.replace(";", ", "),
        }
    )  # fmt: skip


def _marks(
    points: pd.DataFrame, x: LogAxis, y: LogAxis, x_field: str, legend: alt.Legend | None, opacity: Any
) -> alt.Chart:
    """Points at their peaks, coloured and shaped by kind, hollow where an input of the roof was not confirmed."""
    colors, shapes = theme.kind_styles(points.kind)
    confirmed = alt.when("datum.confirmed").then(alt.value(1)).otherwise(alt.value(0))
    marks = alt.Chart(points).mark_point(size=42, strokeWidth=1.2, clip=True)
    return marks.encode(
        x.channel(x_field),
        y.channel("peak"),
        stroke=alt.Stroke("kind:N", scale=colors, title="kind", legend=legend),
        fill=alt.Fill("kind:N", scale=colors, title="kind", legend=legend),
        shape=alt.Shape("kind:N", scale=shapes, title="kind", legend=legend),
        fillOpacity=confirmed,
        opacity=opacity,
        tooltip=TOOLTIP,
    )


@or_missing
def plane(paper: Paper) -> alt.LayerChart:
    """Peak against bandwidth of all chips, each at its fastest floating-point rate of 16 bits or more."""
    rows = chips.headline(available.chips(paper))
    points = described(rows)
    margins = (0.04, 0.06)
    x = LogAxis.around(points.flow, theme.WIDTH, "bandwidth", "B/s", margins=margins)
    y = LogAxis.around(points.peak, 520, "dense peak", "FLOP/s", vertical=True, margins=margins)
    diagonals, names, taken = [], [], []
    for ridge in DIAGONALS:
        roof_ends = max(x.low, y.low / ridge), min(x.high, y.high / ridge)
        if roof_ends[0] >= roof_ends[1]:
            continue
        diagonals += [{"ridge": ridge, "flow": end, "peak": end * ridge} for end in roof_ends]
        text = intensity(ridge, digits=len(str(ridge)))
        width, height = text_size(text, theme.LABEL_SIZE)
        column = min(x.pixel(roof_ends[1]) - width / 2 - 4, x.pixels - width / 2 - 2)
        row = max(y.pixel(roof_ends[1] * ridge) + height / 2 + 3, height)
        taken.append(Box(column - width / 2, row - height / 2, column + width / 2, row + height / 2))
        names.append({"text": text, "flow": x.value(column), "peak": y.value(row)})
    grid = alt.Chart(pd.DataFrame(diagonals)).mark_line(
        color="#b5b5b5", strokeDash=[2, 3], strokeWidth=1, clip=True
    )
    marked = alt.Chart(pd.DataFrame(names)).mark_text(color=theme.MUTED, fontSize=theme.LABEL_SIZE, clip=True)

    picked = alt.selection_point(fields=["kind"], bind="legend", name="picked")
    search = alt.param(
        name="search", value="", bind=alt.binding(input="search", name="Find a chip ", placeholder="name")
    )
    opacity = alt.when(picked & alt.expr.test(alt.expr.regexp(search, "i"), alt.datum.chip)).then(
        alt.value(1)
    )
    dots = _marks(points, x, y, "flow", alt.Legend(orient="top"), opacity.otherwise(alt.value(0.12)))
    dots = dots.add_params(picked, search, alt.selection_interval(bind="scales", name="zoom"))
    layers = [
        grid.encode(x.channel("flow"), y.channel("peak"), detail="ridge:N"),
        marked.encode(x.channel("flow"), y.channel("peak"), text="text:N"),
        axes.named_points(points, "name", x, "flow", y, "peak", tuple(taken)),
        dots,
    ]
    least, most = lowest(rows, "ridge_flop_per_byte"), highest(rows, "ridge_flop_per_byte")
    description = (
        f"Scatter plot of dense peak against bandwidth for {len(rows)} chips on logarithmic axes. Ridge "
        "points run from "
        f"{intensity(least.ridge_flop_per_byte)} ({least.chip}) to {intensity(most.ridge_flop_per_byte)} "
        f"({most.chip})."
    )
    chart = alt.layer(*[layer for layer in layers if layer is not None])
    return theme.finish(chart.properties(width=x.pixels, height=y.pixels), "chip-plane", description)


@or_missing
def roofs(paper: Paper, kind: str) -> alt.LayerChart:
    """Rooflines of a kind's chips at the precision that most of them share, or each at its fastest."""
    available.chips(paper, kind)
    rows, shared = chips.comparable(paper.chips, kind)
    points = described(rows)
    if shared is None:
        points["name"] += " (" + rows.precision + ")"
    color, _ = theme.KIND_STYLES[kind]
    units = sorted({rate_unit(precision) for precision in rows.precision})
    room = max(text_size(name, theme.LABEL_SIZE)[0] for name in points.name) + 16
    end = theme.WIDTH - room  # the pixel where roofs end and names begin
    low, high = points.ridge.min() / 8, points.ridge.max() * 2.5
    x = LogAxis(
        low,
        low * (high / low) ** (theme.WIDTH / end),
        theme.WIDTH,
        "operational intensity (FLOP per byte of memory traffic)",
    )
    height = max(150.0, 11.5 * len(rows) + 20)
    slowest = min(points.peak.min(), (points.flow * low).min() * 2)
    y = LogAxis.around(
        [slowest, points.peak.max()],
        height,
        "attainable " + " or ".join(units),
        units[0] if len(units) == 1 else "",
        vertical=True,
    )
    limits = [
        ({"chip": row.chip, "confirmed": row.confirmed}, Roof(row.peak, row.flow)) for row in each(points)
    ]
    outline = roofline.outline(limits, LogAxis(low, x.value(end), end, ""))
    picked = alt.selection_point(fields=["chip"], name="picked", on="pointerover", clear="pointerout")
    opacity = alt.when(picked).then(alt.value(1)).otherwise(alt.value(0.15))
    drawn = (
        alt.Chart(outline)
        .mark_line(strokeWidth=1.2, color=color, clip=True)
        .encode(
            x.channel("intensity"), y.channel("rate"), detail="chip:N", opacity=opacity,
            strokeDash=alt.condition("datum.confirmed", alt.value(roofline.SOLID), alt.value(roofline.DASHED)),
        )
    )  # fmt: skip
    dots = _marks(points, x, y, "ridge", None, opacity)
    dots = dots.add_params(picked, alt.selection_interval(bind="scales", name="zoom"))
    fastest, widest = highest(rows, "peak_flop_per_s"), highest(rows, "bandwidth_byte_per_s")
    at = f" at {shared}" if shared else ", each at its fastest rate"
    description = (
        f"Rooflines of {len(rows)} chips ({chips.KINDS[kind]}){at}, on logarithmic axes. The highest peak is "
        f"{si(fastest.peak_flop_per_s, rate_unit(fastest.precision))} ({fastest.chip}), the highest bandwidth "
        f"{si(widest.bandwidth_byte_per_s, 'B/s')} ({widest.chip})."
    )
    ends = points.assign(end=x.value(end))
    chart = alt.layer(drawn, axes.named_ends(ends, "name", x, "end", y, "peak", end), dots)
    return theme.finish(chart.properties(width=x.pixels, height=y.pixels), f"chip-roofs-{kind}", description)
