"""``python -m report.dictionary`` documents the data and the facts, for people and for programs.

It writes ``docs/data.md`` from the records and ``docs/facts.md`` from the facts; and the cache as a Frictionless data
package (version 1), which R, pandas, DuckDB and others read: ``data/datapackage.json`` lists the tables of the folder.
Each names its schema in ``data/schemas``, which all machines share.
"""

import inspect
import json
import re
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any

from measure.domain import records, trace_records, workload_records
from measure.domain.schema import MOST, TABLES, Column
from measure.predicting import records as predictions
from measure.predicting import served_records
from measure.published import kernels, servers
from measure.published import records as published_records
from report import facts

# The order of the tables, whichever module was imported first
PUBLISHED = (published_records, kernels, servers)
MODULES = [
    module.__name__ for module in (records, workload_records, trace_records, predictions, served_records, *PUBLISHED)
]
TYPES = {str: "text", int: "whole number", float: "number", Decimal: "number as printed"}
FRICTIONLESS_TYPES = {str: "string", int: "integer", float: "number", Decimal: "number"}
DESCRIPTOR = "datapackage.json"

INTRODUCTION = """\
# Data dictionary

All measurements and counts are CSV files below `data/`: UTF-8, comma-separated, one header line, SI units without
prefixes. An empty cell is an unknown value, never 0. Raw samples are stored, but nothing that can be derived from them,
such as a median or a rate. The columns of a table's key identify a row.

"Values" are the words that a text may be, or the range of a number. Without them, texts are free and numbers range from
0 to 1e18. Readers refuse all other values, and nothing is written that readers would refuse. The unit 1 is that of
counts, ratios and ordinals. `python -m measure add-machine` and `python -m report check` refuse a torn table as well.

`python -m report.dictionary` writes this file from the records in `measure/domain/` and `measure/published/`.
"""

BY_HAND = """
## Tables kept by hand

People write these tables. Each row names its source by a key of `bib/references.bib`. A "number as printed" keeps its
digits, because they tell how it was rounded.
"""


def text() -> str:
    """Return the dictionary of the data as Markdown."""
    ordered = sorted(TABLES, key=lambda record: MODULES.index(record.__module__))
    by_hand = [record for record in ordered if TABLES[record].by_hand]
    written = [record for record in ordered if record not in by_hand]
    return INTRODUCTION + "".join(map(_table, written)) + BY_HAND + "".join(map(_table, by_hand))


def _table(record: type) -> str:
    table = TABLES[record]
    lines = [
        f"\n## {record.__name__}: `data/{table.path}`\n",
        (inspect.getdoc(record) or "").replace("``", "`"),
        "",
        "| column | type | unit | values | key | may be empty | meaning |",
        "|:--|:--|:--|:--|:--|:--|:--|",
    ]
    for name, column in table.columns.items():
        values = column.form.description if column.form else ""
        if not column.form and column.type is not str and (column.least, column.most) != (0, MOST):
            values = f"from {column.least:g}" + (f" to {column.most:g}" if column.most < MOST else "")
        key, empty = "key" if name in table.key else "", "yes" if column.optional else ""
        cells = (f"`{name}`", TYPES[column.type], column.unit, values, key, empty, column.meaning)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def schema_name(record: type) -> str:
    """Return the file of a table's schema, such as ``machines-runs.json``."""
    parts = PurePosixPath(TABLES[record].path).with_suffix("").parts
    return f"{'-'.join(part for part in parts if part != 'NAME')}.json"


def schema(record: type) -> dict[str, Any]:
    """Return a table schema: the fields in the header's order, with units and limits."""
    table = TABLES[record]
    found: dict[str, Any] = {"fields": [_field(name, column) for name, column in table.columns.items()]}
    found |= {"primaryKey": list(table.key)} if table.key else {}
    return found | {"missingValues": [""]}


def _field(name: str, column: Column) -> dict[str, Any]:
    limits: dict[str, Any] = {} if column.optional else {"required": True}
    if column.form and column.form.words:
        limits["enum"] = list(column.form.words)
    if column.type is not str:
        limits |= {"minimum": column.least}
        limits |= {"maximum": column.most} if column.most < MOST else {}
    found = {"name": name, "type": FRICTIONLESS_TYPES[column.type], "description": column.meaning}
    if column.unit:
        found["unit"] = column.unit
    return found | ({"constraints": limits} if limits else {})


def package(paths: Iterable[PurePosixPath]) -> dict[str, Any]:
    """Return the descriptor of a folder with tables at these relative paths."""
    resources = []
    for path in sorted(paths):
        for record, table in TABLES.items():
            if re.fullmatch(re.escape(table.path).replace("NAME", "[^/]+"), path.as_posix()):
                name = re.sub(r"[^a-z0-9._/-]", "-", path.with_suffix("").as_posix().lower()).replace("/", "-")
                resources.append({
                    "name": name, "path": path.as_posix(), "profile": "tabular-data-resource", "format": "csv",
                    "mediatype": "text/csv", "encoding": "utf-8", "title": record.__name__,
                    "description": (inspect.getdoc(record) or "").partition("\n")[0].replace("``", "`"),
                    "schema": f"schemas/{schema_name(record)}",
                })  # fmt: skip
    return {
        "profile": "tabular-data-package", "name": "roofwright-data",
        "title": "How deep networks run: counts, roofs, latencies and profiles",
        "licenses": [{"name": "MIT", "path": "https://opensource.org/license/mit"}], "resources": resources,
    }  # fmt: skip


def tables_in(data: Path) -> list[PurePosixPath]:
    """Return the tables of a data folder for publication, without a user's own counts and the counts for fits."""
    found = [PurePosixPath(path.relative_to(data).as_posix()) for path in data.rglob("*.csv")]
    return [path for path in found if path.parts[:2] not in (("workload", "own"), ("prediction", "counted"))]


def package_files(data: Path) -> dict[Path, str]:
    """Return the descriptor and the schemas of a data folder as texts by path."""
    found = {data / DESCRIPTOR: package(tables_in(data))}
    own = [record for record in TABLES if record.__module__ in MODULES]  # not the tables of a test
    found |= {data / "schemas" / schema_name(record): schema(record) for record in own}
    return {path: json.dumps(each, indent=1, ensure_ascii=False) + "\n" for path, each in found.items()}


if __name__ == "__main__":
    texts = {Path("docs/data.md"): text(), Path("docs/facts.md"): facts.dictionary()} | package_files(Path("data"))
    for path, content in texts.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, encoding="utf-8")
