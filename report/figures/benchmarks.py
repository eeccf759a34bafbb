"""Figures of measured latency and throughput."""

from typing import Any

import altair as alt
import pandas as pd

from report import available, axes, correlations, power_law, predictors, quantities, theme
from report.available import or_missing
from report.axes import LogAxis
from report.chips import KINDS
from report.labels import MARK, Box, text_size
from report.paper import BASE_PRECISION, Paper
from report.power_law import PowerLaw
from report.predictors import Predictor
from report.quantities import listing, number, si
from report.rows import each, highest, lowest

Laws = dict[int, PowerLaw | None]
"""The line of each batch size, None where too few models were measured."""

PANEL = (theme.WIDTH / 2 - 40, 190)
"""Width and height of a panel of predictors, in pixels."""

LINE = 11
"""Pixels from a line of text to the next."""

NAMED = 3
"""So many points of each batch size are named in a panel: those farthest from the line."""


def interval(low: float, high: float) -> str:
    """A latency's 95 % interval in words."""
    return (
        "none (one round of fewer than six samples)"
        if pd.isna(low)
        else f"{si(low, 's', 4)} to {si(high, 's', 4)}"
    )


def described(cells: pd.DataFrame) -> pd.DataFrame:
    """The columns that charts of cells need: what is drawn, and the tooltip's in words."""
    return pd.DataFrame(
        {
            "model": cells.model,
            "device": cells.device,
            "family": cells.family,
            "batch": cells.batch,
            "latency_s": cells.latency_s,
            "low": cells.latency_low_s,
            "high": cells.latency_high_s,
            "sound": cells.latency_low_s.notna() & (cells["flags"] == ""),
            "latency": [si(value, "s", 5) for value in cells.latency_s],
            "95 % interval": [
                interval(low, high)
                for low, high in zip(cells.latency_low_s, cells.latency_high_s, strict=True)
            ],
            "samples": cells.sample_count.astype(int),
            "rounds": cells.rounds,
            "flags": [flags.replace(";", ", ") or "none" for flags in cells["flags"]],
        }
    )


@or_missing
def latency(paper: Paper, device: str) -> alt.ConcatChart:
    """Latency on a kind of device against what may predict it, a panel a predictor, a line a batch size."""
    machine = available.machine(paper, device)
    cells = available.cells(machine)
    batches = predictors.common_batches(cells)
    cells = cells[cells.batch.isin(batches)].reset_index(drop=True)
    shown = predictors.known(cells)
    columns = [predictor.column for predictor in shown]
    points = described(cells.assign(device=KINDS[device]))
    points[columns] = cells[columns].map(lambda value: float(f"{value:.5g}"))
    colors, shapes = theme.batch_colors(batches), theme.family_shapes(points.family)
    picked = theme.choice("family")
    opacity = theme.faded_unless(picked)
    sound = alt.when("datum.sound").then(alt.value(1)).otherwise(alt.value(0))
    legends = [alt.Legend(orient="top", columns=columns) for columns in (len(batches), 7)]
    color = alt.Color("batch:N", scale=colors, title="batch size", legend=legends[0])
    panels: list[Any] = []
    for predictor in shown:
        x = LogAxis.around(
            points[predictor.column].dropna(), PANEL[0], predictor.name, predictor.unit, margins=(0.06, 0.06)
        )
        y = LogAxis.around(points.latency_s, PANEL[1], "latency", "s", vertical=True, margins=(0.06, 0.06))
        laws = _laws(points, predictor)
        base = alt.Chart(points).encode(x.channel(predictor.column), opacity=opacity)
        whiskers = base.mark_rule(strokeWidth=1, clip=True).encode(y.channel("low"), alt.Y2("high:Q"), color)
        dots = base.mark_point(size=26, strokeWidth=1.1, clip=True).encode(
            y.channel("latency_s"),
            stroke=alt.Stroke("batch:N", scale=colors, title="batch size", legend=legends[0]),
            fill=alt.Fill("batch:N", scale=colors, title="batch size", legend=legends[0]),
            shape=alt.Shape("family:N", scale=shapes, title="family", legend=legends[1]),
            fillOpacity=sound,
            tooltip=[
                "model",
                "family",
                "batch",
                "latency",
                "95 % interval",
                "samples",
                "rounds",
                "flags",
                alt.Tooltip(predictor.column, title=predictor.name, format=".4~s"),
            ],
        )
        own_zoom = alt.selection_interval(bind="scales", name=f"zoom_{predictor.column}")
        dots = dots.add_params(own_zoom) if panels else dots.add_params(picked, own_zoom)
        layers = [
            *_lines(points, predictor, laws, x, y),
            whiskers,
            *_names(points, predictor, laws, x, y),
            dots,
        ]
        panels.append(alt.layer(*layers).properties(title=predictor.name, width=x.pixels, height=y.pixels))
    slowest, quickest = highest(cells, "latency_s"), lowest(cells, "latency_s")
    description = (
        f"Scatter plots of inference latency on the {available.title(machine)} at {BASE_PRECISION} against "
        f"{listing([predictor.name for predictor in shown])}, on logarithmic axes, {number(len(points), 'point')} "
        f"each, at {number(len(batches), 'batch size')}. Latency runs from {si(quickest.latency_s, 's')} "
        f"({quickest.model}, batch size {quickest.batch}) to {si(slowest.latency_s, 's')} ({slowest.model}, batch size "
        f"{slowest.batch})."
    )
    chart = alt.concat(*panels, columns=2, spacing=12)
    return theme.finish(chart, f"latency-{device}", description)


def _laws(points: pd.DataFrame, predictor: Predictor) -> Laws:
    batches = {int(batch): points[points.batch == batch] for batch in sorted(points.batch.unique())}
    return {
        batch: power_law.fit(own[predictor.column], own.latency_s, own.model)
        for batch, own in batches.items()
    }


def _lines(points: pd.DataFrame, predictor: Predictor, laws: Laws, x: LogAxis, y: LogAxis) -> list[alt.Chart]:
    """The line of each batch size; where the predictor is a time, that of latencies equal to it, dashed."""
    ends = [
        {"batch": batch, "x": float(f"{at:.5g}"), "y": float(f"{law.at(at):.5g}")}
        for batch, law in laws.items()
        if law
        for at in (points[points.batch == batch][predictor.column].agg(["min", "max"]))
    ]
    layers = []
    if predictor is predictors.BOUND:
        equal = pd.DataFrame([{"x": at, "y": at} for at in (max(x.low, y.low), min(x.high, y.high))])
        dashed = alt.Chart(equal).mark_line(color=theme.MUTED, strokeDash=[4, 3], strokeWidth=1, clip=True)
        layers.append(dashed.encode(x.channel("x"), y.channel("y")))
    if ends:
        drawn = alt.Chart(pd.DataFrame(ends)).mark_line(strokeWidth=1.2, opacity=0.8, clip=True)
        colors = theme.batch_colors(laws)
        layers.append(
            drawn.encode(x.channel("x"), y.channel("y"), alt.Stroke("batch:N", scale=colors, legend=None))
        )
    return layers


def _names(points: pd.DataFrame, predictor: Predictor, laws: Laws, x: LogAxis, y: LogAxis) -> list[Any]:
    """The exponents of the lines at the lower right, and the names of the points farthest from the lines."""
    rows = [
        f"{batch}: {correlations.written(law.exponent, law.interval)}" for batch, law in laws.items() if law
    ]
    layers: list[Any] = []
    taken = []
    if rows:
        rows.insert(0, "exponent at batch size")
        width = max(text_size(row, theme.LABEL_SIZE)[0] for row in rows)
        top = y.pixels - LINE * len(rows) - 2
        taken.append(Box(x.pixels - width - 4, top, x.pixels, y.pixels))
        corner = pd.DataFrame({"text": ["\n".join(rows)]})
        written = alt.Chart(corner).mark_text(
            align="left", baseline="top", lineBreak="\n", lineHeight=LINE, fontSize=theme.LABEL_SIZE
        )
        place = {"x": alt.value(x.pixels - width - 2), "y": alt.value(top)}
        layers.append(written.encode(text="text:N", color=alt.value(theme.INK), **place))
    kept = points[points[predictor.column].notna()]
    off = pd.concat([law.residuals.abs() for law in laws.values() if law] or [pd.Series(dtype=float)])
    far = kept.assign(off=off.reindex(kept.index).fillna(0)).sort_values("off", ascending=False)
    far = far.groupby("batch").head(NAMED)
    for row in each(kept.drop(far.index)):
        across, down = x.pixel(getattr(row, predictor.column)), y.pixel(row.latency_s)
        taken.append(Box(across - MARK, down - MARK, across + MARK, down + MARK))
    named = axes.named_points(far, "model", x, predictor.column, y, "latency_s", tuple(taken))
    return layers if named is None else [*layers, named]


@or_missing
def throughput(paper: Paper) -> alt.ConcatChart:
    """Throughput against batch size, a line a model, a panel a device."""
    cells = available.shown_cells(paper)
    lines = described(cells).assign(
        rate=[float(f"{value:.6g}") for value in cells.throughput_per_s],
        throughput=[quantities.throughput(value, 5) for value in cells.throughput_per_s],
    )
    room = max(text_size(name, theme.LABEL_SIZE)[0] for name in lines.model) + 18
    picked = theme.choice("family")
    opacity = theme.faded_unless(picked)
    sound = alt.when("datum.sound").then(alt.value(1)).otherwise(alt.value(0))
    legend = alt.Legend(orient="top", columns=7)
    colors, shapes = theme.family_colors(lines.family), theme.family_shapes(lines.family)
    panels: list[Any] = []
    for device, own in lines.groupby("device"):
        ends = own.sort_values("batch").drop_duplicates("model", keep="last")
        x = LogAxis.of_batches(own.batch, theme.WIDTH, room)
        y = LogAxis.around(own.rate, 330, "throughput (images or clips per second)", "", vertical=True)
        base = alt.Chart(own).encode(x.channel("batch"), y.channel("rate"), opacity=opacity)
        drawn = base.mark_line(strokeWidth=1.2, clip=True).encode(
            alt.Stroke("family:N", scale=colors, title="family", legend=legend), detail="model:N"
        )
        dots = base.mark_point(size=34, strokeWidth=1.2, clip=True).encode(
            stroke=alt.Stroke("family:N", scale=colors, title="family", legend=legend),
            fill=alt.Fill("family:N", scale=colors, title="family", legend=legend),
            shape=alt.Shape("family:N", scale=shapes, title="family", legend=legend),
            fillOpacity=sound,
            tooltip=[
                "model",
                "family",
                "batch",
                "throughput",
                "latency",
                "95 % interval",
                "samples",
                "rounds",
                "flags",
            ],
        )
        own_zoom = alt.selection_interval(bind="scales", name=f"zoom_{device}")
        dots = dots.add_params(own_zoom) if panels else dots.add_params(picked, own_zoom)
        ended = axes.named_ends(ends, "model", x, "batch", y, "rate", theme.WIDTH - room)
        panel = alt.layer(drawn, ended, dots)
        panels.append(panel.properties(title=device, width=x.pixels, height=y.pixels))
    best = highest(cells, "throughput_per_s")
    description = (
        f"Line chart of throughput against batch size for {number(lines.model.nunique(), 'model')} on "
        f"{available.titles(paper, cells)} at {BASE_PRECISION}. The highest is "
        f"{quantities.throughput(best.throughput_per_s)} ({best.model} on the {best.device} at batch size "
        f"{best.batch})."
    )
    return theme.finish(alt.concat(*panels, columns=1, spacing=14), "throughput", description)
