"""What figures of chips share: how a chip is described and marked, and diagonals of equal ratio."""

from collections.abc import Callable, Mapping
from typing import Any

import altair as alt
import pandas as pd

from report.charts import theme
from report.charts.axes import LogAxis
from report.charts.labels import Box, text_size
from report.load import chips
from report.text.frame_rows import each
from report.text.quantities import intensity, rate_unit, ridge_unit, si

TOOLTIP = [
    "chip",
    "kind",
    "year",
    "rate",
    "dense peak",
    "sparse peak",
    "bandwidth",
    "memory",
    "ridge point",
    "power",
    "derivation",
    "sources",
]

PEAK_TITLE = "dense peak (FLOP/s; of integers OP/s)"
"""Of an axis on which chips that print no floating-point rate stand at that of integers."""


def rate(precision: str, unit: str) -> str:
    """A precision and unit as figures name them."""
    return f"{precision}, {unit} units"


def _each(rows: pd.DataFrame, told: Callable[[Any], str]) -> list[str]:
    return [told(row) for row in each(rows)]


def described(rows: pd.DataFrame) -> pd.DataFrame:
    """The columns that charts of chips need: the numbers drawn, and the tooltip's in words."""
    return pd.DataFrame(
        {
            "chip": rows.chip,
            "name": rows.chip.where(~chips.on_chip(rows), rows.chip + " †"),
            "kind": rows.kind.map(chips.KINDS),
            "year": rows.year.astype(int),
            "peak": rows.peak_flop_per_s,
            "flow": rows.bandwidth_byte_per_s,
            "ridge": rows.ridge_flop_per_byte.map(lambda value: float(f"{value:.6g}")),
            "confirmed": rows.verified == "yes",
            "rate": _each(rows, lambda row: rate(row.precision, row.unit)),
            "dense peak": _each(rows, lambda row: si(row.peak_flop_per_s, rate_unit(row.precision), 4)),
            "sparse peak": _each(
                rows,
                lambda row: (
                    "not printed"
                    if pd.isna(row.sparse_peak_flop_per_s)
                    else si(row.sparse_peak_flop_per_s, rate_unit(row.precision), 4)
                ),
            ),
            "bandwidth": _each(rows, lambda row: si(row.bandwidth_byte_per_s, "B/s", 4)),
            "memory": rows.memory_type,
            "ridge point": _each(rows, lambda row: intensity(row.ridge_flop_per_byte, ridge_unit(row.precision), 4)),
            "power": _each(rows, lambda row: "not printed" if pd.isna(row.power_w) else si(row.power_w, "W")),
            "derivation": _each(rows, lambda row: row.derivation or "as the sources print it"),
            "sources": rows.source.str.replace(";", ", "),
        }
    )  # fmt: skip


def marks(
    points: pd.DataFrame, x: LogAxis, y: LogAxis, x_field: str, legend: alt.Legend | None, opacity: Any
) -> alt.Chart:
    """Points at their peaks, coloured and shaped by kind, hollow where an input of the roof was not confirmed."""
    colors, shapes = theme.kind_styles(points.kind)
    confirmed = alt.when("datum.confirmed").then(alt.value(1)).otherwise(alt.value(0))
    drawn = alt.Chart(points).mark_point(size=42, strokeWidth=1.2, clip=True)
    return drawn.encode(
        x.channel(x_field),
        y.channel("peak"),
        stroke=alt.Stroke("kind:N", scale=colors, title="kind", legend=legend),
        fill=alt.Fill("kind:N", scale=colors, title="kind", legend=legend),
        shape=alt.Shape("kind:N", scale=shapes, title="kind", legend=legend),
        fillOpacity=confirmed,
        opacity=opacity,
        tooltip=TOOLTIP,
    )


def diagonals(x: LogAxis, y: LogAxis, named: Mapping[float, str]) -> tuple[list[alt.Chart], tuple[Box, ...]]:
    """Lines along which y over x is the number that each name tells, and the room that the names take."""
    ends, names, taken = [], [], []
    for ratio, text in named.items():
        low, high = max(x.low, y.low / ratio), min(x.high, y.high / ratio)
        if low >= high:
            continue
        ends += [{"ratio": ratio, "x": end, "y": end * ratio} for end in (low, high)]
        width, height = text_size(text, theme.LABEL_SIZE)
        column = min(x.pixel(high) - width / 2 - 4, x.pixels - width / 2 - 2)
        row = max(y.pixel(high * ratio) + height / 2 + 3, height)
        taken.append(Box(column - width / 2, row - height / 2, column + width / 2, row + height / 2))
        names.append({"text": text, "x": x.value(column), "y": y.value(row)})
    grid = alt.Chart(pd.DataFrame(ends)).mark_line(
        color="#b5b5b5", strokeDash=[2, 3], strokeWidth=1, clip=True
    )
    texts = alt.Chart(pd.DataFrame(names)).mark_text(color=theme.MUTED, fontSize=theme.LABEL_SIZE, clip=True)
    return [
        grid.encode(x.channel("x"), y.channel("y"), detail="ratio:N"),
        texts.encode(x.channel("x"), y.channel("y"), text="text:N"),
    ], tuple(taken)


def found(picked: alt.Parameter, search: alt.Parameter) -> Any:
    """The opacity of what is picked in the legend and found by its name; the rest is faint."""
    named = alt.expr.test(alt.expr.regexp(search, "i"), alt.datum.chip)
    return theme.faded_unless(picked & named)


def search_box() -> alt.Parameter:
    """An input for a part of a chip's name."""
    return alt.param(
        name="search", value="", bind=alt.binding(input="search", name="Find a chip ", placeholder="name")
    )
