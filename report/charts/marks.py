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

A place is an axis with a field, or with a value for all marks; without it a mark spans the panel. A colour is one, or a
field with a palette (name to colour), whose order is that of the legend. A tooltip's line is a field, its heading and a
format: of d3 (``.0%``, ``.3s``), or a unit that follows the SI number (``s``), or nothing for a text.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from report.charts import labels, theme
from report.charts.axes import Axis, LinearAxis, LogAxis
from report.charts.labels import Box, spread, text_size

Rows = Any
Place = tuple[Axis, Any]
Color = str | tuple[str, Mapping[str, str]]
Tooltip = Sequence[tuple[str, str, str]]
Layer = dict[str, Any]

NAMES = "names"  # describes a layer that only names marks
FORMAT = re.compile(r"^[^a-zA-Z]*[.,~\d]+[a-z%]?$|^[d%]$")  # one of d3's, not a unit
DASH = [5, 3]


def records(rows: Rows) -> list[dict[str, Any]]:
    """Return the rows as dictionaries of what JSON holds: six digits of a number, None where there is none."""
    listed = rows.to_dict("records") if hasattr(rows, "to_dict") else rows
    return [{str(field): _plain(value) for field, value in row.items()} for row in listed]


def _plain(value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float):
        return float(f"{value:.6g}") if abs(value) < float("inf") else None  # NaN too
    return value if value is None or isinstance(value, bool | int) else str(value)


def layer(
    mark: dict[str, Any], rows: Rows, x: Place | None, y: Place | None, *, x2: Any = None, y2: Any = None,
    color: Color | None = None, tooltip: Tooltip = (), shape: str | tuple[str, Mapping[str, str]] | None = None,
    offset: tuple[str, Sequence[str]] | None = None, **channels: Any,
) -> Layer:  # fmt: skip
    """Return a layer whose ``about`` tells `panels` its size and the headings of its fields."""
    about: dict[str, Any] = {"headings": {}, "size": {}}
    encoding: dict[str, Any] = {}
    for name, place, size in (("x", x, "width"), ("y", y, "height")):
        if place:
            axis, field = place
            encoding[name] = axis.channel(field)
            about["size"][size] = axis.pixels
            if isinstance(field, str):
                about["headings"][field] = axis.heading
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
        vertical = y is not None and y[0].vertical and encoding["y"]["type"] == "nominal"
        encoding["yOffset" if vertical else "xOffset"] = {"field": offset[0], "scale": {"domain": list(offset[1])}}
    encoding |= channels
    made: Layer = {"data": {"values": records(rows)}, "mark": mark, "encoding": encoding, "about": about}
    if tooltip:
        made["transform"] = []
        encoding["tooltip"] = []
        for field, heading, form in tooltip:
            about["headings"][field] = f"{heading} ({form})" if form and not FORMAT.match(form) else heading
            told: dict[str, Any] = {"field": field, "title": heading, "type": "nominal"}
            if FORMAT.match(form):
                told |= {"type": "quantitative", "format": form}
            elif form:
                told["field"] = f"{heading}, told"
                number = f"replace(format(datum['{field}'], '.3~s'), regexp('([a-zµA-Z]?)$'), ' $1{form}')"
                made["transform"].append({"calculate": number, "as": told["field"]})
            encoding["tooltip"].append(told)
    return made


def points(
    rows: Rows, x: Place, y: Place, color: Color = theme.BLUE, shape: Any = "circle", hollow: str | bool = False,
    size: float | tuple[str, float] = 45, tooltip: Tooltip = (), **options: Any,
) -> Layer:  # fmt: skip
    """``hollow`` names a field that is true where a mark is drawn hollow.

    ``size`` is an area in pixels, or a field with the value that is drawn at 900 pixels.
    """
    if isinstance(hollow, str):
        parts = [points(rows, x, y, color, shape, each, size, tooltip, **options) for each in (False, True)]
        for part, test in zip(parts, (f"!datum['{hollow}']", f"datum['{hollow}']"), strict=True):
            part["transform"] = [{"filter": test}, *part.get("transform", [])]
            part["about"]["headings"][hollow] = hollow
        return {"layer": parts}
    mark: dict[str, Any] = {"type": "point", "filled": not hollow, "clip": True, "opacity": 0.9}
    if hollow:
        mark |= {"fill": theme.PAPER, "strokeWidth": 1.5}
    if isinstance(size, tuple):
        mark |= {"opacity": 0.7}
        scale = {"domain": [0, size[1]], "range": [0, 900], "clamp": True}
        options["size"] = {"field": size[0], "type": "quantitative", "scale": scale, "legend": None}
    else:
        mark["size"] = size
    return layer(mark, rows, x, y, color=color, shape=shape, tooltip=tooltip, **options)


def lines(
    rows: Rows, x: Place, y: Place, color: Color = theme.INK, by: str = "", dash: bool | str = False,
    width: float = 1.6, tooltip: Tooltip = (), **options: Any,
) -> Layer:  # fmt: skip
    """One line for each value of ``by``, or of the colour's field. ``dash`` may name a field: true where dashed."""
    mark: dict[str, Any] = {"type": "line", "strokeWidth": width, "clip": True}
    if dash is True:
        mark["strokeDash"] = DASH
    elif dash:
        scale = {"domain": [False, True], "range": [[1, 0], DASH]}
        options["strokeDash"] = {"field": dash, "type": "nominal", "scale": scale, "legend": None}
    if by:
        options["detail"] = {"field": by, "type": "nominal"}
    return layer(mark, rows, x, y, color=color, tooltip=tooltip, **options)


def bars(
    rows: Rows, x: Place, y: Place, color: Color = theme.BLUE, x2: Any = None, y2: Any = None, stacked: bool = False,
    tooltip: Tooltip = (), **options: Any,
) -> Layer:  # fmt: skip
    """Bars from zero, or from ``x2``/``y2``; stacked in the order of the colour's palette where asked to.

    ``offset=(field, names)`` sets bars of one category side by side.
    """
    made = layer({"type": "bar", "clip": True}, rows, x, y, color=color, x2=x2, y2=y2, tooltip=tooltip, **options)
    amount = next(made["encoding"][at] for at in "xy" if made["encoding"][at]["type"] == "quantitative")
    if stacked and isinstance(color, tuple):
        amount["stack"] = "zero"
        order = f"indexof({list(color[1])!r}, datum['{color[0]}'])"
        made["transform"] = [*made.get("transform", []), {"calculate": order, "as": "place in the stack"}]
        made["encoding"]["order"] = {"field": "place in the stack", "type": "quantitative"}
        made["mark"] |= {"stroke": theme.PAPER, "strokeWidth": 0.5}
    elif x2 is None and y2 is None:
        amount["stack"] = None
    return made


def rules(
    rows: Rows, x: Place | None = None, y: Place | None = None, x2: Any = None, y2: Any = None,
    color: Color = theme.INK, dash: bool = False, width: float = 1.2, tick: float = 0, tooltip: Tooltip = (),
    **options: Any,
) -> Layer:  # fmt: skip
    """Intervals from a place to ``x2`` or ``y2``; reference lines across the panel; ticks of so many pixels."""
    mark: dict[str, Any] = {"type": "rule", "strokeWidth": width, "clip": True}
    if tick:
        mark = {"type": "tick", "thickness": width, "size": tick, "clip": True}
    if dash:
        mark["strokeDash"] = DASH
    return layer(mark, rows, x, y, x2=x2, y2=y2, color=color, tooltip=tooltip, **options)


def band(
    rows: Rows, x: Place, y: Place, y2: Any, color: Color = theme.SKY, opacity: float = 0.15, by: str = ""
) -> Layer:
    """Shade the area between ``y`` and ``y2`` along x."""
    detail: dict[str, Any] = {"detail": {"field": by, "type": "nominal"}} if by else {}
    return layer({"type": "area", "opacity": opacity, "clip": True}, rows, x, y, y2=y2, color=color, **detail)


def boxes(
    rows: Rows, x: Place | None, y: Place | None, x2: Any = None, y2: Any = None, color: Color = theme.SKY,
    opacity: float = 1, tooltip: Tooltip = (), **options: Any,
) -> Layer:  # fmt: skip
    """Rectangles: cells between categories, or from a place to ``x2`` and ``y2``."""
    mark = {"type": "rect", "opacity": opacity, "clip": True}
    return layer(mark, rows, x, y, x2=x2, y2=y2, color=color, tooltip=tooltip, **options)


def texts(
    rows: Rows, text: str, x: Place, y: Place, color: Color = theme.INK, align: str = "center", **mark: Any
) -> Layer:  # fmt: skip
    """The field ``text`` of each row. Further options are those of the mark, such as ``dx`` or ``angle``."""
    mark = {"type": "text", "align": align, "fontSize": theme.LABEL_SIZE} | mark
    return layer(mark, rows, x, y, color=color, text={"field": text, "type": "nominal"})


def names(rows: Rows, text: str, x: Place, y: Place, taken: Sequence[Box] = ()) -> Layer:
    """Name points without an overlap, with a leader where a name stands off its point.

    ``taken`` are boxes that no name may cover. Give a row without a name an empty text: names keep clear of it.
    """
    (x_axis, x_field), (y_axis, y_field) = x, y
    listed = [row for row in records(rows) if _on(x_axis, row.get(x_field)) and _on(y_axis, row.get(y_field))]
    pixels = [(x_axis.pixel(row[x_field]), y_axis.pixel(row[y_field]), str(row[text] or "")) for row in listed]
    placed = []
    for label in labels.place(pixels, Box(0, 0, x_axis.pixels, y_axis.pixels), theme.LABEL_SIZE, taken):
        row, (at_x, at_y, name) = listed[label.index], pixels[label.index]
        center, end = label.center, label.leader_end or (at_x, at_y)
        offsets = {"dx": center[0] - at_x, "dy": center[1] - at_y, "ex": end[0] - at_x, "ey": end[1] - at_y}
        where = {"at": at_x, "down": at_y, "width": text_size(name, theme.LABEL_SIZE)[0]}  # for a narrower page
        numbers = {key: round(number, 1) for key, number in (offsets | where).items()}
        placed.append({"text": name, "x": row[x_field], "y": row[y_field]} | numbers)
    places = (x_axis, "x"), (y_axis, "y")
    shift = {"x2Offset": {"expr": "datum['ex']"}, "y2Offset": {"expr": "datum['ey']"}}
    leaders = layer({"type": "rule", "color": theme.MUTED, "strokeWidth": 0.6} | shift, placed, *places, x2="x", y2="y")
    move: dict[str, Any] = {"dx": {"expr": "datum['dx']"}, "dy": {"expr": "datum['dy']"}}
    return {"description": NAMES, "layer": [leaders, texts(placed, "text", *places, clip=True, **move)]}


def end_names(rows: Rows, text: str, x: Place, y: Place, color: Color = theme.INK) -> Layer:
    """Name lines, a row each at its last point, right of the panel, one above the other, joined by leaders."""
    (_, x_field), (y_axis, y_field) = x, y
    listed = [row for row in records(rows) if _on(y_axis, row.get(y_field))]
    height = text_size("x", theme.LABEL_SIZE)[1]
    marks = [y_axis.pixel(row[y_field]) for row in listed]
    placed = []
    for row, mark, moved in zip(listed, marks, spread(marks, height, 0, y_axis.pixels), strict=True):
        told = {color[0]: row[color[0]]} if isinstance(color, tuple) else {}
        place = {"text": row[text], "x": row[x_field], "y": row[y_field], "down": round(moved - mark, 1)}
        placed.append(told | place)
    shift = {"y2Offset": {"expr": "datum['down']"}, "x2Offset": 12}
    leader = {"type": "rule", "color": theme.MUTED, "strokeWidth": 0.6} | shift
    leaders = layer(leader, placed, (x[0], "x"), (y_axis, "y"), y2="y")
    leaders["encoding"]["x2"] = {"value": "width"}
    named = texts(placed, "text", (x[0], "x"), (y_axis, "y"), color, "left", dx=15, dy={"expr": "datum['down']"})
    named["encoding"]["x"] = {"value": "width"}
    return {"description": NAMES, "layer": [leaders, named]}


def _on(axis: Axis, value: Any) -> bool:
    """Return whether the axis holds the value, which may have no logarithm."""
    return value is not None and (not isinstance(axis, LogAxis | LinearAxis) or axis.low <= value <= axis.high)
