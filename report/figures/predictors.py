"""Figures of latency against what may predict it."""

from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from measure.domain.values import SPACE
from report.analysis import available, correlations, power_law, predictors, stand_in
from report.analysis.power_law import PowerLaw
from report.analysis.predictors import LatencyPredictor
from report.charts import axes, theme
from report.charts.axes import LogAxis
from report.charts.labels import MARK, Box
from report.figures import stand_in as others
from report.figures.benchmarks import TIMING, described
from report.figures.marks import controlled, family_styles, opacity_where, rounded, tips, zoom
from report.figures.thinning import counts, covered, thinned
from report.load.chips import KINDS
from report.load.paper import BASE_PRECISION, Paper
from report.text.frame_rows import each, highest, lowest
from report.text.prose import listing, number, si

WIDTH, HEIGHT = theme.WIDTH / 2 - 40, 165
"""Of a panel, in pixels."""

NAMED = 3
"""So many points of each batch size are named in a panel: those farthest from the line."""


@dataclass(frozen=True)
class Panel:
    """One predictor: the points, the axes, and the line of each batch size, None where too few models were measured."""

    predictor: LatencyPredictor
    points: pd.DataFrame
    x: LogAxis
    y: LogAxis
    laws: dict[int, PowerLaw | None]

    @classmethod
    def of(cls, predictor: LatencyPredictor, points: pd.DataFrame) -> "Panel":
        points = points[points[predictor.column] > 0]  # the axis is logarithmic
        margins = (0.06, 0.06)
        unit = predictor.unit if predictor.unit != predictor.name else ""  # the title says it
        x = LogAxis.around(points[predictor.column], WIDTH, predictor.name, unit, margins=margins)
        times = pd.concat([points.latency_s, points.low, points.high]).dropna()
        y = LogAxis.around(times, HEIGHT, "latency", "s", vertical=True, margins=margins)
        laws = {}
        for batch in sorted(points.batch.unique()):
            cells = points[points.batch == batch]
            laws[int(batch)] = power_law.fit(cells[predictor.column], cells.latency_s, cells.model)
        return cls(predictor, points, x, y, laws)

    @property
    def off(self) -> pd.Series:
        """How far each point is off its line, 0 without one."""
        residuals = [law.residuals.abs() for law in self.laws.values() if law]
        return pd.concat([*residuals, pd.Series(0.0, self.points.index)]).groupby(level=0).max()

    @property
    def drawn(self) -> pd.DataFrame:
        """The points, of many those farthest from the lines and one in each place."""
        farthest = self.points.loc[self.off.sort_values(ascending=False).index]
        return thinned(farthest, self.x, self.predictor.column, self.y, "latency_s", ("batch",)).sort_index()

    def mark(self, row: Any) -> Box:
        """Return the room of a point's mark, in pixels."""
        across, down = self.x.pixel(getattr(row, self.predictor.column)), self.y.pixel(row.latency_s)
        return Box(across - MARK, down - MARK, across + MARK, down + MARK)


@available.or_missing
@theme.building()
def latency(paper: Paper, device: str) -> alt.ConcatChart:
    """Draw latency on a kind of device against what may predict it, a panel a predictor, a line a batch size.

    Where no GPU was measured here it is one that others timed: its points are open squares.
    """
    gpu = stand_in.of(paper) if device == "gpu" else None
    if gpu:
        cells, timing, name = gpu.cells, others.TIMING, f"{gpu.device}, as others ({gpu.source}) timed it,"
    elif paper.machines and paper.machine(device) is None:  # the text says which command measures one
        raise available.DataMissingError(f"There is nothing to draw here without a {KINDS[device]}.")
    else:
        machine = available.machine(paper, device)
        cells, timing, name = available.cells(machine), TIMING, available.title(machine)
    batches = predictors.common_batches(cells)
    cells = cells[cells.batch.isin(batches)].reset_index(drop=True)
    shown = predictors.known(cells)
    points = others.described(cells) if gpu else described(cells.assign(device=KINDS[device]))
    for predictor in shown:
        points[predictor.column] = rounded(cells[predictor.column])
    picked = theme.choice("batch" if gpu else "family")
    opacity = theme.faded_unless(picked)
    legend = alt.Legend(orient="top", columns=len(batches), titleLimit=theme.WIDTH)
    heading = f"batch size on the {gpu.device}, timed by others ({gpu.source})" if gpu else "batch size"
    of_batch: dict[str, Any] = {"scale": theme.batch_colors(batches), "title": heading, "legend": legend}
    stroke, fill = alt.Stroke("batch:N", **of_batch), alt.Fill("batch:N", **of_batch)
    shape = alt.value("square") if gpu else family_styles(points.family)["shape"]
    tooltip: list[Any] = [alt.Tooltip(f"{column}:N") for column in ("model", "family", "batch", *timing)]
    panels: list[Any] = []
    drawn: list[pd.DataFrame] = []
    for predictor in shown:
        panel = Panel.of(predictor, points)
        drawn.append(panel.drawn)
        base = alt.Chart(drawn[-1]).encode(panel.x.channel(predictor.column), stroke, opacity=opacity)
        whiskers = base.mark_rule(strokeWidth=1, clip=True).encode(panel.y.channel("low"), alt.Y2("high:Q"))
        place = alt.Tooltip(f"{predictor.column}:Q", title=predictor.name, format=".4~s")
        dots = base.mark_point(size=26, strokeWidth=1.1, clip=True).encode(
            panel.y.channel("latency_s"), fill, shape=shape,
            fillOpacity=opacity_where("datum.sound"), tooltip=tips(*tooltip, place, *counts(drawn[-1])),
        )  # fmt: skip
        dots = controlled(dots, panels, picked, zoom(predictor.column))
        layers = alt.layer(*_lines(panel, stroke), whiskers, *_names(panel, drawn[-1]), dots)
        panels.append(layers.properties(title=_title(panel), width=WIDTH, height=HEIGHT))
    slowest, quickest = highest(cells, "latency_s"), lowest(cells, "latency_s")
    description = (
        f"Scatter plots of inference latency on the {name} at {BASE_PRECISION} against "
        f"{listing([predictor.name for predictor in shown])}, on logarithmic axes, {number(len(points), 'point')} "
        f"each, at {number(len(batches), 'batch size')}. Latency runs from {si(quickest.latency_s, 's')} "
        f"({quickest.model}, batch size {quickest.batch}) to {si(slowest.latency_s, 's')} ({slowest.model}, batch size "
        f"{slowest.batch})."
    )
    chart = alt.concat(*panels, columns=2, spacing=12)
    return theme.finish(chart, f"latency-{device}", description, covered(drawn))


def _lines(panel: Panel, stroke: alt.Stroke) -> list[alt.Chart]:
    """Return the line of each batch size; where the predictor is a time, that of equal latencies, dashed."""
    x, y, column = panel.x, panel.y, panel.predictor.column
    ends = [
        {"batch": batch, "x": float(f"{at:.5g}"), "y": float(f"{law.at(at):.5g}")}
        for batch, law in panel.laws.items()
        if law
        for at in panel.points[panel.points.batch == batch][column].agg(["min", "max"])
    ]
    layers = []
    if panel.predictor is predictors.BOUND:
        equal = pd.DataFrame([{"x": at, "y": at} for at in (max(x.low, y.low), min(x.high, y.high))])
        dashed = alt.Chart(equal).mark_line(color=theme.MUTED, strokeDash=[4, 3], strokeWidth=1, clip=True)
        layers.append(dashed.encode(x.channel("x"), y.channel("y")))
    if ends:
        drawn = alt.Chart(pd.DataFrame(ends)).mark_line(strokeWidth=1.2, opacity=0.8, clip=True)
        layers.append(drawn.encode(x.channel("x"), y.channel("y"), stroke))
    return layers


def _names(panel: Panel, drawn: pd.DataFrame) -> list[Any]:
    """Return the names of the points farthest from the lines, clear of the points that are drawn."""
    far = panel.points.assign(off=panel.off).sort_values("off", ascending=False).groupby("batch").head(NAMED)
    others = tuple(panel.mark(row) for row in each(drawn.drop(far.index, errors="ignore")))
    names = axes.named_points(far, "model", panel.x, panel.predictor.column, panel.y, "latency_s", others)
    return [] if names is None else [names]


def _title(panel: Panel) -> alt.Title:
    """Return the predictor, and below it the exponent of each line, by batch size, two a row."""
    laws = [(batch, law) for batch, law in panel.laws.items() if law]
    exponents = [f"{batch}: {correlations.written(law.exponent, law.interval)}" for batch, law in laws]
    rows = [(4 * SPACE).join(exponents[at : at + 2]) for at in range(0, len(exponents), 2)]
    style: dict[str, Any] = {"subtitleFontSize": theme.LABEL_SIZE, "subtitleColor": theme.INK}
    return alt.Title(panel.predictor.name, subtitle=rows, **style)
