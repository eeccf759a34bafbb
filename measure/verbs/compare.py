"""The command ``python -m measure compare A B``: what differs between caches beyond chance, pair by pair.

A comparison on the terminal: the sides, a table of cells, one of roofs, and what the tables leave out.

Compares many sides with each other, pair by pair, over the cells that all of them have.

A comparison of many sides as lines of a terminal or of Markdown.
"""

import argparse
import csv
import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from measure.cache.records import Cell
from measure.cache.table import as_text
from measure.domain import comparison
from measure.domain import comparison as sides
from measure.domain.comparison import (
    FASTER,
    OTHERS,
    PROCESS,
    ROOFS,
    RUNS,
    SLOWER,
    WITHIN_ERROR,
    Comparison,
    Measured,
    Side,
    compare,
    geometric_mean_ratio,
)
from measure.domain.values import latency
from measure.domain.words import LOADED, same_shape
from measure.errors import UserError
from measure.verbs.flags import CommandLine, check_folder, check_one_output, parse_percent
from measure.verbs.terminal import Line, aligned, markdown

if TYPE_CHECKING:
    from measure.verbs.terminal import Console

NAMED = 8
"""How many cells without a row in the table are named."""

NUMBERS = ("batch", "size", "A", "B", "B/A", "95 % interval")

LABELS = {RUNS: Cell._fields, ROOFS: ("roof_kernel", "size", "precision", "pace")}
"""The columns that say which cell or roof a row is."""

THINGS = {RUNS: "cell", ROOFS: "roof"}

STYLES = {SLOWER: "red", FASTER: "green"}

BASES = {
    PROCESS: "in one process a side: its interval omits the difference between processes, which is often larger",
    OTHERS: "in one round a side: its interval takes the difference between processes from others' rounds",
}
"""How a cell was measured whose interval rests on less than its own rounds."""

ENVIRONMENT = (
    "device", "name", "cores", "threads", "driver", "system", "python", "torch", "torchvision", "torchaudio",
    "tuning",
)  # fmt: skip
"""The columns of an environment that are shown where they changed."""


def show(a: Side, b: Side, rows: Sequence[Comparison]) -> None:
    """Print the sides, the tables, and what they leave out; in colour on a terminal."""
    from measure.verbs.terminal import Console

    console = Console(highlight=False, markup=False, soft_wrap=True)
    for name, side in (("A", a), ("B", b)):
        console.print(f"{name}  {described(side)}")
    console.print(_changed_environment(a, b))
    for table in LABELS:
        if shown := [row for row in rows if row.table == table]:
            _show_table(console, table, shown)


def described(side: Side) -> str:
    environment = side.environment
    since = f"first measured {environment.recorded_at[:10]}"
    return f"{environment.label}, {side.folder}@{environment.environment_id}, {since}"


def _changed_environment(a: Side, b: Side) -> str:
    pairs = [(name, getattr(a.environment, name), getattr(b.environment, name)) for name in ENVIRONMENT]
    changes = [f"{name} {old or 'none'} -> {new or 'none'}" for name, old, new in pairs if old != new]
    return "Changed: " + (", ".join(changes) or "nothing that the environment tells")


def _show_table(console: "Console", table: str, rows: Sequence[Comparison]) -> None:
    compared = [row for row in rows if row.ratio is not None]
    if compared:
        console.print()
        lines = _lines(table, compared)
        styles = [None, *(STYLES.get(row.change or "") for row in compared)]
        for line, style in zip(aligned(lines, NUMBERS), styles, strict=True):
            console.print(line, style=style)
    console.print()
    for line in summary(table, rows):
        console.print(line)


def as_markdown(a: Side, b: Side, rows: Sequence[Comparison]) -> list[str]:
    """Return the sides, the tables and what they leave out as lines of Markdown, as for a comment on a change."""
    said = [f"- {name}: {described(side)}" for name, side in (("A", a), ("B", b))]
    said.append(f"- {_changed_environment(a, b)}")
    for table in LABELS:
        shown = [row for row in rows if row.table == table]
        compared = [row for row in shown if row.ratio is not None]
        if compared:
            said += ["", *markdown(_lines(table, compared), NUMBERS)]
        if shown:
            said += ["", *(f"- {line}" if line[0] != " " else f"  - {line.strip()}" for line in summary(table, shown))]
    return said


def _lines(table: str, compared: Sequence[Comparison]) -> list[tuple[str, ...]]:
    """Return the cells of a table's lines, the head first."""
    return [(*LABELS[table], "A", "B", "B/A", "95 % interval", "change", "flags"), *map(_cells, compared)]


def _cells(row: Comparison) -> tuple[str, ...]:
    labels = (getattr(row, name) for name in LABELS[row.table])
    assert row.a_latency_s is not None
    assert row.b_latency_s is not None
    interval = "" if row.ratio_low is None else f"{row.ratio_low:.3f} to {row.ratio_high:.3f}"
    flags = [f"{side}: {said}" for side, said in (("A", row.a_flags), ("B", row.b_flags)) if said]
    return (
        *("" if label is None else str(label) for label in labels),
        latency(row.a_latency_s),
        latency(row.b_latency_s),
        f"{row.ratio:.3f}",
        interval,
        _change(row),
        ", ".join(flags),
    )


def _change(row: Comparison) -> str:
    """Name the change, with a caveat where it rests on one process a side."""
    if row.basis == PROCESS and row.change in STYLES:
        return f"{row.change} in one process"
    return row.change or "not tested"


def summary(table: str, rows: Sequence[Comparison]) -> list[str]:
    """Say how many changed, what the intervals rest on, and which have a result on one side only."""
    thing = THINGS[table]
    compared = [row for row in rows if row.ratio is not None]
    lines = []
    if compared:
        changes = [row.change for row in compared]
        counts = ", ".join(f"{changes.count(change)} {change}" for change in (SLOWER, FASTER, WITHIN_ERROR))
        mean = f"geometric mean of B/A {geometric_mean_ratio(compared):.3f}"
        lines.append(f"{_count(thing, len(compared))} compared: {counts}; {mean}")
    unlike = [row for row in rows if not row.is_of_one_input]
    labels = [f"{row.label}: {row.a_input_shape} in A, {row.b_input_shape} in B" for row in unlike]
    lines += _named(thing, "not compared, with inputs of another shape on each side", labels)
    loaded = [row for row in compared if any(LOADED in (flags or "") for flags in (row.a_flags, row.b_flags))]
    if loaded:
        lines.append(
            f"{_count(thing, len(loaded))} measured while other programs used the processor (loaded): a difference may "
            "be theirs"
        )
    rows = [row for row in rows if row.is_of_one_input]
    bases = [row.basis for row in compared]
    lines += [f"{_count(thing, bases.count(basis))} measured {how}" for basis, how in BASES.items() if basis in bases]
    for name, other in (("A", "B"), ("B", "A")):
        alone, failed = [], []
        for row in rows:
            status, across = (getattr(row, f"{side.lower()}_status") for side in (name, other))
            if across is None:
                alone.append(row.label)
            elif across == "ok" and status not in (None, "ok"):
                failed.append(f"{row.label}: {status}, {getattr(row, f'{name.lower()}_reason')}")
        lines += _named(thing, f"only in {name}", alone)
        lines += _named(thing, f"without a result in {name}, with one in {other}", failed)
    both = [row.label for row in rows if not {row.a_status, row.b_status} & {None, "ok"}]
    return lines + _named(thing, "without a result on both sides", both)


def _count(thing: str, number: int) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _named(thing: str, where: str, names: Sequence[str]) -> list[str]:
    more = [f"  and {len(names) - NAMED} more; --csv names all"] if len(names) > NAMED else []
    title = f"{_count(thing, len(names))} {where}:"
    return [title, *(f"  {name}" for name in names[:NAMED]), *more] if names else []


@dataclass(frozen=True)
class Pair:
    """B against A, by their places among the sides: the geometric mean of B's times over A's, and what changed.

    ``slower`` and ``faster`` are the cells in which B is so significantly, corrected for the number of this pair's
    cells; of the others ``within_error`` could be tested.
    """

    a: int
    b: int
    ratio: float
    slower: int
    faster: int
    within_error: int


def common_cells(sides: Sequence[Side]) -> list[Cell]:
    """Return the cells of which all sides have a result with inputs of one shape, in the first side's order."""
    return [cell for cell in sides[0].cells if all(_is_like(side, sides[0], cell) for side in sides)]


def _is_like(side: Side, first: Side, cell: Cell) -> bool:
    measured, like = side.cells.get(cell), first.cells[cell]
    if measured is None or measured.repeats is None or like.repeats is None:
        return False
    return same_shape(measured.input_shape, like.input_shape)


def pairs(sides: Sequence[Side], cells: Sequence[Cell]) -> list[Pair]:
    """Return each side against each one before it, over these cells, which all of them have."""
    wanted = set(cells)
    only = [Side(side.folder, side.environment, _of(side, wanted), {}) for side in sides]
    return [_pair(a, b, compare(only[a], only[b])) for b in range(len(only)) for a in range(b)]


def _of(side: Side, wanted: set[Cell]) -> dict[Cell, Measured]:
    return {cell: measured for cell, measured in side.cells.items() if cell in wanted}


def _pair(a: int, b: int, rows: Sequence[Comparison]) -> Pair:
    changes = Counter(row.change for row in rows)
    return Pair(a, b, geometric_mean_ratio(rows), changes[SLOWER], changes[FASTER], changes[WITHIN_ERROR])


def means(count: int, found: Sequence[Pair]) -> list[list[float]]:
    """Return the time of each side (a row) over that of each (a column), of so many sides."""
    ratios = [[1.0] * count for _ in range(count)]
    for pair in found:
        ratios[pair.b][pair.a], ratios[pair.a][pair.b] = pair.ratio, 1 / pair.ratio
    return ratios


WIDEST = 8
"""Of more sides than these a table of pairs is too wide to read: their order is shown instead."""

Table = Callable[[Sequence[Line], Sequence[str]], list[str]]


def lines(sides: Sequence[Side], cells: Sequence[Cell], found: Sequence[Pair], table: Table, mark: str) -> list[str]:
    """Return the sides, a table of them, and what it shows; ``mark`` begins a line that stands for a side."""
    names = [_letters(place) for place in range(len(sides))]
    said = [f"{mark}{name}  {described(side)}" for name, side in zip(names, sides, strict=True)]
    shared = f"{len(cells)} cell{'' if len(cells) == 1 else 's'} that all {len(sides)} have"
    body = _of_pairs(names, found, table) if len(sides) <= WIDEST else _in_order(names, found, table)
    what = (
        "The time of the row over that of the column, in brackets the cells in which the row is significantly slower "
        "and faster"
        if len(sides) <= WIDEST
        else "The time of each over that of the fastest, in brackets the cells in which it is significantly slower and "
        "faster"
    )
    return [*said, "", *body, "", f"{what}; geometric means over the {shared}."]


def _of_pairs(names: Sequence[str], found: Sequence[Pair], table: Table) -> list[str]:
    ratios, changes = means(len(names), found), _changes(found)
    rows = [
        (
            name,
            *("" if row == column else f"{ratios[row][column]:.3f} ({changes[row, column]})" for column in _all(names)),
        )
        for row, name in enumerate(names)
    ]
    return table([("", *names), *rows], names)


def _in_order(names: Sequence[str], found: Sequence[Pair], table: Table) -> list[str]:
    """Return the sides, the fastest first: their geometric means rank all alike, since all have the same cells."""
    ratios, changes = means(len(names), found), _changes(found)
    fastest = min(_all(names), key=lambda row: ratios[row][0])
    order = sorted(_all(names), key=lambda row: ratios[row][fastest])
    head = ("", "over the fastest", "cells")
    rows = [
        (names[row], f"{ratios[row][fastest]:.3f}", f"({changes[row, fastest]})" if row != fastest else "")
        for row in order
    ]
    return table([head, *rows], head[1:])


def _all(names: Sequence[str]) -> range:
    return range(len(names))


def _changes(found: Sequence[Pair]) -> dict[tuple[int, int], str]:
    """Return of each row against each column the cells in which it is slower, and faster."""
    changes = {(pair.b, pair.a): f"{pair.slower}, {pair.faster}" for pair in found}
    return changes | {(pair.a, pair.b): f"{pair.faster}, {pair.slower}" for pair in found}


def _letters(place: int) -> str:
    """Return A to Z, then AA, AB and so on."""
    return ("" if place < 26 else _letters(place // 26 - 1)) + chr(ord("A") + place % 26)


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
    cells = common_cells(found)
    if not cells:
        raise UserError(
            f"the {len(found)} machines have no cell with a result in common; leave some out, or measure the same "
            "models, batch sizes and precisions on all"
        )
    compared = pairs(found, cells)
    _write(arguments.csv, lambda file: write_pairs(file, found, compared))
    if arguments.json:
        print(json.dumps(pairs_as_json(found, cells, compared), indent=2, allow_nan=False))
    elif arguments.csv != "-":
        table, mark = (markdown, "- ") if arguments.markdown else (aligned, "")
        print("\n".join(lines(found, cells, compared, table, mark)))
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
