"""The figure of how programs that count multiply-adds compare with what is published."""

from typing import Any

from report import display
from report.chapters.counting.facts import TOLERANCE, program_name, scores, with_deviations
from report.charts import theme
from report.charts.axes import Categories, LinearAxis
from report.charts.marks import boxes, points, rules
from report.charts.panels import figure, panel
from report.paper import Paper

TICKS = (-100, -10, -1, 0, 1, 10, 100)


@display.figure
def deviations(paper: Paper) -> dict[str, Any]:
    found = with_deviations(paper.counting_programs)
    found = display.required(found[found.deviation.notna()], "python scripts/counting_programs.py")
    rows = found[["model", "family", "published_mac", "forward_mac"]].assign(
        program=found.program.map(program_name), off=100 * found.deviation.astype(float)
    )
    palette = theme.colors(sorted(set(rows.family)))
    y = Categories.steps(rows.program, 20)
    low, high = 1.6 * min(-2.0, rows.off.min()), 1.4 * max(2.0, rows.off.max())
    x = LinearAxis(low=low, high=high, pixels=theme.plot_width(left=y.room), title="deviation (%)")
    tolerance = 100 * TOLERANCE
    told = (
        ("program", "program", ""), ("model", "network", ""), ("published_mac", "published multiply-adds", ",d"),
        ("forward_mac", "counted multiply-adds", ",d"), ("off", "deviation (%)", ".3~g"),
    )  # fmt: skip
    content = panel([
        boxes([{"low": -tolerance, "high": tolerance}], (x, "low"), None, x2="high", color=theme.GRID),
        rules([{}], (x, 0), color=theme.MUTED, width=0.6),
        points(rows, (x, "off"), (y, "program"), ("family", palette), size=18, tooltip=told,
               offset=("family", list(palette))),
    ])  # fmt: skip
    for layer in content["layer"]:  # close to linear within 1 %, logarithmic beyond
        layer["encoding"]["x"]["scale"] |= {"type": "symlog", "constant": 1}
        ticks = [tick for tick in TICKS if low <= tick <= high]
        layer["encoding"]["x"]["axis"] |= {"values": ticks, "labelExpr": "replace(format(datum.value, 'd'), '-', '−')"}
    right = scores(found)
    best = ", ".join(f"{program_name(str(row.program))} {row.right}" for row in right.itertuples())
    alt = f"Deviations from the published counts of {rows.model.nunique()} networks. Right within 1 %: {best}."
    return figure("counting-deviations", alt, content)
