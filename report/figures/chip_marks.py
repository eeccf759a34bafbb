"""What figures of chips share: how a chip is described and marked, and diagonals of equal ratio."""

from collections.abc import Callable, Mapping
from typing import Any

import altair as alt
import pandas as pd

from report.charts import theme
from report.charts.axes import LogAxis
from report.charts.labels import Box, text_size
from report.figures.marks import opacity_where, rounded, styles, texts, tips
from report.load import chips
from report.text.frame_rows import each
from report.text.prose import intensity, rate_unit, ridge_unit, si

RATES = ["dense peak", "sparse peak", "bandwidth", "memory", "ridge point", "power", "derivation", "sources"]
TOOLTIP = ["chip", "kind", "year", "rate", *RATES]

PEAK_TITLE = "dense peak (FLOP/s; of integers OP/s)"
"""Of an axis on which chips that print no floating-point rate stand at that of integers."""


def rate(precision: str, unit: str) -> str:
    """Name a precision and unit as figures do."""
    return f"{precision}, {unit} units"


def described(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the columns that charts of chips need: the numbers drawn, and the tooltip's in words."""

    def words(write: Callable[[Any], str]) -> list[str]:
        return [write(row) for row in each(rows)]

    def printed(value: float, unit: str, digits: int = 3) -> str:
        return "not printed" if pd.isna(value) else si(value, unit, digits)

    columns = {
        "chip": rows.chip,
        "name": rows.chip.where(~chips.on_chip(rows), rows.chip + " †"),
        "kind": rows.chip_kind.map(chips.KINDS),
        "year": rows.year.astype(int),
        "peak": rows.peak_flop_per_s,
        "flow": rows.bandwidth_byte_per_s,
        "ridge": rounded(rows.ridge_flop_per_byte, 6),
        "confirmed": rows.verified == "yes",
        "rate": words(lambda row: rate(row.precision, row.unit)),
        "dense peak": words(lambda row: si(row.peak_flop_per_s, rate_unit(row.precision), 4)),
        "sparse peak": words(lambda row: printed(row.sparse_peak_flop_per_s, rate_unit(row.precision), 4)),
        "bandwidth": words(lambda row: si(row.bandwidth_byte_per_s, "B/s", 4)),
        "memory": rows.memory_type,
        "ridge point": words(lambda row: intensity(row.ridge_flop_per_byte, ridge_unit(row.precision), 4)),
        "power": words(lambda row: printed(row.power_w, "W")),
        "derivation": words(lambda row: row.derivation or "as the sources print it"),
        "sources": rows.source.str.replace(";", ", "),
    }
    return pd.DataFrame(columns)


def marks(
    points: pd.DataFrame, x: LogAxis, y: LogAxis, x_field: str, legend: alt.Legend | None, opacity: Any
) -> alt.Chart:
    """Return points at their peaks, coloured and shaped by kind, hollow where a roof's input was not confirmed."""
    return alt.Chart(points).mark_point(size=42, strokeWidth=1.2, clip=True).encode(
        x.channel(x_field), y.channel("peak"), opacity=opacity, tooltip=tips(*TOOLTIP),
        **styles("kind", *theme.kinds(points.kind), legend, hollow=True, title="kind"),
        fillOpacity=opacity_where("datum.confirmed"),
    )  # fmt: skip


def diagonals(x: LogAxis, y: LogAxis, named: Mapping[float, str]) -> tuple[list[alt.Chart], tuple[Box, ...]]:
    """Return lines along which y over x is the number that each name tells, and the room that the names take."""
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
    lines = alt.Chart(pd.DataFrame(ends))
    lines = lines.mark_line(color="#b5b5b5", strokeDash=[2, 3], strokeWidth=1, clip=True)
    drawn = lines.encode(x.channel("x"), y.channel("y"), alt.Detail("ratio:N"))
    return [drawn, texts(names, x, y, color=theme.MUTED)], tuple(taken)


def found(picked: alt.Parameter, search: alt.Parameter) -> Any:
    """Return the opacity of what is picked in the legend and found by its name; the rest is faint."""
    return theme.faded_unless(picked & named_like(search))


def named_like(search: alt.Parameter) -> Any:
    """Return the condition that a chip's name holds what is looked for."""
    return alt.expr.test(alt.expr.regexp(search, "i"), alt.datum.chip)


def search_box() -> alt.Parameter:
    """Return an input for a part of a chip's name."""
    box = alt.binding(input="search", name="Find a chip ", placeholder="name")
    return alt.param(name="search", value="", bind=box)
