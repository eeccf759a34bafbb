"""Figures of the chips' datasheet roofs, and of what chips deliver for their power."""

from itertools import product

import altair as alt
import pandas as pd

from measure.cache.hand_kept import CHIP_PRECISIONS, CHIP_UNITS
from report.analysis import available
from report.charts import axes, roofline, theme
from report.charts.axes import LogAxis
from report.figures.chip_marks import PEAK_TITLE, described, diagonals, found, marks, rate, search_box
from report.figures.marks import TOP, axis_before_names, drop_down, opacity_where, panel, widest, zoom
from report.load import chips
from report.load.paper import Paper
from report.load.roofs import Roof
from report.text.frame_rows import each, extremes, highest
from report.text.quantities import intensity, rate_unit, si

DIAGONALS = (1, 10, 100, 1000)
"""Ridge points (FLOP/B) whose diagonals are drawn in the plane."""

PEAKS_PER_WATT = (1e8, 1e9, 1e10, 1e11, 1e12, 1e13)
"""Peaks per watt (FLOP/s/W) whose diagonals are drawn."""

HEADLINE = "fastest floating-point rate of 16 bits or more"
"""The choice of rates with which the plane opens."""


@available.or_missing
def plane(paper: Paper) -> alt.LayerChart:
    """Draw peak against bandwidth of all chips, at their headline rates, or at a precision and unit that is chosen."""
    rows = available.chips(paper)
    headline = available.headline(paper)
    at_all = described(rows)
    of_headline = described(headline).assign(choice=HEADLINE)
    points = pd.concat([of_headline, at_all.assign(choice=at_all.rate)], ignore_index=True)
    rates = [rate(precision, unit) for precision, unit in product(CHIP_PRECISIONS, CHIP_UNITS)]
    choices = [HEADLINE, *(choice for choice in rates if choice in set(points.choice))]
    margins = (0.04, 0.06)
    x = LogAxis.around(points.flow, theme.WIDTH, "bandwidth", "B/s", margins=margins)
    y = LogAxis.around(points.peak, 540, PEAK_TITLE, vertical=True, margins=margins)
    grid, taken = diagonals(x, y, {at: intensity(at, digits=len(str(at))) for at in DIAGONALS})

    picked, search = theme.choice("kind"), search_box()
    choice = drop_down("choice", choices, HEADLINE, "Rate")
    is_chosen = "datum.choice === choice"
    opacity = found(picked, search)
    dots = marks(points, x, y, "flow", TOP, opacity).transform_filter(is_chosen)
    dots = dots.add_params(picked, search, choice, zoom())
    names = axes.named_points(points, "name", x, "flow", y, "peak", taken, ("chip", "kind", "choice"))
    names = names and names.transform_filter(is_chosen).encode(opacity=opacity)
    least, most = extremes(chips.confirmed(headline), "ridge_flop_per_byte")
    description = (
        f"Scatter plot of dense peak against bandwidth for {len(headline)} chips on logarithmic axes. Confirmed ridge "
        f"points run from {intensity(least.ridge_flop_per_byte)} ({least.chip}) to "
        f"{intensity(most.ridge_flop_per_byte)} ({most.chip})."
    )
    return theme.finish(panel(x, y, *grid, names, dots), "chip-plane", description)


@available.or_missing
def roofs(paper: Paper, kind: str) -> alt.LayerChart:
    """Draw rooflines of a kind's chips at the precision that most of them share, or each at its fastest."""
    available.chips(paper, kind)
    rows, shared = chips.comparable(paper.chips, kind)
    points = described(rows)
    if shared is None:
        points["name"] += " (" + rows.precision + ")"
    end = theme.WIDTH - (widest(points.name) + 16)  # the pixel where roofs end and names begin
    low, high = points.ridge.min() / 8, points.ridge.max() * 2.5
    title = "operational intensity (FLOP per byte of memory traffic)"
    x = axis_before_names(low, high, theme.WIDTH, end, title)
    y = _rates(rows, points, low)
    picked = alt.selection_point(fields=["chip"], name="picked", on="pointerover", clear="pointerout")
    opacity = opacity_where(picked, otherwise=0.15)
    dots = marks(points, x, y, "ridge", None, opacity).add_params(picked, zoom())
    ends = points.assign(end=x.value(end))
    limits = [({"chip": row.chip, "confirmed": row.confirmed}, Roof(row.peak, row.flow)) for row in each(points)]
    outline = roofline.outline(limits, LogAxis(low, x.value(end), end, ""))
    lines = alt.Chart(outline).mark_line(strokeWidth=1.2, color=theme.KIND_STYLES[kind][0], clip=True).encode(
        x.channel("intensity"), y.channel("rate"), detail="chip:N", opacity=opacity,
        strokeDash=alt.condition("datum.confirmed", alt.value(roofline.SOLID), alt.value(roofline.DASHED)),
    )  # fmt: skip
    chart = panel(x, y, lines, axes.named_ends(ends, "name", x, "end", y, "peak", end), dots)
    sure = chips.confirmed(rows)
    fastest, broadest = highest(sure, "peak_flop_per_s"), highest(sure, "bandwidth_byte_per_s")
    at = f" at {shared}" if shared else ", each at its fastest rate"
    which = "confirmed " if fastest.verified == "yes" else ""
    description = (
        f"Rooflines of {len(rows)} chips ({chips.KINDS[kind]}){at}, on logarithmic axes. The highest {which}peak is "
        f"{si(fastest.peak_flop_per_s, rate_unit(fastest.precision))} ({fastest.chip}), the highest {which}bandwidth "
        f"{si(broadest.bandwidth_byte_per_s, 'B/s')} ({broadest.chip})."
    )
    return theme.finish(chart, f"chip-roofs-{kind}", description)


def _rates(rows: pd.DataFrame, points: pd.DataFrame, low: float) -> LogAxis:
    """Return the axis of attainable rates, which holds the peaks and a part of the slope of each roof."""
    units = sorted({rate_unit(precision) for precision in rows.precision})
    slowest = min(points.peak.min(), (points.flow * low).min() * 2)
    height, unit = max(150.0, 11.5 * len(rows) + 20), units[0] if len(units) == 1 else ""
    title = "attainable " + " or ".join(units)
    return LogAxis.around([slowest, points.peak.max()], height, title, unit, vertical=True)


@available.or_missing
def peak_per_watt(paper: Paper) -> alt.LayerChart:
    """Draw peak against power of the chips with a stated power and a floating-point rate, at their headline rates."""
    rows = available.powered(paper)
    names = rows.chip.where(~chips.measured_power(rows), rows.chip + " ‡")
    points = described(rows).assign(watts=rows.power_w, name=names)
    margins = (0.05, 0.08)
    x = LogAxis.around(points.watts, theme.WIDTH, "power", "W", margins=margins)
    y = LogAxis.around(points.peak, 400, "dense peak", "FLOP/s", vertical=True, margins=margins)
    grid, taken = diagonals(x, y, {ratio: f"{si(ratio, 'FLOP/s', 1)}/W" for ratio in PEAKS_PER_WATT})
    picked, search = theme.choice("kind"), search_box()
    dots = marks(points, x, y, "watts", TOP, found(picked, search)).add_params(picked, search, zoom())
    named = axes.named_points(points, "name", x, "watts", y, "peak", taken)
    worst, best = extremes(chips.confirmed(rows), "peak_per_watt")
    description = (
        f"Scatter plot of dense peak against power for {len(rows)} chips on logarithmic axes. The confirmed peak per "
        f"watt runs from {si(worst.peak_per_watt, rate_unit(worst.precision))}/W ({worst.chip}) to "
        f"{si(best.peak_per_watt, rate_unit(best.precision))}/W ({best.chip})."
    )
    return theme.finish(panel(x, y, *grid, named, dots), "chip-peak-per-watt", description)
