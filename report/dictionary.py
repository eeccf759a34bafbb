"""``python -m report.dictionary`` writes ``docs/data.md`` from the records, ``docs/facts.md`` from the facts."""

import inspect
from decimal import Decimal
from pathlib import Path

from measure.cache import hand_kept, predictions, records, trace_records, workload_records
from measure.cache.schema import MOST, TABLES
from report import facts
from report.paper import printed

# The order of the tables, whichever module was imported first
MODULES = [module.__name__ for module in (records, workload_records, trace_records, predictions, hand_kept, printed)]
TYPES = {str: "text", int: "whole number", float: "number", Decimal: "number as printed"}

INTRODUCTION = """\
# Data dictionary

All measurements and counts are CSV files below `data/`: UTF-8, comma-separated, one header line, SI units without
prefixes. An empty cell is an unknown value, never 0. Raw samples are stored, but nothing that can be derived from them,
such as a median or a rate. The columns of a table's key identify a row.

"Values" are the words that a text may be, or the range of a number. Without them, texts are free and numbers range from
0 to 1e18. Readers refuse all other values, and nothing is written that readers would refuse. The unit 1 is that of
counts, ratios and ordinals. `python -m measure add-machine` and `python -m report check` refuse a torn table as well.

`python -m report.dictionary` writes this file from the records in `measure/cache/` and `report/paper/printed.py`.
"""

BY_HAND = """
## Tables kept by hand

People write these tables. Each row names its source by a key of `bib/references.bib`. A "number as printed" keeps its
digits, because they tell how it was rounded.
"""


def text() -> str:
    """Return the dictionary of the data as Markdown."""
    ordered = sorted(TABLES, key=lambda record: MODULES.index(record.__module__))
    kept = [record for record in ordered if TABLES[record].by_hand]
    written = [record for record in ordered if record not in kept]
    return INTRODUCTION + "".join(map(_table, written)) + BY_HAND + "".join(map(_table, kept))


def _table(record: type) -> str:
    """Return a table's description, and a line for each of its columns."""
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


if __name__ == "__main__":
    for name, content in {"data": text(), "facts": facts.dictionary()}.items():
        Path("docs", f"{name}.md").write_text(content, encoding="utf-8")
