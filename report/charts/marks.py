"""Layers of a panel, each from rows: a list of dictionaries or a data frame.

    x = LogAxis.around(frame.flop, pixels=plot_width(), title="operations", unit="FLOP")
    y = LogAxis.around(frame.latency_s, pixels=300, title="latency", unit="s", vertical=True)
    layers = [
        rules(frame, x=(x, "flop"), y=(y, "low_s"), y2="high_s", color=theme.GREY),
        points(frame, x=(x, "flop"), y=(y, "latency_s"), color=("name", theme.accents(frame.name)),
               tooltip=[("name", "network", ""), ("latency_s", "latency", "s")]),
        names(frame, "name", x=(x, "flop"), y=(y, "latency_s")),
    ]
    figure("latency", "Latency against operations.", panel(layers))

A place is an axis with a field, or with a value for all marks; without it a mark spans the panel. Marks that reach to
another place have ``x2`` or ``y2``, a field or a value. A colour is one, or a field with a palette (name to colour) in
the order of the legend. A tooltip's line is a field, its heading and a format: of d3 (``.0%``, ``.3s``), or a unit that
follows the SI number (``s``), or nothing for a text.
"""

import re
from collections.abc import Mapping, Sequence
from math import inf, pi, sqrt
from typing import Any

from report.charts import labels, theme
from report.charts.axes import Axis, LinearAxis, LogAxis, with_unit
from report.charts.labels import MARK, Box, spread, text_size

Rows = Any
Place = tuple[Axis, Any]
Color = str | tuple[str, Mapping[str, str]]
Tooltip = Sequence[tuple[str, str, str]]
Layer = dict[str, Any]

NAMES = "names"  # describes layers that name marks or regimes: no data, and less of it on a narrow page
FORMAT = re.compile(r"^[^a-zA-Z]*[.,~\d]+[a-z%]?$|^[d%]$")  # one of d3's, not a unit
DASH = [5, 3]
LARGEST = 600  # pixels of the area of the largest mark
LEADER = {"type": "rule", "color": theme.MUTED, "strokeWidth": 0.6}


def records(rows: Rows) -> list[dict[str, Any]]:
    """Return the rows as dictionaries of what JSON holds: six digits of a number, None where there is none."""
    if not hasattr(rows, "columns"):
        return [{str(field): _plain(value) for field, value in row.items()} for row in rows]
    columns = {str(name): [*map(_plain, cells.tolist())] for name, cells in rows.items()}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _plain(value: Any) -> Any:
    if type(value) in (str, int, bool):
        return value
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float):
        return float(f"{value:.6g}") if abs(value) < inf else None  # NaN too
    if value is None or type(value).__name__ == "NAType":
        return None
    return value if isinstance(value, bool | int) else str(value)


def layer(
    mark: dict[str, Any], rows: Rows, x: Place | None, y: Place | None, *, x2: Any = None, y2: Any = None,
    color: Color | None = None, tooltip: Tooltip = (), shape: str | tuple[str, Mapping[str, str]] | None = None,
    offset: tuple[str, Sequence[str]] | None = None, **channels: Any,
) -> Layer:  # fmt: skip
    """Return a layer whose ``about`` tells `panels` its size and the headings of its fields.

    A row whose value has no logarithm is not on a logarithmic axis.
    """
    listed = records(rows)
    size: dict[str, float] = {}
    headings: dict[str, str] = {}
    transform = []
    encoding: dict[str, Any] = {}
    for name, place, side in (("x", x, "width"), ("y", y, "height")):
        if place:
            axis, field = place
            encoding[name] = axis.channel(field)
            size[side] = axis.pixels
            if isinstance(field, str):
                headings[field] = axis.heading
                listed = [row for row in listed if not isinstance(axis, LogAxis) or (row.get(field) or 0) > 0]
    for name, end in (("x2", x2), ("y2", y2)):
        if end is not None:
            encoding[name] = {"field": end} if isinstance(end, str) else {"datum": end}
    for name, of in (("color", color), ("shape", shape)):
        if isinstance(of, tuple):
            scale = {"domain": list(of[1]), "range": list(of[1].values())}
            encoding[name] = {"field": of[0], "type": "nominal", "scale": scale}
        elif of:
            mark[name] = of
    if offset:
        across = "yOffset" if encoding["y"]["type"] == "nominal" else "xOffset"
        encoding[across] = {"field": offset[0], "scale": {"domain": list(offset[1])}}
    for field, heading, form in tooltip:
        is_unit = form and not FORMAT.match(form)
        headings[field] = f"{heading} ({form})" if is_unit else heading
        line = {"field": f"{heading}, told" if form else field, "title": heading, "type": "nominal"}
        encoding.setdefault("tooltip", []).append(line)
        if form:
            value = f"datum['{field}']"
            number = with_unit(value, ".3~s", form) if is_unit else f"format({value}, '{form}')"
            transform.append({"calculate": f"isValid({value}) ? {number} : '–'", "as": line["field"]})
    made = {"data": {"values": listed}, "transform": transform, "mark": mark, "encoding": encoding | channels}
    return made | {"about": {"size": size, "headings": headings}}


def points(
    rows: Rows, x: Place, y: Place, color: Color = theme.BLUE, shape: Any = "circle", hollow: str | bool = False,
    size: float | tuple[str, float] = 45, **options: Any,
) -> Layer:  # fmt: skip
    """``hollow`` may name a field that is true where a mark is drawn hollow.

    ``size`` is an area in pixels, or a field with the value that is drawn at ``LARGEST`` pixels.
    """
    if isinstance(hollow, str):
        parts = [points(rows, x, y, color, shape, each, size, **options) for each in (False, True)]
        for part, test in zip(parts, (f"!datum['{hollow}']", f"datum['{hollow}']"), strict=True):
            part["transform"].insert(0, {"filter": test})
            part["about"]["headings"][hollow] = hollow
        return {"layer": parts}
    mark: dict[str, Any] = {"type": "point", "filled": not hollow, "clip": True, "opacity": 0.9}
    mark |= {"fill": theme.PAPER, "strokeWidth": 1.5} if hollow else {}
    if isinstance(size, tuple):
        mark["opacity"] = 0.7
        scale = {"domain": [0, size[1]], "range": [0, LARGEST], "clamp": True}
        options["size"] = {"field": size[0], "type": "quantitative", "scale": scale, "legend": None}
    else:
        mark["size"] = size
    return layer(mark, rows, x, y, color=color, shape=shape, **options)


def lines(
    rows: Rows, x: Place, y: Place, color: Color = theme.INK, by: str = "", dash: bool | str = False,
    width: float = 1.6, **options: Any,
) -> Layer:  # fmt: skip
    """One line for each value of ``by``, or of the colour's field. ``dash`` may name a field: true where dashed."""
    mark: dict[str, Any] = {"type": "line", "strokeWidth": width, "clip": True}
    if isinstance(dash, str):
        scale = {"domain": [False, True], "range": [[1, 0], DASH]}
        options["strokeDash"] = {"field": dash, "type": "nominal", "scale": scale, "legend": None}
    elif dash:
        mark["strokeDash"] = DASH
    if by:
        options["detail"] = {"field": by, "type": "nominal"}
    return layer(mark, rows, x, y, color=color, **options)


def bars(rows: Rows, x: Place, y: Place, color: Color = theme.BLUE, stacked: bool = False, **options: Any) -> Layer:
    """Bars from zero, or from ``x2``/``y2``; stacked in the order of the colour's palette where asked to.

    ``offset=(field, names)`` sets bars of one category side by side.
    """
    made = layer({"type": "bar", "clip": True}, rows, x, y, color=color, **options)
    amount = next(made["encoding"][at] for at in "xy" if made["encoding"][at]["type"] == "quantitative")
    if stacked and isinstance(color, tuple):
        amount["stack"] = "zero"
        order = f"indexof({list(color[1])!r}, datum['{color[0]}'])"
        made["transform"].append({"calculate": order, "as": "place in the stack"})
        made["encoding"]["order"] = {"field": "place in the stack", "type": "quantitative"}
        made["mark"] |= {"stroke": theme.PAPER, "strokeWidth": 0.5}
    elif not options.keys() & {"x2", "y2"}:
        amount["stack"] = None
    return made


def rules(
    rows: Rows, x: Place | None = None, y: Place | None = None, color: Color = theme.INK, dash: bool = False,
    width: float = 1.2, tick: float = 0, **options: Any,
) -> Layer:  # fmt: skip
    """Intervals from a place to ``x2`` or ``y2``; reference lines across the panel; ticks of so many pixels."""
    mark: dict[str, Any] = {"type": "rule", "strokeWidth": width, "clip": True}
    if tick:
        mark = {"type": "tick", "thickness": width, "size": tick, "clip": True}
    mark |= {"strokeDash": DASH} if dash else {}
    return layer(mark, rows, x, y, color=color, **options)


def band(rows: Rows, x: Place, y: Place, y2: Any, color: Color) -> Layer:
    return layer({"type": "area", "opacity": 0.15, "clip": True}, rows, x, y, y2=y2, color=color)


def boxes(
    rows: Rows, x: Place | None, y: Place | None, color: Color = theme.SKY, opacity: float = 1, **options: Any
) -> Layer:
    """Rectangles: cells between categories, or from a place to ``x2`` and ``y2``."""
    return layer({"type": "rect", "opacity": opacity, "clip": True}, rows, x, y, color=color, **options)


def texts(
    rows: Rows, text: str, x: Place, y: Place, color: Color = theme.INK, align: str = "center", **mark: Any
) -> Layer:
    """The field ``text`` of each row. Further options are those of the mark, such as ``dx`` or ``angle``."""
    mark = {"type": "text", "align": align, "fontSize": theme.LABEL_SIZE} | mark
    return layer(mark, rows, x, y, color=color, text={"field": text, "type": "nominal"})


def names(
    rows: Rows, text: str, x: Place, y: Place, taken: Sequence[Box] = (), size: float | tuple[str, float] = 0
) -> Layer:
    """Name points without an overlap, with a leader where a name stands off its point.

    ``taken`` are boxes that no name may cover. Names keep clear of a row whose own is empty, too. ``size`` is that of
    ``points``.
    """
    (x_axis, x_field), (y_axis, y_field) = x, y
    listed = [row for row in records(rows) if _on(x_axis, row.get(x_field)) and _on(y_axis, row.get(y_field))]
    pixels = [(x_axis.pixel(row[x_field]), y_axis.pixel(row[y_field]), row[text] or "") for row in listed]
    areas = [LARGEST * min(1, row[size[0]] / size[1]) if isinstance(size, tuple) else size for row in listed]
    halves = [max(MARK, sqrt(area / pi)) for area in areas]
    placed = []
    for label in labels.place(pixels, halves, Box(0, 0, x_axis.pixels, y_axis.pixels), theme.LABEL_SIZE, taken):
        row, (at, down, name) = listed[label.index], pixels[label.index]
        (dx, dy), (ex, ey) = label.center, label.leader_end or (at, down)
        offsets = {"dx": dx - at, "dy": dy - down, "ex": ex - at, "ey": ey - down}
        where = {"at": at, "down": down, "width": text_size(name, theme.LABEL_SIZE)[0]}  # for a narrower page
        numbers = {key: round(number, 1) for key, number in (offsets | where).items()}
        placed.append({"text": name, "x": row[x_field], "y": row[y_field]} | numbers)
    places = (x_axis, "x"), (y_axis, "y")
    leaders = layer(LEADER | {"x2Offset": _shift("ex"), "y2Offset": _shift("ey")}, placed, *places, x2="x", y2="y")
    named = texts(placed, "text", *places, clip=True, dx=_shift("dx"), dy=_shift("dy"))
    return {"description": NAMES, "layer": [leaders, named]}


def end_names(rows: Rows, text: str, x: Place, y: Place) -> Layer:
    """Name lines, a row each at its last point, right of the panel, one above the other, joined by leaders."""
    (x_axis, x_field), (y_axis, y_field) = x, y
    listed = [row for row in records(rows) if _on(y_axis, row.get(y_field))]
    marks = [y_axis.pixel(row[y_field]) for row in listed]
    downs = spread(marks, text_size("x", theme.LABEL_SIZE)[1], 0, y_axis.pixels)
    placed = [
        {"text": row[text], "x": row[x_field], "y": row[y_field], "dy": round(down - mark, 1)}
        for row, mark, down in zip(listed, marks, downs, strict=True)
    ]
    places = (x_axis, "x"), (y_axis, "y")
    leaders = layer(LEADER | {"x2Offset": 12, "y2Offset": _shift("dy")}, placed, *places, y2="y")
    leaders["encoding"]["x2"] = {"value": "width"}
    named = texts(placed, "text", *places, align="left", dx=15, dy=_shift("dy"))
    named["encoding"]["x"] = {"value": "width"}
    return {"description": NAMES, "layer": [leaders, named]}


def _shift(field: str) -> Any:
    return {"expr": f"datum['{field}']"}


def _on(axis: Axis, value: Any) -> bool:
    return value is not None and (not isinstance(axis, LogAxis | LinearAxis) or axis.low <= value <= axis.high)
