"""Figures of how counters of multiply-adds compare with what is published."""

import altair as alt
import pandas as pd

from report.analysis import available
from report.analysis.available import or_missing
from report.charts import theme
from report.charts.axes import Layers
from report.charts.labels import text_size
from report.load import counting_programs
from report.load.paper import Paper
from report.text.frame_rows import each
from report.text.quantities import exact, listing

COLUMNS = 4
SPACING = 10
ROW = 11.5
"""The height of a line of models, in pixels."""

TICKS = (-100, -10, 0, 10, 100)


def _lines(results: pd.DataFrame) -> tuple[list[str], list[str]]:
    """The lines of models that are present, in groups, and the first of each group but the topmost."""
    present = set(results.line)
    groups = [[line for line in group if line in present] for group in counting_programs.LINES.values()]
    groups.append(sorted(present - {line for group in groups for line in group}))
    groups = [group for group in groups if group]
    return [line for group in groups for line in group], [group[0] for group in groups[1:]]


def _points(results: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "model": results.model,
            "family": results.family,
            "line": results.line,
            "off": [float(f"{100 * value:.4g}") for value in results.deviation],
            "published": [exact(value, "MAC") for value in results.published_mac],
            "counted": [exact(int(value), "MAC") for value in results.forward_mac],
            "deviation": [counting_programs.signed(value) for value in results.deviation],
        }
    )


@or_missing
def deviations(paper: Paper) -> alt.ConcatChart:
    """The relative deviation of each counter from the published multiply-adds, a panel a counter, a mark a model."""
    results = available.counted(paper)
    results = results[results.deviation.notna()]
    lines, firsts = _lines(results)
    names = max(text_size(line, theme.LABEL_SIZE)[0] for line in lines)
    width = (theme.WIDTH - names - 8) / COLUMNS - SPACING
    low = min(-2.0, 100 * results.deviation.min())
    high = max(2.0, 100 * results.deviation.max())
    scale = alt.Scale(type="symlog", constant=1, domain=[low * 1.6, high * 1.4], nice=False)
    ticks = [tick for tick in TICKS if low * 1.6 <= tick <= high * 1.4]
    axis = alt.Axis(
        values=ticks,
        tickCount=len(ticks),  # else Vega drops some of the values on so short an axis
        labelExpr="replace(datum.label, '-', '−')",
        labelFontSize=theme.LABEL_SIZE,
        labelOverlap=False,
    )
    picked, legend = theme.choice("family"), alt.Legend(orient="top", columns=7)
    tolerance = 100 * counting_programs.TOLERANCE

    height = ROW * len(lines)
    whole = {"y": alt.value(0), "y2": alt.value(height)}
    band = alt.Chart(pd.DataFrame({"from": [-tolerance], "to": [tolerance]}))
    within = band.mark_rect(color=theme.GRID).encode(alt.X("from:Q", scale=scale), x2="to:Q", **whole)
    zero = band.mark_rule(color=theme.MUTED, strokeWidth=0.6).encode(x=alt.datum(0, scale=scale), **whole)
    borders = alt.Chart(pd.DataFrame({"line": firsts})).mark_rule(color=theme.MUTED, strokeWidth=0.6)
    borders = borders.encode(alt.Y("line:N", bandPosition=0))

    def panel(counter: str, number: int) -> Layers:
        points = _points(results[results.counter == counter])
        dots = alt.Chart(points).mark_point(filled=True, size=22, clip=True).encode(
            alt.X("off:Q", title="deviation (%)", scale=scale, axis=axis),
            color=alt.Color("family:N", scale=theme.family_colors(results.family), title="family", legend=legend),
            shape=alt.Shape("family:N", scale=theme.family_shapes(results.family), title="family", legend=legend),
            opacity=theme.faded_unless(picked), tooltip=["model", "family", "published", "counted", "deviation"],
        )  # fmt: skip
        named = alt.Axis(labelFontSize=theme.LABEL_SIZE, ticks=False, labels=number % COLUMNS == 0)
        rows = alt.Y("line:N", scale=alt.Scale(domain=lines), title=None, axis=named)
        layers = alt.layer(within, zero, borders, dots).encode(rows)
        return layers.properties(title=counting_programs.name(counter), width=width, height=height)

    order = list(dict.fromkeys(results.counter))
    first, *others = [panel(counter, number) for number, counter in enumerate(order)]
    told = [
        f"{counting_programs.name(row.counter)} {row.right}"
        for row in each(counting_programs.scores(results))
    ]
    description = (
        f"Dot plots of the deviation from the published multiply-adds of {results.model.nunique()} models, a panel a "
        "counter, on axes that are close to linear within 1 % and logarithmic beyond. Right within 1 %: "
        f"{listing(told)}."
    )
    chart = alt.concat(first.add_params(picked), *others, columns=COLUMNS, spacing=SPACING)
    return theme.finish(chart, "counter-deviations", description)
