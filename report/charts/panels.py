"""Panels set side by side, and the figure that holds them, as a whole specification of Vega-Lite."""

from collections.abc import Iterator, Sequence
from math import ceil
from typing import Any

from report.charts import figure_data, theme
from report.charts.axes import longest
from report.charts.marks import Layer

Content = dict[str, Any]


def panel(layers: Sequence[Layer], title: str = "", width: float = 0, height: float = 0, frame: bool = True) -> Content:
    """Set layers one over the other. The panel is as large as the axes of its layers unless it is told its size."""
    size = {key: pixels for layer in layers for leaf in leaves(layer) for key, pixels in leaf["about"]["size"].items()}
    size |= {key: pixels for key, pixels in (("width", width), ("height", height)) if pixels}
    content: Content = {"layer": list(layers), **size}
    if title:
        content["title"] = title
    if not frame:
        content["view"] = {"stroke": None}
    return content


def grid(panels: Sequence[Content], columns: int, spacing: float = theme.GAP) -> Content:
    shared = {"scale": {"color": "shared", "shape": "shared"}}
    return {"concat": list(panels), "columns": columns, "spacing": spacing, "align": "each", "resolve": shared}


def row(panels: Sequence[Content], spacing: float = theme.GAP) -> Content:
    """Set panels side by side; a narrow page stacks them."""
    return grid(panels, len(panels), spacing)


def figure(
    name: str, description: str, content: Content, legend: str | dict[str, str] | None = "", orient: str = "top"
) -> Content:
    """Return the whole specification of a figure: its picture's name, alt text, panels and one legend for all of them.

    ``legend`` is the title of the legend of colours (may be empty), or titles by channel (``color``, ``shape``), or
    None for no legend. It is ``top`` or ``bottom``. Only what the figure shows has an entry.
    """
    titles = {"color": legend, "shape": legend} if isinstance(legend, str) else legend or {}
    for channel in ("color", "shape"):
        _share(content, channel, titles.get(channel), orient)
    about = {"$schema": "https://vega.github.io/schema/vega-lite/v6.json", "name": name, "description": description}
    return figure_data.specification(about | content | {"config": theme.CONFIG})


def leaves(view: Content) -> Iterator[Layer]:
    """Yield the layers that draw marks."""
    if "mark" in view:
        yield view
    for part in [*view.get("layer", []), *view.get("concat", [])]:
        yield from leaves(part)


def _share(content: Content, channel: str, title: str | None, orient: str) -> None:
    """Give all marks of a figure one scale of colours or shapes, and one legend; a click on an entry picks its marks.

    Raises ValueError where two palettes give a name two colours.
    """
    using = [leaf for leaf in leaves(content) if isinstance(leaf["encoding"].get(channel, {}).get("scale"), dict)]
    using = [leaf for leaf in using if leaf["encoding"][channel]["type"] == "nominal"]
    palette: dict[str, str] = {}
    present: set[str] = set()
    for leaf in using:
        encoding = leaf["encoding"][channel]
        present |= {str(row.get(encoding["field"])) for row in leaf["data"]["values"]}
        for name, value in zip(encoding["scale"]["domain"], encoding["scale"]["range"], strict=True):
            if palette.setdefault(name, value) != value:
                raise ValueError(f"{channel} of {name}: both {palette[name]} and {value}")
    if missing := present - palette.keys() - {"None"}:
        raise ValueError(f"no {channel} for {', '.join(sorted(missing))}")
    shown = [name for name in palette if name in present]
    guide = _guide(shown, title, orient, using) if title is not None and shown else None
    for leaf in using:
        encoding = leaf["encoding"][channel]
        encoding |= {"scale": {"domain": shown, "range": [palette[name] for name in shown]}, "legend": guide}
        encoding["title"] = title or None
        if channel == "color" and guide and leaf["mark"]["type"] != "text":
            picked = {"param": f"picked_{encoding['field']}", "empty": True}
            condition = {"condition": picked | {"value": leaf["mark"].pop("opacity", 1)}, "value": 0.12}
            leaf["encoding"]["opacity"] = condition
    if guide and channel == "color":
        for field in dict.fromkeys(leaf["encoding"][channel]["field"] for leaf in using):
            first = next(leaf for leaf in using if leaf["encoding"][channel]["field"] == field)
            select = {"type": "point", "fields": [field], "toggle": "true"}
            first["params"] = [{"name": f"picked_{field}", "select": select, "bind": "legend"}]


def _guide(shown: list[str], title: str | None, orient: str, using: list[Layer]) -> dict[str, Any]:
    """Return a legend of as many columns as fit, about as many entries in each."""
    most = max(1, int((theme.FULL_WIDTH - 20) / (longest(shown, theme.TICK_SIZE) + 34)))
    lines = ceil(len(shown) / most)
    marks = {leaf["mark"]["type"] for leaf in using}
    guide: dict[str, Any] = {"orient": orient, "columns": ceil(len(shown) / lines), "direction": "horizontal"}
    guide |= {"values": shown, "symbolOpacity": 1} | ({"titleOrient": "left"} if title and lines == 1 else {})
    if not marks & {"point", "line", "rule"}:
        guide["symbolType"] = "square"
    return guide
