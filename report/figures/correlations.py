"""Figures of rank correlations."""

from typing import Any

import altair as alt
import pandas as pd

from report.analysis import available, correlations, predictors
from report.analysis.predictors import Pair
from report.charts import theme
from report.charts.axes import Layers
from report.figures.marks import controlled, drop_down, tips
from report.load.paper import BASE_PRECISION, Paper
from report.text.frame_rows import highest, lowest
from report.text.prose import listing, number

FEW, COLUMNS = 7, 3
"""Matrices of so few quantities stand in so many columns, larger ones in two."""

COLORS = alt.Scale(
    domain=[-1, 0, 1], range=[theme.VERMILION, "#ffffff", theme.BLUE], interpolate=alt.ScaleInterpolateEnum("rgb")
)

WITHOUT_INTERVAL = alt.ExprRef("split(datum.told, ' ')[0]")
"""The interval is in the tooltip, and in the table of predictors."""

DARK = "abs(datum.value) > 0.85 && datum.settled"
"""Where a square is too dark for dark text."""


def _values(pairs: list[Pair]) -> pd.DataFrame:
    """Return a row for each coefficient of a pair of quantities, the later one in ``y``."""
    rows = [
        {
            "kind": pair.method, "x": pair.first, "y": pair.second,
            "value": round(pair.coefficient.value, 3), "settled": pair.coefficient.settled,
            "told": str(pair.coefficient), "points": pair.coefficient.points, "models": pair.coefficient.models,
        }
        for pair in pairs
    ]  # fmt: skip
    return pd.DataFrame(rows)


@available.or_missing
@theme.building()
def matrices(paper: Paper) -> alt.ConcatChart:
    """Draw rank correlations of latencies and what may predict them: a panel for all cells and for each batch size."""
    table, names = predictors.quantities(paper)
    pairs = predictors.pairs(paper)
    choice = drop_down("coefficient", list(correlations.METHODS), "Spearman", "Coefficient")
    panels: dict[str, pd.DataFrame] = {}
    drawn: list[Any] = []
    columns = COLUMNS if len(names) <= FEW else 2
    side = theme.WIDTH / columns - 33
    for batch, rows in predictors.groups(table):
        of_batch = [pair for pair in pairs if pair.batch == batch]
        if of_batch:
            title = predictors.title(batch)
            panels[title] = _values(of_batch)
            matrix = _matrix(rows, names, panels[title], labels=len(drawn) % columns == 0)
            drawn.append(controlled(matrix, drawn, choice).properties(title=title, width=side, height=side))
    if not panels:
        raise available.DataMissingError(
            f"A rank correlation needs {correlations.FEWEST} models that were measured at the same batch size; python "
            "-m measure measures more."
        )
    title, values = next(iter(panels.items()))
    spearman = values[values.kind == "Spearman"]
    best, worst = highest(spearman, "value"), lowest(spearman, "value")
    description = (
        f"{number(len(panels), 'matrix', 'matrices')} of Spearman's rank correlation among {listing(names)} at "
        f"{BASE_PRECISION}. For {title}, the highest is that of {best.y} with {best.x}, {best.told}, the lowest that "
        f"of {worst.y} with {worst.x}, {worst.told}."
    )
    return theme.finish(alt.concat(*drawn, columns=columns, spacing=14), "rank-correlations", description)


def _matrix(rows: pd.DataFrame, names: list[str], values: pd.DataFrame, labels: bool) -> Layers:
    """Return coefficients below the diagonal, and on it the number of points."""
    base = alt.Chart(values).transform_filter("datum.kind === coefficient")
    legend = alt.Legend(orient="top", gradientLength=160, values=[-1, -0.5, 0, 0.5, 1], format=".1f")
    color = alt.Color("value:Q", scale=COLORS, title="rank correlation", legend=legend)
    squares = base.mark_rect(stroke=theme.MUTED, strokeWidth=0.4).encode(
        color=alt.when("datum.settled").then(color).otherwise(alt.value("#ffffff")),
        tooltip=tips("x:N", "y:N", "kind:N", alt.Tooltip("told:N", title="coefficient"), "points:Q", "models:Q"),
    )
    coefficients = base.mark_text(text=WITHOUT_INTERVAL, fontSize=theme.LABEL_SIZE + 1).encode(
        color=alt.when(DARK).then(alt.value("#ffffff")).otherwise(alt.value(theme.INK))
    )
    counts = pd.DataFrame({"x": names, "y": names, "count": [int(rows[name].notna().sum()) for name in names]})
    diagonal = alt.Chart(counts).mark_text(fontSize=theme.LABEL_SIZE).encode(alt.Text("count:Q"))
    axes = [
        alt.Axis(labelFontSize=theme.LABEL_SIZE, ticks=False, domain=False, labelOverlap=False, **options)
        for options in ({"labelAngle": -35}, {"labels": labels})
    ]
    scale = alt.Scale(domain=names)
    return alt.layer(squares, coefficients, diagonal).encode(
        alt.X("x:N", title=None, scale=scale, axis=axes[0]), alt.Y("y:N", title=None, scale=scale, axis=axes[1])
    )
