"""A chart of Altair as the paper shows it: in its theme, with one legend, and with its data as tables.

A figure says which of its data readers get as CSV, in ``usermeta``, which Vega ignores. The page's script (`charts.js`)
makes the CSV that a figure links to from it, and `figure_files` the same as a file.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil, inf
from typing import Any

import altair as alt

from report.charts import theme
from report.charts.annotations import NAMES
from report.charts.axes import longest
from report.markdown import washed

Content = dict[str, Any]

HEIGHT = 200  # pixels of a panel that states none

DATUM = re.compile(r"datum\['([^']+)'\]")
UNIT = re.compile(r"' \$1(.+?)'\)")
FIELDS = re.compile(r"datum\['([^']+)'\]|\"field\": \"([^\"]+)\"")


def specified(chart: Any) -> Content:
    """Return a chart of Altair as the paper shows it: in its theme, with one legend, its rows gathered in datasets."""
    with alt.theme.enable("roofwright"), alt.data_transformers.enable("roofwright", consolidate_datasets=False):
        drawn = chart.to_dict(validate=False)
    if columns := [name for name in ("hconcat", "vconcat") if name in drawn]:
        drawn["concat"] = drawn.pop(columns[0])
        drawn |= {"columns": 1} if columns == ["vconcat"] else {}
    if "concat" in drawn:
        drawn = {"columns": len(drawn["concat"]), "spacing": theme.GAP, "align": "each"} | drawn
    for panel in drawn.get("concat", [drawn]):
        if "spec" not in panel:
            panel |= {"width": panel.get("width", theme.plot_width()), "height": panel.get("height", HEIGHT)}
    _hand_down(drawn, {"values": []})
    encodings = [leaf["encoding"].get(channel) for leaf, *_ in _leaves(drawn) for channel in ("color", "shape")]
    titles = [each.get("title") or "" for each in encodings if each and each.get("legend", "") is not None]
    for channel in ("color", "shape"):
        _share(drawn, channel, titles[0] if titles else None)
    return _finished(drawn)


def _values(data: Any) -> Any:
    return {"values": records(data)} if hasattr(data, "columns") else data


def records(rows: Any) -> list[dict[str, Any]]:
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


alt.data_transformers.register("roofwright", _values)
alt.theme.register("roofwright", enable=False)(lambda: alt.theme.ThemeConfig(config=theme.config(0)))


def _hand_down(view: Content, data: Any) -> None:
    """Give each layer its data. A row whose value has no logarithm is not on a logarithmic axis."""
    data = view.pop("data", data)
    if "spec" in view:  # a chart of facets or repeated ones, which no chapter has, stays as it is
        view["data"] = data
    if not view.get("title", "title"):
        del view["title"]
    for part in [*view.get("layer", []), *view.get("concat", [])]:
        _hand_down(part, data)
    if "mark" in view:
        encoding = view.setdefault("encoding", {})
        rows = data.get("values", [])
        for place in (encoding.get("x", {}), encoding.get("y", {})):
            if (place.get("scale") or {}).get("type") == "log" and "field" in place:
                rows = [row for row in rows if (row.get(place["field"]) or 0) > 0]
        view["data"] = {"values": rows} if "values" in data else data
        usual = theme.MARKS.get(view["mark"]["type"], {})
        view["mark"] = {name: value for name, value in usual.items() if name not in encoding} | view["mark"]


def _finished(figure: Content) -> Content:
    """Gather the data, and cut long names: where there is a limit, Vega measures each name twice."""
    drawn = _gather(figure)
    rows = (row for table in drawn["datasets"].values() for row in table)
    long = {value for row in rows for value in row.values() if isinstance(value, str) and len(value) > 25}
    if longest(["", *long]) == theme.LONGEST_NAME:
        for part in ("axis", "legend"):
            drawn["config"][part]["labelLimit"] = theme.LONGEST_NAME
        drawn["config"]["text"]["limit"] = theme.LONGEST_NAME
    return dict(_wash(drawn))


def _leaves(view: Content, title: str = "", is_name: bool = False) -> Iterator[tuple[Content, str, bool]]:
    """Yield the layers that draw marks, each with its panel's title, and whether it only names marks."""
    title = found if isinstance(found := view.get("title", title), str) else ""  # a page may choose another
    is_name |= view.get("description") == NAMES
    if "mark" in view and "values" in view["data"]:
        yield view, title, is_name
    for part in [*view.get("layer", []), *view.get("concat", [])]:
        yield from _leaves(part, title, is_name)


def _share(content: Content, channel: str, title: str | None) -> None:
    """Give all marks of a figure one scale of colours or shapes, and one legend; a click on an entry picks its marks.

    Raises ValueError for a name without a colour, or with two.
    """
    using = [leaf for leaf, *_ in _leaves(content) if _has_palette(leaf["encoding"].get(channel, {}))]
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


def _has_palette(encoding: Content) -> bool:
    return encoding.get("type") == "nominal" and "range" in (encoding.get("scale") or {})


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

    layers: list[Content] = field(default_factory=list)
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
            use.headings |= _headings(layer)
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


def _headings(layer: Content) -> dict[str, str]:
    """Return the headings of a layer's fields: those of its axes, and of its tooltip with the units."""
    headings = {}
    for name in ("x", "y"):
        place = layer["encoding"].get(name, {})
        if "field" in place and (heading := (place.get("axis") or {}).get("description")) is not None:
            headings[place["field"]] = heading
    made = {step.get("as"): step.get("calculate", "") for step in layer.get("transform", [])}
    for line in layer["encoding"].get("tooltip", []):
        field, expression = line["field"], made.get(line["field"], "")
        unit = UNIT.search(expression)
        field = DATUM.search(expression)[1] if field in made else field  # type: ignore[index]
        headings[field] = line.get("title", field) + (f" ({unit[1]})" if unit else "")
    return headings


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
