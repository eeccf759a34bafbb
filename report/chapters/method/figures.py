"""The figure of how wide intervals are, by the number of rounds."""

from typing import Any

import numpy as np

from measure.domain.words import MOST_ROUNDS, TARGET
from report import display, options
from report.chapters.method.facts import expected
from report.charts import theme
from report.charts.axes import LinearAxis, LogAxis
from report.charts.marks import lines, points, rules
from report.charts.panels import figure, panel
from report.paper import Paper
from report.paper.cells import half_width
from report.paper.frames import matching


@display.figure
def intervals(paper: Paper) -> dict[str, Any]:
    command = options.measure_command("--sections inference")
    timed = matching(display.required(paper.at_hand, command).cells, status="ok")
    cells = timed.assign(width=half_width(timed).astype(float)).query("rounds > 1 and width > 0")
    cells = display.required(cells, command)
    rows = [
        {"rounds": rounds, "cells": len(of_rounds)}
        | dict(zip(("low", "median", "high"), np.quantile(of_rounds.width, (0.1, 0.5, 0.9)), strict=True))
        for rounds, of_rounds in cells.groupby("rounds")
    ]
    last = max(MOST_ROUNDS, int(cells.rounds.max()))
    curve = [{"rounds": rounds, "width": expected(cells.scatter.median(), rounds)} for rounds in range(2, last + 1)]
    x = LinearAxis(low=1.5, high=last + 0.5, pixels=theme.plot_width(), title="rounds", format="d", ticks=last)
    y = LogAxis.around(
        [TARGET, *cells.width.quantile((0.05, 0.95)), *(row["width"] for row in curve[1:])],
        pixels=170, title="half width over latency", vertical=True,
    )  # fmt: skip
    told = (
        ("rounds", "rounds", "d"), ("cells", "cells", "d"), ("median", "median half width", ".1%"),
        ("low", "tenth percentile", ".1%"), ("high", "ninetieth percentile", ".1%"),
    )  # fmt: skip
    content = panel([
        rules([{}], y=(y, TARGET), color=theme.MUTED, dash=True),
        lines(curve, (x, "rounds"), (y, "width"), theme.GREY),
        rules(rows, (x, "rounds"), (y, "low"), y2="high", color=theme.BLUE, width=2),
        points(rows, (x, "rounds"), (y, "median"), theme.BLUE, tooltip=told),
    ])  # fmt: skip
    alt = f"Half widths of the intervals of {len(cells)} cells by their number of rounds."
    return figure("method-intervals", alt, content)
