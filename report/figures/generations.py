"""Figures of generations of chips over the years."""

from collections.abc import Iterator
from itertools import pairwise

import altair as alt
import pandas as pd

from report.analysis import available
from report.analysis.available import or_missing
from report.analysis.product_lines import LINES, Series
from report.charts import axes, theme
from report.charts.axes import LogAxis, YearAxis
from report.charts.labels import Box, along
from report.charts.roofline import DASHED, SOLID
from report.figures.chip_marks import TOOLTIP, described
from report.load.paper import Paper
from report.text.quantities import listing

HEIGHT = 225
"""Of a panel, in pixels."""


def generation(series: Series) -> pd.DataFrame:
    """A line's chips, with the year's chip of the highest peak, then bandwidth, as its ``leader``."""
    rows = series.rows.sort_values(
        ["peak_flop_per_s", "bandwidth_byte_per_s"], ascending=False, kind="stable"
    )
    # The line tells the vendor, and its chips differ before the parenthesis.
    short = [
        chip.removeprefix(f"{vendor} ").partition(" (")[0]
        for chip, vendor in zip(rows.chip, rows.vendor, strict=True)
    ]
    return described(rows).assign(short=short, line=series.name, leader=~rows.duplicated("year"))


@or_missing
def generations(paper: Paper) -> alt.ConcatChart:
    """Peak, bandwidth and ridge point against the year for lines of products, a panel each."""
    lines = available.product_lines(paper)
    points = pd.concat([generation(line) for line in lines], ignore_index=True)
    x = YearAxis(points.year.min() - 0.6, points.year.max() + 0.9, theme.WIDTH)
    quantities = {
        "peak": ("dense peak", "FLOP/s"),
        "flow": ("bandwidth", "B/s"),
        "ridge": ("ridge point (FLOP/B)", ""),
    }
    names = [line.name for line in lines]
    kinds = [line.kind for line in LINES if line.name in names]
    picked = theme.choice("line")
    opacity = theme.faded_unless(picked)
    legend = alt.Legend(orient="top", columns=len(names), symbolStrokeWidth=1.4)
    # Lines of one kind share its colour and shape; the second is dashed.
    styles = [theme.KIND_STYLES[kind] for kind in kinds]
    dashes = [DASHED if kind in kinds[:at] else SOLID for at, kind in enumerate(kinds)]
    color = alt.Stroke(
        "line:N",
        title="line",
        legend=legend,
        scale=alt.Scale(domain=names, range=[style[0] for style in styles]),
    )
    shape = alt.Shape(
        "line:N",
        title="line",
        legend=legend,
        scale=alt.Scale(domain=names, range=[style[1] for style in styles]),
    )
    fill = alt.Fill(
        "line:N",
        title="line",
        legend=legend,
        scale=alt.Scale(domain=names, range=[style[0] for style in styles]),
    )
    confirmed = alt.when("datum.confirmed").then(alt.value(1)).otherwise(alt.value(0))
    dash = alt.StrokeDash("line:N", title="line", legend=legend, scale=alt.Scale(domain=names, range=dashes))
    panels = []
    for number, (field, (title, unit)) in enumerate(quantities.items()):
        y = LogAxis.around(points[field], HEIGHT, title, unit, vertical=True, margins=(0.1, 0.12))
        base = alt.Chart(points).encode(x.channel("year"), y.channel(field), opacity=opacity)
        drawn = (
            base.transform_filter("datum.leader").mark_line(strokeWidth=1.4, clip=True).encode(color, dash)
        )
        dots = base.mark_point(strokeWidth=1.2, clip=True).encode(
            color, shape, fill, fillOpacity=confirmed, tooltip=["line", *TOOLTIP],
            size=alt.condition("datum.leader", alt.value(46), alt.value(16)),
        )  # fmt: skip
        zoom = alt.selection_interval(bind="scales", name=f"zoom_{field}")
        dots = dots.add_params(zoom) if number else dots.add_params(picked, zoom)
        taken = tuple(_taken(points[points.leader], x, y, field))
        named = axes.named_points(points, "short", x, "year", y, field, taken)
        layers = [drawn, *([named] if named else []), dots]
        panels.append(alt.layer(*layers).properties(width=x.pixels, height=y.pixels))
    spans = [f"{line.name} ({line.rate}, {_years(line.rows)})" for line in lines]
    description = (
        "Dense peak, bandwidth and ridge point against the year, a panel each, with a line for each of "
        f"{listing(spans)}."
    )
    return theme.finish(alt.concat(*panels, columns=1, spacing=10), "chip-generations", description)


def _taken(leaders: pd.DataFrame, x: YearAxis, y: LogAxis, field: str) -> Iterator[Box]:
    """The room that the lines take."""
    for _, own in leaders.sort_values("year").groupby("line"):
        marks = [(x.pixel(year), y.pixel(value)) for year, value in zip(own.year, own[field], strict=True)]
        for start, end in pairwise(marks):
            yield from along(start, end)


def _years(rows: pd.DataFrame) -> str:
    first, last = int(rows.year.min()), int(rows.year.max())
    return str(first) if first == last else f"{first} to {last}"
