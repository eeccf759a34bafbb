"""An IPython extension: after ``%load_ext report.notebook`` an answer of ``measure.model`` shows as a roofline."""

from html import escape
from typing import Any

import altair as alt
import pandas as pd

from report.charts import roofline, theme
from report.charts.axes import LogAxis
from report.figures.marks import panel

WIDTH, HEIGHT = 440.0, 260.0
LABEL_X = 8  # pixels from a point to its batch size


def load_ipython_extension(shell: Any) -> None:
    """Let IPython show a ``ModelAnswer`` with its chart, wherever it is the value of a cell."""
    html = shell.display_formatter.formatters["text/html"]
    html.for_type_by_name("measure.verbs.answer", "ModelAnswer", as_html)


def as_html(answer: Any) -> str:
    """Return an answer's text, and its roofline if it has one."""
    chart = draw(answer)
    if chart is None:
        return f"<pre>{escape(str(answer))}</pre>"
    with alt.renderers.enable("html"):
        return f"<pre>{escape(str(answer))}</pre>{chart._repr_mimebundle_()['text/html']}"


def draw(answer: Any) -> Any:
    """Draw the cells of a ``ModelAnswer`` under the roofs of its machine; None without a roof or a timed cell."""
    demands = {(each.batch, each.precision): each for each in answer.demands}
    cells = pd.DataFrame(
        {
            "intensity": demands[cell.timed.batch, cell.timed.precision].intensity_flop_per_byte,
            "rate": cell.flop_per_s,
            "batch": cell.timed.batch,
            "precision": cell.timed.precision,
        }
        for cell in answer.cells
        if cell.flop_per_s
    )
    roofs = [
        ({"precision": each}, roof) for each in answer.rates.flop_per_s if (roof := answer.rates.at(each)) is not None
    ]
    if cells.empty or not roofs:
        return None
    ridges = [roof.ridge_flop_per_byte for _, roof in roofs]
    peaks = [roof.peak_flop_per_s for _, roof in roofs]
    x = LogAxis.around([*cells.intensity, *ridges], WIDTH, "operational intensity", "FLOP/B", margins=(0.1, 0.2))
    y = LogAxis.around([*cells.rate, *peaks], HEIGHT, "rate", "FLOP/s", vertical=True, margins=(0.2, 0.1))
    tips: list[Any] = ["batch:N", "precision:N", alt.Tooltip("rate:Q", format=".3s"), "intensity:Q"]
    points = alt.Chart(cells).encode(x.channel("intensity"), y.channel("rate"), tooltip=tips)
    return panel(
        x,
        y,
        roofline.lines(roofline.outline(roofs, x), x, y, "precision"),
        points.mark_point(filled=True, size=60, color=theme.BLUE),
        points.mark_text(dx=LABEL_X, align="left", color=theme.INK).encode(text="batch:N"),
        title=f"{answer.model} on {answer.environment.name}",
    ).configure(**theme.CONFIG)
