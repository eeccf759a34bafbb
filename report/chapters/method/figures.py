"""The figure of the widths of intervals, by the number of rounds."""

import altair as alt
import numpy as np
import pandas as pd

from measure.domain.words import MOST_ROUNDS, TARGET
from report import display, options
from report.chapters.method.facts import expected
from report.charts import theme
from report.charts.annotations import ONCE, tips
from report.charts.axes import LinearAxis, LogAxis
from report.paper import Paper
from report.paper.cells import half_width
from report.paper.frames import matching


@display.figure
def intervals(paper: Paper) -> alt.LayerChart:
    command = options.measure_command("--sections inference")
    timed = matching(display.required(paper.at_hand, command).cells, status="ok")
    cells = timed.assign(width=half_width(timed).astype(float)).query("rounds > 1 and width > 0")
    cells = display.required(cells, command)
    of_rounds = cells.groupby("rounds").width
    rows = of_rounds.quantile(np.array([0.1, 0.5, 0.9])).unstack().set_axis(["low", "median", "high"], axis=1)
    rows.insert(0, "cells", of_rounds.size())
    rows = rows.reset_index()
    last = max(MOST_ROUNDS, int(cells.rounds.max()))
    curve = pd.DataFrame({"rounds": np.arange(2, last + 1)})
    curve["width"] = [expected(cells.scatter.median(), rounds) for rounds in curve.rounds]
    x = LinearAxis(low=1.5, high=last + 0.5, pixels=theme.plot_width(), title="rounds", format="d", ticks=last)
    y = LogAxis.around(
        [TARGET, *cells.width.quantile((0.05, 0.95)), *curve.width[1:]],
        pixels=170, title="half width over latency", vertical=True,
    )  # fmt: skip
    measured = alt.Chart(rows).encode(x("rounds"))
    return alt.layer(
        alt.Chart(ONCE).mark_rule(color=theme.MUTED, strokeDash=theme.DASH).encode(y(TARGET)),
        alt.Chart(curve).mark_line(color=theme.GREY).encode(x("rounds"), y("width")),
        measured.mark_rule(color=theme.BLUE, strokeWidth=2).encode(y("low"), y2=alt.Y2("high")),
        tips(
            measured.mark_point().encode(y("median")), ("rounds", "rounds", "d"), ("cells", "cells", "d"),
            ("median", "median half width", ".1%"), ("low", "tenth percentile", ".1%"),
            ("high", "ninetieth percentile", ".1%"),
        ),
        width=x.pixels, height=y.pixels, name="method-intervals",
        description=f"Half widths of the intervals of {len(cells)} cells by their number of rounds.",
    )  # fmt: skip
