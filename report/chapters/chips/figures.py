"""Figures of chips: their roofs, and their ridge points over the years."""

from collections.abc import Sequence
from itertools import pairwise
from math import log10
from typing import Any

import altair as alt
import pandas as pd

from measure.domain.roofs import Roofline
from report import display
from report.chapters.chips.facts import LABELLED, labelled
from report.charts import theme
from report.charts.annotations import NAMES, covered, hollow, names, tips
from report.charts.axes import LinearAxis, LogAxis, by_color, by_shape
from report.charts.labels import Box, along, text_size
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
Row = dict[str, Any]
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
def roofs(paper: Paper) -> alt.ConcatChart:
    found = display.required(labelled(paper.chips))
    panels = dict.fromkeys(panel for panel in LABELLED if panel in set(found.panel))
    drawn: dict[str, list[Row]] = {
        panel: _rows(found[found.panel == panel]).assign(own=False).to_dict("records")  # type: ignore[misc]
        for panel in panels
    }
    machine = paper.at_hand
    if machine and (roof := machine.roof(BASE_PRECISION)):
        own: Row = {
            "short": machine.name.partition(",")[0], "chip": machine.name, "kind": MEASURED, "rate": BASE_PRECISION,
            "unconfirmed": False, "own": True, "peak": roof.peak_flop_per_s, "bandwidth": roof.bandwidth_byte_per_s,
            "ridge": roof.ridge_flop_per_byte,
        }  # fmt: skip
        # Its peak is among those of the chips next to it
        nearest = min(panels, key=lambda panel: min(abs(log10(row["peak"] / own["peak"])) for row in drawn[panel]))
        drawn[nearest].append(own)
    charts = [_corners(title, rows, len(panels)) for title, rows in drawn.items()]
    description = f"Rooflines of {len(found)} chips: {', '.join(panels)}."
    return alt.concat(*charts, name="chip-roofs", description=description)


def _corners(title: str, drawn: Sequence[Row], panels: int) -> alt.LayerChart:
    """Draw rooflines, each named at its ridge point."""
    ridges, peaks = ([row[field] for row in drawn] for field in ("ridge", "peak"))
    width = theme.plot_width(panels, unit="FLOP/s")
    x = LogAxis(low=min(ridges) / 6, high=max(ridges) * 14, pixels=width, title="operational intensity", unit="FLOP/B")
    y = LogAxis.around(
        [min(peaks) / 2, 1.2 * max(peaks)], pixels=420, title="attainable rate", unit="FLOP/s", vertical=True
    )
    rows = [
        row | {"intensity": at, "attainable": Roofline(row["peak"], row["bandwidth"]).attainable(at)}
        for row in drawn
        for at in (max(x.low, y.low / row["bandwidth"]), row["ridge"], x.high)
    ]
    color = by_color("kind", theme.CHIP_COLORS | {MEASURED: theme.INK})
    dash = {"domain": [False, True], "range": [[1, 0], theme.DASH]}
    dash = alt.StrokeDash("unconfirmed:N", scale=dash, legend=None)
    corners = pd.DataFrame(rows)
    lines = [
        alt.Chart(part).mark_line(strokeWidth=2.4 if own else 1, opacity=1 if own else 0.45)
        .encode(x("intensity"), y("attainable"), color=color, detail=alt.Detail("chip:N"), strokeDash=dash)
        for own, part in corners.groupby("own")
    ]  # fmt: skip
    shape = by_shape("kind", theme.CHIP_SHAPES | {MEASURED: "circle"})
    corner = pd.DataFrame(drawn).astype({"year": "Int64"})
    points = alt.Chart(corner).mark_point().encode(x("ridge"), y("peak"), color=color, shape=shape)
    taken = [
        box
        for _, line in corners.groupby("chip", sort=False)
        for start, end in pairwise(zip(line.intensity.map(x.pixel), line.attainable.map(y.pixel), strict=True))
        for box in along(start, end)
    ]
    return alt.layer(
        *lines, *hollow(tips(points, *TOOLTIP), "unconfirmed"), _ridge_names(drawn, x, y, taken),
        width=x.pixels, height=y.pixels, title=title,
    )  # fmt: skip


def _ridge_names(drawn: Sequence[Row], x: LogAxis, y: LogAxis, taken: Sequence[Box]) -> alt.Chart:
    """Name each ridge point where no line is crossed: over its roof, left of it, under it, or farther along it."""
    panel, placed = Box(0, 0, x.pixels, y.pixels), []
    marks = [(x.pixel(row["ridge"]), y.pixel(row["peak"])) for row in drawn]
    boxes = [*taken, *(Box(at - 5, down - 5, at + 5, down + 5) for at, down in marks)]
    for row in sorted(drawn, key=lambda row: -float(row["peak"])):
        at, down = x.pixel(row["ridge"]), y.pixel(row["peak"])
        width, height = text_size(row["short"], theme.LABEL_SIZE)
        aside, lift, far = width / 2 + 8, height / 2 + 1, x.pixels - 4 - width / 2 - at
        along_roof = [(aside + 10 * step, dy) for step in range(1, int((far - aside) / 10)) for dy in (-lift, lift)]
        for dx, dy in ((aside, -lift), (-aside, -2), (aside, lift), *along_roof):
            middle, center = at + dx, down + dy
            box = Box(middle - width / 2, center - 4, middle + width / 2, center + 4)  # of its capitals
            if box.inside(panel) and box.clear_of(boxes):
                boxes.append(box)
                places = {"at": at, "down": down, "width": width, "dx": dx, "dy": dy, "ex": 0, "ey": 0}
                placed.append({"text": row["short"], "x": row["ridge"], "y": row["peak"]} | places)
                break
    shift: dict[str, Any] = {name: {"expr": f"datum.{name}"} for name in ("dx", "dy")}
    texts = alt.Chart(pd.DataFrame(placed).round(1), description=NAMES).mark_text(**shift)
    return texts.encode(x("x"), y("y"), text=alt.Text("text:N"))


@display.figure
def ridges(paper: Paper) -> alt.LayerChart:
    outside = paper.chips[~chips.on_chip(paper.chips)]
    of_kinds = [chips.comparable(outside, kind) for kind in chips.KINDS]
    rows = _rows(pd.concat([rows for rows in of_kinds if len(rows)] or [outside]))
    ends = {chip for members in LINES.values() for chip in (members[0], members[-1])}
    ends |= set(rows.sort_values("ridge").key.iloc[[0, -1]])
    low, high = rows.year.min() - 0.7, rows.year.max() + 1.2
    x = LinearAxis(low=low, high=high, pixels=theme.plot_width(), title="year", format="d")
    y = LogAxis.around(rows.ridge, (0.06, 0.08), pixels=240, title="ridge point (FLOP/B, OP/B)", vertical=True)
    places = x("year"), y("ridge")
    color = by_color("kind", theme.CHIP_COLORS)
    of_lines = pd.DataFrame((line, *pair) for line, members in LINES.items() for pair in enumerate(members))
    joined = of_lines.set_axis(["line", "place", "key"], axis=1).merge(rows, on="key")[[*rows, "line", "place"]]
    lines = alt.Chart(joined).mark_line()
    order = alt.Order("place:Q")  # two of one year have an order too
    lines = lines.encode(*places, color=color, detail=alt.Detail("line:N"), order=order)
    points = alt.Chart(rows).mark_point(size=26)
    points = points.encode(*places, color=color, shape=by_shape("kind", theme.CHIP_SHAPES))
    taken = [box for _, line in joined.groupby("line") for box in covered(line, *places)]
    named = rows.assign(name=rows.short.where(rows.key.isin(ends), ""))
    return alt.layer(
        lines, *hollow(tips(points, *TOOLTIP), "unconfirmed"), *names(named, "name", *places, taken),
        width=x.pixels, height=y.pixels, name="chip-ridges",
        description=f"Ridge points of {len(rows)} chips against their year, {rows.year.min()} to {rows.year.max()}.",
    )  # fmt: skip
