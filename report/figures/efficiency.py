"""Figures of what chips deliver for their power."""

import altair as alt

from report.analysis import available
from report.analysis.available import or_missing
from report.charts import axes, theme
from report.charts.axes import LogAxis
from report.figures.chip_marks import PEAK_TITLE, described, diagonals, found, marks, search_box
from report.load import chips
from report.load.paper import Paper
from report.text.frame_rows import highest, lowest
from report.text.quantities import rate_unit, si

DIAGONALS = (1e8, 1e9, 1e10, 1e11, 1e12, 1e13)
"""Peaks per watt (FLOP/s/W) whose diagonals are drawn."""


@or_missing
def peak_per_watt(paper: Paper) -> alt.LayerChart:
    """Peak against power of the chips with a stated power, each at its headline rate."""
    rows = available.powered(paper)
    points = described(rows).assign(
        watts=rows.power_w,
        name=rows.chip.where(~chips.measured_power(rows), rows.chip + " ‡"),
    )
    margins = (0.05, 0.08)
    x = LogAxis.around(points.watts, theme.WIDTH, "power", "W", margins=margins)
    y = LogAxis.around(points.peak, 400, PEAK_TITLE, vertical=True, margins=margins)
    names = {ratio: f"{si(ratio, 'FLOP/s', 1)}/W" for ratio in DIAGONALS}
    grid, taken = diagonals(x, y, names)
    picked = theme.choice("kind")
    search = search_box()
    opacity = found(picked, search)
    dots = marks(points, x, y, "watts", alt.Legend(orient="top"), opacity)
    dots = dots.add_params(picked, search, alt.selection_interval(bind="scales", name="zoom"))
    named = axes.named_points(points, "name", x, "watts", y, "peak", taken)
    best, worst = highest(rows, "peak_per_watt"), lowest(rows, "peak_per_watt")
    description = (
        f"Scatter plot of dense peak against power for {len(rows)} chips on logarithmic axes. The peak per watt runs "
        f"from {si(worst.peak_per_watt, rate_unit(worst.precision))}/W ({worst.chip}) to "
        f"{si(best.peak_per_watt, rate_unit(best.precision))}/W ({best.chip})."
    )
    chart = alt.layer(*grid, *([named] if named else []), dots)
    return theme.finish(chart.properties(width=x.pixels, height=y.pixels), "chip-peak-per-watt", description)
