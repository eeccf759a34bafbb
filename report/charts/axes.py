"""Encodings: axes with known pixels, so that names can be placed before the chart is drawn; colours and shapes.

``axis("latency_s")`` encodes a field, as ``alt.Y`` if the axis is vertical and ``alt.X`` if not; ``axis(1.0)`` encodes
a value. With ``shown=False`` an axis has no labels and no title, because the panel to its left has them. `charts.js`
shows them again on a page that stacks the panels.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log10
from typing import Any, ClassVar

import altair as alt

from report.charts import theme
from report.charts.labels import text_size

alt.utils.schemapi.DEBUG_MODE = False  # a test validates whole charts; Altair would validate each part of them
for part in (alt.MarkDef, alt.FacetedEncoding):  # replaced, never changed; Altair copies them with every layer
    part.__deepcopy__ = lambda self, _: self

LABEL_GAP = 6  # least pixels between two labels of an axis


@dataclass(frozen=True)
class Held:
    """A finished part of a chart, and its axis."""

    part: dict[str, Any]
    axis: "Axis"
    _schema: ClassVar = {"type": "object"}  # Altair calls ``to_dict`` of anything with a schema

    def to_dict(self) -> dict[str, Any]:
        return self.part


@dataclass(frozen=True, kw_only=True)
class Axis:
    """The parts that all axes share. Pixels count from the left, or from the top if ``vertical``."""

    pixels: float
    title: str = ""
    unit: str = ""
    vertical: bool = False
    shown: bool = True

    def pixel(self, value: Any) -> float:
        share = self._share(value)
        return self.pixels * (1 - share if self.vertical else share)

    def _share(self, value: Any) -> float:
        raise NotImplementedError

    def _guides(self) -> tuple[dict[str, Any], dict[str, Any]]:
        raise NotImplementedError

    @property
    def heading(self) -> str:
        """The heading of a column of values in the figure's CSV."""
        return f"{self.title} ({self.unit})" if self.unit and self.unit not in self.title else self.title

    def __call__(self, field: Any) -> Any:
        scale, guide = self._guides()
        kind = "nominal" if scale["type"] == "band" else "quantitative"
        guide = {"grid": kind == "quantitative"} | guide | {"description": self.heading}
        guide |= {} if self.shown else {"labels": False, "ticks": False}
        title = (self.title if self.shown else None) or None
        about: Any = {"type": kind, "title": title, "scale": Held(scale, self), "axis": Held(guide, self)}
        if isinstance(field, str):
            return (alt.Y if self.vertical else alt.X)(field=field, **about)
        return (alt.YDatum if self.vertical else alt.XDatum)(datum=field, **about)


@dataclass(frozen=True, kw_only=True)
class LogAxis(Axis):
    """A logarithmic axis. Its unit follows each tick's SI number. Without ``ticks`` it chooses its own."""

    low: float
    high: float
    ticks: tuple[float, ...] = ()

    @classmethod
    def around(cls, values: Iterable[float], margins: tuple[float, float] = (0.05, 0.05), **about: Any) -> "LogAxis":
        """Cover all values that have a logarithm, with these shares of its length free below and above.

        Values near each other are in its middle. Raises ValueError if none has a logarithm.
        """
        logs = [log10(value) for value in values if value > 0]
        if not logs:
            raise ValueError(f"no {about.get('title', 'value')} is above zero, as a logarithmic axis needs")
        spread = max(logs) - min(logs)
        least = spread if spread > 0.5 else 0.8  # decades: 0.8 hold two of 1, 2 and 5
        extent = least / (1 - sum(margins))
        start = min(logs) - (least - spread) / 2 - margins[0] * extent
        return cls(low=10**start, high=10 ** (start + extent), **about)

    @classmethod
    def of_batches(cls, batches: Iterable[int], pixels: float) -> "LogAxis":
        ticks = tuple(sorted(set(batches)))
        high = 1.2 * max(ticks[-1], 2 * ticks[0])
        return cls(low=ticks[0] / 1.2, high=high, pixels=pixels, title="batch size", ticks=ticks)

    def _share(self, value: float) -> float:
        return log10(value / self.low) / log10(self.high / self.low)

    def value(self, pixel: float) -> float:
        share = pixel / self.pixels
        return self.low * (self.high / self.low) ** (1 - share if self.vertical else share)

    def _guides(self) -> tuple[dict[str, Any], dict[str, Any]]:
        domain = [float(f"{self.low:.6g}"), float(f"{self.high:.6g}")]
        spaced = {"labelOverlap": "parity" if self.ticks else "greedy", "labelSeparation": LABEL_GAP}
        guide = {"values": list(self.ticks), "format": "d"} if self.ticks else self._decades()
        return {"type": "log", "domain": domain, "nice": False}, guide | spaced

    def _decades(self) -> dict[str, Any]:
        """Return ticks with as many labels as fit: at each decade, or every second, or every third."""
        decades = log10(self.high / self.low)
        longest = text_size(f"100 M{self.unit}" if self.unit else "10000", theme.TICK_SIZE)[0] + LABEL_GAP
        every = 1 if self.vertical else ceil(longest * decades / self.pixels)
        room = self.pixels / decades / (1 if self.vertical else 4 if self.unit else 3)
        if not self.vertical:
            room -= text_size(self.unit[1:], theme.TICK_SIZE)[0]
        three = 60 if self.vertical else 45  # where 1, 2 and 5 have room for their labels
        named = "1|2|5" if room > three else "1|3" if room > 35 else "1"
        number = "datum.value < 1e4 ? format(datum.value, '~f') : format(datum.value, '~s')"
        if self.unit:
            number = with_unit("datum.value", "~s", self.unit)
            if "/B" in self.unit:  # an intensity below one is no thousandth
                number = f"(datum.value < 1 ? format(datum.value, '~f') + ' {self.unit}' : {number})"
        spaced = f" && round(log(datum.value) / LN10) % {every} == 0" if every > 1 else ""
        # In a narrow decade, lines at all of 1 to 9 would be hatching
        tick, grid = (0.0, 0.0) if named == "1" or spaced else (0.3, 0.4)
        major = {"test": "test(/^1(\\.0*)?e/, format(datum.value, 'e'))", "value": 1}
        return {
            "labelExpr": f"test(/^({named})(\\.0*)?e/, format(datum.value, 'e')){spaced} ? {number} : ''",
            "tickCount": int(decades) + 3,  # more than the decades: ticks at all of 1 to 9, near or far
            "tickOpacity": {"condition": major, "value": tick},
            "gridOpacity": {"condition": major, "value": grid},
        }


@dataclass(frozen=True, kw_only=True)
class LinearAxis(Axis):
    """A linear axis. ``format`` is ``%``, or one of d3's; the unit follows the number."""

    low: float
    high: float
    format: str = "~g"
    ticks: int = 6  # about so many

    @classmethod
    def around(cls, values: Iterable[float], zero: bool = True, margin: float = 0.04, **about: Any) -> "LinearAxis":
        """Cover all values, and ``zero``, with a share of its length free at each end that is not zero.

        Raises ValueError without a value.
        """
        finite = [value for value in values if value == value]
        if not finite:
            raise ValueError(f"no {about.get('title', 'value')} is a number")
        low, high = min(finite + [0] * zero), max(finite + [0] * zero)
        extent = high - low or 1
        low -= margin * extent if low or not zero else 0
        return cls(low=low, high=high + (margin * extent if high or not zero or low == high else 0), **about)

    def _share(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low)

    def _guides(self) -> tuple[dict[str, Any], dict[str, Any]]:
        form = "~%" if self.format == "%" else self.format
        guide: dict[str, Any] = {"format": form, "tickCount": self.ticks, "labelSeparation": LABEL_GAP}
        guide["labelOverlap"] = "parity"
        guide |= {"labelExpr": with_unit("datum.value", form, self.unit)} if self.unit else {}
        guide |= {"tickMinStep": 1} if form == "d" else {}
        domain = [float(f"{self.low:.6g}"), float(f"{self.high:.6g}")]
        return {"type": "linear", "domain": domain, "nice": False, "zero": False}, guide


@dataclass(frozen=True, kw_only=True)
class Categories(Axis):
    """Names in their order: rows from the top if ``vertical``, else columns. ``padding`` is a share of a step."""

    names: tuple[str, ...]
    vertical: bool = True
    padding: float = 0.25

    @classmethod
    def steps(cls, names: Iterable[str], step: float = 20, **about: Any) -> "Categories":
        """Give each name ``step`` pixels."""
        ordered = tuple(dict.fromkeys(names))
        return cls(names=ordered, pixels=step * len(ordered), **about)

    def pixel(self, value: str) -> float:
        return self.pixels * (self.names.index(value) + 0.5) / len(self.names)

    @property
    def room(self) -> float:
        return longest(self.names, theme.TICK_SIZE) + 12 + (theme.FONT_SIZE + 6 if self.title else 0)

    def _guides(self) -> tuple[dict[str, Any], dict[str, Any]]:
        guide: dict[str, Any] = {"ticks": False, "domain": False, "labelPadding": 6, "labelAngle": 0}
        if not self.vertical and longest(self.names, theme.TICK_SIZE) + LABEL_GAP > self.pixels / len(self.names):
            guide |= {"labelAngle": -40, "labelAlign": "right", "labelBaseline": "middle"}
        padding = {"paddingInner": self.padding, "paddingOuter": self.padding / 2}
        return {"type": "band", "domain": list(self.names)} | padding, guide


def by_color(field: str, palette: Mapping[str, str], **about: Any) -> alt.Color:
    """Encode names by a palette (name to colour), in the order of the legend."""
    return alt.Color(field=field, type="nominal", scale=_scale(palette), **about)


def by_shape(field: str, palette: Mapping[str, str], **about: Any) -> alt.Shape:
    return alt.Shape(field=field, type="nominal", scale=_scale(palette), **about)


def by_size(field: str, largest: float) -> alt.Size:
    """Encode a value as the area of a mark, at most ``theme.LARGEST`` pixels at ``largest``."""
    scale = {"domain": [0, largest], "range": [0, theme.LARGEST], "clamp": True}
    return alt.Size(field=field, type="quantitative", scale=scale, legend=None)


def _scale(palette: Mapping[str, str]) -> Any:
    return {"domain": [*palette], "range": [*palette.values()]}


def with_unit(value: str, form: str, unit: str) -> str:
    """Return the expression that writes a number with its SI prefix at its unit."""
    return f"replace(format({value}, '{form}'), regexp('([a-zµA-Z]?)$'), ' $1{unit}')"


def longest(names: Sequence[str], font_size: float = theme.LABEL_SIZE) -> float:
    return max(text_size(name, font_size)[0] for name in names)
