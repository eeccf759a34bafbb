"""The command ``python -m measure compare A B``: what differs between caches beyond chance, pair by pair."""

import argparse
import csv
import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

from measure.cache.records import Cell
from measure.cache.table import as_text
from measure.cli.flags import CommandLine, check_one_output
from measure.cli.tables import aligned, markdown
from measure.comparing import comparison, matrix, matrix_text, sides
from measure.comparing.comparison import RUNS, Comparison
from measure.comparing.comparison_text import as_markdown, show
from measure.comparing.matrix import Pair
from measure.comparing.sides import Side
from measure.errors import UserError
from measure.run.arguments import parse_percent
from measure.run.destination import check_folder


def parser() -> CommandLine:
    flags = CommandLine(
        prog="python -m measure compare",
        description="Compare measurements before and after a change (a driver, another torch), or of two machines, "
        "cell by cell. B/A above 1 means that B takes longer. A change is called slower or faster if it is significant "
        "at 5 % after Benjamini and Hochberg's correction for the number of cells.",
    )
    flags.add_argument(
        "a",
        metavar="A",
        help="a machine (its folder, or its name in --data), or a data folder; add @ and an environment's id for one "
        "that is not the newest",
    )
    flags.add_argument("b", metavar="B", help="what to compare A with, named alike")
    more = "further machines: then each is compared with each, over the cells that all have"
    flags.add_argument("more", metavar="C", nargs="*", help=more)
    flags.add_argument(
        "--data", type=Path, default=Path("data"), help="where machines are looked up (default: %(default)s)"
    )
    flags.add_argument("--csv", metavar="FILE", help="write all cells and roofs as CSV (- for stdout)")
    flags.add_argument("--json", action="store_true", help="print JSON instead of a table (docs/json.md)")
    flags.add_argument("--markdown", action="store_true", help="print Markdown instead, as for a comment on a change")
    flags.add_argument(
        "--fail-on-regression",
        metavar="PERCENT",
        help="exit with 1 if a cell became significantly slower by more than this, or no longer runs",
    )
    return flags


def main(argv: Sequence[str]) -> int:
    """Return exit code 0, or 1 for a regression. Raises UserError for bad input."""
    arguments = parser().parse_args(argv)
    ways = {"--csv -": arguments.csv == "-", "--json": arguments.json, "--markdown": arguments.markdown}
    check_one_output(ways)
    allowed = None
    if arguments.fail_on_regression is not None:
        allowed = parse_percent("--fail-on-regression", arguments.fail_on_regression)
    check_folder(arguments.data, "--data")
    if arguments.more:
        if allowed is not None:
            raise UserError("--fail-on-regression: compares two; name A and B alone")
        return _compare_many(arguments)
    a, b = sides.find(arguments.a, arguments.b, arguments.data)
    rows = comparison.compare(a, b)
    compared = [row for row in rows if row.ratio is not None]
    if not compared:
        raise UserError(
            f"{arguments.a} and {arguments.b} have no cell or roof with a result in common; "
            "measure the same models, batch sizes and precisions on both"
        )
    _write(arguments.csv, lambda file: write_csv(file, rows))
    cells = [row for row in rows if row.table == RUNS]
    regressed = [] if allowed is None else [row for row in cells if row.regressed_by(allowed) or row.no_longer_runs]
    if arguments.json:
        print(json.dumps(as_json(a, b, rows), indent=2, allow_nan=False))
    elif arguments.markdown:
        print("\n".join(as_markdown(a, b, rows)))
    elif arguments.csv != "-":
        show(a, b, rows)
    if regressed:
        labels = ", ".join(row.label for row in regressed)
        print(f"--fail-on-regression {arguments.fail_on_regression}: {labels}", file=sys.stderr)
    return 1 if regressed else 0


def _compare_many(arguments: argparse.Namespace) -> int:
    """Compare each of more than two sides with each. Raises UserError where they have no cell in common."""
    found = sides.find_all([arguments.a, arguments.b, *arguments.more], arguments.data)
    cells = matrix.common_cells(found)
    if not cells:
        raise UserError(
            f"the {len(found)} machines have no cell with a result in common; leave some out, or measure the same "
            "models, batch sizes and precisions on all"
        )
    pairs = matrix.pairs(found, cells)
    _write(arguments.csv, lambda file: write_pairs(file, found, pairs))
    if arguments.json:
        print(json.dumps(pairs_as_json(found, cells, pairs), indent=2, allow_nan=False))
    elif arguments.csv != "-":
        table, mark = (markdown, "- ") if arguments.markdown else (aligned, "")
        print("\n".join(matrix_text.lines(found, cells, pairs, table, mark)))
    return 0


def _write(name: str | None, write: Callable[[TextIO], None]) -> None:
    """Write CSV to standard output or a file, if either is asked for."""
    if name == "-":
        write(sys.stdout)
    elif name:
        try:
            with Path(name).open("w", newline="", encoding="utf-8") as file:
                write(file)
        except OSError as problem:
            raise UserError(f"--csv: {name} cannot be written ({problem.strerror}); name a file that can be") from None


def write_pairs(file: TextIO, found: Sequence[Side], pairs: Iterable[Pair]) -> None:
    """Write all pairs, the sides by their folders."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([field.name for field in dataclasses.fields(Pair)])
    for pair in pairs:
        values = dataclasses.asdict(pair) | {"a": str(found[pair.a].folder), "b": str(found[pair.b].folder)}
        writer.writerow(map(as_text, values.values()))


def pairs_as_json(found: Sequence[Side], cells: Iterable[Cell], pairs: Iterable[Pair]) -> dict[str, Any]:
    return {
        "sides": [{"folder": str(side.folder), "environment": dataclasses.asdict(side.environment)} for side in found],
        "cells": [cell._asdict() for cell in cells],
        "pairs": [dataclasses.asdict(pair) for pair in pairs],
    }


def write_csv(file: TextIO, rows: Iterable[Comparison]) -> None:
    """Write all rows, with every column; an empty cell is an unknown value."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([field.name for field in dataclasses.fields(Comparison)])
    writer.writerows(map(as_text, dataclasses.astuple(row)) for row in rows)


def as_json(a: Side, b: Side, rows: Iterable[Comparison]) -> dict[str, Any]:
    environments = {name: dataclasses.asdict(side.environment) for name, side in (("a", a), ("b", b))}
    return environments | {"comparisons": [dataclasses.asdict(row) for row in rows]}
