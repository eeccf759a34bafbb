"""Figures of measured throughput, and the words in which figures tell of cells."""

from typing import Any

import altair as alt
import pandas as pd

from report.analysis import available
from report.analysis.available import or_missing
from report.charts import axes, theme
from report.charts.axes import LogAxis
from report.charts.labels import text_size
from report.load.paper import BASE_PRECISION, Paper
from report.text import quantities
from report.text.frame_rows import highest
from report.text.quantities import number, si


def interval(low: float, high: float) -> str:
    """A latency's 95 % interval in words."""
    return (
        "none (one round of fewer than 6 samples)"
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
