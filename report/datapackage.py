"""The cache as a Frictionless data package (version 1), which R, pandas, DuckDB and others read: from the records.

``datapackage.json`` lists the tables of a folder. Each names its schema in ``schemas/``, which all machines share.
``python -m report.datapackage`` writes both into ``data``.
"""

import inspect
import json
import re
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any

from measure.cache import hand_kept, predictions, records, trace_records, workload_records
from measure.cache.schema import MOST, TABLES, Column
from report.paper import printed

TYPES = {str: "string", int: "integer", float: "number", Decimal: "number"}
DESCRIPTOR = "datapackage.json"
DECLARED_IN = (records, workload_records, trace_records, predictions, hand_kept, printed)  # every table of ``TABLES``


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
    found = {"name": name, "type": TYPES[column.type], "description": column.meaning}
    if column.unit:
        found["unit"] = column.unit
    return found | ({"constraints": limits} if limits else {})


def package(paths: Iterable[PurePosixPath]) -> dict[str, Any]:
    """Return the descriptor of a folder that holds the tables at these paths, relative to it."""
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
    """Return the tables of a data folder that can be published: not a user's own counts, nor what only fits hold."""
    found = [PurePosixPath(path.relative_to(data).as_posix()) for path in data.rglob("*.csv")]
    return [path for path in found if path.parts[:2] not in (("workload", "own"), ("prediction", "counted"))]


def files(data: Path) -> dict[Path, str]:
    """Return the descriptor and the schemas of a data folder, as text by path."""
    found = {data / DESCRIPTOR: package(tables_in(data))}
    modules = [module.__name__ for module in DECLARED_IN]  # not the tables that a test declares
    kept = [record for record in TABLES if record.__module__ in modules]
    found |= {data / "schemas" / schema_name(record): schema(record) for record in kept}
    return {path: json.dumps(each, indent=1, ensure_ascii=False) + "\n" for path, each in found.items()}


if __name__ == "__main__":
    for path, content in files(Path("data")).items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, encoding="utf-8")
