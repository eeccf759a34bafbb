"""The command ``python -m measure compare A B``: what changed between two caches, beyond chance."""

import csv
import dataclasses
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

from measure.cache.table import as_text
from measure.cli.flags import CommandLine, check_one_output
from measure.comparing import comparison, sides
from measure.comparing.comparison import RUNS, Comparison
from measure.comparing.comparison_text import as_markdown, show
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
    a, b = sides.find(arguments.a, arguments.b, arguments.data)
    rows = comparison.compare(a, b)
    compared = [row for row in rows if row.ratio is not None]
    if not compared:
        raise UserError(
            f"{arguments.a} and {arguments.b} have no cell or roof with a result in common; "
            "measure the same models, batch sizes and precisions on both"
        )
    if arguments.csv == "-":
        write_csv(sys.stdout, rows)
    elif arguments.csv:
        try:
            with Path(arguments.csv).open("w", newline="", encoding="utf-8") as file:
                write_csv(file, rows)
        except OSError as problem:
            why = f"--csv: {arguments.csv} cannot be written ({problem.strerror}); name a file that can be"
            raise UserError(why) from None
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


def write_csv(file: TextIO, rows: Iterable[Comparison]) -> None:
    """Write all rows, with every column; an empty cell is an unknown value."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([field.name for field in dataclasses.fields(Comparison)])
    writer.writerows(map(as_text, dataclasses.astuple(row)) for row in rows)


def as_json(a: Side, b: Side, rows: Iterable[Comparison]) -> dict[str, Any]:
    environments = {name: dataclasses.asdict(side.environment) for name, side in (("a", a), ("b", b))}
    return environments | {"comparisons": [dataclasses.asdict(row) for row in rows]}
