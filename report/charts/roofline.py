"""Rooflines as frames and layers: attainable FLOP/s against operational intensity on logarithmic axes."""

from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Any

import altair as alt
import pandas as pd

from measure.domain.roofs import Roofline
from report.charts import theme
from report.charts.axes import LogAxis
from report.charts.labels import Box, along

SOLID, DASHED = [1, 0], [5, 3]


def corners(roof: Roofline, x: LogAxis) -> list[dict[str, float]]:
    """Return the points between which a roof is straight: where the axis begins, at its ridge, where the axis ends."""
    inner = [roof.ridge_flop_per_byte] if x.low < roof.ridge_flop_per_byte < x.high else []
    return [{"intensity": value, "rate": roof.attainable(value)} for value in (x.low, *inner, x.high)]


def outline(roofs: list[tuple[dict[str, Any], Roofline]], x: LogAxis) -> pd.DataFrame:
    """Return a row for each corner of a roof, with the columns that describe the roof."""
    return pd.DataFrame([{**about, **corner} for about, roof in roofs for corner in corners(roof, x)])


def room(roofs: Iterable[Roofline], x: LogAxis, y: LogAxis) -> Iterator[Box]:
    """Yield the boxes in which roofs are drawn, which no name may cover; of a roof without a slope its flat part."""
    for roof in roofs:
        flat = y.pixel(roof.peak_flop_per_s)
        yield Box(0, flat - 1, x.pixels, flat + 1)
        if isfinite(roof.bandwidth_byte_per_s):
            ends = [(x.pixel(at), y.pixel(roof.attainable(at))) for at in (x.low, roof.ridge_flop_per_byte)]
            yield from along(*ends)


def lines(frame: pd.DataFrame, x: LogAxis, y: LogAxis, detail: str, dashed: str | None = None) -> alt.Chart:
    """Return the roofs' lines, one for each value of ``detail``; dashed where the column ``dashed`` holds true."""
    scale = alt.Scale(domain=[False, True], range=[SOLID, DASHED])
    dash = alt.StrokeDash(f"{dashed}:N", scale=scale, legend=None) if dashed else alt.Undefined
    return (
        alt.Chart(frame)
        .mark_line(color=theme.INK, strokeWidth=1.4, clip=True)
        .encode(x.channel("intensity"), y.channel("rate"), alt.Detail(f"{detail}:N"), strokeDash=dash)
    )
