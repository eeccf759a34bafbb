"""Figures of the share of its roof that a model reaches on the devices that others timed."""

from typing import Any

import altair as alt
import pandas as pd

from measure.domain.values import SPACE
from report.analysis import available, elsewhere, elsewhere_shares
from report.charts import theme
from report.charts.axes import LogAxis
from report.figures import distributions
from report.figures.bars import PERCENT
from report.figures.marks import rounded, tips
from report.load.paper import Paper
from report.text.frame_rows import extremes
from report.text.prose import listing, number, percent, si

PANELS, COLUMNS, HEIGHT = 6, 3, 110
"""So many devices have a panel, those of which most models are known; so many panels a row, and their pixels."""


@available.or_missing
@theme.building()
def by_size(paper: Paper) -> alt.ConcatChart:
    """Draw the share of the roof against the FLOP of an input, median and eight of ten models: a panel a device."""
    rows = elsewhere.fastest(elsewhere.counted(paper))
    panels: list[Any] = []
    told = []
    x = LogAxis.around(rows.forward_flop, theme.WIDTH / COLUMNS - 38, "FLOP of an input", "FLOP")
    for device, computed in elsewhere.most_models(rows)[:PANELS]:
        found = elsewhere_shares.by_size(rows[(rows.device == device) & (rows.computed == computed)])
        if found.empty:
            continue
        panels.append(_panel(found, x, f"{device}, {computed}", len(panels) % COLUMNS == 0))
        least, most = extremes(found, "middle")
        told.append(
            f"{percent(least.middle)} near {si(least.flop, 'FLOP', 1)} and {percent(most.middle)} near "
            f"{si(most.flop, 'FLOP', 1)} on the {device}"
        )
    if not panels:
        raise available.DataMissingError(f"No device was timed with models enough of one size; {elsewhere.ADD}.")
    description = (
        f"{number(len(panels), 'panel')} of the share of the roof against the FLOP of an input. The median is lowest "
        f"and highest with {listing(told)}."
    )
    return theme.finish(alt.concat(*panels, columns=COLUMNS, spacing=12), "elsewhere-by-size", description)


def _panel(found: pd.DataFrame, x: LogAxis, title: str, labels: bool) -> Any:
    marks = found[["models"]].assign(
        flop=rounded(found.flop, 3), **{name: rounded(found[name], 3) for name in ("low", "middle", "high")}
    )
    scale = alt.Scale(domain=[0, 1], clamp=True)
    axis = alt.Axis(labelExpr=PERCENT, tickCount=4, labels=labels)
    base = alt.Chart(marks).encode(x.channel("flop"))
    band = base.mark_area(color=theme.SKY, opacity=0.45).encode(
        alt.Y("low:Q", title="share of the roof" if labels else None, scale=scale, axis=axis), alt.Y2("high:Q")
    )
    line = base.mark_line(
        color=theme.BLUE, strokeWidth=1.8, point=alt.OverlayMarkDef(size=22, color=theme.BLUE)
    ).encode(alt.Y("middle:Q", scale=scale), tooltip=tips("flop", "models", "low", "middle", "high"))
    return alt.layer(band, line).properties(width=x.pixels, height=HEIGHT, title=title.replace(" ", SPACE, 1))


@available.or_missing
@theme.building()
def by_family(paper: Paper) -> Any:
    """Draw the share of the roof by family of models, on the device and at the precision of most models."""
    device, computed, families = elsewhere_shares.by_family(paper)
    scale = alt.Scale(domain=[0, max(1.0, *(spread.high for spread in families.values()))], nice=False)
    axis = alt.Axis(labelExpr=PERCENT, tickCount=6)
    chart = distributions.rows(families, f"share of the roof on the {device} at {computed}", axis, scale)
    names = list(families)
    ends = listing([f"{percent(families[name].median)} of {name}" for name in dict.fromkeys((names[0], names[-1]))])
    description = (
        f"{number(len(families), 'family', 'families')} of models on the {device} at {computed}: the share of the roof "
        f"at a model's intensity, in the median {ends}."
    )
    size = {"width": distributions.plot_width(families), "height": (distributions.ROW - 5) * len(families)}
    return theme.finish(chart.properties(**size), "elsewhere-by-family", description)
