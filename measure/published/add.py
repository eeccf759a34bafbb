"""Check a table of published measurements, as others write it, and add its rows to the cache."""

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from measure.cache import table
from measure.cache.project import read_both
from measure.domain.chips import fold_name
from measure.domain.schema import TABLES, file_of
from measure.errors import UserError, quote
from measure.published import loose_csv
from measure.published.limits import ROUNDING, Limits, inputs_in_time
from measure.published.records import Chip, PublishedBandwidth, PublishedProduct, PublishedTiming

RECORDS: tuple[type[Any], ...] = (PublishedTiming, PublishedBandwidth, PublishedProduct)
Rows = list[tuple[int, Any]]  # each with its line


def read(file: Path, data: Path) -> tuple[type[Any], Rows]:
    """Return the record and the rows of a table; devices are spelled as in the table of chips.

    Raises UserError for the first row that its columns refuse, or that its chip cannot have given.
    """
    record, rows = loose_csv.read(file, RECORDS)
    chips = read_both(Chip, data)
    spelled = {fold_name(name): name.strip() for chip in chips for name in (*chip.alias.split(";"), chip.chip)}
    limits, found = Limits(data, chips), []
    for line, row in rows:
        device = spelled.get(fold_name(row.device))
        if not device:
            unknown = f"{quote(row.device)} is neither a chip of {file_of(Chip, data)} nor an alias"
            raise UserError(f"{file}, line {line}, column device: {unknown}; add its rows there first")
        named = replace(row, device=device)
        column, problem = limits.problem(named)
        if problem:
            raise UserError(f"{file}, line {line}, column {column}: {problem}")
        found.append((line, named))
    return record, found


def put(file: Path, record: type[Any], rows: Rows, data: Path, force: bool) -> list[Any]:
    """Add the rows that the cache lacks, each once, and return them; with ``force`` also other values of its keys."""
    path, columns = file_of(record, data), TABLES[record].key
    key = attrgetter(*(columns or TABLES[record].columns))  # without a key, only a whole row repeats another
    with table.in_turn(path.parent):
        old = table.read(path, record)
        by_key, lines = {key(row): row for row in old}, dict[Any, int]()
        for line, row in rows:
            if columns and lines.setdefault(key(row), line) != line:
                raise UserError(f"{file}, line {line}: has the key of line {lines[key(row)]}; delete one of the two")
            if by_key.get(key(row), row) != row and not force:
                other = f"has other values for the same {', '.join(columns)}; add --replace to take these"
                raise UserError(f"{file}, line {line}: {TABLES[record].path} {other}")
        new = list(dict.fromkeys(row for _, row in rows if by_key.get(key(row)) != row))
        if new:
            table.write(path, record, table.merged(old, new) if columns else [*old, *new])
    return new


def contradictions(rows: Sequence[tuple[int, Any]]) -> list[str]:
    """Name the rows with a batch that is not rate times time."""
    return [
        f"line {line} ({row.model} at {row.batch}: {row.throughput_per_s:g} × {row.latency_s:g} s)"
        for line, row in rows
        if abs((inputs_in_time(row) or 1) - 1) > ROUNDING
    ]
