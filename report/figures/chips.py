"""Figures of the chips' datasheet roofs, and of what chips deliver for their power."""

from dataclasses import replace
from itertools import product
from typing import Any

import altair as alt
import pandas as pd

from measure.cache.hand_kept import CHIP_PRECISIONS, CHIP_UNITS
from measure.domain.roofs import Roofline
from report.analysis import available
from report.analysis.long_lists import evenly
from report.charts import axes, roofline, theme
from report.charts.axes import LogAxis
from report.figures.chip_marks import PEAK_TITLE, described, diagonals, found, marks, named_like, rate, search_box
from report.figures.marks import TOP, axis_before_names, drop_down, opacity_where, panel, widest, zoom
from report.load import chips
from report.load.paper import Paper
from report.text.frame_rows import each, extremes, highest
from report.text.prose import intensity, rate_unit, si

DIAGONALS = (1, 10, 100, 1000)
"""Ridge points (FLOP/B) whose diagonals are drawn in the plane."""

PEAKS_PER_WATT = (1e8, 1e9, 1e10, 1e11, 1e12, 1e13)
"""Peaks per watt (FLOP/s/W) whose diagonals are drawn."""

ROOF_HEIGHT, NAMED = 140, 9
"""Pixels of a panel of rooflines, and how many of its chips have room for a name."""

HEADLINE = "fastest floating-point rate of 16 bits or more"
"""The choice of rates with which the plane opens."""


@available.or_missing
@theme.building()
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
@theme.building()
def roofs(paper: Paper) -> alt.ConcatChart:
    """Draw rooflines below each other, a panel a kind: its chips at the precision that most share, or at their fastest.

    Axes are the same, so that ridge points can be compared down the page. Of a kind's chips some are named, from the
    highest peak to the lowest; what is looked for, and the chip under the pointer, stand out.
    """
    every = available.chips(paper)
    found_of = {kind: chips.comparable(every, kind) for kind in chips.KINDS if (every.chip_kind == kind).any()}
    fastest_first = {
        kind: described(rows.sort_values("peak_flop_per_s", ascending=False)) for kind, (rows, _) in found_of.items()
    }
    points = pd.concat(list(fastest_first.values()))
    low, high = points.ridge.min() / 4, points.ridge.max() * 2
    named = [name for of_kind in fastest_first.values() for name in evenly(of_kind.name.tolist(), NAMED)]
    end = theme.WIDTH - (widest(named) + 16)  # the pixel where roofs end and names begin
    slowest = max(points.peak.min() / 4, (points.flow * low).min())
    y = LogAxis.around([slowest, points.peak.max()], ROOF_HEIGHT, "FLOP/s or OP/s", vertical=True)
    search = search_box()
    panels, told_of = [], []
    for kind, (rows, shared) in found_of.items():
        title = "operational intensity (FLOP per byte of memory traffic)" if kind == list(found_of)[-1] else ""
        x = axis_before_names(low, high, theme.WIDTH, end, title)
        heading = f"{chips.KINDS[kind]}, {f'at {shared}' if shared else 'each at its fastest rate'}"
        panels.append(_roofs(fastest_first[kind], x, y, search, kind).properties(title=heading))
        first = highest(chips.confirmed(rows), "peak_flop_per_s")
        told_of.append(f"{heading}: {first.chip} leads with {si(first.peak_flop_per_s, rate_unit(first.precision))}")
    # Each panel has the colour and the shape of its kind, which its title names
    chart = alt.concat(*panels, columns=1, spacing=4).add_params(search)
    chart = chart.resolve_scale(stroke="independent", fill="independent", shape="independent")
    return theme.finish(chart, "chip-roofs", f"Rooflines of {len(points)} chips by kind. {'; '.join(told_of)}.")


def _roofs(points: pd.DataFrame, x: LogAxis, y: LogAxis, search: alt.Parameter, kind: str) -> Any:
    """Return the panel of a kind, the fastest chip first: a roof and a mark at its ridge point for each."""
    pointed = alt.selection_point(fields=["chip"], name=f"pointed_{kind}", on="pointerover", clear="pointerout")
    opacity = opacity_where(pointed & named_like(search), otherwise=0.12)
    limits = [({"chip": row.chip, "confirmed": row.confirmed}, Roofline(row.peak, row.flow)) for row in each(points)]
    end = x.pixel(x.last)
    lines = alt.Chart(roofline.outline(limits, replace(x, high=x.last))).mark_line(
        strokeWidth=1.2, color=theme.KIND_STYLES[kind][0], clip=True
    ).encode(
        x.channel("intensity"), y.channel("rate"), alt.Detail("chip:N"), opacity=opacity,
        strokeDash=alt.condition("datum.confirmed", alt.value(roofline.SOLID), alt.value(roofline.DASHED)),
    )  # fmt: skip
    ends = points.loc[evenly(points.index.tolist(), NAMED)].assign(end=x.last)
    dots = marks(points, x, y, "ridge", None, opacity).add_params(pointed, zoom(kind))
    return panel(x, y, lines, axes.named_ends(ends, "name", x, "end", y, "peak", end), dots)


@available.or_missing
@theme.building()
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
