"""Forms that several chapters use; each returns a chart, or the panels of ``alt.concat``.

stacked_bars(rows, "network", "kind", "share", theme.LAYER_COLORS)
dots(rows, "network", ("ratio", "low", "high"), axis, ticks={"FLOP": "flop_ratio"})
matrix(rows, "first", "second", "rho", names)
alt.concat(*pies(rows, "network", "quantity", "kind", "amount", theme.LAYER_COLORS))
curves(rows, "batch", "rate", y, by_color("name", palette), 600)
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import pi
from typing import Any

import altair as alt
import pandas as pd

from report.charts import theme
from report.charts.annotations import ONCE, Tip, end_names, tips
from report.charts.axes import Categories, LinearAxis, LogAxis, by_color, by_shape, longest

TICK = "M0,-1V1"  # the shape of a short line
SMALL, OTHER = 0.05, "other"  # smaller slices of a pie are drawn as one
RADIUS, REACH, PIE = 30.0, 40.0, 102.0  # pixels: a pie, to its numbers, its row
SIDE = 208.0  # pixels: the width of a matrix


def stacked_bars(
    rows: pd.DataFrame, name: str, kind: str, share: str, palette: Mapping[str, str], axis: LinearAxis | None = None,
    /, note: str = "", step: float = 20, labels: bool = True, tooltip: Sequence[Tip] = (),
    width: float = theme.FULL_WIDTH, **about: Any,
) -> alt.LayerChart:  # fmt: skip
    """Draw a bar for each name, in the order of the rows, stacked by kind in the order of the palette.

    The axis holds shares from 0 to 1, in a figure of this ``width``, unless another is given. ``note`` names a field
    that is printed right of each bar.
    """
    y = Categories.steps(rows[name], step, shown=labels)
    notes = rows.dropna(subset=note).drop_duplicates(name, keep="last")[[name, note]] if note else rows[:0]
    right = longest(list(notes[note])) + 12 if len(notes) else 10
    x = axis or LinearAxis(low=0, high=1, pixels=theme.plot_width(left=y.room, right=right, figure=width), format="%")
    told = tooltip or [(name, "name", ""), (kind, "kind", ""), (share, x.title or "share", ".1%")]
    bars = alt.Chart(rows).mark_bar(stroke=theme.PAPER, strokeWidth=0.5)
    bars = bars.transform_calculate(**{"place in the stack": f"indexof({list(palette)!r}, datum['{kind}'])"})
    bars = bars.encode(x(share), y(name), color=by_color(kind, palette), order=alt.Order("place in the stack:Q"))
    layers = [tips(bars, *told)]
    if len(notes):
        layers.append(
            alt.Chart(notes).mark_text(align="left", dx=6).encode(x(x.high), y(name), text=alt.Text(f"{note}:N"))
        )
    return alt.layer(*layers, width=x.pixels, height=y.pixels, **about)


def dots(
    rows: pd.DataFrame, name: str, ends: tuple[str, str, str], axis: LinearAxis | LogAxis, /, series: str = "",
    palette: Mapping[str, str] | None = None, ticks: Mapping[str, str] | None = None, reference: float | None = None,
    step: float = 20, tooltip: Sequence[Tip] = (), legend: str = "", **about: Any,
) -> alt.LayerChart:  # fmt: skip
    """Draw a dot with its interval for each name, in the order of the rows; several series stand one below the other.

    ``ends`` are the fields of a value and of its interval. ``ticks`` are fields by their names in the legend, drawn as
    short lines; ``reference`` is a line across all rows.
    """
    value, low, high = ends
    palette = palette or {}
    y = Categories.steps(rows[name], max(step, 11 * len(palette)))
    looks: dict[str, Any] = {"color": by_color(series, palette, title=legend or None)} if series else {}
    offset = {"yOffset": alt.YOffset(f"{series}:N").scale(domain=[*palette])} if len(palette) > 1 else {}
    told = tooltip or [(name, "name", ""), (value, axis.title, ".3~g"), (low, "from", ".3~g"), (high, "to", ".3~g")]
    layers = []
    if reference is not None:
        layers.append(alt.Chart(ONCE).mark_rule(color=theme.MUTED, strokeDash=theme.DASH).encode(axis(reference)))
    if len(certain := rows.dropna(subset=[low, high])):
        intervals = alt.Chart(certain).mark_rule(color=theme.BLUE, strokeWidth=1.6)
        layers.append(intervals.encode(axis(low), y(name), x2=high, **looks, **offset))
    looks |= {"shape": by_shape(series, theme.shapes(palette))} if series else {}
    layers.append(tips(alt.Chart(rows).mark_point().encode(axis(value), y(name), **looks, **offset), *told))
    for (label, field), ink in zip((ticks or {}).items(), (theme.INK, theme.ORANGE, theme.GREEN), strict=False):
        marked = alt.Chart(rows.dropna(subset=field).assign(mark=label))
        marked = marked.mark_point(filled=False, fill=theme.PAPER, strokeWidth=1.5, size=110)
        looks = {"color": by_color("mark", {label: ink}), "shape": by_shape("mark", {label: TICK})}
        layers.append(tips(marked.encode(axis(field), y(name), **looks, **offset), *told))
    return alt.layer(*layers, width=axis.pixels, height=y.pixels, **about)


def matrix(
    rows: pd.DataFrame, first: str, second: str, value: str, names: Sequence[str], title: str = "", settled: str = ""
) -> alt.LayerChart:  # fmt: skip
    """Draw coefficients from -1 to 1 as coloured cells with numbers, ``first`` across and ``second`` down.

    A cell whose field ``settled`` is false, because its interval holds 0, stays white.
    """
    rows = rows[rows[value].notna()]
    rows = rows.assign(pale=~rows[settled].astype(bool) if settled else False)
    across, down = ([name for name in names if name in set(rows[of])] for of in (first, second))
    x = Categories(names=tuple(across), pixels=SIDE, vertical=False, padding=0.04)
    y = Categories(names=tuple(down), pixels=0.85 * SIDE, padding=0.04)  # numbers are wider than high
    scale = alt.Scale(domain=[-1, 0, 1], range=[theme.VERMILION, theme.PAPER, theme.BLUE], interpolate="rgb")
    shade = alt.Color(f"{value}:Q", scale=scale, legend=None)
    ink = alt.when(f"abs(datum['{value}']) > 0.7 && !datum['pale']").then(alt.value(theme.PAPER))
    base = alt.Chart(rows).encode(x(first), y(second))
    cells = base.mark_rect().encode(color=alt.when("datum['pale']").then(alt.value(theme.PAPER)).otherwise(shade))
    return alt.layer(
        tips(cells, (second, "of", ""), (first, "with", ""), (value, "coefficient", ".2f")),
        base.mark_text().encode(text=alt.Text(f"{value}:Q", format=".2f"), color=ink.otherwise(alt.value(theme.INK))),
        title=title, width=x.pixels, height=y.pixels,
    )  # fmt: skip


def slices(amounts: Mapping[str, float]) -> list[tuple[str, float, float, float]]:
    """Return part, share and both angles (rad, clockwise from twelve), the largest first and ``OTHER`` last."""
    whole = sum(amount for amount in amounts.values() if amount > 0)
    shares = {part: amount / whole for part, amount in amounts.items() if amount > 0}
    large = (part for part, share in shares.items() if part != OTHER and share >= SMALL)
    kept = sorted(large, key=lambda part: -shares[part])
    rest = sum(share for part, share in shares.items() if part not in kept)
    parts = [(part, shares[part]) for part in kept] + ([(OTHER, rest)] if rest > 0 else [])
    ends = [0.0]
    for _, share in parts:
        ends.append(ends[-1] + 2 * pi * share)
    return [(part, share, *angles) for (part, share), angles in zip(parts, pairwise(ends), strict=True)]


def pies(
    rows: pd.DataFrame, column: str, row: str, part: str, amount: str, palette: Mapping[str, str], cell: float = 128
) -> list[alt.LayerChart]:
    """Return a panel for each column, with a pie for each row and its shares in per cent.

    Slices under 5 % are one, ``OTHER``. A row's name stands over each of its pies: a narrow page moves the panels.
    """
    middles = {down: PIE * (line + 0.5) + 10 for line, down in enumerate(dict.fromkeys(rows[row]))}
    places = alt.X("x:Q", scale=None, axis=None), alt.Y("y:Q", scale=None, axis=None)
    angle = {"type": "quantitative", "scale": None, "stack": None}
    panels = []
    for across, found in rows.groupby(column, sort=False):
        arcs = pd.DataFrame(
            {column: across, row: down, part: name, "share": share, "x": cell / 2, "y": middles[down],
             "start": start, "end": end, "turn": (start + end) / 2, "text": f"{100 * share:.0f}"}
            for down, pie in found.groupby(row, sort=False)
            for name, share, start, end in slices(dict(zip(pie[part], pie[amount].fillna(0), strict=True)))
        )  # fmt: skip
        titles = pd.DataFrame({"text": [*middles], "x": 0, "y": [middle - PIE / 2 for middle in middles.values()]})
        shown = alt.Chart(arcs[[column, row, part, "share", "x", "y", "start", "end"]])
        shown = shown.mark_arc(outerRadius=RADIUS, stroke=theme.PAPER, strokeWidth=0.6)
        theta = {"theta": alt.Theta(field="start", **angle), "theta2": "end"}
        numbers = alt.Chart(arcs[["text", "x", "y", "turn"]]).mark_text(radius=REACH)
        told = (column, column, ""), (row, row, ""), (part, part, ""), ("share", "share", ".1%")
        panels.append(alt.layer(
            tips(shown.encode(*places, color=by_color(part, palette), **theta), *told),
            alt.Chart(titles).mark_text(align="left").encode(*places, text=alt.Text("text:N")),
            numbers.encode(*places, text=alt.Text("text:N"), theta=alt.Theta(field="turn", **angle)),
            title=str(across), width=cell, height=PIE * len(middles), view={"stroke": None},
        ))  # fmt: skip
    return panels


def curves(
    rows: pd.DataFrame, x: str, y: str, axis: LogAxis | LinearAxis, color: alt.Color, width: float, title: str = ""
) -> alt.LayerChart:
    """Draw a line with marks by batch size for each name, which stands at its end, and intervals (``low``, ``high``).

    The plot is ``width`` wide.
    """
    rows = rows.dropna(subset=[x, y])
    horizontal = LogAxis.of_batches(rows[x], width)
    base = alt.Chart(rows).encode(horizontal(x), axis(y), color=color)
    intervals = [
        alt.Chart(rows.dropna(subset="low"))
        .mark_rule()
        .encode(horizontal(x), axis("low"), y2=alt.Y2("high"), color=color)
        for _ in range("low" in rows)
    ]
    ends = rows.loc[rows.groupby("name", sort=False)[x].idxmax()]
    told = ("name", "name", ""), (x, horizontal.title, "~g"), (y, axis.title, axis.unit or ".3~g")
    return alt.layer(
        *intervals, base.mark_line().encode(detail=alt.Detail("name:N")), tips(base.mark_point(size=28), *told),
        *end_names(ends, "name", horizontal(x), axis(y)),
        title=title, width=width, height=axis.pixels,
    )  # fmt: skip
