"""Figures of rank correlations."""

from typing import Any

import altair as alt
import pandas as pd

from report.analysis import available, correlations, predictors
from report.analysis.available import or_missing
from report.analysis.predictors import Pair
from report.charts import theme
from report.load.paper import BASE_PRECISION, Paper
from report.text.frame_rows import highest, lowest
from report.text.quantities import SPACE, listing, number

COLUMNS = 2

SIDE = theme.WIDTH / 2 - 25
"""Width and height of a matrix in pixels."""

COLORS = alt.Scale(
    domain=[-1, 0, 1],
    range=[theme.VERMILION, "#ffffff", theme.BLUE],
    interpolate=alt.ScaleInterpolateEnum("rgb"),
)

WITHOUT_INTERVAL = alt.ExprRef("split(datum.told, ' ')[0]")

DARK = "abs(datum.value) > 0.85 && datum.settled"
"""Where a square is too dark for dark text."""


def _values(pairs: list[Pair]) -> pd.DataFrame:
    """One row is a coefficient of a pair of quantities, the later one in ``y``."""
    return pd.DataFrame(
        [
            {
                "kind": pair.method,
                "x": pair.first,
                "y": pair.second,
                "value": round(pair.coefficient.value, 3),
                "settled": pair.coefficient.settled,
                "told": str(pair.coefficient),
                "points": pair.coefficient.points,
                "models": pair.coefficient.models,
            }
            for pair in pairs
        ]
    )


def _intervals(values: pd.DataFrame) -> pd.DataFrame:
    """The intervals of the coefficients that have one, mirrored: each on the other side of the diagonal."""
    within = values.told.str.extract(r"\((.*)\)")[0].str.replace(f"{SPACE}to{SPACE}", " to\n")
    rows = pd.DataFrame({"kind": values.kind, "x": values.y, "y": values.x, "interval": within})
    return rows[within.notna()]


@or_missing
def matrices(paper: Paper) -> alt.ConcatChart:
    """Rank correlations of latencies and what may predict them: a panel for all cells and for each batch size."""
    table, names = predictors.quantities(paper)
    pairs = predictors.pairs(paper)
    panels = {
        predictors.title(batch): (rows, _values(own))
        for batch, rows in predictors.groups(table)
        if (own := [pair for pair in pairs if pair.batch == batch])
    }
    if not panels:
        raise available.DataMissingError(
            f"A rank correlation needs {correlations.FEWEST} models that were measured at the same batch size; python "
            "-m measure measures more."
        )
    choice = alt.param(
        name="coefficient",
        value="Spearman",
        bind=alt.binding_select(options=list(correlations.METHODS), name="Coefficient "),
    )
    legend = alt.Legend(orient="top", gradientLength=160, values=[-1, -0.5, 0, 0.5, 1], format=".1f")
    drawn: list[Any] = []
    for title, (rows, values) in panels.items():
        base = alt.Chart(values).transform_filter("datum.kind === coefficient")
        squares = base.mark_rect(stroke=theme.MUTED, strokeWidth=0.4).encode(
            color=alt.when("datum.settled")
            .then(alt.Color("value:Q", scale=COLORS, title="rank correlation", legend=legend))
            .otherwise(alt.value("#ffffff")),
            tooltip=["x:N", "y:N", "kind:N", alt.Tooltip("told:N", title="coefficient"), "points:Q", "models:Q"],
        )  # fmt: skip
        coefficients = base.mark_text(text=WITHOUT_INTERVAL, fontSize=theme.LABEL_SIZE + 1).encode(
            color=alt.when(DARK).then(alt.value("#ffffff")).otherwise(alt.value(theme.INK)),
        )
        ends = alt.Chart(_intervals(values)).transform_filter("datum.kind === coefficient")
        ends = ends.mark_text(
            lineBreak="\n", lineHeight=9, dy=-4, fontSize=theme.LABEL_SIZE - 1.5, color=theme.MUTED
        ).encode(text="interval:N")
        counts = pd.DataFrame(
            {"x": names, "y": names, "count": [int(rows[name].notna().sum()) for name in names]}
        )
        diagonal = alt.Chart(counts).mark_text(fontSize=theme.LABEL_SIZE).encode(text="count:Q")
        axes = [
            alt.Axis(labelFontSize=theme.LABEL_SIZE, ticks=False, domain=False, labelOverlap=False, **options)
            for options in ({"labelAngle": -35}, {"labels": len(drawn) % COLUMNS == 0})
        ]
        scale = alt.Scale(domain=names)
        panel = alt.layer(squares, coefficients, ends, diagonal).encode(
            alt.X("x:N", title=None, scale=scale, axis=axes[0]),
            alt.Y("y:N", title=None, scale=scale, axis=axes[1]),
        )
        panel = panel if drawn else panel.add_params(choice)
        drawn.append(panel.properties(title=title, width=SIDE, height=SIDE))
    title, (_, values) = next(iter(panels.items()))
    told = values[values.kind == "Spearman"]
    best, worst = highest(told, "value"), lowest(told, "value")
    description = (
        f"{number(len(panels), 'matrix', 'matrices')} of Spearman's rank correlation among {listing(names)} at "
        f"{BASE_PRECISION}. For {title}, the highest is that of {best.y} with {best.x}, {best.told}, the lowest that "
        f"of {worst.y} with {worst.x}, {worst.told}."
    )
    return theme.finish(alt.concat(*drawn, columns=COLUMNS, spacing=14), "rank-correlations", description)
