"""How chips grew over the years."""

import pandas as pd

from report.analysis import available
from report.analysis.available import finding
from report.analysis.growth import fit
from report.analysis.product_lines import LINES, Series
from report.load.paper import Paper
from report.text.frame_rows import highest
from report.text.quantities import SPACE, change, number, percent, significant


def growing_kinds(paper: Paper) -> list[Series]:
    """Return the kinds of chips, not the lines of products, with chips enough for a rate of growth; maybe none."""
    lines = {line.name for line in LINES}
    return [series for series in available.growing(paper) if series.name not in lines]


def _growth(series: Series) -> str:
    rows = series.rows
    ridge = fit(rows.year.tolist(), rows.ridge_flop_per_byte.tolist())
    text = (
        f"{change(ridge.rate, ridge.low, ridge.high)} for {series.name} (n = {len(rows)}, {series.rate}, "
        f"{rows.year.min():.0f} to {rows.year.max():.0f})"
    )
    if ridge.low <= 0 <= ridge.high:
        return f"{text}, which may be chance"
    verb = "doubling" if ridge.rate > 0 else "halving"
    return f"{text}, {verb} every {significant(abs(ridge.doubling_years), 2)}{SPACE}years"


@finding
def ridge_growth(paper: Paper) -> str:
    """Say how fast the ridge points of each kind moved."""
    return f"Ridge points moved by these rates a year: {'; '.join(map(_growth, growing_kinds(paper)))}."


@finding
def wall(paper: Paper) -> str:
    """Say whose arithmetic outgrew its memory most."""
    growths = []
    for series in available.growing(paper):
        peak, bandwidth = (
            fit(series.rows.year.tolist(), series.rows[column].tolist()).rate
            for column in ("peak_flop_per_s", "bandwidth_byte_per_s")
        )
        growths.append({"name": series.name, "peak": peak, "bandwidth": bandwidth, "lead": peak - bandwidth})
    rates = pd.DataFrame(growths)
    most = highest(rates, "lead")
    ahead = int((rates.lead > 0).sum())
    text = f"Peaks outgrew bandwidths in {ahead} of {number(len(rates), 'row')} of the table"
    if not ahead:
        return f"{text}."
    return (
        f"{text}, most for {most['name']}: by {percent(most.peak)} a year for the peaks against "
        f"{percent(most.bandwidth)} for the bandwidths."
    )
