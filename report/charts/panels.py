"""Panels set side by side, and the figure that holds them, as a whole specification of Vega-Lite.

A figure says which of its data readers get as CSV, in ``usermeta``, which Vega ignores. The page's script (`charts.js`)
makes the CSV that a figure links to from it, and `figure_files` the same as a file.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from report.charts import theme
from report.charts.axes import longest
from report.charts.marks import NAMES, Layer
from report.markdown import washed

Content = dict[str, Any]

FIELDS = re.compile(r"datum\['([^']+)'\]|\"field\": \"([^\"]+)\"")


def panel(layers: Sequence[Layer], title: str = "", frame: bool = True) -> Content:
    """Set layers one over the other. The panel is as large as the axes of its layers."""
    size = {
        side: pixels for one in layers for leaf, *_ in _leaves(one) for side, pixels in leaf["about"]["size"].items()
    }
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


def figure(name: str, description: str, content: Content, legend: str | None = "") -> Content:
    """Return the whole specification of a figure: its picture's name, alt text, panels and one legend for all of them.

    ``legend`` is the title of the legend of colours and shapes (may be empty), or None for no legend. Only what the
    figure shows has an entry.
    """
    for channel in ("color", "shape"):
        _share(content, channel, legend)
    about = {"$schema": "https://vega.github.io/schema/vega-lite/v6.json", "name": name, "description": description}
    drawn = _gather(about | content)
    rows = (row for table in drawn["datasets"].values() for row in table)
    long = {value for row in rows for value in row.values() if isinstance(value, str) and len(value) > 25}
    limit = theme.LONGEST_NAME if longest(["", *long]) == theme.LONGEST_NAME else 0
    return dict(_wash(drawn | {"config": theme.config(limit)}))


def _leaves(view: Content, title: str = "", is_name: bool = False) -> Iterator[tuple[Layer, str, bool]]:
    """Yield the layers that draw marks, each with its panel's title, and whether it only names marks."""
    title = view.get("title", title)
    is_name |= view.get("description") == NAMES
    if "mark" in view:
        yield view, title, is_name
    for part in [*view.get("layer", []), *view.get("concat", [])]:
        yield from _leaves(part, title, is_name)


def _share(content: Content, channel: str, title: str | None) -> None:
    """Give all marks of a figure one scale of colours or shapes, and one legend; a click on an entry picks its marks.

    Raises ValueError for a name without a colour, or with two.
    """
    using = [leaf for leaf, *_ in _leaves(content) if leaf["encoding"].get(channel, {}).get("type") == "nominal"]
    palette: dict[str, str] = {}
    present: set[str] = set()
    for leaf in using:
        encoding = leaf["encoding"][channel]
        present |= {str(row[encoding["field"]]) for row in leaf["data"]["values"] if row.get(encoding["field"])}
        for name, value in zip(encoding["scale"]["domain"], encoding["scale"]["range"], strict=True):
            if palette.setdefault(name, value) != value:
                raise ValueError(f"{channel} of {name}: both {palette[name]} and {value}")
    if missing := present - palette.keys():
        raise ValueError(f"no {channel} for {', '.join(sorted(missing))}")
    shown = [name for name in palette if name in present]
    guide = None
    if shown and title is not None:
        room = content.get("width", theme.FULL_WIDTH - 20)
        entry = longest(shown, theme.TICK_SIZE) + 34
        most = max(1, int(room / entry))
        lines = ceil(len(shown) / most)
        fits = lines == 1 and longest([title]) + len(shown) * entry <= room
        guide = {"orient": "top", "direction": "horizontal", "columns": ceil(len(shown) / lines), "values": shown}
        guide |= {"symbolOpacity": 1} | ({"titleOrient": "left"} if fits else {})
        has_lines = {leaf["mark"]["type"] for leaf in using} & {"point", "line", "rule"}
        guide |= {} if has_lines else {"symbolType": "square"}
    selects: set[str] = set()
    for leaf in using:
        encoding = leaf["encoding"][channel]
        encoding |= {"scale": {"domain": shown, "range": [palette[name] for name in shown]}, "legend": guide}
        encoding["title"] = title or None
        if channel == "color" and guide and leaf["mark"]["type"] != "text":
            picked = f"picked_{re.sub(r'[^a-z]', '_', encoding['field'])}"
            opacity = {"param": picked, "value": leaf["mark"].pop("opacity", 1)}
            leaf["encoding"]["opacity"] = {"condition": opacity, "value": 0.12}
            if picked not in selects:
                select = {"type": "point", "fields": [encoding["field"]], "toggle": "true"}
                leaf["params"] = [{"name": picked, "select": select, "bind": "legend"}]
            selects.add(picked)


def _wash(node: Any) -> Any:
    """Return a copy of a specification without characters that no picture can hold, its numbers Python's own."""
    match node:
        case str():
            return washed(node)
        case dict():
            return {washed(key): _wash(value) for key, value in node.items()}
        case list():
            return [*map(_wash, node)]
        case float():
            return float(node)  # of NumPy's, which the process that draws would have to import
    return node


@dataclass
class _Use:
    """How a figure uses rows: the layers that show them, and the panels, marks and headings that a reader sees."""

    layers: list[Layer] = field(default_factory=list)
    panels: dict[str, None] = field(default_factory=dict)
    marks: dict[str, None] = field(default_factory=dict)
    headings: dict[str, str] = field(default_factory=dict)


def _gather(figure: Content) -> Content:
    """Gather the rows of all layers into datasets, each once, with the fields that are used; say what they show.

    Of each table in ``usermeta.tables``: ``data``, its dataset; ``about``, columns that hold for all its rows
    (``panel``, where panels have titles, and ``mark``, where there are several tables); ``columns``, a heading for
    each field whose own name says less. Names of marks, and what has no field to show, are no table.
    """
    uses: dict[str, _Use] = {}
    for layer, panel, is_name in _leaves(figure):
        use = uses.setdefault(json.dumps(layer["data"]["values"]), _Use())
        use.layers.append(layer)
        if not is_name and layer["mark"]["type"] != "text":
            use.panels[panel] = use.marks[layer["mark"]["type"]] = None
            use.headings |= layer["about"]["headings"]
    panels = {panel for use in uses.values() for panel in use.panels}
    several = sum(bool(use.marks) for use in uses.values()) > 1
    datasets: dict[str, Any] = {}
    tables = []
    # What a reader can point at comes before roofs, fitted lines and the like
    for use in sorted(uses.values(), key=lambda use: not any("tooltip" in layer["encoding"] for layer in use.layers)):
        name = f"data-{len(datasets)}"
        rows = use.layers[0]["data"]["values"]
        for layer in use.layers:
            layer["data"] = {"name": name}
            del layer["about"]
        fields = {one or other for one, other in FIELDS.findall(json.dumps(use.layers, ensure_ascii=False))}
        fields |= use.headings.keys() if use.marks else {key for row in rows for key in row}  # names are placed anew
        datasets[name] = [{key: value for key, value in row.items() if key in fields} for row in rows]
        if use.marks and any(datasets[name]):
            # What every panel shows belongs to none
            titles = use.panels if len(use.panels) == 1 or len(use.panels) < len(panels) else {}
            about = {"panel": ", ".join(titles)} if panels != {""} else {}
            about |= {"mark": " and ".join(use.marks)} if several else {}
            tables.append({"data": name, "about": about, "columns": _columns(datasets[name], use.headings)})
    return figure | {"datasets": datasets, "usermeta": {"tables": tables}}


def _columns(rows: list[dict[str, Any]], headings: dict[str, str]) -> dict[str, str]:
    """Return headings of fields that the rows have, each once; a second field of the same heading keeps its name."""
    fields = list(dict.fromkeys(name for row in rows for name in row))
    taken = {name for name in fields if not headings.get(name)}
    columns = {}
    for name in fields:
        heading = headings.get(name) or name
        if heading not in taken and heading != name:
            columns[name] = heading
        taken.add(columns.get(name, name))
    return columns
