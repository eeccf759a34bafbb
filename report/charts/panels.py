"""Altair's charts in the paper's theme, with one legend, and with their data as tables.

``usermeta``, which Vega ignores, lists the data that readers get as CSV. The page's script (`charts.js`) and
`figure_files` both write the CSV from it.
"""

import json
import re
from collections.abc import Iterator, Sequence
from math import ceil, isfinite
from typing import Any

import altair as alt

from report.charts import theme
from report.charts.annotations import NAMES
from report.charts.axes import longest
from report.markdown import washed

Content = dict[str, Any]
Leaf = tuple[Content, str, bool]  # a layer, its panel's title, whether it only names marks

HEIGHT = 200  # pixels of a panel that states none
FADED = 0.12  # the opacity of marks that a click on the legend did not pick

DATUM = re.compile(r"datum(?:\.(\w+)|\[['\"]([^'\"]+)['\"]\])")
UNIT = re.compile(r"' \$1(.+?)'\)")


def specified(chart: Any) -> Content:
    """Return the specification of a chart as the paper shows it."""
    with alt.theme.enable("roofwright"), alt.data_transformers.enable("roofwright"):
        figure = chart.to_dict(validate=False)
    datasets = figure.pop("datasets", {})
    figure = plain(figure, 17)
    for side, columns in (("hconcat", {}), ("vconcat", {"columns": 1})):  # the page sets panels side by side or not
        if side in figure:
            figure = columns | figure | {"concat": figure.pop(side)}
    if "concat" in figure:
        figure = {"columns": len(figure["concat"]), "spacing": theme.GAP, "align": "each"} | figure
    for panel in figure.get("concat", [figure]):
        if {"mark", "layer"} & panel.keys():  # facets, repeats and panels of panels stay as Altair makes them
            panel |= {"width": panel.get("width", theme.plot_width()), "height": panel.get("height", HEIGHT)}
    leaves = [*_leaves(figure, datasets)]
    written = json.dumps(figure)
    datasets = {name: rows for name, rows in datasets.items() if f'"{name}"' in written}
    _add_legends(figure, [layer for layer, *_ in leaves], datasets)
    figure["usermeta"] = {"tables": _tables(leaves, datasets, json.dumps(figure.get("params")))}
    cells = (cell for rows in datasets.values() for row in rows for cell in row.values())
    # Where there is a limit, Vega measures each name twice
    if longest(["", *{cell for cell in cells if isinstance(cell, str) and len(cell) > 25}]) == theme.LONGEST_NAME:
        for part, limit in (("axis", "labelLimit"), ("legend", "labelLimit"), ("text", "limit")):
            figure["config"][part][limit] = theme.LONGEST_NAME
    return figure | {"datasets": datasets}


def plain(value: Any, digits: int = 6) -> Any:
    """Convert to values of JSON: numbers with so many digits, None for a missing one, texts that a picture can hold."""
    match value:
        case str():
            return washed(value)
        case bool() | int() | None:
            return value
        case float():
            return float(f"{value:.{digits}g}") if isfinite(value) else None
        case dict():
            return {washed(str(name)): plain(part, digits) for name, part in value.items()}
        case list():
            return [plain(part, digits) for part in value]
    if hasattr(value, "item"):
        return plain(value.item(), digits)
    return None if type(value).__name__ in ("NAType", "NaTType") else str(value)


alt.data_transformers.register(
    "roofwright", lambda data: {"values": plain(data.to_dict("records"))} if hasattr(data, "columns") else data
)
alt.theme.register("roofwright", enable=False)(lambda: alt.theme.ThemeConfig(config=theme.config(0)))


def _leaves(
    view: Content, datasets: Content, data: Any = None, title: str = "", is_name: bool = False
) -> Iterator[Leaf]:
    """Give each layer its data and the look of the paper; yield the ones with a dataset.

    Rows without a logarithm are left out on logarithmic axes.
    """
    data = view.pop("data", data)
    if "values" in (data or {}):
        rows = plain(data["values"])
        data = {"name": f"rows {len(datasets)}"}
        datasets[data["name"]] = rows
    if not view.get("title", "title"):
        del view["title"]
    title = found if isinstance(found := view.get("title", title), str) else ""  # a page may choose another
    is_name |= view.get("description") == NAMES
    if data and not {"layer", "concat"} & view.keys():
        view["data"] = data
    if "mark" in view:
        encoding = view.setdefault("encoding", {})
        usual = theme.MARKS.get(view["mark"]["type"], {})
        view["mark"] = {name: look for name, look in usual.items() if name not in encoding} | view["mark"]
        if (name := (data or {}).get("name")) in datasets:
            places = [encoding[way] for way in ("x", "y") if "field" in encoding.get(way, {})]
            logs = [each["field"] for each in places if (each.get("scale") or {}).get("type") == "log"]
            rows = [row for row in datasets[name] if all((row.get(field) or 0) > 0 for field in logs)]
            if len(rows) < len(datasets[name]):
                view["data"] = {"name": f"{name}, {' and '.join(logs)} above 0"}
                datasets[view["data"]["name"]] = rows
            yield view, title, is_name
    for part in [*view.get("layer", []), *view.get("concat", [])]:
        yield from _leaves(part, datasets, data, title, is_name)


def _add_legends(figure: Content, layers: Sequence[Content], datasets: Content) -> None:
    """Give a figure one legend, or each panel its own if no two share a name: on a phone they are far apart."""
    panels = figure.get("concat", [figure])
    groups = [[layer for layer in layers if any(layer is part for part in _within(panel))] for panel in panels]
    named = [_explained(group, datasets) for group in groups]
    if any(named[1:]) and sum(map(len, named)) == len(set().union(*named)):
        own = dict.fromkeys(("color", "shape"), "independent")
        figure["resolve"] = {each: figure.get("resolve", {}).get(each, {}) | own for each in ("scale", "legend")}
        for number, (panel, group) in enumerate(zip(panels, groups, strict=True)):
            _share_legend(group, datasets, panel["width"], str(number))
    else:
        _share_legend(layers, datasets, figure.get("width", theme.FULL_WIDTH - 20))


def _within(view: Content) -> Iterator[Content]:
    yield view
    for part in [*view.get("layer", []), *view.get("concat", [])]:
        yield from _within(part)


def _explained(layers: Sequence[Content], datasets: Content) -> set[str]:
    """Return the names that a legend of these layers holds."""
    encodings = [(each["data"]["name"], each["encoding"].get(way, {})) for each in layers for way in ("color", "shape")]
    held = [(data, each) for data, each in encodings if each.get("legend", "") is not None and each.get("scale")]
    return {str(name) for data, each in held for row in datasets[data] if (name := row.get(each.get("field")))}


def _share_legend(layers: Sequence[Content], datasets: Content, room: float, panel: str = "") -> None:
    """Give layers one scale of colours, one of shapes and one legend. A click on its entry picks marks.

    Raises ValueError for a name without a colour, or with two.
    """
    using = {channel: [each for each in layers if channel in each["encoding"]] for channel in ("color", "shape")}
    encodings = [each["encoding"][channel] for channel, some in using.items() for each in some]
    titles = [each.get("title") or "" for each in encodings if each.get("legend", "") is not None]
    for channel, some in using.items():
        nominal = [each for each in some if each["encoding"][channel].get("type") == "nominal"]
        chosen = [each for each in nominal if "range" in (each["encoding"][channel].get("scale") or {})]
        palette: dict[str, str] = {}
        present: set[str] = set()
        for layer in chosen:
            encoding = layer["encoding"][channel]
            present |= {str(name) for row in datasets[layer["data"]["name"]] if (name := row.get(encoding["field"]))}
            for name, look in zip(encoding["scale"]["domain"], encoding["scale"]["range"], strict=True):
                if palette.setdefault(name, look) != look:
                    raise ValueError(f"{channel} of {name}: both {palette[name]} and {look}")
        if missing := present - palette.keys():
            raise ValueError(f"no {channel} for {', '.join(sorted(missing))}")
        palette = {name: look for name, look in palette.items() if name in present}
        marks = {each["mark"]["type"] for each in chosen}
        legend = _legend([*palette], titles[0], room, marks) if palette and titles else None
        for layer in chosen:
            scale = {"domain": [*palette], "range": [*palette.values()]}
            layer["encoding"][channel] |= {"scale": scale, "legend": legend, "title": (titles or [""])[0] or None}
        if channel == "color" and legend:
            _pick_by_click([each for each in chosen if each["mark"]["type"] != "text"], panel)


def _legend(names: Sequence[str], title: str, room: float, marks: set[str]) -> Content:
    entry = longest(names, theme.TICK_SIZE) + 34
    lines = ceil(len(names) / max(1, int(room / entry)))
    legend = {"orient": "top", "direction": "horizontal", "columns": ceil(len(names) / lines), "values": [*names]}
    fits = lines == 1 and longest([title]) + len(names) * entry <= room
    legend |= {"symbolOpacity": 1} | ({"titleOrient": "left"} if fits else {})
    return legend | ({} if marks & {"point", "line", "rule"} else {"symbolType": "square"})


def _pick_by_click(layers: Sequence[Content], panel: str) -> None:
    clicks: dict[str, alt.Parameter] = {}
    for layer in layers:
        field = layer["encoding"]["color"]["field"]
        if field not in clicks:
            name = f"picked_{re.sub(r'[^a-z]', '_', field)}{panel}"
            clicks[field] = alt.selection_point(name=name, fields=[field], bind="legend", toggle="true")
            layer["params"] = [clicks[field].param.to_dict(validate=False)]
        picked = alt.when(clicks[field]).then(alt.value(layer["mark"].pop("opacity", 1)))
        layer["encoding"]["opacity"] = picked.otherwise(alt.value(FADED))


def _tables(leaves: Sequence[Leaf], datasets: Content, chosen: str) -> list[Content]:
    """Return the tables of a figure, and drop unused fields from its datasets.

    A table has its dataset's name as ``data``. ``about`` are columns with the same value in all rows: ``panel`` if
    panels have titles, ``mark`` if there are several tables. ``columns`` maps fields to better headings. Datasets that
    only name marks are left out.
    """
    uses: dict[str, list[Leaf]] = {}
    for leaf in leaves:
        uses.setdefault(leaf[0]["data"]["name"], []).append(leaf)
    marks = {
        name: [leaf for leaf in found if not leaf[2] and leaf[0]["mark"]["type"] != "text"]
        for name, found in uses.items()
    }
    panels = {title for found in marks.values() for _, title, _ in found}
    tables = []
    # Marks with tooltips come before roofs and fitted lines
    for name in sorted(uses, key=lambda name: not any("tooltip" in layer["encoding"] for layer, *_ in uses[name])):
        headings = {field: heading for layer, *_ in marks[name] for field, heading in _headings(layer).items()}
        if marks[name]:  # `charts.js` needs all fields of names
            written = json.dumps([layer for layer, *_ in uses[name]], ensure_ascii=False)
            steps = json.dumps([layer.get("transform") for layer, *_ in uses[name]], ensure_ascii=False)
            fields = {*re.findall(r'"field": "([^"]+)"', written), *re.findall(r'"([^"]+)"', steps + chosen), *headings}
            fields |= {one or other for one, other in DATUM.findall(written)}
            datasets[name] = [{key: row[key] for key in row if key in fields} for row in datasets[name]]
        if not marks[name] or not any(datasets[name]):
            continue
        titles = dict.fromkeys(title for _, title, _ in marks[name])
        if 1 < len(titles) == len(panels):  # common to all panels
            titles = {}
        about = {"panel": ", ".join(titles)} if panels != {""} else {}
        if sum(map(bool, marks.values())) > 1:
            about["mark"] = " and ".join(dict.fromkeys(layer["mark"]["type"] for layer, *_ in marks[name]))
        tables.append({"data": name, "about": about, "columns": _columns(datasets[name], headings)})
    return tables


def _headings(layer: Content) -> dict[str, str]:
    """Return the headings of a layer's fields from its axes, and from its tooltip with the units."""
    headings = {}
    for name in ("x", "y"):
        place = layer["encoding"].get(name, {})
        if "field" in place and (heading := (place.get("axis") or {}).get("description")) is not None:
            headings[place["field"]] = heading
    made = {step["as"]: step["calculate"] for step in layer.get("transform", []) if "calculate" in step}
    for line in layer["encoding"].get("tooltip", []):
        field, expression = line["field"], made.get(line["field"], "")
        unit = UNIT.search(expression)
        field = DATUM.search(expression)[2] if field in made else field  # type: ignore[index]
        headings[field] = line.get("title", field) + (f" ({unit[1]})" if unit else "")
    return headings


def _columns(rows: list[dict[str, Any]], headings: dict[str, str]) -> dict[str, str]:
    """Return unique headings of the rows' fields; a second field with the same heading keeps its name."""
    fields = list(dict.fromkeys(name for row in rows for name in row))
    taken = {name for name in fields if not headings.get(name)}
    columns = {}
    for name in fields:
        heading = headings.get(name) or name
        if heading not in taken and heading != name:
            columns[name] = heading
        taken.add(columns.get(name, name))
    return columns
