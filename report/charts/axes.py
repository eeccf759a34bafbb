"""Axes whose pixels are known, so that labels can be placed before the chart is drawn."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import ceil, inf, isinf, log10
from typing import Any, Literal

import altair as alt
import pandas as pd

from report.charts import labels, theme
from report.charts.labels import Box, Point, spread, text_size
from report.paper.rows import each

Layers = alt.LayerChart | alt.FacetChart
"""The type of what ``alt.layer`` returns."""

LABELS = "labels"
"""Describes a layer that only names marks: the page leaves it out where it is narrower than the paper."""

LABEL_GAP = 6
"""Pixels between two labels of an axis at least."""


@dataclass(frozen=True)
class LogAxis:
    """A logarithmic axis from ``low`` to ``high``, ``pixels`` long; ``unit`` follows each tick's SI number."""

    low: float
    high: float
    pixels: float
    title: str
    unit: str = ""
    vertical: bool = False
    ticks: tuple[int, ...] = ()
    last: float = inf
    """Beyond it the axis only makes room, for names: it has no ticks there."""

    @classmethod
    def around(
        cls,
        values: Iterable[float],
        pixels: float,
        title: str,
        unit: str = "",
        vertical: bool = False,
        margins: tuple[float, float] = (0.05, 0.05),
    ) -> "LogAxis":
        """Hold all values that have a logarithm, with these shares of its length free below and above.

        Raises ValueError where none has.
        """
        logs = [log10(value) for value in values if value > 0]
        if not logs:
            raise ValueError(f"no {title} is above zero, as a logarithmic axis needs")
        extent = max(max(logs) - min(logs), 0.5) / (1 - sum(margins))
        middle_low = min(logs) - margins[0] * extent
        return cls(10**middle_low, 10 ** (middle_low + extent), pixels, title, unit, vertical)

    def pixel(self, value: float) -> float:
        share = log10(value / self.low) / log10(self.high / self.low)
        return self.pixels * (1 - share if self.vertical else share)

    def value(self, pixel: float) -> float:
        share = pixel / self.pixels
        return self.low * (self.high / self.low) ** (1 - share if self.vertical else share)

    @classmethod
    def of_batches(cls, batches: Iterable[int], pixels: float, room: float) -> "LogAxis":
        """Return an axis of batch sizes with ``room`` pixels free at its end."""
        ticks = tuple(sorted(set(batches)))
        low, high = ticks[0] / 1.2, max(ticks[-1], 2 * ticks[0])
        return cls(low, low * (high / low) ** (pixels / (pixels - room)), pixels, "batch size", ticks=ticks)

    @property
    def scale(self) -> alt.Scale:
        return alt.Scale(type="log", domain=[float(f"{self.low:.6g}"), float(f"{self.high:.6g}")], nice=False)

    @cached_property
    def _written(self) -> dict[str, Any]:
        """Scale and axis as Vega-Lite reads them: Altair copies a chart a dozen times, with all that is left out."""
        return {"scale": self.scale.to_dict(), "axis": self.axis.to_dict()}

    @property
    def axis(self) -> alt.Axis:
        """Return ticks with as many labels as fit: each decade's, or every second's, or third's."""
        if self.ticks:
            spaced: dict[str, Any] = {"labelOverlap": "parity", "labelSeparation": LABEL_GAP}  # else every second
            return alt.Axis(values=list(self.ticks), format="d", description=self.heading, **spaced)
        decades = log10(self.high / self.low)
        longest = text_size(f"100 M{self.unit}" if self.unit else "10000", theme.FONT_SIZE - 1)[0] + LABEL_GAP
        every = 1 if self.vertical else ceil(longest * decades / self.pixels)
        room = self.pixels / decades / (1 if self.vertical else 4 if self.unit else 3)
        if not self.vertical:
            room -= text_size(self.unit[1:], theme.FONT_SIZE - 1)[0] if self.unit else 0
        named = "1|2|5" if room > 45 else "1|3" if room > 35 else "1"
        number = "datum.value < 1e4 ? format(datum.value, '~f') : format(datum.value, '~s')"
        if self.unit:
            number = f"replace(format(datum.value, '~s'), regexp('([a-zµA-Z]?)$'), ' $1{self.unit}')"
            if "/B" in self.unit:  # an intensity below one is no thousandth
                number = f"(datum.value < 1 ? format(datum.value, '~f') + ' {self.unit}' : {number})"
        before = "" if isinf(self.last) else f" && datum.value <= {self.last:.6g}"
        major = f"test(/^1(\\.0*)?e/, format(datum.value, 'e')){before}"
        if every > 1:
            before += f" && round(log(datum.value) / LN10) % {every} == 0"
        # In a narrow decade, lines at all of 1 to 9 would be hatching.
        tick, grid = (0.0, 0.0) if named == "1" or before else (0.3, 0.4)
        return alt.Axis(
            labelExpr=f"test(/^({named})(\\.0*)?e/, format(datum.value, 'e')){before} ? {number} : ''",
            tickCount=int(decades) + 3,  # more than the decades: ticks at all of 1 to 9, near or far
            tickOpacity=alt.condition(major, alt.value(1), alt.value(tick)),
            gridOpacity=alt.condition(major, alt.value(1), alt.value(grid)),
            labelOverlap="greedy",  # where the page makes a panel narrower
            labelSeparation=LABEL_GAP,
            description=self.heading,
        )

    @property
    def heading(self) -> str:
        """The title with the unit: for listeners, who miss it at the ticks, and over a column of the figure's data."""
        return f"{self.title} ({self.unit})" if self.unit and self.unit not in self.title else self.title

    def channel(self, field: str, **options: Any) -> Any:
        """Return the encoding of a quantitative field on this axis."""
        encoding = alt.Y if self.vertical else alt.X
        return encoding(f"{field}:Q", title=self.title, **self._written, **options)


@dataclass(frozen=True)
class YearAxis:
    """A horizontal axis of years from ``low`` to ``high``, ``pixels`` long."""

    low: float
    high: float
    pixels: float

    def pixel(self, value: float) -> float:
        return self.pixels * (value - self.low) / (self.high - self.low)

    def channel(self, field: str, **options: Any) -> Any:
        """Return the encoding of a quantitative field on this axis."""
        scale = alt.Scale(domain=[self.low, self.high], nice=False)
        axis = alt.Axis(format="d", tickMinStep=1)
        return alt.X(f"{field}:Q", title="year", scale=scale, axis=axis, **options)


def named_points(
    points: pd.DataFrame,
    text: str,
    x: LogAxis | YearAxis,
    x_field: str,
    y: LogAxis,
    y_field: str,
    taken: tuple[Box, ...] = (),
    kept: tuple[str, ...] = (),
) -> Layers | None:
    """Return the names of points, free of overlaps, with leader lines to those that stand off; None without any.

    The columns ``kept`` go with the names. Points that differ in the last of them are never seen together: each
    group is placed by itself. A point without a logarithm is on no logarithmic axis, and has no name.
    """
    names = []
    for group in _groups(points[(points[x_field] > 0) & (points[y_field] > 0)], kept):
        rows = list(each(group))
        values = [(getattr(row, x_field), getattr(row, y_field), str(getattr(row, text))) for row in rows]
        pixels = [(x.pixel(at), y.pixel(over), name) for at, over, name in values]
        for label in labels.place(pixels, Box(0, 0, x.pixels, y.pixels), theme.LABEL_SIZE, taken):
            mark, row = pixels[label.index], rows[label.index]
            name = _name(values[label.index], mark[:2], label.center, label.leader_end or mark[:2])
            names.append(name | {column: getattr(row, column) for column in kept})
    return _layers(names, x, y, "center") if names else None


def named_ends(
    ends: pd.DataFrame,
    text: str,
    x: LogAxis,
    x_field: str,
    y: LogAxis,
    y_field: str,
    column: float,
    kept: tuple[str, ...] = (),
) -> Layers:
    """Return the names of lines, a row each, one above the other from the pixel ``column`` on, joined by leaders.

    The columns ``kept`` go with the names. Lines that differ in the last of them are never seen together.
    """
    height = text_size("x", theme.LABEL_SIZE)[1]
    names = []
    for group in _groups(ends, kept):
        rows = list(each(group))
        over = [y.pixel(getattr(row, y_field)) for row in rows]
        heights = spread(over, height, height / 2, y.pixels - height / 2)
        for row, mark_y, name_y in zip(rows, over, heights, strict=True):
            value = (getattr(row, x_field), getattr(row, y_field), str(getattr(row, text)))
            mark = (x.pixel(value[0]), mark_y)
            name = _name(value, mark, (column + 14, name_y), (column + 12, name_y))
            names.append(name | {kept_column: getattr(row, kept_column) for kept_column in kept})
    return _layers(names, x, y, "left")


def _groups(frame: pd.DataFrame, kept: tuple[str, ...]) -> list[pd.DataFrame]:
    return [group for _, group in frame.groupby(kept[-1], sort=False)] if kept else [frame]


def _name(value: tuple[float, float, str], mark: Point, place: Point, end: Point) -> dict[str, Any]:
    """Return a name's row: the mark in the data's units, and offsets from it, in pixels, of name and leader's end."""
    (x, y), (dx, dy), (ex, ey) = mark, place, end
    offsets = {"dx": dx - x, "dy": dy - y, "ex": ex - x, "ey": ey - y}
    where = {"x": float(f"{value[0]:.5g}"), "y": float(f"{value[1]:.5g}")}
    return {"text": value[2], **where, **{name: round(offset, 1) for name, offset in offsets.items()}}


def _layers(names: list[dict[str, Any]], x: LogAxis | YearAxis, y: LogAxis, align: Literal["left", "center"]) -> Layers:
    """Return names and leaders as layers, tied to their marks in pixels, so that they keep their distance in a zoom."""
    base = alt.Chart(pd.DataFrame(names)).encode(x.channel("x"), y.channel("y"))
    to_end: dict[str, Any] = {"x2Offset": {"expr": "datum.ex"}, "y2Offset": {"expr": "datum.ey"}}
    leaders = base.mark_rule(color=theme.MUTED, strokeWidth=0.6, clip=True, **to_end)
    to_place: dict[str, Any] = {"dx": {"expr": "datum.dx"}, "dy": {"expr": "datum.dy"}}
    texts = base.mark_text(fontSize=theme.LABEL_SIZE, color=theme.INK, align=align, clip=True, **to_place)
    return alt.layer(leaders.encode(alt.X2("x:Q"), alt.Y2("y:Q")), texts.encode(alt.Text("text:N")), description=LABELS)
