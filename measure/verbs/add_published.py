"""Check a CSV table of published measurements, with the columns of one of the tables of
data/published/measurements (docs/data.md), and add its rows. Any delimiter; latency_ms is converted.
Adds nothing if a row is wrong or faster than its chip.

file FILE  the table
--replace  replace rows that have the same key but other values
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from measure.cache import table
from measure.cache.project import read_both
from measure.cache.schema import TABLES, file_of
from measure.domain.chips import fold_name
from measure.errors import UserError, as_called, quote
from measure.published import loose_csv
from measure.published.limits import Limits
from measure.published.records import Chip, PublishedBandwidth, PublishedProduct, PublishedTiming
from measure.verbs.flags import check_writable
from measure.verbs.terminal import name_first
from roofwright.command_line import data_flag

RECORDS: tuple[type[Any], ...] = (PublishedTiming, PublishedBandwidth, PublishedProduct)
AGREES = 0.02  # the relative rounding error allowed between rate times time and the batch size


def main(flags: argparse.Namespace) -> int:
    """Return exit code 0. Raises UserError for bad input, with nothing added."""
    file = Path(flags.file)
    record, found = loose_csv.read(file, RECORDS)
    # A device is spelled as in the chips' table; without a row there it has no roof
    chips_path = file_of(Chip, flags.data)
    chips = read_both(Chip, flags.data)
    spelled = {fold_name(name): name.strip() for chip in chips for name in (*chip.alias.split(";"), chip.chip)}
    limits = Limits(flags.data, chips)
    rows = []
    for line, row in found:
        device = spelled.get(fold_name(row.device))
        if not device:
            why = f"{quote(row.device)} is neither a chip of {chips_path} nor an alias; add its rows there first"
            raise UserError(f"{file}, line {line}, column device: {why}")
        row = replace(row, device=device)
        column, problem = limits.problem(row)
        if problem:
            raise UserError(f"{file}, line {line}, column {column}: {problem}")
        rows.append((line, row))
    path = file_of(record, flags.data)
    check_writable(flags.data)
    with table.in_turn(path.parent):
        old = table.read(path, record)
        new = _select_new(file, rows, old, record, flags.replace)
        if new:
            table.write(path, record, table.merged(old, new) if TABLES[record].key else [*old, *new])
    rest = ": the others are there or repeat a row" if len(new) < len(rows) else ""
    print(f"Added {len(new)} of {len(rows)} rows to {path}{rest}")
    contradictions = [
        f"line {line} ({row.model} at {row.batch}: {row.throughput_per_s:g} × {row.latency_s:g} s)"
        for line, row in rows
        if getattr(row, "throughput_per_s", None) and abs(row.throughput_per_s * row.latency_s / row.batch - 1) > AGREES
    ]
    if contradictions:
        what = "rows contradict themselves, rate × time is not the batch"
        print(f"{len(contradictions)} {what}: {name_first(contradictions)}")
    if new:
        print(f"Check that bib/references.bib has an entry for {', '.join(sorted({row.source for row in new}))}.")
    if new and record is PublishedTiming:
        print(f"Next: {as_called('measure count-published')}{data_flag(flags.data)}")
    return 0


def _select_new(
    path: Path, rows: Sequence[tuple[int, Any]], old: Sequence[Any], record: type[Any], force: bool
) -> list[Any]:
    """Return the rows that the table lacks, each once; with ``force`` also other values of its keys."""
    columns = TABLES[record].key
    key = attrgetter(*(columns or TABLES[record].columns))  # without a key, only a whole row repeats another
    by_key = {key(row): row for row in old}
    lines: dict[Any, int] = {}
    for line, row in rows:
        if columns and lines.setdefault(key(row), line) != line:
            raise UserError(f"{path}, line {line}: has the key of line {lines[key(row)]}; delete one of the two")
        if by_key.get(key(row), row) != row and not force:
            other = f"has other values for the same {', '.join(columns)}; add --replace to take these"
            raise UserError(f"{path}, line {line}: {file_of(record, Path())} {other}")
    return list(dict.fromkeys(row for _, row in rows if by_key.get(key(row)) != row))
