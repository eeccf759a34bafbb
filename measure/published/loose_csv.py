"""Read a table as others write it: UTF-8 or UTF-16, any delimiter, an index column, units in the header.

R's ``write.csv`` quotes the header and writes NA; pandas writes an index column without a name; a German spreadsheet
separates cells by semicolons and writes decimal commas.
"""

import codecs
import csv
import io
import re
from collections.abc import Sequence
from decimal import Decimal, DecimalException
from pathlib import Path
from typing import Any

from measure.cache import table
from measure.domain.schema import TABLES
from measure.errors import UserError, quote

DELIMITERS = ",;\t| "
INDEX = ("", "Unnamed: 0", "index")  # headers of a column that only numbers the rows
UNKNOWN = ("NA", "NaN", "nan", "NULL", "None", "<NA>")  # an unknown value in R, pandas and SQL
DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+(e[+-]?[0-9]+)?", re.IGNORECASE)
# The units that may replace ``s``, ``byte`` and ``flop`` in a column's name, with their sizes
PREFIXES = {"k": "1e3", "m": "1e6", "g": "1e9", "t": "1e12"}
SIZES: dict[str, dict[str, Decimal]] = {
    "s": {"ms": Decimal("1e-3"), "us": Decimal("1e-6"), "µs": Decimal("1e-6"), "ns": Decimal("1e-9")},
    "byte": {f"{prefix}{unit}": Decimal(size) for prefix, size in PREFIXES.items() for unit in ("b", "byte")}
    | {f"{prefix}i{unit}": Decimal(1024**power) for power, prefix in enumerate(PREFIXES, 1) for unit in ("b", "byte")},
    "flop": {f"{prefix}flop": Decimal(size) for prefix, size in PREFIXES.items()},
}

ONE = Decimal(1)
Spelling = dict[str, tuple[str, Decimal]]  # each accepted header in lower case: the column, and the size of its unit


def decode(content: bytes, errors: str = "strict") -> str:
    """Decode UTF-16 by its byte order mark, as PowerShell and spreadsheets write it, or else UTF-8."""
    has_utf_16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return content.decode("utf-16" if has_utf_16 else "utf-8-sig", errors)


def spellings(record: type) -> Spelling:
    """Return the accepted headers of a table: its columns, also in other units."""
    found: Spelling = {}
    for name, column in TABLES[record].columns.items():
        found[name.lower()] = (name, ONE)
        match = re.fullmatch("(.*?_?)(s|byte|flop)(_per_s)?", name)
        if match and column.type is not str and column.unit in ("s", "B", "B/s", "FLOP/s"):
            for unit, size in SIZES[match[2]].items():
                found[f"{match[1]}{unit}{match[3] or ''}"] = (name, size)
    return found


def read(file: Path, records: Sequence[type[Any]]) -> tuple[type[Any], list[tuple[int, Any]]]:
    """Return the record whose columns resemble the header most, and the rows with the lines in which they end.

    A column that may be empty may be missing. Raises UserError naming file, line and column of a wrong cell.
    """
    try:
        text = decode(file.read_bytes())
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror}); name a table as CSV") from None
    except UnicodeError:
        raise UserError(f"{file}: is not UTF-8 text; save it as CSV in UTF-8") from None
    known = {record: spellings(record) for record in records}
    first = text.partition("\n")[0]

    def likeness(delimiter: str, record: type) -> int:
        return sum(name.strip().lower() in known[record] for name in next(csv.reader([first], delimiter=delimiter), []))

    try:
        delimiter, record = max(
            ((sign, record) for sign in DELIMITERS for record in records), key=lambda each: likeness(*each)
        )
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        header = [name.strip() for name in next(lines, [])]
        rows = [(lines.line_num, cells) for cells in lines if any(map(str.strip, cells))]
    except csv.Error as problem:
        raise UserError(f"{file}: {problem}; save it as CSV") from None
    if rows and all(len(cells) == len(header) + 1 for _, cells in rows):  # R's write.table: no header above its index
        header = ["", *header]
    meant = [known[record].get(name.lower(), (name, ONE)) for name in header]
    kept = [(place, *meant[place]) for place, name in enumerate(header) if place or name not in INDEX]
    columns = TABLES[record].columns
    names = [name for _, name, _ in kept]
    absent = [name for name, column in columns.items() if column.optional and name not in names]
    numeric = {place for place, name, _ in kept if name in columns and columns[name].type is not str}
    numbers = (cells[place].strip() for _, cells in rows for place in numeric if place < len(cells))
    has_commas = any(map(DECIMAL_COMMA.fullmatch, numbers))
    converted = []
    for line, cells in rows:
        if len(cells) != len(header):
            wrong = f"{len(cells)} cells where the header has {len(header)}; correct the line or delete it"
            raise UserError(f"{file}, line {line}: {wrong}")
        texts = []
        for place, name, size in kept:
            text = cells[place].strip()
            if text in UNKNOWN and name in columns and columns[name].optional:
                text = ""
            elif place in numeric:
                if has_commas and "." in text:
                    wrong = f"{quote(text)} has a point, and other numbers a decimal comma; write all with points"
                    raise UserError(f"{file}, line {line}, column {header[place]}: {wrong}")
                text = _scaled(text.replace(",", ".") if has_commas else text, size, columns[name].type)
            texts.append(text)
        converted.append((line, [*texts, *("" for _ in absent)]))
    return record, table.from_cells(file, record, [*names, *absent], converted)


def _scaled(text: str, size: Decimal, type_: type) -> str:
    """Convert a number to the unit of its column. Other texts stay as they are; the column refuses them."""
    try:
        value = Decimal(text) * size
    except DecimalException:  # not a number, or beyond all exponents
        return text
    if size == 1 or not value.is_finite() or abs(value.adjusted()) > 30:
        return text if size == 1 else str(value)
    return format(value.normalize(), "f") if type_ is int else str(value)
