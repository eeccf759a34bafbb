"""The data dictionary, written from the records: ``python -m measure.cache.dictionary > docs/data.md``."""

import inspect
from decimal import Decimal

from measure.cache import hand_kept, predictions, records, workload_records
from measure.cache import workload_records as published_counts
from measure.cache.schema import MOST, TABLES, Column

DECLARING = (records, workload_records, published_counts, predictions, hand_kept)
"""The modules that declare the tables, in the order in which the dictionary has them, whoever imported them first."""

TYPES = {str: "text", int: "whole number", float: "number", Decimal: "number as printed"}

INTRODUCTION = """\
# Data dictionary

Everything that is measured or counted lies as CSV below `data/`: UTF-8, comma-separated, one header line, SI units
without prefixes. An empty cell is a value that is not known, never 0. What can be derived (a median, a rate, a
utilisation) is not stored; raw samples are. A row is identified by the columns of its table's key.

Under "values" stand the words that a text may be, or the range of a number; where nothing stands, texts are free and
numbers range from 0 to 1e18. The range is what can have been measured at all: a number outside it is refused in a table
kept by hand, and elsewhere by `python -m measure add-machine` and `python -m report check`, which refuse a table that
is cut off as well. Whoever reads refuses unknown words, and numbers of another sign than the range has: those below 0
where it begins at 0, and 0 too where it begins above. No row is written that reading would refuse. The unit 1 is that
of counts, ratios and ordinals.

This file is written by `python -m measure.cache.dictionary` from the records in `measure/cache/`.
"""

BY_HAND = """
## Tables kept by hand

These are written by people; each row names its source by a key of `bib/references.bib`. Numbers are as printed where
the type says so: the digits that they have tell how they were rounded.
"""


def text() -> str:
    """Return the whole dictionary, as Markdown."""
    modules = [module.__name__ for module in DECLARING]
    ordered = sorted(TABLES, key=lambda record: modules.index(record.__module__))
    kept = [record for record in ordered if TABLES[record].by_hand]
    written = [record for record in ordered if record not in kept]
    return INTRODUCTION + "".join(map(_table, written)) + BY_HAND + "".join(map(_table, kept))


def _table(record: type) -> str:
    """Return a table's description, and a line for each of its columns."""
    facts = TABLES[record]
    lines = [
        f"\n## {record.__name__}: `data/{facts.path}`\n",
        (inspect.getdoc(record) or "").replace("``", "`"),
        "",
        "| column | type | unit | values | key | may be empty | meaning |",
        "|:--|:--|:--|:--|:--|:--|:--|",
    ]
    for name, column in facts.columns.items():
        key, empty = "key" if name in facts.key else "", "yes" if column.optional else ""
        cells = (f"`{name}`", TYPES[column.type], column.unit, _values(column), key, empty, column.meaning)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _values(column: Column) -> str:
    """Return what a column's form or range says."""
    if column.form:
        return column.form.description
    if column.type is str or (column.least, column.most) == (0, MOST):
        return ""
    return f"from {column.least:g}" + (f" to {column.most:g}" if column.most < MOST else "")


if __name__ == "__main__":
    print(text(), end="")
