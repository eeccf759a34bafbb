"""Figures of what chips deliver for their power."""

import altair as alt

from report.analysis import available
from report.analysis.available import or_missing
from report.charts import axes, theme
from report.charts.axes import LogAxis
from report.figures.chip_marks import PEAK_TITLE, described, diagonals, found, marks, search_box
from report.figures.marks import TOP, panel, zoom
from report.load import chips
from report.load.paper import Paper
from report.text.frame_rows import highest, lowest
from report.text.quantities import rate_unit, si

DIAGONALS = (1e8, 1e9, 1e10, 1e11, 1e12, 1e13)
"""Peaks per watt (FLOP/s/W) whose diagonals are drawn."""


@or_missing
def peak_per_watt(paper: Paper) -> alt.LayerChart:
    """Draw peak against power of the chips with a stated power, each at its headline rate."""
    rows = available.powered(paper)
    names = rows.chip.where(~chips.measured_power(rows), rows.chip + " ‡")
    points = described(rows).assign(watts=rows.power_w, name=names)
    margins = (0.05, 0.08)
    x = LogAxis.around(points.watts, theme.WIDTH, "power", "W", margins=margins)
    y = LogAxis.around(points.peak, 400, PEAK_TITLE, vertical=True, margins=margins)
    grid, taken = diagonals(x, y, {ratio: f"{si(ratio, 'FLOP/s', 1)}/W" for ratio in DIAGONALS})
    picked, search = theme.choice("kind"), search_box()
    dots = marks(points, x, y, "watts", TOP, found(picked, search)).add_params(picked, search, zoom())
    named = axes.named_points(points, "name", x, "watts", y, "peak", taken)
    best, worst = highest(rows, "peak_per_watt"), lowest(rows, "peak_per_watt")
    description = (
        f"Scatter plot of dense peak against power for {len(rows)} chips on logarithmic axes. The peak per watt runs "
        f"from {si(worst.peak_per_watt, rate_unit(worst.precision))}/W ({worst.chip}) to "
        f"{si(best.peak_per_watt, rate_unit(best.precision))}/W ({best.chip})."
    )
    return theme.finish(panel(x, y, *grid, named, dots), "chip-peak-per-watt", description)
