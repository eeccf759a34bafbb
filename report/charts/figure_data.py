"""A figure's data: gathered into datasets, each once, and what readers get of them as CSV.

``specification`` writes what to show into the figure's specification, as ``usermeta``, which Vega ignores. From there
the page's script (`charts.js`) makes the CSV that a figure links to, and ``as_csv`` the same for a file.
"""

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from measure.cache.table import as_text
from report.markdown import washed

FIELDS = re.compile(r"datum\['([^']+)'\]|\"field\": \"([^\"]+)\"")


@dataclass
class _Use:
    """How a figure uses rows: the layers that show them, titles of panels, marks, and headings of fields."""

    rows: list[dict[str, Any]]
    layers: list[dict[str, Any]] = field(default_factory=list)
    told: bool = False
    names: bool = False
    panels: dict[str, None] = field(default_factory=dict)
    marks: dict[str, None] = field(default_factory=dict)
    headings: dict[str, str] = field(default_factory=dict)


def specification(figure: dict[str, Any]) -> dict[str, Any]:
    """Return a figure with the rows of its layers gathered. ``usermeta.tables`` names the datasets that marks show.

    Of each: ``data``, its name; ``about``, columns that hold for all its rows (``panel``, where panels have titles, and
    ``mark``, where there are several tables); ``columns``, a heading for each field whose own name says less. Names and
    their leaders are no data. Characters that no picture can hold are replaced. A figure that was gathered stays.
    """
    if "usermeta" in figure:
        return figure
    figure = _washed(figure)
    uses: dict[str, _Use] = {}
    for layer, panel, names in _layers(figure, "", False):
        about = layer.pop("about", {"headings": {}})
        rows = layer["data"]["values"]
        use = uses.setdefault(json.dumps(rows), _Use(rows))
        use.layers.append(layer)
        use.names |= names
        if names or layer["mark"]["type"] == "text":
            continue
        use.told |= "tooltip" in layer["encoding"]
        use.panels[panel] = use.marks[layer["mark"]["type"]] = None
        # Headings of tooltips come last, and say most
        use.headings |= {key: text for key, text in about["headings"].items() if text}
    datasets = {}
    tables = []
    panels = {panel for use in uses.values() for panel in use.panels}
    shown = [use for use in uses.values() if use.marks]
    # What a reader can point at comes before roofs, fitted lines and the like
    for number, use in enumerate(sorted(uses.values(), key=lambda use: not use.told)):
        name = f"data-{number}"
        drawn = json.dumps(
            [[{**each, "data": None} for each in use.layers], [{"field": key} for key in use.headings]],
            ensure_ascii=False,
        )
        fields = {one or other for one, other in FIELDS.findall(drawn)}
        datasets[name] = [{key: value for key, value in row.items() if key in fields or use.names} for row in use.rows]
        for layer in use.layers:
            layer["data"] = {"name": name}
        if not use.marks or not any(datasets[name]):
            continue
        # What every panel shows belongs to none
        titles = use.panels if len(use.panels) == 1 or len(use.panels) < len(panels) else {}
        about = {"panel": ", ".join(titles)} if panels != {""} else {}
        about |= {"mark": " and ".join(use.marks)} if len(shown) > 1 else {}
        tables.append({"data": name, "about": about, "columns": _columns(datasets[name], use.headings)})
    return figure | {"datasets": datasets, "usermeta": {"tables": tables}}


def _washed(node: Any) -> Any:
    """Return a copy of a specification with all its texts washed."""
    match node:
        case str():
            return washed(node)
        case dict():
            return {washed(key): _washed(value) for key, value in node.items()}
        case list():
            return [*map(_washed, node)]
    return node


def as_csv(specified: dict[str, Any]) -> str:
    """Return the rows of a specification's tables, one after the other; empty where a table has no such column."""
    records = [
        table["about"] | {table["columns"].get(name, name): value for name, value in row.items()}
        for table in specified["usermeta"]["tables"]
        for row in specified["datasets"][table["data"]]
    ]
    headings = list(dict.fromkeys(heading for record in records for heading in record))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(as_text, headings))
    writer.writerows([_cell(record.get(heading)) for heading in headings] for record in records)
    return text.getvalue()


def _cell(value: Any) -> Any:
    """Return a value of a dataset as JavaScript writes it."""
    return json.dumps(value) if isinstance(value, (bool, list, dict)) else as_text(value)


def _layers(view: dict[str, Any], panel: str, names: bool) -> Iterator[tuple[dict[str, Any], str, bool]]:
    """Yield the layers that draw marks, each with its panel's title, and whether it only names marks."""
    panel = view.get("title", panel)
    names |= view.get("description") == "names"
    if "mark" in view:
        yield view, panel, names
    for part in [*view.get("layer", []), *view.get("concat", [])]:
        yield from _layers(part, panel, names)


def _columns(rows: list[dict[str, Any]], headings: dict[str, str]) -> dict[str, str]:
    """Return headings of fields that the rows have, each once; a second field of the same heading keeps its name."""
    fields = list(dict.fromkeys(name for row in rows for name in row))
    taken = {name for name in fields if name not in headings}
    columns = {}
    for name in fields:
        heading = headings.get(name, name)
        if heading not in taken and heading != name:
            columns[name] = heading
        taken.add(columns.get(name, name))
    return columns
