"""The data dictionary, written from the records: ``python -m measure.cache.dictionary > docs/data.md``."""

import inspect
import types
import typing
from dataclasses import fields

from measure.cache.records import (
    KEYS,
    Ceiling,
    CounterProfile,
    CounterResult,
    Environment,
    KernelCounters,
    KernelTime,
    Layer,
    Operator,
    OperatorTime,
    Profile,
    Run,
    Sample,
    Workload,
)

TABLES: dict[type, str] = {
    Workload: "data/workload/models.csv",
    Layer: "data/workload/layers.csv",
    Operator: "data/workload/operators.csv",
    CounterResult: "data/workload/counters.csv",
    Environment: "data/machines/NAME/machine.csv",
    Ceiling: "data/machines/NAME/ceilings.csv",
    Run: "data/machines/NAME/runs.csv",
    Sample: "data/machines/NAME/samples.csv",
    Profile: "data/machines/NAME/profiles.csv",
    OperatorTime: "data/machines/NAME/operators.csv",
    KernelTime: "data/machines/NAME/kernels.csv",
    CounterProfile: "data/machines/NAME/counter_profiles.csv",
    KernelCounters: "data/machines/NAME/counters.csv",
}
"""Where each record lies: first what models ask for, then what a machine measured."""

UNITS = {
    "s": "s",
    "byte": "B",
    "flop": "FLOP",
    "mac": "multiply-adds",
    "hz": "Hz",
    "c": "°C",
    "w": "W",
    "j": "J",
}
"""What the last word of a column's name says of its unit."""

TYPES = {str: "text", int: "whole number", float: "number"}

INTRODUCTION = """\
# Data dictionary

Everything that is measured or counted lies as CSV below `data/`: UTF-8, comma-separated, one header line, SI units
without prefixes. An empty cell is a value that is not known, never 0. What can be derived (a median, a rate, a
utilisation) is not stored; raw samples are. A row is identified by the columns of its table's key. Columns that were
added later may be missing from older files, whose rows then have empty cells there.

This file is written by `python -m measure.cache.dictionary` from the descriptions in `measure/cache/records.py`.
"""

BY_HAND = """
## Tables kept by hand

`data/chips.csv` (datasheet roofs), `data/flop_per_cycle.csv` (what a processor's core does in a cycle) and the tables
in `data/published/` (what studies printed, as printed) are written by people; each row names its source by a key of
`bib/references.bib`. Their columns are described and checked in `report/load/chips.py`, `report/load/flop_per_cycle.py`
and `report/load/printed.py`.
"""


def text() -> str:
    """The whole dictionary, as Markdown."""
    return INTRODUCTION + "".join(map(_table, TABLES, TABLES.values())) + BY_HAND


def _table(record: type, path: str) -> str:
    """A table's description, and a line for each of its columns."""
    description = (inspect.getdoc(record) or "").replace("``", "`")
    lines = [
        f"\n## {record.__name__}: `{path}`\n",
        description,
        "",
        "| column | type | unit | key | may be empty |",
    ]
    lines.append("|:--|:--|:--|:--|:--|")
    types_of = typing.get_type_hints(record)
    for field in fields(record):
        plain, may_be_empty = _type(types_of[field.name])
        key = "key" if field.name in KEYS[record] else ""
        unit = UNITS.get(field.name.rpartition("_")[2], "")
        lines.append(f"| `{field.name}` | {plain} | {unit} | {key} | {'yes' if may_be_empty else ''} |")
    return "\n".join(lines) + "\n"


def _type(hint: typing.Any) -> tuple[str, bool]:
    """What a column holds, and whether a cell of it may be empty."""
    parts = typing.get_args(hint) or (hint,)
    (plain,) = [part for part in parts if part is not types.NoneType]
    return TYPES[plain], len(parts) == 2


if __name__ == "__main__":
    print(text(), end="")
