"""Figures of one chip's roofs at all its precisions."""

from typing import Any

import altair as alt
import pandas as pd

from measure.domain.roofs import Roofline
from report.analysis import available
from report.charts import axes, roofline, theme
from report.charts.axes import LogAxis
from report.figures.chip_marks import RATES, described
from report.figures.marks import axis_before_names, drop_down, opacity_where, panel, styles, tips, widest, zoom
from report.load.chips import KINDS
from report.load.paper import Paper
from report.text.frame_rows import each
from report.text.prose import intensity, listing, rate_unit, si

WIDTH, HEIGHT = theme.WIDTH / 2 - 22, 210
"""Of a panel, in pixels."""


def levels(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each peak of a chip, described by its first rate; ``rates`` holds all that share it."""
    key = ["chip", "peak", "flow"]
    points = described(rows).assign(precision=rows.precision, unit=rows.unit)
    names = {}
    for peak, shared in points.groupby(key, sort=False):
        units = shared.groupby("unit", sort=False).precision
        names[peak] = ", ".join(f"{'/'.join(precisions)} {unit}" for unit, precisions in units)
    firsts = points.drop_duplicates(key)
    return firsts.assign(rates=[names[peak] for peak in firsts[key].itertuples(index=False, name=None)])


def representatives(rows: pd.DataFrame) -> list[str]:
    """Return of each kind the chip with the most rates, of several the newest, then the fastest; sorted in that order.

    A chip with one rate has nothing to compare.
    """
    chips = rows.groupby("chip", sort=False).agg(
        chip_kind=("chip_kind", "first"), rates=("peak_flop_per_s", "size"), year=("year", "max"),
        peak=("peak_flop_per_s", "max"),
    )  # fmt: skip
    chips = chips[chips.rates > 1].sort_values(["rates", "year", "peak"], ascending=False, kind="stable")
    return chips.drop_duplicates("chip_kind").index.tolist()


@available.or_missing
@theme.building()
def precisions(paper: Paper) -> alt.ConcatChart:
    """Draw roofs of a chip that the reader chooses, at all precisions and units, and of a chip of each other kind."""
    rows = available.chips(paper)
    shown = representatives(rows)
    if not shown:
        raise available.DataMissingError(
            "No chip of the table has rates at two precisions or units; add rows to data/chips.csv."
        )
    points = levels(rows)
    drawn = _Drawn(points)
    order = [chip for kind in KINDS for chip in rows[rows.chip_kind == kind].chip.unique()]
    chosen = drop_down("chosen", order, shown[0], "First panel")
    *others, dots = (layer.transform_filter("datum.chip === chosen") for layer in drawn.layers(order, 0))
    title = alt.TitleParams(text=alt.ExprRef(expr="chosen"))
    panels = [panel(drawn.x, drawn.y, *others, dots.add_params(chosen), title=title)]
    for number, chip in enumerate(shown[1:], 1):
        panels.append(panel(drawn.x, drawn.y, *drawn.layers([chip], number), title=chip))
    parts = []
    for chip in shown:
        peaks = [
            f"{si(row.peak, rate_unit(row.precision))} at {row.rates}" for row in each(points[points.chip == chip])
        ]
        parts.append(f"{chip}: {listing(peaks)}")
    description = (
        f"Rooflines of {len(shown)} chips, a panel each, a roof for each of a chip's dense peaks, on logarithmic axes "
        f"with ridge points up to {intensity(points[points.chip.isin(shown)].ridge.max())}. {'; '.join(parts)}."
    )
    return theme.finish(alt.concat(*panels, columns=2, spacing=14), "chip-precisions", description)


class _Drawn:
    """Axes and marks that the panels share, for all peaks of all chips."""

    def __init__(self, points: pd.DataFrame) -> None:
        self.points = points
        self.end = WIDTH - (widest(points.rates) + 18)  # the pixel where roofs end and names begin
        low, high = points.ridge.min() / 3, points.ridge.max() * 2
        self.x = axis_before_names(low, high, WIDTH, self.end, "operational intensity (per byte)")
        rates = [(points.flow * low).min() * 2, points.peak.max()]
        self.y = LogAxis.around(rates, HEIGHT, "attainable (FLOP/s; of integers OP/s)", vertical=True)
        self.ends = points.assign(end=self.x.value(self.end))
        limits = [
            ({"chip": row.chip, "kind": row.kind, "level": row.rates, "confirmed": row.confirmed},
             Roofline(row.peak, row.flow))
            for row in each(points)
        ]  # fmt: skip
        self.outline = roofline.outline(limits, LogAxis(low, self.x.value(self.end), self.end, ""))
        self.colors, self.shapes = theme.kinds(points.kind)

    def layers(self, chips: list[str], number: int) -> tuple[Any, Any, Any]:
        """Return the roofs of these chips, the peaks' names and, with the panel's zoom, their marks."""
        outline, ends, points = (frame[frame.chip.isin(chips)] for frame in (self.outline, self.ends, self.points))
        lines = alt.Chart(outline).mark_line(strokeWidth=1.2, clip=True).encode(
            self.x.channel("intensity"), self.y.channel("rate"), alt.Detail("level:N"),
            color=alt.Color("kind:N", scale=self.colors, legend=None),
            strokeDash=alt.condition("datum.confirmed", alt.value(roofline.SOLID), alt.value(roofline.DASHED)),
        )  # fmt: skip
        dots = alt.Chart(points).mark_point(size=30, strokeWidth=1.2, clip=True).encode(
            self.x.channel("ridge"), self.y.channel("peak"), tooltip=tips("chip", "rates", *RATES),
            **styles("kind", self.colors, self.shapes, None, hollow=True),
            fillOpacity=opacity_where("datum.confirmed"),
        )  # fmt: skip
        named = axes.named_ends(ends, "rates", self.x, "end", self.y, "peak", self.end, ("chip",))
        return lines, named, dots.add_params(zoom(number))
