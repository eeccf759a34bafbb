"""Add a table of published measurements to the cache: ``measure add-published``."""

import argparse
from pathlib import Path

from measure.cache.schema import file_of
from measure.errors import as_called
from measure.published import add
from measure.published.records import PublishedTiming
from measure.verbs.flags import Verbs, add_verb, check_writable
from measure.verbs.terminal import name_first
from roofwright.command_line import data_flag


def add_verbs(verbs: Verbs) -> None:
    """Declare add-published."""
    text = (
        "Check a CSV table of published measurements, with the columns of one of the tables of "
        "data/published/measurements (docs/data.md), and add its rows. Any delimiter; latency_ms is converted. Adds "
        "nothing if a row is wrong or faster than its chip."
    )
    flags = add_verb(verbs, "add-published", main, text)
    add = flags.add_argument
    add("file", metavar="FILE", help="the table")
    add("--replace", action="store_true", help="replace rows that have the same key but other values")


def main(flags: argparse.Namespace) -> int:
    """Return exit code 0. Raises UserError for bad input, with nothing added."""
    file = Path(flags.file)
    record, rows = add.read(file, flags.data)
    check_writable(flags.data)
    new = add.put(file, record, rows, flags.data, flags.replace)
    rest = ": the others are there or repeat a row" if len(new) < len(rows) else ""
    print(f"Added {len(new)} of {len(rows)} rows to {file_of(record, flags.data)}{rest}")
    if wrong := add.contradictions(rows):
        print(f"Rate × time is not the batch in {len(wrong)} of {len(rows)} rows: {name_first(wrong)}")
    if new:
        print(f"Check that bib/references.bib has an entry for {', '.join(sorted({row.source for row in new}))}.")
    if new and record is PublishedTiming:
        print(f"Next: {as_called('measure count-published')}{data_flag(flags.data)}")
    return 0
