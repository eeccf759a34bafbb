"""Forms that several chapters use.

stacked_bars(rows, "network", "kind", "share", theme.LAYER_COLORS)
dots(rows, "network", ("ratio", "low", "high"), axis, ticks={"FLOP": "flop_ratio"})
curves(rows, "batch", "rate", y, by_color("name", palette), 600)
"""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd

from report.charts import theme
from report.charts.annotations import ONCE, Tip, end_names, tips
from report.charts.axes import Categories, LinearAxis, LogAxis, by_color, by_shape, longest


def stacked_bars(
    rows: pd.DataFrame, name: str, kind: str, share: str, palette: Mapping[str, str], axis: LinearAxis | None = None,
    /, note: str = "", step: float = 20, labels: bool = True, tooltip: Sequence[Tip] = (),
    width: float = theme.FULL_WIDTH, **about: Any,
) -> alt.LayerChart:  # fmt: skip
    """Draw a bar for each name, in the order of the rows, stacked by kind in the order of the palette.

    The default axis holds shares from 0 to 1, in a figure of this ``width``. ``note`` is a field to print right of
    each bar.
    """
    y = Categories.steps(rows[name], step, shown=labels)
    notes = rows.dropna(subset=note).drop_duplicates(name, keep="last")[[name, note]] if note else rows[:0]
    right = longest(list(notes[note])) + 12 if len(notes) else 10
    x = axis or LinearAxis(low=0, high=1, pixels=theme.plot_width(left=y.room, right=right, figure=width), format="%")
    tooltip = tooltip or [(name, "name", ""), (kind, "kind", ""), (share, x.title or "share", ".1%")]
    bars = alt.Chart(rows).mark_bar(stroke=theme.PAPER, strokeWidth=0.5)
    bars = bars.transform_calculate(**{"place in the stack": f"indexof({list(palette)!r}, datum['{kind}'])"})
    bars = bars.encode(x(share), y(name), color=by_color(kind, palette), order=alt.Order("place in the stack:Q"))
    layers = [tips(bars, *tooltip)]
    if len(notes):
        texts = alt.Chart(notes).mark_text(align="left", dx=6)
        layers.append(texts.encode(x(x.high), y(name), text=alt.Text(f"{note}:N")))
    return alt.layer(*layers, width=x.pixels, height=y.pixels, **about)


def dots(
    rows: pd.DataFrame, name: str, ends: tuple[str, str, str], axis: LinearAxis | LogAxis, /, series: str = "",
    palette: Mapping[str, str] | None = None, ticks: Mapping[str, str] | None = None, reference: float | None = None,
    step: float = 20, tooltip: Sequence[Tip] = (), legend: str = "", **about: Any,
) -> alt.LayerChart:  # fmt: skip
    """Draw a dot with its interval for each name, in the order of the rows. Several series are one below the other.

    ``ends`` are the fields of a value and of its interval. ``ticks`` are names in the legend and their fields: the
    first is drawn as short lines, the next as a hollow diamond. ``reference`` is the place of a line across all rows.
    """
    value, low, high = ends
    palette = palette or {}
    y = Categories.steps(rows[name], max(step, 11 * len(palette)))
    looks: dict[str, Any] = {"color": by_color(series, palette, title=legend or None)} if series else {}
    offset = {"yOffset": alt.YOffset(f"{series}:N").scale(domain=[*palette])} if len(palette) > 1 else {}
    form = ".3~g"
    tooltip = tooltip or [(name, "name", ""), (value, axis.title, form), (low, "from", form), (high, "to", form)]
    layers = []
    if reference is not None:
        layers.append(alt.Chart(ONCE).mark_rule(color=theme.MUTED, strokeDash=theme.DASH).encode(axis(reference)))
    if len(certain := rows.dropna(subset=[low, high])):
        intervals = alt.Chart(certain).mark_rule(color=theme.BLUE, strokeWidth=1.6)
        layers.append(intervals.encode(axis(low), y(name), x2=alt.X2(high), **looks, **offset))
    looks |= {"shape": by_shape(series, theme.shapes(palette))} if series else {}
    layers.append(tips(alt.Chart(rows).mark_point().encode(axis(value), y(name), **looks, **offset), *tooltip))
    looks_of_ticks = (theme.INK, "M0,-1V1", 110), (theme.VERMILION, "diamond", 45)
    for (label, field), (ink, shape, size) in zip((ticks or {}).items(), looks_of_ticks, strict=False):
        marked = alt.Chart(rows.dropna(subset=field).assign(mark=label))
        marked = marked.mark_point(filled=False, fill=theme.PAPER, strokeWidth=1.5, size=size)
        looks = {"color": by_color("mark", {label: ink}), "shape": by_shape("mark", {label: shape})}
        layers.append(tips(marked.encode(axis(field), y(name), **looks, **offset), *tooltip))
    return alt.layer(*layers, width=axis.pixels, height=y.pixels, **about)


def quantile_bars(
    rows: pd.DataFrame, name: str, heading: str, counted: str, axis: LinearAxis, height: float,
    size: float | None = None, title: str = "",
) -> alt.LayerChart:  # fmt: skip
    """Draw a line from ``low`` to ``high`` for each name, a bar over the middle half of its rows, and their median.

    ``rows`` have the fields of ``report.paper.frames.QUANTILES``, and ``counted``, the number of rows behind them. The
    bar is ``size`` pixels high, by default as high as its place.
    """
    down = Categories.steps(rows[name], height / len(rows))
    tooltip: list[Tip] = [
        (name, heading, ""), (counted, counted, "d"), ("low", "a tenth has less", ".0%"),
        ("median", "median", ".0%"), ("high", "a tenth has more", ".0%"),
    ]  # fmt: skip
    base = alt.Chart(rows)
    bars = base.mark_bar(color=theme.MUTED, size=size or alt.Undefined)
    return alt.layer(
        base.mark_rule(color=theme.MUTED, strokeWidth=2).encode(axis("low"), down(name), x2=alt.X2("high")),
        tips(bars.encode(axis("quarter"), down(name), x2=alt.X2("three_quarters")), *tooltip),
        base.mark_tick(color=theme.PAPER, thickness=3, size=size or 14).encode(axis("median"), down(name)),
        width=axis.pixels, height=down.pixels, title=title,
    )  # fmt: skip


def curves(
    rows: pd.DataFrame, x: str, y: str, axis: LogAxis | LinearAxis, color: alt.Color, width: float, title: str = "",
    shape: alt.Shape | None = None,
) -> alt.LayerChart:  # fmt: skip
    """Draw a line over batch sizes with marks, intervals (``low``, ``high``) and its name at the end for each ``name``.

    The plot is ``width`` wide. The marks may have a ``shape``.
    """
    rows = rows.dropna(subset=[x, y])
    horizontal = LogAxis.of_batches(rows[x], width)
    base = alt.Chart(rows).encode(horizontal(x), axis(y), color=color)
    layers = []
    if "low" in rows:
        intervals = alt.Chart(rows.dropna(subset="low")).mark_rule()
        layers.append(intervals.encode(horizontal(x), axis("low"), y2=alt.Y2("high"), color=color))
    layers.append(base.mark_line().encode(detail=alt.Detail("name:N")))
    tooltip = ("name", "name", ""), (x, horizontal.title, "~g"), (y, axis.title, axis.unit or ".3~g")
    marks = base.mark_point(size=48).encode(shape=shape) if shape else base.mark_point(size=28)
    layers.append(tips(marks, *tooltip))
    ends = rows.loc[rows.groupby("name", sort=False)[x].idxmax()]
    layers += end_names(ends, "name", horizontal(x), axis(y))
    return alt.layer(*layers, title=title, width=width, height=axis.pixels)
