"""Figures of generations of chips over the years."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import altair as alt
import pandas as pd

from report.analysis import available
from report.analysis.product_lines import LINES, Series
from report.charts import axes, theme
from report.charts.axes import LogAxis, YearAxis
from report.charts.labels import Box, along
from report.charts.roofline import DASHED, SOLID
from report.figures.chip_marks import TOOLTIP, described
from report.figures.marks import controlled, opacity_where, panel, styles, tips, zoom
from report.load.paper import Paper
from report.text.prose import listing

HEIGHT = 170
"""Of a panel, in pixels."""

QUANTITIES = {"peak": ("dense peak", "FLOP/s"), "flow": ("bandwidth", "B/s"), "ridge": ("ridge point (FLOP/B)", "")}
"""Column, title and unit of each panel."""


def generation(series: Series) -> pd.DataFrame:
    """Return a line's chips, with the year's chip of the highest peak, then bandwidth, as its ``leader``."""
    rows = series.rows.sort_values(["peak_flop_per_s", "bandwidth_byte_per_s"], ascending=False, kind="stable")
    # The line tells the vendor, and its chips differ before the parenthesis.
    chips = zip(rows.chip, rows.vendor, strict=True)
    short = [chip.removeprefix(f"{vendor} ").partition(" (")[0] for chip, vendor in chips]
    return described(rows).assign(short=short, line=series.name, leader=~rows.duplicated("year"))


@available.or_missing
@theme.building()
def generations(paper: Paper) -> alt.ConcatChart:
    """Draw peak, bandwidth and ridge point against the year for lines of products, a panel each."""
    lines = available.product_lines(paper)
    points = pd.concat([generation(line) for line in lines], ignore_index=True)
    x = YearAxis(points.year.min() - 0.6, points.year.max() + 0.9, theme.WIDTH)
    picked = theme.choice("line")
    style, dash = _styles([line.name for line in lines])
    panels: list[Any] = []
    for field, (title, unit) in QUANTITIES.items():
        y = LogAxis.around(points[field], HEIGHT, title, unit, vertical=True, margins=(0.1, 0.12))
        base = alt.Chart(points).encode(x.channel("year"), y.channel(field), opacity=theme.faded_unless(picked))
        leaders = base.transform_filter("datum.leader").mark_line(strokeWidth=1.4, clip=True)
        dots = base.mark_point(strokeWidth=1.2, clip=True).encode(
            **style, fillOpacity=opacity_where("datum.confirmed"), tooltip=tips("line", *TOOLTIP),
            size=alt.condition("datum.leader", alt.value(46), alt.value(16)),
        )  # fmt: skip
        dots = controlled(dots, panels, picked, zoom(field))
        taken = tuple(_taken(points[points.leader], x, y, field))
        named = axes.named_points(points, "short", x, "year", y, field, taken)
        panels.append(panel(x, y, leaders.encode(style["stroke"], dash), named, dots))
    spans = [f"{line.name} ({line.rate}, {_years(line.rows)})" for line in lines]
    description = (
        "Dense peak, bandwidth and ridge point against the year, a panel each, with a line for each of "
        f"{listing(spans)}."
    )
    return theme.finish(alt.concat(*panels, columns=1, spacing=10), "chip-generations", description)


def _styles(names: list[str]) -> tuple[dict[str, Any], alt.StrokeDash]:
    """Return colour, shape and dashes of lines: those of one kind share its colour and shape; the second is dashed."""
    kinds = [line.chip_kind for line in LINES if line.name in names]
    dashes = [DASHED if kind in kinds[:at] else SOLID for at, kind in enumerate(kinds)]
    looks = zip(*(theme.KIND_STYLES[kind] for kind in kinds), strict=True)
    colors, shapes = (alt.Scale(domain=names, range=list(look)) for look in looks)
    legend = alt.Legend(orient="top", columns=len(names), symbolStrokeWidth=1.4)
    scale = alt.Scale(domain=names, range=dashes)
    dash = alt.StrokeDash("line:N", title="line", legend=legend, scale=scale)
    return styles("line", colors, shapes, legend, hollow=True, title="line"), dash


def _taken(leaders: pd.DataFrame, x: YearAxis, y: LogAxis, field: str) -> Iterator[Box]:
    """Yield the room that the lines take."""
    for _, line in leaders.sort_values("year").groupby("line"):
        marks = [(x.pixel(year), y.pixel(value)) for year, value in zip(line.year, line[field], strict=True)]
        for start, end in pairwise(marks):
            yield from along(start, end)


def _years(rows: pd.DataFrame) -> str:
    first, last = int(rows.year.min()), int(rows.year.max())
    return str(first) if first == last else f"{first} to {last}"
