"""The roofline plane. Its axes follow from the roofs.

roof = DrawnRoof.of(Roofline(peak, bandwidth), "fp32 ")
plane = Plane.over([roof], plot_width(), 380)
points = plane.place(alt.Chart(rows).mark_point(), "intensity", "flop_per_s")
plane.chart(points, *plane.names(rows, "name", "intensity", "flop_per_s"), name="plane")
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import atan, degrees, isfinite, sqrt
from typing import Any

import altair as alt
import pandas as pd

from measure.domain.roofs import Roofline
from report.charts import annotations, theme
from report.charts.annotations import NAMES, tips
from report.charts.axes import LogAxis, by_size
from report.charts.labels import Box, along, text_size
from report.markdown import si

LOW = 100  # pixels of a plane whose foot has no room for two texts above each other


@dataclass(frozen=True)
class DrawnRoof:
    """A roof with texts for its flat part and its slope; ``caches`` are further slopes: a text and B/s each."""

    roofline: Roofline
    peak: str
    memory: str = ""
    caches: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of(cls, roof: Roofline, before: str = "") -> "DrawnRoof":
        """Name a roof by its rates; ``before`` is a prefix for the flat part."""
        return cls(roof, before + si(roof.peak_flop_per_s, "FLOP/s"), si(roof.bandwidth_byte_per_s, "B/s"))

    @property
    def slopes(self) -> list[tuple[str, Roofline]]:
        """The roof and the roofs of its caches, and their texts."""
        caches = [(text, Roofline(self.roofline.peak_flop_per_s, speed)) for text, speed in self.caches]
        return [(self.memory, self.roofline), *caches]


@dataclass(frozen=True)
class Plane:
    """Attainable FLOP/s against operational intensity; the first roof divides the plane into its regimes."""

    roofs: tuple[DrawnRoof, ...]
    x: LogAxis
    y: LogAxis

    @classmethod
    def over(
        cls, roofs: Sequence[DrawnRoof], width: float, height: float, intensities: Iterable[float] = (),
        rates: Iterable[float] = (),
    ) -> "Plane":  # fmt: skip
        """Reach from a fortieth of the lowest ridge to 40 times the highest, and over the points' extents given."""
        ridges = [roof.roofline.ridge_flop_per_byte for roof in roofs]
        ridges = [ridge for ridge in ridges if ridge > 0] or [1]  # 0 where no bandwidth is known
        peaks = [roof.roofline.peak_flop_per_s for roof in roofs]
        x = [min(ridges) / 40, max(ridges) * 40, *intensities]
        y = [min(peaks) / 200, 2.2 * max(peaks), *rates]
        across = LogAxis.around(x, (0.01, 0.01), pixels=width, title="operational intensity", unit="FLOP/B")
        up = LogAxis.around(y, (0.01, 0.01), pixels=height, title="performance", unit="FLOP/s", vertical=True)
        return cls(tuple(roofs), across, up)

    def chart(
        self, *layers: alt.Chart, title: Any = "", has_regimes: bool = True, **about: Any
    ) -> alt.LayerChart:  # fmt: skip
        """Draw the roofs, and these layers on them. Regimes are those of the first roof."""
        size = {"width": self.x.pixels, "height": self.y.pixels}
        shades = self._shades() if has_regimes else ()
        return alt.layer(*shades, *self._roofs(), *self._notes(), *layers, title=title, **size, **about)

    def place(self, points: alt.Chart, intensity: str, rate: str, *tooltip: tuple[str, str, str]) -> alt.Chart:
        """Place points on the plane. The default tooltip has the field ``name`` and both places."""
        usual = ("name", "network", ""), (intensity, "intensity", "FLOP/B"), (rate, "performance", "FLOP/s")
        return tips(points.encode(self.x(intensity), self.y(rate)), *(tooltip or usual))

    def names(self, rows: pd.DataFrame, text: str, intensity: str, rate: str, size: Any = 0) -> list[alt.Chart]:
        """Name points clear of the roofs and their texts, as `annotations.names` does."""
        return annotations.names(rows, text, self.x(intensity), self.y(rate), tuple(self.taken()), size)

    def taken(self) -> Iterator[Box]:
        """Yield boxes of the roofs and their texts, which no name may cover."""
        for _, line in (each for roof in self.roofs for each in roof.slopes):
            corners = [(self.x.pixel(row["intensity"]), self.y.pixel(row["rate"])) for row in self._corners(line)]
            for start, end in pairwise(corners):
                yield from along(start, end, free=3)
        for row in self._placed():
            width, height = text_size(row["text"], theme.LABEL_SIZE)
            x, y, slope = self.x.pixel(row["intensity"]), self.y.pixel(row["rate"]), row["slope"]
            if not slope:
                yield Box(x - width, y - height - self._lift(row), x, y)
            turn = sqrt(1 + slope**2)
            top = self._lift(row) + height  # of the text, from the roof
            for across in range(-int(top * slope / turn), int(width / turn) if slope else 0, 6):  # along the slope
                yield Box(x + across, y - slope * (across + 6) - top * turn, x + across + 6, y - slope * across)

    def groups(self, rows: pd.DataFrame, kind: str, heading: str, whole: str, **encodings: Any) -> alt.Chart:
        """Draw groups of operators as points. Their area is their ``share`` of a whole."""
        attainable = map(self.roofs[0].roofline.attainable, rows.intensity)
        rows = rows.assign(attained=[rate / most for rate, most in zip(rows.flop_per_s, attainable, strict=True)])
        tooltip = [
            *([("network", "network", "")] if "network" in rows else []),
            (kind, heading, ""), ("share", f"share of the {whole}", ".1%"), ("time_s", "time", "s"),
            ("flop_per_s", "performance", "FLOP/s"), ("attained", "of the roof", ".0%"),
            ("intensity", "intensity", "FLOP/B"),
        ]  # fmt: skip
        points = alt.Chart(rows[[field for field, *_ in tooltip]]).mark_point(opacity=0.7)
        return self.place(points.encode(size=by_size("share", 1.0), **encodings), "intensity", "flop_per_s", *tooltip)

    def _corners(self, line: Roofline) -> list[dict[str, float]]:
        """Return the ends of a roof's straight parts on the plane."""
        ridge = line.ridge_flop_per_byte
        foot = max(self.x.low, self.y.low / line.bandwidth_byte_per_s)
        inner = [ridge] if foot < ridge < self.x.high else []
        return [{"intensity": at, "rate": line.attainable(at)} for at in (foot, *inner, self.x.high)]

    def _roofs(self) -> Iterator[alt.Chart]:
        """Yield the roofs, and the slopes of their caches up to the peak."""
        for part, corners, color, width in ((slice(1), 3, theme.INK, 1.6), (slice(1, None), 2, theme.MUTED, 1)):
            rows = [
                {"roof": " ".join(filter(None, (roof.peak, text)))} | corner
                for roof in self.roofs
                for text, line in roof.slopes[part]
                for corner in self._corners(line)[:corners]
            ]
            if rows:
                lines = alt.Chart(pd.DataFrame(rows)).mark_line(color=color, strokeWidth=width)
                yield lines.encode(self.x("intensity"), self.y("rate"), detail=alt.Detail("roof:N"))

    def _notes(self) -> Iterator[alt.Chart]:
        for row in self._placed():
            turned: dict[str, Any] = {"angle": -degrees(atan(row["slope"])) % 360} if row["slope"] else {}
            turned |= {"align": "left" if row["slope"] else "right", "dy": -self._lift(row), "baseline": "bottom"}
            texts = alt.Chart(pd.DataFrame([row])).mark_text(**turned)
            yield texts.encode(self.x("intensity"), self.y("rate"), text=alt.Text("text:N"))

    def _shades(self) -> Iterator[alt.Chart]:
        """Shade and name the regimes under the first roof, left and right of its ridge."""
        line = self.roofs[0].roofline
        if not isfinite(line.bandwidth_byte_per_s):
            return
        ridge = min(max(line.ridge_flop_per_byte, self.x.low), self.x.high)
        places = self.x("intensity"), self.y("rate")
        for regime, start, end, shift, align in (
            ("memory-bound", self.x.low, ridge, -8, "right"), ("compute-bound", ridge, self.x.high, 8, "left")
        ):  # fmt: skip
            corners = [{"intensity": at, "rate": line.attainable(at), "floor": self.y.low} for at in (start, end)]
            shaded = alt.Chart(pd.DataFrame(corners), description=NAMES).mark_area(color=theme.REGIME_COLORS[regime])
            yield shaded.encode(*places, y2=alt.Y2("floor"))
            room = self.x.pixel(end) - self.x.pixel(start) - text_size(regime, theme.LABEL_SIZE)[0] - 12
            if regime == "memory-bound" and self.y.pixels < LOW:  # the slope's own text reaches down to it
                room -= max((text_size(text, theme.LABEL_SIZE)[0] for text, _ in self.roofs[0].slopes), default=0)
            if room > 0:
                foot = [{"text": regime, "intensity": ridge, "rate": self.y.value(self.y.pixels - 6)}]
                text = alt.Chart(pd.DataFrame(foot), description=NAMES)
                text = text.mark_text(color=theme.MUTED, align=align, baseline="bottom", dx=shift)
                yield text.encode(*places, text=alt.Text("text:N"))

    def _lift(self, row: dict[str, Any]) -> float:
        """Return the pixels from a roof to its text, clear of marks on a flat part but within the panel."""
        room = self.y.pixel(row["rate"]) - text_size(row["text"], theme.LABEL_SIZE)[1]
        return 4 if row["slope"] else max(4, min(8, room))

    def _placed(self) -> Iterator[dict[str, Any]]:
        """Yield the texts of the roofs: over the right end of a flat part, and along the foot of a slope."""
        for roof in self.roofs:
            peak = roof.roofline.peak_flop_per_s
            yield {"text": roof.peak, "intensity": self.x.value(self.x.pixels - 6), "rate": peak, "slope": 0.0}
            for text, line in roof.slopes:
                foot, end = self._corners(line)[:2]
                at = self.x.value(self.x.pixel(foot["intensity"]) + 10)
                if text and line.attainable(at) < 0.999 * peak:
                    rise = self.y.pixel(foot["rate"]) - self.y.pixel(end["rate"])
                    slope = rise / (self.x.pixel(end["intensity"]) - self.x.pixel(foot["intensity"]))
                    yield {"text": text, "intensity": at, "rate": line.attainable(at), "slope": slope}
