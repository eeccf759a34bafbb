"""``python -m measure compare A B``: the differences between two measurements that are larger than chance."""

import csv
import dataclasses
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

from measure.cache.folders import MachineFolder, machine_names
from measure.cache.records import Environment, RoofMeasurement
from measure.cache.table import as_text
from measure.domain.comparison import (
    FASTER,
    OTHERS,
    PROCESS,
    ROOFS,
    RUNS,
    SLOWER,
    WITHIN_ERROR,
    ComparedRow,
    RoofKernel,
    Side,
    cell_result,
    compare,
    geometric_mean_ratio,
    roof_result,
)
from measure.domain.latency import Cell, of_cells
from measure.domain.values import latency
from measure.domain.words import LOADED
from measure.errors import UserError, did_you_mean
from measure.verbs.flags import CommandLine, check_folder, check_one_output, parse_percent
from measure.verbs.terminal import aligned, make_console, markdown

MOST_NAMED = 8
"""How many cells without a row in the table are named."""

NUMBERS = ("batch", "size", "A", "B", "B/A", "95 % interval")

LABELS = {RUNS: Cell._fields, ROOFS: ("roof_kernel", "size", "precision", "pace")}
"""The columns that identify a cell or roof."""

THINGS = {RUNS: "cell", ROOFS: "roof"}

STYLES = {SLOWER: "red", FASTER: "green"}

BASES = {
    PROCESS: "in one process a side: the interval omits the difference between processes, which is often larger",
    OTHERS: "in one round a side: the interval takes the difference between processes from other cells",
}
"""How a cell was measured if its interval rests on less than its own rounds."""

ENVIRONMENT = (
    "device", "name", "cores", "threads", "driver", "system", "python", "torch", "torchvision", "torchaudio",
    "tuning",
)  # fmt: skip
"""The columns of an environment that are shown if they changed."""


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
        help="a machine (its folder, or its name in --data), or a data folder; add @ and an environment's id to choose "
        "another than the newest",
    )
    flags.add_argument("b", metavar="B", help="the side to compare with A, named alike")
    flags.add_argument("more", metavar="C", nargs="*", help="further sides; A is compared with each")
    flags.add_argument(
        "--data", type=Path, default=Path("data"), help="the folder to look up machines in (default: %(default)s)"
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


Compared = tuple[Side, Side, list[ComparedRow]]


def main(argv: Sequence[str]) -> int:
    """Return exit code 0, or 1 for a regression. Raises UserError for bad input."""
    asked = parser().parse_args(argv)
    check_one_output({"--csv -": asked.csv == "-", "--json": asked.json, "--markdown": asked.markdown})
    allowed = None
    if asked.fail_on_regression is not None:
        allowed = parse_percent("--fail-on-regression", asked.fail_on_regression)
    check_folder(asked.data, "--data")
    compared = [_compared(asked.a, other, asked.data) for other in (asked.b, *asked.more)]
    if asked.csv == "-":
        write_csv(sys.stdout, compared)
    elif asked.csv:
        try:
            with Path(asked.csv).open("w", newline="", encoding="utf-8") as file:
                write_csv(file, compared)
        except OSError as problem:
            raise UserError(f"--csv: {asked.csv} cannot be written ({problem.strerror}); name another file") from None
    if asked.json:
        found = [as_json(*each) for each in compared]
        print(json.dumps(found[0] if len(found) == 1 else {"pairs": found}, indent=2, allow_nan=False))
    elif asked.markdown:
        print("\n\n".join("\n".join(as_markdown(*each)) for each in compared))
    elif asked.csv != "-":
        for number, each in enumerate(compared):
            print("\n" if number else "", end="")
            show(*each)
    regressed = []
    if allowed is not None:
        cells = [row for _, _, rows in compared for row in rows if row.table == RUNS]
        regressed = [row.label for row in cells if row.is_regression(allowed) or row.no_longer_runs]
    if regressed:
        labels = ", ".join(dict.fromkeys(regressed))
        print(f"--fail-on-regression {asked.fail_on_regression}: {labels}", file=sys.stderr)
    return 1 if regressed else 0


def _compared(a: str, b: str, data: Path) -> Compared:
    """Compare two sides by their names. Raises UserError if they have nothing in common."""
    one, other = find(a, b, data)
    rows = compare(one, other)
    if not any(row.ratio is not None for row in rows):
        raise UserError(
            f"{a} and {b} have no cell or roof with a result in common; "
            "measure the same models, batch sizes and precisions on both"
        )
    return one, other, rows


def find(a: str, b: str, data: Path) -> tuple[Side, Side]:
    """Read two sides by their names.

    A name is a machine's folder, its name in ``data``, or a data folder: then the machine that the other name also
    means or has, or the only one. A suffix ``@`` with the beginning of an environment's id replaces the newest
    environment. Raises UserError if a name is ambiguous or unknown, or if both name the same measurements.
    """
    (path_a, chosen_a), (path_b, chosen_b) = _split(a, data), _split(b, data)
    folder_a, folder_b = _machines(path_a, path_b, data)
    one, other = _environment(folder_a, chosen_a), _environment(folder_b, chosen_b)
    if folder_a.resolve() == folder_b.resolve() and one == other:
        ids = ", ".join(row.environment_id for row in _open(folder_a).environments())
        raise UserError(
            f"{a} and {b} are the same measurements; name two folders or two environments of {folder_a}, "
            f"as {folder_a}@ID (it has {ids})"
        )
    return _read(folder_a, one), _read(folder_b, other)


def _split(name: str, data: Path) -> tuple[Path, str]:
    """Return the path and the environment's id, which may be empty; a folder's own name may hold an ``@``."""
    path, _, chosen = (name, "", "") if Path(name).is_dir() or "@" not in name else name.rpartition("@")
    in_data = data / "machines" / path
    return (in_data if not Path(path).exists() and _is_machine(in_data) else Path(path)), chosen


def _open(folder: Path) -> MachineFolder:
    """Open a machine's tables, wherever its folder lies."""
    return MachineFolder(folder.parent, folder.name, folder)


def _is_machine(path: Path) -> bool:
    return (path / "machine.csv").is_file()


def _machines(a: Path, b: Path, data: Path) -> tuple[Path, Path]:
    for path in (a, b):
        if not _is_machine(path) and not machine_names(path):
            raise UserError(
                f"{path} is neither a machine's folder, with a machine.csv in it, nor a data folder, with "
                f"machines/NAME/machine.csv in it; name one{did_you_mean(str(path), machine_names(data))}"
            )
    shared = sorted(set(machine_names(a)) & set(machine_names(b)))
    if len(shared) > 1:
        raise UserError(f"{a} and {b} both have {', '.join(shared)}; name one, as {a / 'machines' / shared[0]}")
    if shared:
        return a / "machines" / shared[0], b / "machines" / shared[0]
    return _machine(a, b), _machine(b, a)


def _machine(path: Path, other: Path) -> Path:
    """Return a path that is a machine's folder, or else the machine's folder in it."""
    if _is_machine(path):
        return path
    names = machine_names(path)
    if _is_machine(other) and other.resolve().name in names:
        return path / "machines" / other.resolve().name
    if len(names) > 1:
        raise UserError(
            f"{path} has {', '.join(names)}, and none of them is in {other}; "
            f"name one, as {path / 'machines' / names[0]}"
        )
    return path / "machines" / names[0]


def _environment(folder: Path, chosen: str) -> Environment:
    """Return the environment whose id begins with ``chosen``, or the newest if that is empty."""
    if not chosen:
        return _open(folder).newest_environment()
    rows = _open(folder).environments()
    fitting = [row for row in rows if row.environment_id.startswith(chosen)]
    if len({row.environment_id for row in fitting}) != 1:
        ids = ", ".join(row.environment_id for row in rows) or "none"
        raise UserError(f"{folder}: {chosen!r} does not select one environment; name one of {ids}")
    return fitting[-1]


def _read(folder: Path, environment: Environment) -> Side:
    machine, wanted = _open(folder), environment.environment_id
    runs = [row for row in machine.runs() if row.environment_id == wanted]
    samples = [row for row in machine.samples() if row.environment_id == wanted]
    by_kernel: dict[RoofKernel, list[RoofMeasurement]] = defaultdict(list)
    for row in machine.roof_measurements():
        if row.environment_id == wanted:
            by_kernel[RoofKernel(row.roof_kernel, row.size, row.precision, row.pace)].append(row)
    return Side(
        folder,
        environment,
        {cell: cell_result(rounds) for cell, rounds in of_cells(runs, samples).items()},
        {kernel: roof_result(rounds) for kernel, rounds in by_kernel.items()},
    )


def write_csv(file: TextIO, compared: Sequence[Compared]) -> None:
    """Write all rows with every column, unknown values empty; with more than two sides B's folder first."""
    writer = csv.writer(file, lineterminator="\n")
    has_folder = len(compared) > 1
    writer.writerow(["b"] * has_folder + [field.name for field in dataclasses.fields(ComparedRow)])
    for _, b, rows in compared:
        writer.writerows([str(b.folder)] * has_folder + [*map(as_text, dataclasses.astuple(row))] for row in rows)


def as_json(a: Side, b: Side, rows: Iterable[ComparedRow]) -> dict[str, Any]:
    environments = {name: dataclasses.asdict(side.environment) for name, side in (("a", a), ("b", b))}
    return environments | {"comparisons": [dataclasses.asdict(row) for row in rows]}


def show(a: Side, b: Side, rows: Sequence[ComparedRow]) -> None:
    """Print the sides, the tables and the rows that these leave out; in colour on a terminal."""
    console = make_console(highlight=False, markup=False, soft_wrap=True)
    for name, side in (("A", a), ("B", b)):
        console.print(f"{name}  {describe(side)}")
    console.print(_changed_environment(a, b))
    for table in LABELS:
        of_table = [row for row in rows if row.table == table]
        compared = [row for row in of_table if row.ratio is not None]
        if compared:
            console.print()
            styles = [None, *(STYLES.get(row.change or "") for row in compared)]
            for line, style in zip(aligned(_lines(table, compared), NUMBERS), styles, strict=True):
                console.print(line, style=style)
        if of_table:
            console.print()
        for line in summary(table, of_table):
            console.print(line)


def describe(side: Side) -> str:
    environment = side.environment
    since = f"first measured {environment.recorded_at[:10]}"
    return f"{environment.label}, {side.folder}@{environment.environment_id}, {since}"


def _changed_environment(a: Side, b: Side) -> str:
    pairs = [(name, getattr(a.environment, name), getattr(b.environment, name)) for name in ENVIRONMENT]
    changes = [f"{name} {old or 'none'} -> {new or 'none'}" for name, old, new in pairs if old != new]
    return "Changed: " + (", ".join(changes) or "nothing that the environment tells")


def as_markdown(a: Side, b: Side, rows: Sequence[ComparedRow]) -> list[str]:
    """Return the sides, the tables and the rows that these leave out as lines of Markdown."""
    said = [f"- {name}: {describe(side)}" for name, side in (("A", a), ("B", b))]
    said.append(f"- {_changed_environment(a, b)}")
    for table in LABELS:
        shown = [row for row in rows if row.table == table]
        compared = [row for row in shown if row.ratio is not None]
        if compared:
            said += ["", *markdown(_lines(table, compared), NUMBERS)]
        if shown:
            said += ["", *(f"- {line}" if line[0] != " " else f"  - {line.strip()}" for line in summary(table, shown))]
    return said


def _lines(table: str, compared: Sequence[ComparedRow]) -> list[tuple[str, ...]]:
    """Return a table's lines, the head first."""
    return [(*LABELS[table], "A", "B", "B/A", "95 % interval", "change", "flags"), *map(_cells, compared)]


def _cells(row: ComparedRow) -> tuple[str, ...]:
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


def _change(row: ComparedRow) -> str:
    """Name the change, with a caveat if it rests on one process a side."""
    if row.basis == PROCESS and row.change in STYLES:
        return f"{row.change} in one process"
    return row.change or "not tested"


def summary(table: str, rows: Sequence[ComparedRow]) -> list[str]:
    """Count the changes, and name the rows with weak intervals or with a result on one side only."""
    thing = THINGS[table]
    compared = [row for row in rows if row.ratio is not None]
    lines = []
    if compared:
        changes = [row.change for row in compared]
        counts = ", ".join(f"{changes.count(change)} {change}" for change in (SLOWER, FASTER, WITHIN_ERROR))
        mean = f"geometric mean of B/A {geometric_mean_ratio(compared):.3f}"
        lines.append(f"{_count(thing, len(compared))} compared: {counts}; {mean}")
    unlike = [row for row in rows if not row.has_one_input_shape]
    labels = [f"{row.label}: {row.a_input_shape} in A, {row.b_input_shape} in B" for row in unlike]
    lines += _named(thing, "not compared, with inputs of another shape on each side", labels)
    loaded = [row for row in compared if any(LOADED in (flags or "") for flags in (row.a_flags, row.b_flags))]
    if loaded:
        lines.append(
            f"{_count(thing, len(loaded))} measured while other programs used the processor (loaded): a difference may "
            "be theirs"
        )
    rows = [row for row in rows if row.has_one_input_shape]
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
    more = [f"  and {len(names) - MOST_NAMED} more; --csv names all"] if len(names) > MOST_NAMED else []
    title = f"{_count(thing, len(names))} {where}:"
    return [title, *(f"  {name}" for name in names[:MOST_NAMED]), *more] if names else []
