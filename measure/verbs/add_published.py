"""The command ``python -m measure add-published FILE``: checks a table of what others measured and adds it.

The file's header says which of the tables of ``data/published/measurements`` it goes into.
"""

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from measure.cache import table
from measure.cache.hand_kept import Chip, PublishedBandwidth, PublishedProduct, PublishedTiming, folded
from measure.cache.schema import TABLES, file_of
from measure.cache.table import in_turn
from measure.errors import UserError
from measure.run.request import check_folder, check_writable
from measure.verbs.flags import CommandLine, data_flag

RECORDS = (PublishedTiming, PublishedBandwidth, PublishedProduct)

AGREES = 0.02
"""A rate times its time is the batch size, but for this share, by which the digits that are printed round it."""

NAMED = 5
"""So many rows are named; of others the number is told."""


def parser() -> CommandLine:
    flags = CommandLine(
        prog="python -m measure add-published",
        description="Check a table of what others measured, as CSV with the header of one of the tables of "
        "data/published/measurements (docs/data.md), and add its rows. Nothing is added if a row is wrong.",
    )
    flags.add_argument("file", metavar="FILE", type=Path, help="the table")
    flags.add_argument("--replace", action="store_true", help="replace rows with the same key that say something else")
    flags.add_argument("--data", type=Path, default=Path("data"), help="the cache's folder (default: %(default)s)")
    return flags


def main(argv: Sequence[str]) -> int:
    """Return exit code 0. Raises UserError for bad input, with nothing added."""
    asked = parser().parse_args(argv)
    check_folder(asked.data, "--data")
    if not asked.file.is_file():
        raise UserError(f"{asked.file}: there is no such file; name a table as CSV")
    record = _record(asked.file)
    rows = _with_known_devices(asked.file, table.numbered(asked.file, record), asked.data)
    path = file_of(record, asked.data)
    check_writable(asked.data)
    with in_turn(path.parent):
        old = table.read(path, record)
        fresh = _fresh(asked.file, rows, old, record, asked.replace)
        if fresh:
            table.write(path, record, table.merged(old, fresh) if TABLES[record].key else [*old, *fresh])
    print(
        f"Added {len(fresh)} of {len(rows)} rows to {path}"
        + (": the others are there or repeat a row" if len(fresh) < len(rows) else "")
    )
    for line in _contradictions(rows):
        print(line)
    sources = sorted({row.source for row in fresh})
    if sources:
        print(f"See that bib/references.bib has an entry for {', '.join(sources)}.")
    if record is PublishedTiming and fresh:
        print(f"Next: python -m measure count-published{data_flag(asked.data)}")
    return 0


def _record(path: Path) -> type[Any]:
    """Return the record whose columns the file's header names. Raises UserError where none has them."""
    try:
        header = path.open(encoding="utf-8-sig").readline().strip().split(",")
    except (OSError, UnicodeDecodeError) as problem:
        raise UserError(f"{path}: cannot be read ({problem}); save it as CSV in UTF-8") from None
    fitting = [record for record in RECORDS if sorted(header) == sorted(TABLES[record].columns)]
    if not fitting:
        nearest = max(RECORDS, key=lambda record: len(set(header) & set(TABLES[record].columns)))
        missing = [name for name in TABLES[nearest].columns if name not in header]
        more = [name for name in header if name not in TABLES[nearest].columns]
        what = f"the column {missing[0]!r} is missing" if missing else f"the column {more[0]!r} is not known"
        raise UserError(
            f"{path}, line 1: {what}; the header is that of {TABLES[nearest].path}: {','.join(TABLES[nearest].columns)}"
        )
    return fitting[0]


def _with_known_devices(path: Path, rows: Sequence[tuple[int, Any]], data: Path) -> list[tuple[int, Any]]:
    """Return the rows with their devices spelled as in the chips' table, whatever their case.

    Raises UserError for a device that the table does not have: it has no roof to be held against.
    """
    spelled = {}
    for chip in table.read(file_of(Chip, data), Chip):
        spelled.update({folded(name): name.strip() for name in (*chip.alias.split(";"), chip.chip)})
    found = []
    for line, row in rows:
        name = spelled.get(folded(row.device))
        if not name:
            raise UserError(
                f"{path}, line {line}, column device: {row.device!r} is not a chip of {file_of(Chip, data)}, nor an "
                "alias; add its rows there first"
            )
        found.append((line, replace(row, device=name)))
    return found


def _fresh(path: Path, rows: Sequence[tuple[int, Any]], old: Sequence[Any], record: type, force: bool) -> list[Any]:
    """Return the rows that are not there yet, each once.

    Raises UserError unless ``force`` is set for a row that differs from the one with its key.
    """
    facts = TABLES[record]
    if not facts.key:
        there = set(old)
        return [row for row in dict.fromkeys(row for _, row in rows) if row not in there]
    key = attrgetter(*facts.key)
    known = {key(row): row for row in old}
    seen: dict[Any, int] = {}
    fresh: list[Any] = []
    for line, row in rows:
        if key(row) in seen:
            raise UserError(f"{path}, line {line}: has the key of line {seen[key(row)]}; delete one of the two")
        seen[key(row)] = line
        if known.get(key(row), row) != row and not force:
            raise UserError(
                f"{path}, line {line}: {file_of(record, Path())} has a row of the same {', '.join(facts.key)} that "
                "says something else; add --replace to take this one"
            )
        if known.get(key(row)) != row:
            fresh.append(row)
    return fresh


def _contradictions(rows: Sequence[tuple[int, Any]]) -> list[str]:
    """Name the rows whose printed rate and time do not multiply to their batch size: they are kept, and told."""
    wrong = [
        f"line {line} ({row.model} at {row.batch}: {row.throughput_per_s:g} × {row.latency_s:g} s)"
        for line, row in rows
        if getattr(row, "throughput_per_s", None) and abs(row.throughput_per_s * row.latency_s / row.batch - 1) > AGREES
    ]
    if not wrong:
        return []
    more = f" and {len(wrong) - NAMED} more" if len(wrong) > NAMED else ""
    return [
        f"{len(wrong)} rows contradict themselves, rate × time not being the batch: {'; '.join(wrong[:NAMED])}{more}"
    ]
