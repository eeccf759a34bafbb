"""Figures of chips: their roofs, and their ridge points over the years."""

from typing import Any

import altair as alt
import pandas as pd

from measure.domain.roofs import Roofline
from report import display
from report.chapters.chips.facts import labelled
from report.charts import theme
from report.charts.annotations import end_names, hollow, names, tips
from report.charts.axes import LinearAxis, LogAxis, by_color, by_shape, longest
from report.paper import BASE_PRECISION, Paper, chips
from report.paper.frames import each

LINES = {
    "Intel Xeon": (
        "Intel Xeon E5-2697 v2", "Intel Xeon E5-2699 v4", "Intel Xeon Platinum 8280", "Intel Xeon Platinum 8380",
    ),
    "NVIDIA, data center": (
        "NVIDIA V100 SXM2", "NVIDIA A100 SXM 40GB", "NVIDIA H100 SXM", "NVIDIA B200 SXM", "NVIDIA B300 SXM",
    ),
    "NVIDIA GeForce": (
        "NVIDIA GeForce RTX 2080 Ti", "NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 5090",
    ),
    "Google TPU": ("Google TPU v2", "Google TPU v3", "Google TPU v4", "Google TPU v5p", "Google TPU7x (Ironwood)"),
}  # fmt: skip
"""Product lines: the largest chip of each generation, joined by a line."""

MEASURED = "measured here"
TOOLTIP = (
    ("chip", "chip", ""), ("year", "year", "d"), ("rate", "rate", ""), ("peak", "dense peak", "FLOP/s"),
    ("bandwidth", "bandwidth", "B/s"), ("ridge", "ridge point (FLOP/B)", ".3~g"),
)  # fmt: skip


def _rows(found: pd.DataFrame) -> pd.DataFrame:
    """Return the columns for charts of chips; ``short`` is the name without the vendor. Raises Missing for none."""
    rows = each(display.required(found))
    short = [row.chip.removeprefix(f"{row.vendor} ").removeprefix("GeForce ").partition(" (")[0] for row in rows]
    return pd.DataFrame({
        "chip": found.chip + [" †" if inside else "" for inside in chips.on_chip(found)],
        "key": found.chip, "short": short, "kind": found.chip_kind.map(chips.KINDS), "year": found.year.astype(int),
        "rate": found.precision + ", " + found.unit + " units",
        "peak": found.peak_flop_per_s, "bandwidth": found.bandwidth_byte_per_s, "ridge": found.ridge_flop_per_byte,
        "unconfirmed": found.verified != "yes",
    })  # fmt: skip


@display.figure
def roofs(paper: Paper) -> alt.LayerChart:
    rows = _rows(labelled(paper.chips))
    # Names right of the plot leave little of a narrow page, so precisions are in the tooltip and the table alone
    drawn: list[dict[Any, Any]] = rows.assign(name=rows.short, own=False).to_dict("records")
    machine = paper.at_hand
    if machine and (roof := machine.roof(BASE_PRECISION)):
        drawn.append({
            "name": machine.name.partition(",")[0], "chip": machine.name, "kind": MEASURED, "rate": BASE_PRECISION,
            "unconfirmed": False, "own": True, "peak": roof.peak_flop_per_s, "bandwidth": roof.bandwidth_byte_per_s,
            "ridge": roof.ridge_flop_per_byte,
        })  # fmt: skip
    ridges, peaks = ([row[field] for row in drawn] for field in ("ridge", "peak"))
    width = theme.plot_width(right=longest([row["name"] for row in drawn]) + 20)
    x = LogAxis(low=min(ridges) / 4, high=max(ridges) * 2, pixels=width, title="FLOP (or OP) per byte")
    height = max(200, 11 * len(drawn))
    # Without a unit after each number the plot is wider
    y = LogAxis.around([min(peaks) / 6, max(peaks)], pixels=height, title="attainable FLOP/s", vertical=True)
    corners = pd.DataFrame(
        row | {"intensity": at, "attainable": Roofline(row["peak"], row["bandwidth"]).attainable(at)}
        for row in drawn
        for at in (x.low, row["ridge"], x.high)
    )
    color = by_color("kind", theme.CHIP_COLORS | {MEASURED: theme.INK})
    dash = {"domain": [False, True], "range": [[1, 0], theme.DASH]}
    dash = alt.StrokeDash("unconfirmed:N", scale=dash, legend=None)
    lines = [
        alt.Chart(rows).mark_line(strokeWidth=2.6 if own else 1.2)
        .encode(x("intensity"), y("attainable"), color=color, detail=alt.Detail("chip:N"), strokeDash=dash)
        for own, rows in corners.groupby("own")
    ]  # fmt: skip
    shape = by_shape("kind", theme.CHIP_SHAPES | {MEASURED: "circle"})
    corner = pd.DataFrame(drawn).astype({"year": "Int64"})
    ridges = alt.Chart(corner).mark_point().encode(x("ridge"), y("peak"), color=color, shape=shape)
    top = max(drawn, key=lambda row: float(row["peak"]))
    return alt.layer(
        *lines, *hollow(tips(ridges, *TOOLTIP), "unconfirmed"),
        *end_names(corner.assign(end=x.high), "name", x("end"), y("peak")),
        width=x.pixels, height=y.pixels, name="chip-roofs",
        description=f"Rooflines of {len(drawn)} chips; the {top['chip']} has the highest peak.",
    )  # fmt: skip


@display.figure
def ridges(paper: Paper) -> alt.LayerChart:
    outside = paper.chips[~chips.on_chip(paper.chips)]
    of_kinds = [chips.comparable(outside, kind) for kind in chips.KINDS]
    rows = _rows(pd.concat([rows for rows in of_kinds if len(rows)] or [outside]))
    named = rows.key.isin({*labelled(outside).chip, *(chip for line in LINES.values() for chip in line)})
    low, high = rows.year.min() - 0.7, rows.year.max() + 1.2
    x = LinearAxis(low=low, high=high, pixels=theme.plot_width(), title="year", format="d")
    y = LogAxis.around(rows.ridge, (0.06, 0.08), pixels=205, title="ridge point (FLOP/B, OP/B)", vertical=True)
    places = x("year"), y("ridge")
    color = by_color("kind", theme.CHIP_COLORS)
    of_lines = pd.DataFrame((line, *pair) for line, members in LINES.items() for pair in enumerate(members))
    joined = of_lines.set_axis(["line", "place", "key"], axis=1).merge(rows, on="key")[[*rows, "line", "place"]]
    lines = alt.Chart(joined).mark_line()
    order = alt.Order("place:Q")  # two of one year have an order too
    lines = lines.encode(*places, color=color, detail=alt.Detail("line:N"), order=order)
    points = alt.Chart(rows).mark_point(size=26)
    points = points.encode(*places, color=color, shape=by_shape("kind", theme.CHIP_SHAPES))
    return alt.layer(
        lines, *hollow(tips(points, *TOOLTIP), "unconfirmed"),
        *names(rows.assign(name=rows.short.where(named, "")), "name", *places),
        width=x.pixels, height=y.pixels, name="chip-ridges",
        description=f"Ridge points of {len(rows)} chips against their year, {rows.year.min()} to {rows.year.max()}.",
    )  # fmt: skip
