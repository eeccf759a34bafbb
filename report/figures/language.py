"""The figure of language models under the roofs, by phase."""

from typing import Any

import altair as alt
import pandas as pd

from measure.domain.models import DECODE, ENCODE, PREFILL
from measure.domain.roofs import Roofline
from measure.domain.values import significant
from report.analysis import available, language
from report.charts import axes, roofline, theme
from report.charts.axes import LogAxis
from report.figures.marks import color_of, panel, rounded, styles, tips, zoom
from report.load.paper import Machine, Paper
from report.text.frame_rows import highest
from report.text.prose import intensity, number, percent, si

PHASE_STYLES = {PREFILL: (theme.BLUE, "square"), DECODE: (theme.VERMILION, "circle"), ENCODE: (theme.GREEN, "diamond")}

HEIGHT, COLUMNS = 230, 2
"""Of a panel, in pixels; and how many panels stand beside each other."""


@available.or_missing
@theme.building()
def phases(paper: Paper) -> alt.ConcatChart:
    """Draw achieved rate against intensity by footprint under the measured roof: a panel a device and precision.

    A line joins the batch sizes of a model, whose name stands at the largest.
    """
    panels: list[Any] = []
    drawn = []
    for machine, cells in available.results_of_each(paper, language.cells):
        if isinstance(cells, available.Missing):
            continue
        for precision, rows in cells.groupby("precision"):
            roof = machine.roof(str(precision))
            if roof:
                panels.append(_panel(machine, str(precision), rows, roof))
                drawn.append(rows.assign(where=available.title(machine)))
    if not panels:
        available.roof(paper.shown[0])
    every = pd.concat(drawn)
    best = highest(every, "attained")
    description = (
        f"Rooflines with {number(len(every), 'cell')} of language models by phase. The nearest to its roof is "
        f"{best.model} on the {best['where']} at batch size {best.batch} and {best.precision}, with "
        f"{percent(best.attained)}."
    )
    chart = alt.concat(*panels, columns=COLUMNS, spacing=12)
    return theme.finish(chart, "language", description)


def _panel(machine: Machine, precision: str, rows: pd.DataFrame, roof: Roofline) -> Any:
    points = pd.DataFrame(
        {
            "model": rows.model,
            "name": [f"{row.network} {row.length}" for row in rows.itertuples()],
            "phase": rows.phase,
            "batch": rows.batch,
            "x": rounded(rows.footprint_intensity),
            "rate": rounded(rows.flop_per_s),
            "intensity": [intensity(value, digits=4) for value in rows.footprint_intensity],
            "achieved": [si(value, "FLOP/s", 4) for value in rows.flop_per_s],
            "of attainable": [percent(value, 3) for value in rows.attained],
            "tokens/s": [significant(value, 4) for value in rows.tokens_per_s],
        }
    )
    title = "operational intensity by footprint"
    reach = [*points.x, roof.ridge_flop_per_byte]
    x = LogAxis.around(reach, theme.WIDTH / 2 - 50, title, "FLOP/B", margins=(0.08, 0.08))
    rates = [*points.rate, roof.peak_flop_per_s]
    y = LogAxis.around(rates, HEIGHT, "achieved", "FLOP/s", vertical=True, margins=(0.08, 0.08))
    colors, shapes = theme.scales(PHASE_STYLES)
    base = alt.Chart(points)
    trails = base.mark_line(strokeWidth=1, clip=True).encode(
        x.channel("x"), y.channel("rate"), color_of("phase", colors), alt.Detail("model:N"), alt.Order("batch:Q")
    )
    tooltip = ["model", "phase", "batch", "intensity", "achieved", "of attainable", "tokens/s"]
    marks = base.mark_point(filled=True, size=40, clip=True, opacity=1).encode(
        x.channel("x"), y.channel("rate"), **styles("phase", colors, shapes, title=None),
        tooltip=tips(*tooltip),
    )  # fmt: skip
    ends = points.sort_values("batch").drop_duplicates("model", keep="last")
    names = axes.named_points(ends, "name", x, "x", y, "rate", tuple(roofline.room([roof], x, y)))
    lines = roofline.lines(roofline.outline([({"roof": "memory"}, roof)], x), x, y, "roof")
    heading = f"{available.title(machine)}, {precision}"
    return panel(x, y, lines, trails, names, marks.add_params(zoom(heading)), title=heading)
