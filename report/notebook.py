"""An IPython extension: after ``%load_ext report.notebook`` an answer of ``measure.model`` shows as a roofline."""

from html import escape
from typing import Any

import altair as alt
import pandas as pd

from report.charts.drawing import picture
from report.charts.panels import specified
from report.charts.roofline import DrawnRoof, Plane

WIDTH, HEIGHT = 440.0, 260.0


def load_ipython_extension(shell: Any) -> None:
    """Let IPython show a ``ModelAnswer`` with its chart."""
    html = shell.display_formatter.formatters["text/html"]
    html.for_type_by_name("measure.verbs.answer", "ModelAnswer", as_html)


def as_html(answer: Any) -> str:
    """Return an answer's text, and its roofline if it has one."""
    chart = draw(answer)
    return f"<pre>{escape(str(answer))}</pre>" + ("" if chart is None else picture(specified(chart)))


def draw(answer: Any) -> alt.LayerChart | None:
    """Draw the cells of a ``ModelAnswer`` under the roofs of its machine; None without a roof or a timed cell."""
    demands = {(each.batch, each.precision): each for each in answer.demands}
    cells = [
        {
            "intensity": demands[cell.timed.batch, cell.timed.precision].intensity_flop_per_byte,
            "rate": cell.flop_per_s,
            "name": f"batch {cell.timed.batch}, {cell.timed.precision}",
        }
        for cell in answer.cells
        if cell.flop_per_s
    ]
    roofs = [
        DrawnRoof(roof, precision)
        for precision in answer.rates.flop_per_s
        if (roof := answer.rates.at(precision)) is not None
    ]
    if not cells or not roofs:
        return None
    intensities, rates = ([cell[column] for cell in cells] for column in ("intensity", "rate"))
    plane = Plane.over(roofs, WIDTH, HEIGHT, intensities, rates)
    points = plane.place(
        alt.Chart(pd.DataFrame(cells)).mark_point(), "intensity", "rate",
        ("name", "cell", ""), ("rate", "performance", "FLOP/s"), ("intensity", "intensity", "FLOP/B"),
    )  # fmt: skip
    title = f"{answer.model} on {answer.environment.name}"
    named = plane.names(pd.DataFrame(cells), "name", "intensity", "rate")
    return plane.chart(points, *named, title=title, name="answer", description=title)
