"""Figures of how programs that count multiply-adds compare with what is published."""

from typing import Any

import altair as alt
import pandas as pd

from report.analysis import available
from report.charts import theme
from report.figures.marks import controlled, family_styles, rounded, tips, widest
from report.load import counting_programs
from report.load.paper import Paper
from report.text.frame_rows import each
from report.text.prose import exact, listing

COLUMNS = 4
SPACING = 10
ROW = 11.5
"""The height of a line of models, in pixels."""

TICKS = (-100, -10, 0, 10, 100)


def _lines(results: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Return the lines of models that are present, in groups, and the first of each group but the topmost."""
    present = set(results.line)
    groups = [[line for line in group if line in present] for group in counting_programs.LINES.values()]
    groups.append(sorted(present - {line for group in groups for line in group}))
    groups = [group for group in groups if group]
    return [line for group in groups for line in group], [group[0] for group in groups[1:]]


def _points(results: pd.DataFrame) -> pd.DataFrame:
    return results[["model", "family", "line"]].assign(
        off=rounded(100 * results.deviation, 4),
        published=[exact(value, "MAC") for value in results.published_mac],
        counted=[exact(int(value), "MAC") for value in results.forward_mac],
        deviation=[counting_programs.signed(value) for value in results.deviation],
    )


@available.or_missing
@theme.building()
def deviations(paper: Paper) -> alt.ConcatChart:
    """Draw how far each program is off the published multiply-adds, a panel a program, a mark a model."""
    results = available.counted(paper)
    results = results[results.deviation.notna()]
    lines, firsts = _lines(results)
    low, high = 1.6 * min(-2.0, 100 * results.deviation.min()), 1.4 * max(2.0, 100 * results.deviation.max())
    scale = alt.Scale(type="symlog", constant=1, domain=[low, high], nice=False)
    ticks = [tick for tick in TICKS if low <= tick <= high]
    axis = alt.Axis(
        values=ticks,
        tickCount=len(ticks),  # else Vega drops some of the values on so short an axis
        labelExpr="replace(datum.label, '-', '−')",
        labelFontSize=theme.LABEL_SIZE,
        labelOverlap=False,
    )
    height = ROW * len(lines)
    size = {"width": (theme.WIDTH - widest(lines) - 8) / COLUMNS - SPACING, "height": height}
    background = _background(scale, firsts, height)
    picked = theme.choice("family")
    panels: list[Any] = []
    for program in dict.fromkeys(results.program):
        points = _points(results[results.program == program])
        dots = alt.Chart(points).mark_point(filled=True, size=22, clip=True).encode(
            alt.X("off:Q", title="deviation (%)", scale=scale, axis=axis), **family_styles(results.family),
            opacity=theme.faded_unless(picked), tooltip=tips("model", "family", "published", "counted", "deviation"),
        )  # fmt: skip
        named = alt.Axis(labelFontSize=theme.LABEL_SIZE, ticks=False, labels=len(panels) % COLUMNS == 0)
        rows = alt.Y("line:N", scale=alt.Scale(domain=lines), title=None, axis=named)
        layers = controlled(alt.layer(*background, dots).encode(rows), panels, picked)
        panels.append(layers.properties(title=counting_programs.name(program), **size))
    scores = each(counting_programs.scores(results))
    right = [f"{counting_programs.name(row.program)} {row.right}" for row in scores]
    description = (
        f"Dot plots of the deviation from the published multiply-adds of {results.model.nunique()} models, a panel a "
        "program, on axes that are close to linear within 1 % and logarithmic beyond. Right within 1 %: "
        f"{listing(right)}."
    )
    chart = alt.concat(*panels, columns=COLUMNS, spacing=SPACING)
    return theme.finish(chart, "program-deviations", description)


def _background(scale: alt.Scale, firsts: list[str], height: float) -> list[alt.Chart]:
    """Return the band of what counts as right, the line of no deviation, and those between groups of models."""
    whole = {"y": alt.value(0), "y2": alt.value(height)}
    tolerance = 100 * counting_programs.TOLERANCE
    band = alt.Chart(pd.DataFrame({"from": [-tolerance], "to": [tolerance]}))
    within = band.mark_rect(color=theme.GRID).encode(alt.X("from:Q", scale=scale), alt.X2("to:Q"), **whole)
    zero = band.mark_rule(color=theme.MUTED, strokeWidth=0.6).encode(x=alt.datum(0, scale=scale), **whole)
    borders = alt.Chart(pd.DataFrame({"line": firsts})).mark_rule(color=theme.MUTED, strokeWidth=0.6)
    return [within, zero, borders.encode(alt.Y("line:N", bandPosition=0))]
