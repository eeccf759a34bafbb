"""Figures of chips: their roofs, and their peaks, bandwidths and ridge points over the years."""

from collections.abc import Sequence
from itertools import pairwise
from math import log10
from typing import Any

import altair as alt
import pandas as pd

from measure.domain.roofs import Roofline
from report import display
from report.chapters.chips.facts import LABELLED, SMALL, UNITS, alike, labelled
from report.charts import theme
from report.charts.annotations import NAMES, covered, hollow, names, tips
from report.charts.axes import LinearAxis, LogAxis, by_color, by_shape
from report.charts.labels import Box, along, text_size
from report.paper import BASE_PRECISION, Paper, chips

RATES = {"vector": BASE_PRECISION, "tensor": "16 bits"}
LINES = {
    "Xeon": (
        "Intel Xeon E5-2697 v2", "Intel Xeon E5-2699 v4", "Intel Xeon Platinum 8280", "Intel Xeon Platinum 8380",
    ),
    "V100 to B300": (
        "NVIDIA V100 SXM2", "NVIDIA A100 SXM 40GB", "NVIDIA H100 SXM", "NVIDIA B200 SXM", "NVIDIA B300 SXM",
    ),
    "GeForce": (
        "NVIDIA GeForce RTX 2080 Ti", "NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 5090",
    ),
    "TPU": ("Google TPU v2", "Google TPU v3", "Google TPU v4", "Google TPU v5p", "Google TPU7x (Ironwood)"),
}  # fmt: skip
"""Product lines: the largest chip of each generation, joined by a line."""

COMPARED = {chips.KINDS[kind]: f"{chips.KINDS[kind]}, {RATES[unit]}" for kind, unit in UNITS.items()}
"""The kinds in the legend with the rates at which they are compared."""

MEASURED = "measured here"
Row = dict[str, Any]
TOOLTIP = (
    ("chip", "chip", ""), ("year", "year", "d"), ("rate", "rate", ""), ("peak", "dense peak", "FLOP/s"),
    ("bandwidth", "bandwidth", "B/s"), ("ridge", "ridge point (FLOP/B)", ".3~g"),
)  # fmt: skip


def _rows(found: pd.DataFrame) -> pd.DataFrame:
    """Return the columns for charts of chips. Raises Missing for none."""
    display.required(found)
    return pd.DataFrame({
        "chip": found.chip + [" †" if inside else "" for inside in chips.on_chip(found)],
        "key": found.chip, "kind": found.chip_kind.map(chips.KINDS), "year": found.year.astype(int),
        "rate": found.precision + ", " + found.unit + " units",
        "peak": found.peak_flop_per_s, "bandwidth": found.bandwidth_byte_per_s, "ridge": found.ridge_flop_per_byte,
        "unconfirmed": found.verified != "yes",
    })  # fmt: skip


def _marked(found: pd.DataFrame) -> "pd.Series[str]":
    """Return the short names, with a mark at rates of fp32: they compare with each other alone."""
    return found.short + found.precision.map({BASE_PRECISION: "°"}).fillna("")


@display.figure
def roofs(paper: Paper) -> alt.ConcatChart:
    found = display.required(labelled(paper.chips))
    panels = dict.fromkeys(panel for panel in LABELLED if panel in set(found.panel))
    drawn: dict[str, list[Row]] = {
        panel: _rows(part := found[found.panel == panel]).assign(short=_marked(part), own=False).to_dict("records")  # type: ignore[misc]
        for panel in panels
    }
    machine = paper.at_hand
    if machine and (roof := machine.roof(BASE_PRECISION)):
        own: Row = {
            "short": machine.name.partition(",")[0], "chip": machine.name, "kind": MEASURED, "rate": BASE_PRECISION,
            "unconfirmed": False, "own": True, "peak": roof.peak_flop_per_s, "bandwidth": roof.bandwidth_byte_per_s,
            "ridge": roof.ridge_flop_per_byte,
        }  # fmt: skip
        # A GPU stands with GPUs, a processor with the chips whose peaks are about its own
        possible = list(panels)[:1] if machine.chip_kind == "gpu" else panels
        nearest = min(possible, key=lambda panel: min(abs(log10(row["peak"] / own["peak"])) for row in drawn[panel]))
        drawn[nearest].append(own)
        if nearest == SMALL:  # a server's processor may have no more cores than a laptop's
            drawn[f"{SMALL}, and the machine at hand"] = drawn.pop(SMALL)
    charts = [_corners(title, rows, len(panels)) for title, rows in drawn.items()]
    description = f"Rooflines of {len(found)} chips: {', '.join(panels)}."
    return alt.concat(*charts, name="chip-roofs", description=description)


def _corners(title: str, drawn: Sequence[Row], panels: int) -> alt.LayerChart:
    """Draw rooflines, each named at its ridge point."""
    ridges, peaks = ([row[field] for row in drawn] for field in ("ridge", "peak"))
    width = theme.plot_width(panels, unit="FLOP/s")
    x = LogAxis(low=min(ridges) / 6, high=max(ridges) * 14, pixels=width, title="operational intensity", unit="FLOP/B")
    y = LogAxis.around(
        [min(peaks) / 2, 1.2 * max(peaks)], pixels=236, title="attainable rate", unit="FLOP/s", vertical=True
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
    """Name each ridge point where no line is crossed: over its roof, left of it, farther along it, or under it."""
    panel, placed = Box(0, 0, x.pixels, y.pixels), []
    marks = [(x.pixel(row["ridge"]), y.pixel(row["peak"])) for row in drawn]
    boxes = [*taken, *(Box(at - 5, down - 5, at + 5, down + 5) for at, down in marks)]
    for row in sorted(drawn, key=lambda row: -float(row["peak"])):
        at, down = x.pixel(row["ridge"]), y.pixel(row["peak"])
        width, height = text_size(row["short"], theme.LABEL_SIZE)
        aside, lift, far = width / 2 + 8, height / 2 + 1, x.pixels - 4 - width / 2 - at
        along_roof = [(aside + 10 * step, dy) for step in range(1, int((far - aside) / 10)) for dy in (-lift, lift)]
        over, under = ([(each, dy) for each, dy in along_roof if dy == side] for side in (-lift, lift))
        for dx, dy in ((aside, -lift), (-aside, -2), *over, (aside, lift), *under):
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
def ridges(paper: Paper) -> alt.ConcatChart:
    """Draw peaks, bandwidths and ridge points over the years."""
    outside = paper.chips[~chips.on_chip(paper.chips)]
    rows = _rows(pd.concat([alike(outside, kind) for kind in UNITS]))
    rows = rows.assign(kind=rows.kind.map(COMPARED))
    rows = rows.assign(tera=rows.peak / 1e12, giga=rows.bandwidth / 1e9)
    of_lines = pd.DataFrame((line, *pair) for line, members in LINES.items() for pair in enumerate(members))
    joined = of_lines.set_axis(["line", "place", "key"], axis=1).merge(rows, on="key")[[*rows, "line", "place"]]
    panels = (
        _over_years(rows, joined, field, f"{title} ({unit})")
        for field, title, unit in (
            ("tera", "dense peak", "TFLOP/s"), ("giga", "bandwidth", "GB/s"), ("ridge", "ridge point", "FLOP/B"),
        )
    )  # fmt: skip
    years = f"{rows.year.min()} to {rows.year.max()}"
    description = f"Peaks, bandwidths and ridge points of {len(rows)} chips against their year, {years}."
    return alt.concat(*panels, name="chip-ridges", description=description)


def _over_years(rows: pd.DataFrame, joined: pd.DataFrame, field: str, title: str) -> alt.LayerChart:
    """Draw a number against the years, with product lines named at their first chip."""
    low, high = rows.year.min() - 0.7, rows.year.max() + 1.2
    width = theme.plot_width(3, left=text_size("1000", theme.TICK_SIZE)[0] + 24)
    x = LinearAxis(low=low, high=high, pixels=width, title="year", format="d", ticks=4)
    y = LogAxis.around(rows[field], (0.06, 0.08), pixels=150, title=title, vertical=True)
    colors, shapes = (
        {COMPARED[kind]: look for kind, look in looks.items() if kind in COMPARED}
        for looks in (theme.CHIP_COLORS, theme.CHIP_SHAPES)
    )
    places, color = (x("year"), y(field)), by_color("kind", colors)
    order = alt.Order("place:Q")  # two of one year have an order too
    lines = alt.Chart(joined).mark_line().encode(*places, color=color, detail=alt.Detail("line:N"), order=order)
    points = alt.Chart(rows).mark_point(size=22)
    points = points.encode(*places, color=color, shape=by_shape("kind", shapes))
    taken = [box for _, line in joined.groupby("line") for box in covered(line, *places)]
    first = joined[joined.place == joined.groupby("line").place.transform("min")].set_index("key").line
    named = rows.assign(name=rows.key.map(first).fillna(""))
    return alt.layer(
        lines, *hollow(tips(points, *TOOLTIP), "unconfirmed"), *names(named, "name", *places, taken),
        width=x.pixels, height=y.pixels,
    )  # fmt: skip
