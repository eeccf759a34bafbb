"""The figure of the conclusions: every effect and margin that was estimated, with its interval."""

from typing import Any

import altair as alt
import pandas as pd

from report.analysis import available
from report.charts import theme
from report.charts.axes import Layers, LogAxis
from report.figures import distributions
from report.figures.bars import dashed_at
from report.figures.marks import opacity_where, rounded, styles, tips, widest
from report.findings import conclusions
from report.load.chips import KINDS
from report.load.paper import Paper
from report.text.prose import number

ROW = 12
"""Pixels from one row to the next: names still have room."""

TABLES = "tables"
"""What conclusions about no machine are of, as the legend calls it."""


@available.or_missing
@theme.building()
def effects(paper: Paper) -> Any:
    """Draw the effects and, below them, the margins: a row each, those of a subject together, the largest first."""
    rows = _rows(paper)
    ends = rows[["factor", "low", "high"]].to_numpy().ravel()
    x = distributions.factor_axis(ends.tolist(), theme.WIDTH - widest(rows["name"]) - 10, "factor")
    looks = {KINDS[machine.chip_kind]: theme.KIND_STYLES[machine.chip_kind] for machine in paper.shown}
    present = {of: look for of, look in (looks | {TABLES: (theme.INK, "circle")}).items() if of in set(rows["from"])}
    panels, told = [], []
    for sort, group in rows.groupby("sort", sort=False):
        panel = _panel(group, x, theme.scales(present))
        panels.append(panel.properties(title=f"{sort}s", width=x.pixels, height=ROW * len(group)))
        first = group.iloc[0]
        told.append(f"{number(len(group), str(sort).lower())}, the first {first['name']} with {first['told']}")
    description = f"Dot plot of factors with their intervals, on a logarithmic axis: {'; '.join(told)}."
    return theme.finish(alt.concat(*panels, columns=1, spacing=10), "effects", description)


def _rows(paper: Paper) -> pd.DataFrame:
    """Return the effects in their order, with the interval's ends where there is one, else the factor itself."""
    kinds = {available.title(machine): KINDS[machine.chip_kind] for machine in paper.shown}
    rows = []
    for found in conclusions.ordered(paper):
        where = f" ({kinds[found.where]})" if found.where and len(kinds) > 1 else ""
        for at, effect in found.effects.items():
            low, high = effect.interval or (effect.factor, effect.factor)
            rows.append(
                {
                    "sort": "Margin" if found.is_margin else "Effect", "from": kinds.get(found.where, TABLES),
                    "name": f"{found.topic}{where}{f', {at}' if at else ''}", "told": str(effect), "n": effect.count,
                    "factor": effect.factor, "low": low, "high": high, "clear": bool(effect.side),
                }
            )  # fmt: skip
    frame = pd.DataFrame(rows)
    return frame.assign(**{column: rounded(frame[column], 4) for column in ("factor", "low", "high")})


def _panel(rows: pd.DataFrame, x: LogAxis, scales: tuple[alt.Scale, alt.Scale]) -> Layers:
    looks = styles("from", *scales, hollow=True, title="data")
    base = alt.Chart(rows).encode(distributions.row_axis(rows["name"].tolist()), looks["stroke"])
    interval = base.mark_rule(strokeWidth=1.2, clip=True).encode(x.channel("low"), alt.X2("high:Q"))
    dots = base.mark_point(size=32, strokeWidth=1.2, opacity=1, clip=True).encode(
        x.channel("factor"), looks["fill"], looks["shape"], fillOpacity=opacity_where("datum.clear"),
        tooltip=tips("name", alt.Tooltip("told:N", title="factor (interval)"), alt.Tooltip("n:Q", title="of"), "from"),
    )  # fmt: skip
    return alt.layer(dashed_at([1.0], "low", x.scale), interval, dots)
