"""Names that do not overlap, and tooltips with units.

    x = LogAxis.around(frame.flop, pixels=plot_width(), title="operations", unit="FLOP")
    y = LogAxis.around(frame.latency_s, pixels=300, title="latency", unit="s", vertical=True)
    places = x("flop"), y("latency_s")
    points = alt.Chart(frame).mark_point().encode(*places, color=by_color("name", theme.accents(frame.name)))
    points = tips(points, ("name", "network", ""), ("latency_s", "latency", "s"))
    alt.layer(points, *names(frame, "name", *places), width=x.pixels, height=y.pixels, name="latency")

All colours with a palette share the figure's one legend. A click on an entry picks its marks.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from math import pi, sqrt
from typing import Any

import altair as alt
import pandas as pd

from report.charts import labels, theme
from report.charts.axes import Axis, LinearAxis, LogAxis, with_unit
from report.charts.labels import MARK, Box, along, spread, text_size

NAMES = "names"  # description of layers that name marks or regimes: not data, and fewer on a narrow page
Tip = tuple[str, str, str]
ONCE = alt.Data(values=[{}])  # the data of a mark that depends on no row
LEADER = {"color": theme.MUTED, "strokeWidth": 0.6, "clip": False}
FORMAT = re.compile(r"^[^a-zA-Z]*[.,~\d]+[a-z%]?$|^[d%]$")  # one of d3's, not a unit


def tips(chart: alt.Chart, *lines: Tip) -> alt.Chart:
    """Add a tooltip. A line is a field, its heading and a format.

    The format is one of d3's (``.0%``), or a unit that follows the SI number (``s``), or empty for a text.
    """
    tooltip, texts = [], {}
    for field, heading, form in lines:
        name = f"{heading}, text" if form else field
        tooltip.append(alt.Tooltip(field=name, type="nominal", title=heading))
        if form:
            value = f"datum['{field}']"
            number = f"format({value}, '{form}')" if FORMAT.match(form) else with_unit(value, ".3~s", form)
            texts[name] = f"isValid({value}) ? {number} : '–'"
    return chart.encode(tooltip=tooltip).transform_calculate(**texts)


def hollow(points: alt.Chart, field: str) -> list[alt.Chart]:
    """Split points into two layers: filled ones, and hollow ones if a field is true."""
    full, empty = (points.transform_filter(f"{sign}datum['{field}']") for sign in ("!", ""))
    mark = {"type": "point"} if isinstance(points.mark, str) else points.mark.to_dict()
    empty.mark = alt.MarkDef(**mark | {"filled": False, "fill": theme.PAPER, "strokeWidth": 1.5})
    return [full, empty]


def names(
    rows: pd.DataFrame, text: str, x: Any, y: Any, taken: Sequence[Box] = (), size: float | tuple[str, float] = 0
) -> list[alt.Chart]:
    """Name points without an overlap. A leader joins a name to a distant point.

    ``x`` and ``y`` are the encodings of the points. ``taken`` are boxes that no name may cover, nor any point without a
    name. ``size`` is the area of the marks, or a field with the value drawn at ``LARGEST``.
    """
    across, up = x["scale"].axis, y["scale"].axis
    rows = rows[_on(across, rows[x["field"]]) & _on(up, rows[y["field"]])]
    places = list(zip(rows[x["field"]], rows[y["field"]], rows[text], strict=True))
    marks = [(across.pixel(at), up.pixel(down), str(name or "")) for at, down, name in places]
    areas = [theme.LARGEST * min(1, each / size[1]) for each in rows[size[0]]] if isinstance(size, tuple) else []
    halves = [max(MARK, sqrt(area / pi)) for area in areas or [size] * len(marks)]
    placed = []
    for label in labels.place(marks, halves, Box(0, 0, across.pixels, up.pixels), theme.LABEL_SIZE, taken):
        at, down, name = marks[label.index]
        (dx, dy), (ex, ey) = label.center, label.leader_end or (at, down)
        row = {"text": name, "x": places[label.index][0], "y": places[label.index][1]}
        offsets = {"dx": dx - at, "dy": dy - down, "ex": ex - at, "ey": ey - down}
        narrow = {"at": at, "down": down, "width": text_size(name, theme.LABEL_SIZE)[0]}  # for a narrower page
        placed.append(row | {key: round(number, 1) for key, number in (offsets | narrow).items()})
    base = alt.Chart(pd.DataFrame(placed), description=NAMES).encode(across("x"), up("y"))
    return [
        base.mark_rule(**LEADER, x2Offset=_shift("ex"), y2Offset=_shift("ey")).encode(x2=alt.X2("x"), y2=alt.Y2("y")),
        base.mark_text(clip=True, dx=_shift("dx"), dy=_shift("dy")).encode(text=alt.Text("text:N")),
    ]


def covered(rows: pd.DataFrame, x: Any, y: Any, y2: str = "") -> list[Box]:
    """Return boxes that cover the line through the rows, or with ``y2`` the interval of each row up to that field."""
    across, up = x["scale"].axis, y["scale"].axis
    corners = [*zip(rows[x["field"]].map(across.pixel), rows[y["field"]].map(up.pixel), strict=True)]
    if y2:
        return [Box(at - 2, up.pixel(high), at + 2, low) for (at, low), high in zip(corners, rows[y2], strict=True)]
    return [box for start, end in pairwise(corners) for box in along(start, end)]


def end_names(rows: pd.DataFrame, text: str, x: Any, y: Any) -> list[alt.Chart]:
    """Name lines right of the panel. Rows are the lines' last points; leaders join them to their names."""
    across, up = x["scale"].axis, y["scale"].axis
    rows = rows[_on(up, rows[y["field"]])]
    marks = rows[y["field"]].map(up.pixel)
    downs = spread(list(marks), text_size("x", theme.LABEL_SIZE)[1], 0, up.pixels)
    placed = pd.DataFrame({"text": rows[text], "x": rows[x["field"]], "y": rows[y["field"]], "dy": downs - marks})
    base = alt.Chart(placed.round({"dy": 1}), description=NAMES).encode(up("y"))
    leader = base.mark_rule(**LEADER, x2Offset=12, y2Offset=_shift("dy"))
    return [
        leader.encode(across("x"), x2=alt.X2Value("width"), y2=alt.Y2("y")),
        base.mark_text(align="left", dx=15, dy=_shift("dy")).encode(alt.XValue("width"), text=alt.Text("text:N")),
    ]


def _shift(field: str) -> Any:
    return {"expr": f"datum['{field}']"}


def _on(axis: Axis, values: "pd.Series[Any]") -> "pd.Series[bool]":
    return values.between(axis.low, axis.high) if isinstance(axis, LogAxis | LinearAxis) else values.notna()
