"""Figures of one chip's roofs at all its precisions."""

import altair as alt
import pandas as pd

from report.analysis import available
from report.analysis.available import or_missing
from report.charts import axes, roofline, theme
from report.charts.axes import Layers, LogAxis
from report.charts.labels import text_size
from report.figures.chip_marks import TOOLTIP, described
from report.load.chips import KINDS
from report.load.paper import Paper
from report.load.roofs import Roof
from report.text.frame_rows import each
from report.text.quantities import intensity, listing, rate_unit, si

WIDTH, HEIGHT = theme.WIDTH / 2 - 22, 210
"""Of a panel, in pixels."""


def levels(rows: pd.DataFrame) -> pd.DataFrame:
    """One row is a peak that a chip reaches, described by its first rate; ``rates`` holds all that share it."""
    points = described(rows).assign(precision=rows.precision, unit=rows.unit)
    shared = points.groupby(["chip", "peak", "flow"], sort=False)
    names = {
        key: ", ".join(
            f"{'/'.join(of_unit.precision)} {unit}" for unit, of_unit in own.groupby("unit", sort=False)
        )
        for key, own in shared
    }
    firsts = points.drop_duplicates(["chip", "peak", "flow"])
    keys = zip(firsts.chip, firsts.peak, firsts.flow, strict=True)
    return firsts.assign(rates=[names[key] for key in keys])


def representatives(rows: pd.DataFrame) -> list[str]:
    """Of each kind the chip with the most rates, of several the newest, then the fastest; the one with the most first.

    A chip with one rate has nothing to compare.
    """
    chips = rows.groupby("chip", sort=False).agg(
        kind=("kind", "first"),
        rates=("peak_flop_per_s", "size"),
        year=("year", "max"),
        peak=("peak_flop_per_s", "max"),
    )
    chips = chips[chips.rates > 1].sort_values(["rates", "year", "peak"], ascending=False, kind="stable")
    return chips.drop_duplicates("kind").index.tolist()


@or_missing
def precisions(paper: Paper) -> alt.ConcatChart:
    """Roofs of a chip that the reader chooses, at all its precisions and units, and of a chip of each other kind."""
    rows = available.chips(paper)
    shown = representatives(rows)
    if not shown:
        raise available.DataMissingError(
            "No chip of the table has rates at two precisions or units; add rows to data/chips.csv."
        )
    points = levels(rows)
    room = max(text_size(name, theme.LABEL_SIZE)[0] for name in points.rates) + 18
    end = WIDTH - room  # the pixel where roofs end and names begin
    low, high = points.ridge.min() / 3, points.ridge.max() * 2
    x = LogAxis(
        low, low * (high / low) ** (WIDTH / end), WIDTH, "operational intensity (per byte)", last=high
    )
    y = LogAxis.around(
        [(points.flow * low).min() * 2, points.peak.max()],
        HEIGHT,
        "attainable (FLOP/s; of integers OP/s)",
        vertical=True,
    )
    limits = [
        ({"chip": row.chip, "kind": row.kind, "level": row.rates, "confirmed": row.confirmed}, Roof(row.peak, row.flow))
        for row in each(points)
    ]  # fmt: skip
    outline = roofline.outline(limits, LogAxis(low, x.value(end), end, ""))
    ends = points.assign(end=x.value(end))
    order = [chip for kind in KINDS for chip in rows[rows.kind == kind].chip.unique()]
    chosen = alt.param(
        name="chosen", value=shown[0], bind=alt.binding_select(options=order, name="First panel ")
    )

    colors, shapes = theme.kind_styles(points.kind)
    confirmed = alt.when("datum.confirmed").then(alt.value(1)).otherwise(alt.value(0))

    def panel(of: list[str], title: str | alt.TitleParams, number: int) -> Layers:
        def own(frame: pd.DataFrame) -> pd.DataFrame:
            return frame[frame.chip.isin(of)]

        drawn = alt.Chart(own(outline)).mark_line(strokeWidth=1.2, clip=True).encode(
            x.channel("intensity"), y.channel("rate"), detail="level:N",
            color=alt.Color("kind:N", scale=colors, legend=None),
            strokeDash=alt.condition("datum.confirmed", alt.value(roofline.SOLID), alt.value(roofline.DASHED)),
        )  # fmt: skip
        dots = alt.Chart(own(points)).mark_point(size=30, strokeWidth=1.2, clip=True).encode(
            x.channel("ridge"), y.channel("peak"), tooltip=["chip", "rates", *TOOLTIP[TOOLTIP.index("dense peak") :]],
            stroke=alt.Stroke("kind:N", scale=colors, legend=None),
            fill=alt.Fill("kind:N", scale=colors, legend=None), fillOpacity=confirmed,
            shape=alt.Shape("kind:N", scale=shapes, legend=None),
        )  # fmt: skip
        named = axes.named_ends(own(ends), "rates", x, "end", y, "peak", end, ("chip",))
        layers = [drawn, named, dots.add_params(alt.selection_interval(bind="scales", name=f"zoom_{number}"))]
        if number == 0:
            layers = [layer.transform_filter("datum.chip === chosen") for layer in layers]
            layers[-1] = layers[-1].add_params(chosen)
        return alt.layer(*layers).properties(title=title, width=WIDTH, height=HEIGHT)

    panels = [panel(order, alt.TitleParams(text=alt.ExprRef(expr="chosen")), 0)]
    panels += [panel([chip], chip, number) for number, chip in enumerate(shown[1:], 1)]
    parts = []
    for chip in shown:
        own = points[points.chip == chip]
        peaks = [f"{si(row.peak, rate_unit(row.precision))} at {row.rates}" for row in each(own)]
        parts.append(f"{chip}: {listing(peaks)}")
    description = (
        f"Rooflines of {len(shown)} chips, a panel each, a roof for each of a chip's dense peaks, on logarithmic axes "
        f"with ridge points up to {intensity(points[points.chip.isin(shown)].ridge.max())}. {'; '.join(parts)}."
    )
    return theme.finish(alt.concat(*panels, columns=2, spacing=14), "chip-precisions", description)
