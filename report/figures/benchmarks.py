"""Figures of measured latency and throughput."""

from typing import Any

import altair as alt
import pandas as pd

from report import available, axes, quantities, theme
from report.available import or_missing
from report.axes import LogAxis
from report.labels import text_size
from report.paper import BASE_PRECISION, Paper
from report.quantities import exact, number, si
from report.rows import highest, lowest

AGAINST = {
    "flop": ("forward_flop", "FLOP of one forward pass", "FLOP"),
    "parameters": ("parameter_count", "parameters", ""),
}
"""What latency is drawn against: its column, title and unit."""


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
            "FLOP": [exact(int(value), "FLOP") for value in cells.forward_flop],
            "parameters": [exact(int(value), "parameters") for value in cells.parameter_count],
        }
    )


@or_missing
def latency(paper: Paper, against: str) -> alt.ConcatChart:
    """Latency against FLOP or parameters, a panel a batch size and device, with the interval as a whisker."""
    cells = available.shown_cells(paper)
    column, title, unit = AGAINST[against]
    points = described(cells).assign(x=cells[column])
    batches = sorted(points.batch.unique())
    colors, shapes = theme.batch_colors(batches), theme.family_shapes(points.family)
    picked = theme.choice("family")
    opacity = theme.faded_unless(picked)
    sound = alt.when("datum.sound").then(alt.value(1)).otherwise(alt.value(0))
    legends = [alt.Legend(orient="top", columns=columns) for columns in (len(batches), 7)]
    panels: list[Any] = []
    for (batch, device), own in points.groupby(["batch", "device"]):
        x = LogAxis.around(own.x, theme.WIDTH / 2 - 40, title, unit, margins=(0.1, 0.1))
        y = LogAxis.around(own.latency_s, 270, "latency", "s", vertical=True, margins=(0.1, 0.1))
        base = alt.Chart(own).encode(x.channel("x"), opacity=opacity)
        color = alt.Color("batch:N", scale=colors, title="batch size", legend=legends[0])
        whiskers = base.mark_rule(strokeWidth=1, clip=True).encode(y.channel("low"), alt.Y2("high:Q"), color)
        dots = base.mark_point(size=40, strokeWidth=1.2, clip=True).encode(
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
                "FLOP",
                "parameters",
            ],
        )
        own_zoom = alt.selection_interval(bind="scales", name=f"zoom_{device}_{batch}")
        dots = dots.add_params(own_zoom) if panels else dots.add_params(picked, own_zoom)
        names = axes.named_points(own, "model", x, "x", y, "latency_s")
        panel = alt.layer(*[layer for layer in (names, whiskers, dots) if layer is not None])
        panels.append(
            panel.properties(title=f"{device}, batch size {batch}", width=x.pixels, height=y.pixels)
        )
    slowest, quickest = highest(cells, "latency_s"), lowest(cells, "latency_s")
    description = (
        f"Scatter plots of inference latency against {title} on {available.titles(paper, cells)} at "
        f"{BASE_PRECISION}, {number(len(panels), 'panel')} for {number(len(batches), 'batch size')}, on logarithmic "
        f"axes, {number(len(points), 'point')} in all. Latency runs from {si(quickest.latency_s, 's')} "
        f"({quickest.model}, {quickest.device}, batch size {quickest.batch}) to {si(slowest.latency_s, 's')} "
        f"({slowest.model}, {slowest.device}, batch size {slowest.batch})."
    )
    return theme.finish(alt.concat(*panels, columns=2, spacing=14), f"latency-{against}", description)


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
