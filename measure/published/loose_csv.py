"""Read a table as others write it: UTF-8 or UTF-16, any delimiter, an index column, units in the header.

R's ``write.csv`` quotes the header and writes NA; pandas writes an index column without a name. Decimal commas are
refused by the columns, as any text that is not a number.
"""

import codecs
import csv
import io
import re
from collections.abc import Sequence
from itertools import product
from math import isfinite
from pathlib import Path
from typing import Any

from measure.cache import table
from measure.domain.schema import TABLES
from measure.errors import UserError

DELIMITERS = ",;\t| "
INDEX = ("", "Unnamed: 0", "index")  # headers of a column that only numbers the rows
UNKNOWN = ("NA", "NaN", "nan", "NULL", "None", "<NA>")  # an unknown value in R, pandas and SQL
# The units that may replace ``s``, ``byte`` and ``flop`` in a column's name, with their sizes
PREFIXES = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
BINARY = {f"{prefix}i": 1024.0**power for power, prefix in enumerate(PREFIXES, 1)}
SIZES = {
    "s": {"ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9},
    "byte": {prefix + unit: size for prefix, size in (PREFIXES | BINARY).items() for unit in ("b", "byte")},
    "flop": {f"{prefix}flop": size for prefix, size in PREFIXES.items()},
}


def decode(content: bytes, errors: str = "strict") -> str:
    """Decode UTF-16 by its byte order mark, as PowerShell and spreadsheets write it, or else UTF-8."""
    has_utf_16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return content.decode("utf-16" if has_utf_16 else "utf-8-sig", errors)


def spellings(record: type) -> dict[str, tuple[str, float]]:
    """Return each accepted header in lower case, with its column and the size of its unit."""
    found = {}
    for name, column in TABLES[record].columns.items():
        found[name.lower()] = (name, 1.0)
        match = re.fullmatch("(.*?_?)(s|byte|flop)(_per_s)?", name)
        if match and column.type is not str and column.unit in ("s", "B", "B/s", "FLOP/s"):
            for unit, size in SIZES[match[2]].items():
                found[f"{match[1]}{unit}{match[3] or ''}"] = (name, size)
    return found


def read(file: Path, records: Sequence[type[Any]]) -> tuple[type[Any], list[tuple[int, Any]]]:
    """Return the record with the columns most like the header, and the rows with the line at the end of each.

    A column that may be empty may be missing. Raises UserError naming file, line and column of a wrong cell.
    """
    try:
        text = decode(file.read_bytes())
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror}); name a table as CSV") from None
    except UnicodeError:
        raise UserError(f"{file}: is not UTF-8 text; save it as CSV in UTF-8") from None
    accepted = {record: spellings(record) for record in records}
    first = text.partition("\n")[0]

    def likeness(choice: tuple[str, type[Any]]) -> int:
        delimiter, record = choice
        header = next(csv.reader([first], delimiter=delimiter), [])
        return sum(name.strip().lower() in accepted[record] for name in header)

    try:
        delimiter, record = max(product(DELIMITERS, records), key=likeness)
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        header = [name.strip() for name in next(lines, [])]
        rows = [(lines.line_num, [*map(str.strip, cells)]) for cells in lines if any(map(str.strip, cells))]
    except csv.Error as problem:
        raise UserError(f"{file}: {problem}; save it as CSV") from None
    if rows and all(len(cells) == len(header) + 1 for _, cells in rows):  # R's write.table: no header above its index
        header = ["", *header]
    for line, cells in rows:
        if len(cells) != len(header):
            wrong = f"{len(cells)} cells where the header has {len(header)}; correct the line or delete it"
            raise UserError(f"{file}, line {line}: {wrong}")
    columns = TABLES[record].columns
    named = [accepted[record].get(name.lower(), (name, 1.0)) for name in header]
    for _, cells in rows:
        for place, (name, size) in enumerate(named):
            if cells[place] in UNKNOWN and name in columns and columns[name].optional:
                cells[place] = ""
            elif size != 1:
                cells[place] = _scaled(cells[place], size)
    begin = 1 if header and header[0] in INDEX else 0
    names = [name for name, _ in named[begin:]]
    absent = [name for name, column in columns.items() if column.optional and name not in names]
    rows = [(line, cells[begin:] + [""] * len(absent)) for line, cells in rows]
    return record, table.from_cells(file, record, [*names, *absent], rows)


def _scaled(text: str, size: float) -> str:
    """Convert a number to the unit of its column. Other texts stay as they are; the column refuses them."""
    try:
        value = float(text) * size
    except ValueError:
        return text
    return f"{value:.15g}" if isfinite(value) else text
