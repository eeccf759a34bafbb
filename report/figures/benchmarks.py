"""Figures of measured throughput, and the words in which figures tell of cells."""

from typing import Any

import altair as alt
import pandas as pd

from report.analysis import available
from report.analysis.long_lists import LINES, evenly, left_out
from report.charts import axes, theme
from report.charts.axes import LogAxis
from report.figures.marks import controlled, family_styles, opacity_where, panel, rounded, tips, widest, zoom
from report.load.paper import BASE_PRECISION, Paper
from report.text import prose
from report.text.frame_rows import highest
from report.text.prose import number, si

TIMING = ["latency", "95 % interval", "samples", "rounds", "flags"]
"""The columns in which a tooltip tells how long a cell took."""


def interval(low: float, high: float) -> str:
    """Write a latency's 95 % interval."""
    if pd.isna(low):
        return "none (one round of fewer than 6 samples)"
    return f"{si(low, 's', 4)} to {si(high, 's', 4)}"


def described(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the columns that charts of cells need: what is drawn, and the tooltip's in words."""
    ends = zip(cells.latency_low_s, cells.latency_high_s, strict=True)
    words: dict[str, Any] = {
        "latency": [si(value, "s", 5) for value in cells.latency_s],
        "95 % interval": [interval(low, high) for low, high in ends],
        "samples": cells.sample_count.astype(int),
        "rounds": cells.rounds,
        "flags": [flags.replace(";", ", ") or "none" for flags in cells["flags"]],
    }
    return cells[["model", "device", "family", "batch", "latency_s"]].assign(
        low=cells.latency_low_s,
        high=cells.latency_high_s,
        sound=cells.latency_low_s.notna() & (cells["flags"] == ""),
        **words,
    )


@available.or_missing
@theme.building()
def throughput(paper: Paper) -> alt.ConcatChart:
    """Draw throughput against batch size, a line a model, a panel a device."""
    cells = available.shown_cells(paper)
    order = cells.groupby("model").throughput_per_s.max().sort_values(ascending=False).index.tolist()
    models = evenly(order, LINES)
    drawn = cells[cells.model.isin(models)]
    lines = described(drawn).assign(
        rate=rounded(drawn.throughput_per_s, 6),
        throughput=[prose.throughput(value, 5) for value in drawn.throughput_per_s],
    )
    room = widest(lines.model) + 18
    picked = theme.choice("family")
    style = family_styles(lines.family, hollow=True)
    panels: list[Any] = []
    for device, shown in lines.groupby("device"):
        x = LogAxis.of_batches(shown.batch, theme.WIDTH, room)
        y = LogAxis.around(shown.rate, 330, "throughput (images or clips per second)", vertical=True)
        base = alt.Chart(shown).encode(x.channel("batch"), y.channel("rate"), opacity=theme.faded_unless(picked))
        curves = base.mark_line(strokeWidth=1.2, clip=True).encode(style["stroke"], alt.Detail("model:N"))
        dots = base.mark_point(size=34, strokeWidth=1.2, clip=True).encode(
            **style, fillOpacity=opacity_where("datum.sound"),
            tooltip=tips("model", "family", "batch", "throughput", *TIMING),
        )  # fmt: skip
        ends = shown.sort_values("batch").drop_duplicates("model", keep="last")
        named = axes.named_ends(ends, "model", x, "batch", y, "rate", theme.WIDTH - room)
        dots = controlled(dots, panels, picked, zoom(device))
        panels.append(panel(x, y, curves, named, dots, title=device))
    best = highest(cells, "throughput_per_s")
    description = (
        f"Line chart of throughput against batch size for {number(len(models), 'model')} on "
        f"{available.titles(paper, cells)} at {BASE_PRECISION}. The highest is "
        f"{prose.throughput(best.throughput_per_s)} ({best.model} on the {best.device} at batch size "
        f"{best.batch})."
    )
    chart = alt.concat(*panels, columns=1, spacing=14)
    return theme.finish(chart, "throughput", description, left_out(models, order))
