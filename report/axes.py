"""Logarithmic axes whose pixels are known, so that labels can be placed before the chart is drawn."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import log10
from typing import Any

import altair as alt
import pandas as pd

from report import labels, theme
from report.labels import Box, spread, text_size
from report.rows import each

Layers = alt.LayerChart | alt.FacetChart
"""What ``alt.layer`` is typed to give."""

LABELS = "labels"
"""Describes a layer that only names marks: the page leaves it out where it is narrower than the paper."""


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
        """Holds all values, with these shares of its length free below and above."""
        logs = [log10(value) for value in values]
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
        """Batch sizes on a base-2 axis, with ``room`` pixels free at its end."""
        ticks = tuple(sorted(set(batches)))
        low, high = ticks[0] / 1.2, max(ticks[-1], 2 * ticks[0]) * 1.0
        return cls(low, low * (high / low) ** (pixels / (pixels - room)), pixels, "batch size", ticks=ticks)

    @property
    def scale(self) -> alt.Scale:
        return alt.Scale(type="log", domain=[float(f"{self.low:.6g}"), float(f"{self.high:.6g}")], nice=False)

    @property
    def axis(self) -> alt.Axis:
        if self.ticks:
            return alt.Axis(values=list(self.ticks), format="d")
        decades = log10(self.high / self.low)
        room = self.pixels / decades / (1 if self.vertical else 3)
        named = "1|2|5" if room > 45 else "1|3" if room > 30 else "1"
        number = "datum.value < 1e4 ? format(datum.value, '~f') : format(datum.value, '~s')"
        if self.unit:
            number = f"replace(format(datum.value, '~s'), regexp('([a-zµA-Z]?)$'), ' $1{self.unit}')"
        major = "test(/^1(\\.0*)?e/, format(datum.value, 'e'))"
        return alt.Axis(
            labelExpr=f"test(/^({named})(\\.0*)?e/, format(datum.value, 'e')) ? {number} : ''",
            tickCount=int(decades) + 3,  # more than the decades: ticks at all of 1 to 9, near or far
            tickOpacity=alt.condition(major, alt.value(1), alt.value(0.3)),
            gridOpacity=alt.condition(major, alt.value(1), alt.value(0.4)),
            labelOverlap="greedy",
        )

    def channel(self, field: str, **options: Any) -> Any:
        """The encoding of a quantitative field on this axis."""
        kind = alt.Y if self.vertical else alt.X
        return kind(f"{field}:Q", title=self.title, scale=self.scale, axis=self.axis, **options)


def named_points(
    points: pd.DataFrame,
    text: str,
    x: LogAxis,
    x_field: str,
    y: LogAxis,
    y_field: str,
    taken: tuple[Box, ...] = (),
) -> Layers | None:
    """The names of points as a layer of leader lines and one of texts, placed free of overlaps; None without any.

    The labels stand in the data's coordinates, so that they follow when a reader zooms.
    """
    pixels = [
        (x.pixel(getattr(row, x_field)), y.pixel(getattr(row, y_field)), str(getattr(row, text)))
        for row in each(points)
    ]
    panel = Box(0, 0, x.pixels, y.pixels)
    placed = labels.place(pixels, panel, theme.LABEL_SIZE, taken)
    if not placed:
        return None

    def at(pixel: tuple[float, float], end: str = "") -> dict[str, float]:
        return {f"x{end}": _round(x.value(pixel[0])), f"y{end}": _round(y.value(pixel[1]))}

    texts = pd.DataFrame([{**at(label.center), "text": pixels[label.index][2]} for label in placed])
    written = alt.Chart(texts).mark_text(fontSize=theme.LABEL_SIZE, color=theme.INK, clip=True)
    layers = [written.encode(x.channel("x"), y.channel("y"), alt.Text("text:N"))]
    lines = [
        {**at(pixels[label.index][:2]), **at(label.leader_end, "2")} for label in placed if label.leader_end
    ]
    if lines:
        leaders = alt.Chart(pd.DataFrame(lines)).mark_rule(color=theme.MUTED, strokeWidth=0.6, clip=True)
        layers.insert(0, leaders.encode(x.channel("x"), y.channel("y"), x2="x2:Q", y2="y2:Q"))
    return alt.layer(*layers, description=LABELS)


def named_ends(
    ends: pd.DataFrame, text: str, x: LogAxis, x_field: str, y: LogAxis, y_field: str, column: float
) -> Layers:
    """The names of lines, a row each, one above the other from the pixel ``column`` on, joined by leaders."""
    wished = [y.pixel(value) for value in ends[y_field]]
    height = text_size("x", theme.LABEL_SIZE)[1]
    rows = spread(wished, height, height / 2, y.pixels - height / 2)
    names = pd.DataFrame(
        {
            "text": ends[text].tolist(),
            "end": [_round(x.value(x.pixel(value) + 2)) for value in ends[x_field]],
            "rate": [_round(value) for value in ends[y_field]],
            "x": _round(x.value(column + 12)),
            "y": [_round(y.value(row)) for row in rows],
        }
    )
    base = alt.Chart(names)
    leaders = base.mark_rule(color=theme.MUTED, strokeWidth=0.6, clip=True)
    written = base.mark_text(fontSize=theme.LABEL_SIZE, color=theme.INK, align="left", dx=2, clip=True)
    return alt.layer(
        leaders.encode(x.channel("end"), y.channel("rate"), x2="x:Q", y2="y:Q"),
        written.encode(x.channel("x"), y.channel("y"), alt.Text("text:N")),
        description=LABELS,
    )


def _round(value: float) -> float:
    """Enough digits to place a mark, and no more in the page."""
    return float(f"{value:.5g}")
