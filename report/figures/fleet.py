"""The figure of many machines beside each other."""

from typing import Any

import altair as alt
import pandas as pd

from measure.domain.values import significant
from report.analysis import available, fleet
from report.analysis.long_lists import evenly, left_out
from report.charts import theme
from report.figures.bars import dashed_at
from report.figures.marks import rounded, styles, widest
from report.load.paper import Paper
from report.text.prose import number, si

ROOFS = {"peak": ("square", theme.INK), "bandwidth": ("diamond", theme.ORANGE)}
"""The sides of a roof, with their marks."""

MACHINES = 40
"""So many rows have room on a page with names that can be read in print."""


@available.or_missing
@theme.building()
def machines(paper: Paper) -> alt.ConcatChart:
    """Draw a row a machine: its speed over the median machine's, and its roofs over the median ones."""
    found = fleet.speeds(paper)
    every = found.folder.tolist()
    order = evenly(every, MACHINES)
    rows = found[found.folder.isin(order)]
    height = max(60, 12 * len(order))
    room = min(widest(order), theme.LONGEST_NAME)
    panels = [
        panel.properties(width=(theme.WIDTH - room) / 2 - 30, height=height)
        for panel in (_speeds(rows, order), _roofs(rows, order))
    ]
    first, last = found.iloc[0], found.iloc[-1]
    description = (
        f"Dot plots of {number(len(found), 'machine')}, the fastest first: the speed of each over that of the median "
        f"machine, from {significant(first.speed)} ({first.folder}) to {significant(last.speed)} ({last.folder}), and "
        "its measured peak and bandwidth over the median ones."
    )
    chart = alt.concat(*panels, columns=2, spacing=14).resolve_scale(color="independent", shape="independent")
    return theme.finish(chart, "fleet", description, left_out(order, every, "machine"))


def _axis(order: list[str], labels: bool) -> alt.Y:
    axis = alt.Axis(grid=True, ticks=False, labels=labels, labelFontSize=theme.LABEL_SIZE)
    return alt.Y("machine:N", sort=order, scale=alt.Scale(domain=order), title=None, axis=axis)


def _scale(*columns: pd.Series) -> alt.Scale:
    """Return an axis of ratios that holds all of these and one."""
    ends = [1.0, *(end for column in columns for end in (column.min(), column.max()) if end > 0)]
    return alt.Scale(type="log", domain=[min(ends) / 1.05, max(ends) * 1.05], nice=False)


def _speeds(rows: pd.DataFrame, order: list[str]) -> Any:
    """Return the speed of each machine, with the range over its cells."""
    points = pd.DataFrame(
        {
            "machine": rows.folder,
            "name": rows.name,
            "device": rows.device,
            "speed": rounded(rows.speed, 4),
            "slowest": rounded(rows.slowest, 4),
            "fastest": rounded(rows.fastest, 4),
            "cells": rows.cells,
        }
    )
    scale = _scale(points.slowest, points.fastest)
    x = alt.X("speed:Q", scale=scale, title="speed over the median machine's", axis=alt.Axis(tickCount=5))
    base = alt.Chart(points).encode(_axis(order, labels=True))
    ranges = base.mark_rule(color="#b5b5b5", strokeWidth=2).encode(alt.X("slowest:Q", scale=scale), alt.X2("fastest:Q"))
    colors, shapes = theme.kinds(points.device)
    tooltip = [alt.Tooltip(f"{name}:{kind}") for name, kind in zip(points, "NNNQQQQ", strict=True)]
    dots = base.mark_point(filled=True, size=42, opacity=1).encode(
        x, **styles("device", colors, shapes, title=None), tooltip=tooltip
    )
    return alt.layer(ranges, dashed_at([1], "speed", scale), dots)


def _roofs(rows: pd.DataFrame, order: list[str]) -> Any:
    """Return each machine's measured peak and bandwidth over the median ones."""
    units = {"peak": "FLOP/s", "bandwidth": "B/s"}
    points = pd.concat(
        [
            pd.DataFrame(
                {
                    "machine": known.folder,
                    "roof": name,
                    "ratio": rounded(known[name] / known[name].median(), 4),
                    "measured": [si(value, units[name]) for value in known[name]],
                }
            )
            for name in ROOFS
            if not (known := rows[rows[name].notna()]).empty
        ]
        or [pd.DataFrame(columns=["machine", "roof", "ratio", "measured"])]
    )
    scale = _scale(points.ratio)
    shapes = alt.Scale(domain=list(ROOFS), range=[shape for shape, _ in ROOFS.values()])
    colors = alt.Scale(domain=list(ROOFS), range=[color for _, color in ROOFS.values()])
    dots = alt.Chart(points).mark_point(filled=True, size=42, opacity=1).encode(
        alt.X("ratio:Q", scale=scale, title="roof over the median roof", axis=alt.Axis(tickCount=5)),
        _axis(order, labels=False), **styles("roof", colors, shapes, title=None),
        tooltip=[alt.Tooltip(f"{name}:{kind}") for name, kind in zip(points, "NNQN", strict=True)],
    )  # fmt: skip
    return alt.layer(dashed_at([1], "ratio", scale), dots)
