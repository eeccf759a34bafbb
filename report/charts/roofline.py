"""The roofline plane that grows through the paper: its axes follow from the roofs alone, so they stay the same.

roof = DrawnRoof(Roofline(peak, bandwidth), "fp32 105 GFLOP/s", "DRAM 46 GB/s", caches=(("L2 200 GB/s", 2e11),))
plane = Plane.over([roof], plot_width(), 380)
figure("plane", "Networks under the roof.", plane.panel(plane.points(rows, "name", "intensity", "flop_per_s")))
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import atan2, degrees, isfinite, sqrt
from typing import Any

from measure.domain.roofs import Roofline
from report.charts import theme
from report.charts.axes import LogAxis
from report.charts.labels import Box, along, text_size
from report.charts.marks import Layer, band, lines, names, points, texts
from report.charts.panels import Content, panel


@dataclass(frozen=True)
class DrawnRoof:
    """A roof with texts for its flat part and its slope; ``caches`` are further slopes: a text and B/s each."""

    roofline: Roofline
    peak: str
    memory: str = ""
    caches: tuple[tuple[str, float], ...] = ()
    dashed: bool = False

    @property
    def slopes(self) -> list[tuple[str, Roofline]]:
        """The roof itself and those of its caches, without a slope where no bandwidth is known."""
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
        rates: Iterable[float] = (), title: str = "operational intensity",
    ) -> "Plane":  # fmt: skip
        """Reach from a fortieth of the lowest ridge to 40 times the highest, and over the points' extents given."""
        lines = [roof.roofline for roof in roofs]
        ridges = [line.ridge_flop_per_byte for line in lines if isfinite(line.bandwidth_byte_per_s)] or [1]
        peaks = [line.peak_flop_per_s for line in lines]
        x = [min(ridges) / 40, max(ridges) * 40, *intensities]
        y = [min(peaks) / 200, 2.2 * max(peaks), *rates]
        margins = (0.01, 0.01)
        return cls(
            tuple(roofs),
            LogAxis.around(x, margins, pixels=width, title=title, unit="FLOP/B"),
            LogAxis.around(y, margins, pixels=height, title="performance", unit="FLOP/s", vertical=True),
        )

    def panel(self, *layers: Layer, title: str = "", regimes: bool = True) -> Content:
        """Return the roofs with these layers over them, on the shaded regimes."""
        shaded = list(self._regimes()) if regimes and isfinite(self.roofs[0].roofline.bandwidth_byte_per_s) else []
        return panel([*shaded, self._lines(), *self._texts(), *layers], title)

    def points(
        self, rows: Any, name: str, intensity: str, rate: str, named: bool = True, **options: Any
    ) -> Layer:  # fmt: skip
        """Return points with their names; the options are those of `marks.points`."""
        x, y = (self.x, intensity), (self.y, rate)
        drawn = [points(rows, x, y, **options)]
        return {"layer": [*drawn, names(rows, name, x, y, tuple(self.taken()))] if named else drawn}

    def taken(self) -> Iterator[Box]:
        """Yield the boxes of the roofs and their texts, which no name may cover."""
        for roof in self.roofs:
            for _, line in roof.slopes:
                corners = [(self.x.pixel(row["intensity"]), self.y.pixel(row["rate"])) for row in self._corners(line)]
                for start, end in pairwise(corners):
                    yield from along(start, end)
        for row in self._placed():
            width, height = text_size(row["text"], theme.LABEL_SIZE)
            x, y, slope = self.x.pixel(row["intensity"]), self.y.pixel(row["rate"]), row["slope"]
            if slope:  # a text along a slope: boxes along it
                share = width / sqrt(1 + slope**2)
                for step in range(int(share / 6) + 1):
                    across = x + 6 * step
                    yield Box(across, y - slope * 6 * step - 1.5 * height, across + 8, y - slope * 6 * step)
            else:
                yield Box(x - width, y - height - 4, x, y)

    def _corners(self, line: Roofline) -> list[dict[str, float]]:
        """Return the points between which a roof is straight, those on the plane alone."""
        ridge = line.ridge_flop_per_byte
        foot = max(self.x.low, self.y.low / line.bandwidth_byte_per_s)
        inner = [ridge] if foot < ridge < self.x.high else []
        return [{"intensity": at, "rate": line.attainable(at)} for at in (foot, *inner, self.x.high)]

    def _lines(self) -> Layer:
        """Return the roofs; the slope of a cache ends at the peak."""
        drawn = []
        for roof in self.roofs:
            for number, (text, line) in enumerate(roof.slopes):
                corners = self._corners(line)[: 2 if number else None]
                about = {"roof": " ".join(part for part in (roof.peak, text) if part), "printed": roof.dashed}
                drawn += [about | corner | {"cache": bool(number)} for corner in corners]
        x, y = (self.x, "intensity"), (self.y, "rate")
        own = [row for row in drawn if not row["cache"]]
        caches = [row for row in drawn if row["cache"]]
        layers = [lines(own, x, y, by="roof", dash="printed")]
        return {"layer": layers + ([lines(caches, x, y, theme.MUTED, "roof", width=1)] if caches else [])}

    def _placed(self) -> list[dict[str, Any]]:
        """Return the texts of the roofs: over the right end of a flat part, and along the foot of a slope."""
        placed = []
        for roof in self.roofs:
            peak = roof.roofline.peak_flop_per_s
            placed.append({"text": roof.peak, "intensity": self.x.value(self.x.pixels - 6), "rate": peak, "slope": 0.0})
            for text, line in roof.slopes:
                foot, *_, end = self._corners(line)[:2]
                at = self.x.value(self.x.pixel(foot["intensity"]) + 10)
                if not text or line.attainable(at) >= 0.999 * peak:
                    continue
                run = self.x.pixel(end["intensity"]) - self.x.pixel(foot["intensity"])
                slope = (self.y.pixel(foot["rate"]) - self.y.pixel(end["rate"])) / run
                placed.append({"text": text, "intensity": at, "rate": line.attainable(at), "slope": slope})
        return placed

    def _texts(self) -> list[Layer]:
        layers = []
        for row in self._placed():
            turned: dict[str, Any] = {"angle": round(-degrees(atan2(row["slope"], 1)), 1)} if row["slope"] else {}
            align = "left" if row["slope"] else "right"
            x, y = (self.x, "intensity"), (self.y, "rate")
            layers.append(texts([row], "text", x, y, align=align, dy=-4, baseline="bottom", **turned))
        return layers

    def _regimes(self) -> Iterator[Layer]:
        """Shade and name what lies under the first roof, left and right of its ridge."""
        line = self.roofs[0].roofline
        ridge = min(max(line.ridge_flop_per_byte, self.x.low), self.x.high)
        sides = {"memory-bound": (self.x.low, ridge), "compute-bound": (ridge, self.x.high)}
        for regime, (start, end) in sides.items():
            corners = [{"intensity": at, "rate": line.attainable(at), "floor": self.y.low} for at in (start, end)]
            x, y = (self.x, "intensity"), (self.y, "rate")
            yield band(corners, x, y, "floor", theme.REGIME_COLORS[regime])
            if self.x.pixel(end) - self.x.pixel(start) < text_size(regime, theme.LABEL_SIZE)[0] + 12:
                continue
            left = regime == "memory-bound"
            edge = self.x.value(self.x.pixel(end if left else start) + (-8 if left else 8))
            foot = [{"text": regime, "intensity": edge, "rate": self.y.value(self.y.pixels - 6)}]
            align = "right" if left else "left"
            yield texts(foot, "text", x, y, theme.MUTED, align, fontStyle="italic", baseline="bottom")
