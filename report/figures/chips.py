"""Figures of the chips' datasheet roofs."""

from itertools import product

import altair as alt
import pandas as pd

from measure.cache.hand_kept import CHIP_PRECISIONS, CHIP_UNITS
from report.analysis import available
from report.analysis.available import or_missing
from report.charts import axes, roofline, theme
from report.charts.axes import LogAxis
from report.charts.labels import text_size
from report.figures.chip_marks import PEAK_TITLE, described, diagonals, found, marks, rate, search_box
from report.load import chips
from report.load.paper import Paper
from report.load.roofs import Roof
from report.text.frame_rows import each, highest, lowest
from report.text.quantities import intensity, rate_unit, si

DIAGONALS = (1, 10, 100, 1000)
"""Ridge points (FLOP/B) whose diagonals are drawn in the plane."""

HEADLINE = "fastest floating-point rate of 16 bits or more"
"""The choice of rates with which the plane opens."""


@or_missing
def plane(paper: Paper) -> alt.LayerChart:
    """Peak against bandwidth of all chips, at their headline rates, or at a precision and unit that is chosen."""
    rows = available.chips(paper)
    headline = chips.headline(rows)
    at_all = described(rows)
    points = pd.concat(
        [described(headline).assign(choice=HEADLINE), at_all.assign(choice=at_all.rate)], ignore_index=True
    )
    rates = [rate(precision, unit) for precision, unit in product(CHIP_PRECISIONS, CHIP_UNITS)]
    choices = [HEADLINE, *(choice for choice in rates if choice in set(points.choice))]
    margins = (0.04, 0.06)
    x = LogAxis.around(points.flow, theme.WIDTH, "bandwidth", "B/s", margins=margins)
    y = LogAxis.around(points.peak, 540, PEAK_TITLE, vertical=True, margins=margins)
    grid, taken = diagonals(x, y, {at: intensity(at, digits=len(str(at))) for at in DIAGONALS})

    picked = theme.choice("kind")
    search = search_box()
    choice = alt.param(name="choice", value=HEADLINE, bind=alt.binding_select(options=choices, name="Rate "))
    is_chosen = "datum.choice === choice"
    opacity = found(picked, search)
    dots = marks(points, x, y, "flow", alt.Legend(orient="top"), opacity).transform_filter(is_chosen)
    dots = dots.add_params(picked, search, choice, alt.selection_interval(bind="scales", name="zoom"))
    names = axes.named_points(points, "name", x, "flow", y, "peak", taken, ("chip", "kind", "choice"))
    named = [names.transform_filter(is_chosen).encode(opacity=opacity)] if names else []
    least, most = lowest(headline, "ridge_flop_per_byte"), highest(headline, "ridge_flop_per_byte")
    description = (
        f"Scatter plot of dense peak against bandwidth for {len(headline)} chips on logarithmic axes. Ridge "
        "points run from "
        f"{intensity(least.ridge_flop_per_byte)} ({least.chip}) to {intensity(most.ridge_flop_per_byte)} "
        f"({most.chip})."
    )
    chart = alt.layer(*grid, *named, dots)
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
        last=high,
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
    dots = marks(points, x, y, "ridge", None, opacity)
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
