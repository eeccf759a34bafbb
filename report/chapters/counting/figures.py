"""The figure of counting programs: deviations from the published multiply-adds."""

from typing import Any

import altair as alt
import pandas as pd

from report import display
from report.chapters.counting.facts import TOLERANCE, program_name, scores, with_deviations
from report.charts import theme
from report.charts.annotations import ONCE, tips
from report.charts.axes import Categories, LinearAxis, by_color, by_shape
from report.paper import Paper

TICKS = (-100, -10, -1, 0, 1, 10, 100)
ROW = 26  # pixels of a program: each family has a line of its own


class SymlogAxis(LinearAxis):
    """An axis that is close to linear between -1 and 1, and logarithmic beyond."""

    def _guides(self) -> tuple[dict[str, Any], dict[str, Any]]:
        scale, guide = super()._guides()
        guide["values"] = [tick for tick in TICKS if self.low <= tick <= self.high]
        guide["labelExpr"] = "replace(format(datum.value, 'd'), '-', '−')"
        return scale | {"type": "symlog", "constant": 1}, guide


@display.figure
def deviations(paper: Paper) -> alt.LayerChart:
    found = with_deviations(paper.counting_programs)
    found = display.required(found[found.deviation.notna()], "python scripts/counting_programs.py")
    rows = found[["model", "family", "published_mac", "forward_mac"]].assign(
        program=found.program.map(program_name), off=100 * found.deviation.astype(float)
    )
    palette = theme.colors(sorted(set(rows.family)))
    y = Categories.steps(rows.program, ROW, padding=0.3)
    low, high = 1.6 * min(-2.0, rows.off.min()), 1.4 * max(2.0, rows.off.max())
    x = SymlogAxis(
        low=low, high=high, pixels=theme.plot_width(left=y.room, figure=theme.TEXT_WIDTH), title="deviation (%)"
    )
    tolerance = pd.DataFrame({"low": [-100 * TOLERANCE], "high": [100 * TOLERANCE]})
    families = alt.YOffset("family:N").scale(domain=[*palette])
    looks = {"color": by_color("family", palette), "shape": by_shape("family", theme.shapes(palette))}
    points = alt.Chart(rows).mark_point(size=20).encode(x("off"), y("program"), yOffset=families, **looks)
    right = scores(found)
    description = f"Deviations from the published counts of {rows.model.nunique()} networks. Right within 1 %: "
    best = ", ".join(f"{program_name(str(row.program))} {row.right}" for row in right.itertuples())
    return alt.layer(
        alt.Chart(tolerance).mark_rect(color=theme.GRID).encode(x("low"), x2=alt.X2("high")),
        alt.Chart(ONCE).mark_rule(color=theme.MUTED, strokeWidth=0.6).encode(x(0)),
        tips(
            points, ("program", "program", ""), ("model", "network", ""),
            ("published_mac", "published multiply-adds", ",d"), ("forward_mac", "counted multiply-adds", ",d"),
            ("off", "deviation (%)", ".3~g"),
        ),
        width=x.pixels, height=y.pixels, name="counting-deviations",
        description=f"{description}{best}.",
    )  # fmt: skip
