"""Forms that several chapters use; each returns a panel, ready for `panels.figure`, `row` or `grid`.

figure("shares", "Time by kind of layer.", stacked_bars(rows, "network", "kind", "share", theme.LAYER_COLORS))
figure("ratios", "Backward over forward.", dots(rows, "network", "ratio", "low", "high",
       LinearAxis.around(rows.ratio, pixels=plot_width(left=110), title="ratio"), ticks={"FLOP": "flop_ratio"}))
figure("ranks", "Rank correlations.", matrix(rows, "first", "second", "rho", names))
figure("pies", "Time and memory.", pies(rows, "network", "quantity", "kind", "amount", theme.LAYER_COLORS))
figure("throughput", "Throughput by batch size.", curves(rows, "batch", "rate", "network", y, palette, 600))
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import cos, pi, sin
from typing import Any

import altair as alt
import pandas as pd

from report.charts import theme
from report.charts.annotations import end_names, tips
from report.charts.axes import Categories, LinearAxis, LogAxis, Pixels, longest
from report.charts.marks import Tooltip, bars, layer, points, records, rules, texts
from report.charts.panels import Content, panel

TICK = "M0,-1V1"  # the shape of a short line
SMALL, OTHER = 0.05, "other"  # smaller slices of a pie are drawn as one
RADIUS, REACH, PIE = 30.0, 40.0, 102.0  # pixels: a pie, to its numbers, its row
SIDE = 208.0  # pixels: the width of a matrix


def stacked_bars(
    rows: Any, name: str, kind: str, share: str, palette: Mapping[str, str], axis: LinearAxis | None = None,
    note: str = "", step: float = 20, labels: bool = True, tooltip: Tooltip = (), width: float = theme.FULL_WIDTH,
) -> Content:  # fmt: skip
    """Draw a bar for each name, in the order of the rows, stacked by kind in the order of the palette.

    The axis holds shares from 0 to 1, in a figure of this ``width``, unless another is given. ``note`` names a field
    that is printed right of each bar.
    """
    listed = records(rows)
    y = Categories.steps((row[name] for row in listed), step, shown=labels)
    notes = {row[name]: {name: row[name], note: row[note]} for row in listed if note and row[note] is not None}
    right = longest([str(row[note]) for row in notes.values()]) + 12 if notes else 10
    x = axis or LinearAxis(low=0, high=1, pixels=theme.plot_width(left=y.room, right=right, figure=width), format="%")
    told = tooltip or [(name, "name", ""), (kind, "kind", ""), (share, x.title or "share", ".1%")]
    layers = [bars(listed, (x, share), (y, name), (kind, palette), stacked=True, tooltip=told)]
    if notes:
        layers.append(texts(list(notes.values()), note, (x, x.high), (y, name), align="left", dx=6))
    return panel(layers)


def dots(
    rows: Any, name: str, value: str, low: str, high: str, axis: LinearAxis | LogAxis, series: str = "",
    palette: Mapping[str, str] | None = None, ticks: Mapping[str, str] | None = None, reference: float | None = None,
    title: str = "", step: float = 20, tooltip: Tooltip = (),
) -> Content:  # fmt: skip
    """Draw a dot with its interval for each name, in the order of the rows; several series stand one below the other.

    ``ticks`` are fields by their names in the legend, drawn as short lines; ``reference`` is a line across all rows.
    """
    listed = records(rows)
    palette = palette or {}
    y = Categories.steps((row[name] for row in listed), max(step, 11 * len(palette)))
    color: Any = (series, palette) if series else theme.BLUE
    options: dict[str, Any] = {"offset": (series, list(palette))} if len(palette) > 1 else {}
    told = tooltip or [(name, "name", ""), (value, axis.title, ".3~g"), (low, "from", ".3~g"), (high, "to", ".3~g")]
    layers = [rules([{}], x=(axis, reference), color=theme.MUTED, dash=True)] if reference is not None else []
    certain = [row for row in listed if row.get(low) is not None and row.get(high) is not None]
    layers += [rules(certain, (axis, low), (y, name), x2=high, color=color, width=1.6, **options)] if certain else []
    shape = (series, theme.shapes(palette)) if series else "circle"
    layers.append(points(listed, (axis, value), (y, name), color, shape, tooltip=told, **options))
    for (label, field), ink in zip((ticks or {}).items(), (theme.INK, theme.ORANGE, theme.GREEN), strict=False):
        marked = [row | {"mark": label} for row in listed if row.get(field) is not None]
        inks, line = ("mark", {label: ink}), ("mark", {label: TICK})
        layers.append(points(marked, (axis, field), (y, name), inks, line, True, 110, tooltip=told, **options))
    return panel(layers, title)


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
    rows: Any, column: str, row: str, part: str, amount: str, palette: Mapping[str, str], cell: float = 128
) -> list[Content]:
    """Return a panel for each column, with a pie for each row and its shares in per cent; set them in a `row`.

    Slices under 5 % are one, ``OTHER``. A row's name stands over each of its pies: a narrow page moves the panels.
    """
    listed = records(rows)
    downs = list(dict.fromkeys(each[row] for each in listed))
    x, y = Pixels(pixels=cell), Pixels(pixels=PIE * len(downs))
    panels = []
    for across in dict.fromkeys(each[column] for each in listed):
        arcs: list[dict[str, Any]] = []
        titles: list[dict[str, Any]] = []
        numbers: list[dict[str, Any]] = []
        for line, down in enumerate(downs):
            amounts = {each[part]: each[amount] or 0 for each in listed if (each[column], each[row]) == (across, down)}
            cut = slices(amounts)
            middle = PIE * (line + 0.5) + 10
            titles.append({"text": down, "x": 0, "y": middle - PIE / 2})
            for name, share, start, end in cut:
                about = {column: across, row: down, part: name, "share": share}
                arcs.append(about | {"x": cell / 2, "y": middle, "start": start, "end": end})
                turn = (start + end) / 2
                place = {"x": cell / 2 + REACH * sin(turn), "y": middle - REACH * cos(turn)}
                numbers.append({"text": f"{100 * share:.0f}"} | place)
        told = [(column, column, ""), (row, row, ""), (part, part, ""), ("share", "share", ".1%")]
        mark = {"type": "arc", "outerRadius": RADIUS, "stroke": theme.PAPER, "strokeWidth": 0.6}
        theta = {"field": "start", "type": "quantitative", "scale": None, "stack": None}
        ends: dict[str, Any] = {"theta": theta, "theta2": {"field": "end"}}
        layers = [layer(mark, arcs, (x, "x"), (y, "y"), color=(part, palette), tooltip=told, **ends)]
        layers.append(texts(titles, "text", (x, "x"), (y, "y"), align="left"))
        layers.append(texts(numbers, "text", (x, "x"), (y, "y")))
        panels.append(panel(layers, str(across), frame=False))
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
    intervals = alt.Chart(rows.dropna(subset="low")).mark_rule().encode(horizontal(x), axis("low"), y2="high")
    ends = rows.loc[rows.groupby("name", sort=False)[x].idxmax()]
    told = ("name", "name", ""), (x, horizontal.title, "~g"), (y, axis.title, axis.unit or ".3~g")
    return alt.layer(
        intervals.encode(color=color), base.mark_line().encode(detail="name:N"), tips(base.mark_point(size=28), *told),
        *end_names(ends, "name", horizontal(x), axis(y)),
        title=title, width=width, height=axis.pixels,
    )  # fmt: skip
