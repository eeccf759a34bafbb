"""A figure's data for readers: which datasets of its Vega-Lite specification to show, under which headings.

``specification`` puts this into the specification itself, as ``usermeta``, which Vega ignores. From there the page's
script (``charts.js``) makes the CSV that a figure links to, and ``as_csv`` the same for ``python -m report figures``.
"""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from measure.cache.table import as_text
from report.charts import theme
from report.charts.axes import LABELS
from report.markdown import washed


@dataclass
class _Use:
    """How a figure uses a dataset: whether marks tell their values, titles of panels, marks, headings of fields."""

    told: bool = False
    panels: dict[str, None] = field(default_factory=dict)
    marks: dict[str, None] = field(default_factory=dict)
    headings: dict[str, str] = field(default_factory=dict)


def specification(chart: Any) -> dict[str, Any]:
    """Return a chart's Vega-Lite specification. Its ``usermeta.tables`` names the datasets that its marks show.

    Of each: ``data``, its name; ``about``, columns that hold for all its rows (``panel``, where panels have titles, and
    ``mark``, where there are several tables); ``columns``, a heading for each field whose own name says less. Texts and
    their leaders, which only name marks, are no data. Characters that no picture can hold are replaced.
    """
    with theme.building():
        found = _washed(chart.to_dict(validate=False))
    uses: dict[str, _Use] = {}
    for view, dataset, panel, encoding in _views(found, "", "", {}):
        mark = view["mark"] if isinstance(view["mark"], str) else view["mark"]["type"]
        if dataset in found.get("datasets", {}) and mark != "text":
            use = uses.setdefault(dataset, _Use())
            use.told |= "tooltip" in encoding
            use.panels[panel] = use.marks[mark] = None
            for name, heading in _headings(encoding):
                use.headings.setdefault(name, heading)
    panels = {panel for use in uses.values() for panel in use.panels}
    tables = []
    # What a reader can point at comes before roofs, fitted lines and the like.
    for dataset, use in sorted(uses.items(), key=lambda item: not item[1].told):
        # What every panel shows belongs to none.
        titles = use.panels if len(use.panels) == 1 or len(use.panels) < len(panels) else {}
        about = {"panel": ", ".join(titles)} if panels != {""} else {}
        about |= {"mark": " and ".join(use.marks)} if len(uses) > 1 else {}
        columns = _columns(found["datasets"][dataset], use.headings)
        tables.append({"data": dataset, "about": about, "columns": columns})
    return found | {"usermeta": {"tables": tables}}


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


def _views(
    view: dict[str, Any], dataset: str, panel: str, encoding: dict[str, Any]
) -> Iterator[tuple[dict[str, Any], str, str, dict[str, Any]]]:
    """Yield the views that draw marks, each with its dataset, its panel's title and its encoding, inherited or not."""
    if view.get("description") == LABELS:
        return
    dataset = view.get("data", {}).get("name", dataset)
    title = view.get("title")
    title = title.get("text") if isinstance(title, dict) else title
    panel = title if isinstance(title, str) else panel
    encoding = encoding | view.get("encoding", {})
    if "mark" in view:
        yield view, dataset, panel, encoding
    for part in (part for kind in ("layer", "concat", "hconcat", "vconcat") for part in view.get(kind, [])):
        yield from _views(part, dataset, panel, encoding)


def _headings(encoding: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield fields and what their channels call them: the axis with its unit, else the channel's title."""
    for channel in encoding.values():
        for definition in channel if isinstance(channel, list) else [channel]:
            axis = definition.get("axis") or {}
            title = axis.get("description") or definition.get("title")
            if "field" in definition and isinstance(title, str) and title:
                yield definition["field"].replace("\\", ""), title


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
