"""Compare measurements before and after a change (a driver, another torch), or of two machines, cell by cell. B/A
above 1 means that B takes longer. A change is called slower or faster if it is significant at 5 % after Benjamini and
Hochberg's correction for the number of cells. Of two imported traces, which kinds of layer make the difference: terms
that add up to the ratio of their steps.

a A  a machine (its folder, or its name in --data), or a data folder; add @ and an environment's id to choose another
    than the newest; or a trace, by its folder in data/traces
b B  the side to compare with A, named alike
more C*  further sides; A is compared with each
--csv FILE  write all cells and roofs as CSV (- for stdout)
--json  print JSON instead of a table (docs/json.md)
--markdown  print Markdown instead, as for a comment on a change
--fail-on-regression PERCENT  exit with 1 if a cell became significantly slower by more than this, or no longer runs
"""

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import geometric_mean

from measure.cache.folders import MachineFolder, machine_names
from measure.cache.records import Environment, RoofMeasurement, Run, Sample
from measure.cache.traces import trace_names
from measure.domain import comparison
from measure.domain.comparison import FASTER, PROCESS, ROOFS, RUNS, SLOWER, WITHIN_ERROR, ComparedRow, RoofKernel, Side
from measure.domain.latency import Cell, group_rounds
from measure.domain.values import latency
from measure.domain.words import LOADED
from measure.errors import UserError, did_you_mean
from measure.verbs import trace
from measure.verbs.flags import check_one_output, parse_percent
from measure.verbs.terminal import aligned, markdown, write_csv

MOST_NAMED = 8  # the most cells without a row in the table that are named
HEADS = {
    table: (*key._fields, "A", "B", "B/A", "95 % interval", "change", "flags")
    for table, key in ((RUNS, Cell), (ROOFS, RoofKernel))
}
NUMBERS = ("batch", "size", "A", "B", "B/A", "95 % interval")

CAVEATS = {  # how a cell was measured, by a flag of a side or by the basis of its interval
    LOADED: "while other programs used the processor (loaded): a difference may be theirs",
    PROCESS: "in one process a side: the interval omits the difference between processes, often larger",
    comparison.OTHERS: "in one round a side: the interval takes the difference between processes from other cells",
}
ENVIRONMENT = (  # the columns of an environment that are shown if they changed
    "device", "name", "cores", "threads", "driver", "system", "python", "torch", "torchvision", "torchaudio", "tuning",
)  # fmt: skip


def main(flags: argparse.Namespace) -> int:
    """Return exit code 0, or 1 for a regression. Raises UserError for bad input."""
    check_one_output({"--csv -": flags.csv == "-", "--json": flags.json, "--markdown": flags.markdown})
    limit = flags.fail_on_regression
    allowed = parse_percent("--fail-on-regression", limit) if limit else 0.0
    if {flags.a, flags.b, *flags.more} <= set(trace_names(flags.data)):
        if flags.more or flags.csv or limit:
            raise UserError("two traces are compared, as text, --markdown or --json; leave further names and flags out")
        table = None if flags.json else markdown if flags.markdown else aligned
        print(trace.compared(flags.data, [flags.a, flags.b], table))
        return 0
    compared: list[tuple[Side, Side, list[ComparedRow]]] = []
    for name in (flags.b, *flags.more):
        a, b = find(flags.a, name, flags.data)
        rows = comparison.compare(a, b)
        compared.append((a, b, rows))
        if all(row.ratio is None for row in rows):
            gap = "have no cell or roof with a result in common"
            raise UserError(f"{flags.a} and {name} {gap}; measure the same models, batch sizes and precisions on both")
    lines = [{"b": str(b.folder)} | row.columns() for _, b, rows in compared for row in rows]
    columns = list(lines[0])[0 if len(compared) > 1 else 1 :]
    if flags.csv == "-":
        write_csv(sys.stdout, lines, columns)
    elif flags.csv:
        try:
            with Path(flags.csv).open("w", newline="", encoding="utf-8") as file:
                write_csv(file, lines, columns)
        except OSError as error:
            raise UserError(f"--csv: {flags.csv} cannot be written ({error.strerror}); name another file") from None
    if flags.json:
        pairs = []
        for a, b, rows in compared:
            pair = {"a": asdict(a.environment), "b": asdict(b.environment)}
            pairs.append(pair | {"comparisons": [row.columns() for row in rows]})
        print(json.dumps(pairs[0] if len(pairs) == 1 else {"pairs": pairs}, indent=2, allow_nan=False))
    elif flags.csv != "-":
        print("\n\n".join("\n".join(report(*each, as_markdown=flags.markdown)) for each in compared))
    slower = dict.fromkeys(row.key.describe() for *_, rows in compared for row in rows if row.is_regression(allowed))
    if not limit or not slower:
        return 0
    print(f"--fail-on-regression {limit}: {', '.join(slower)}", file=sys.stderr)
    return 1


def find(a: str, b: str, data: Path) -> tuple[Side, Side]:
    """Read two sides by their names, as the help of the verb describes them.

    Raises UserError if a name is ambiguous or unknown, or if both name the same measurements.
    """
    (path_a, id_a), (path_b, id_b) = _split(a, data), _split(b, data)
    one, other = _read(_machine(path_a, path_b, data), id_a), _read(_machine(path_b, path_a, data), id_b)
    if one.folder.resolve() == other.folder.resolve() and one.environment == other.environment:
        raise UserError(f"{a} and {b} are the same measurements; name two folders or environments, as {one.folder}@ID")
    return one, other


def _split(name: str, data: Path) -> tuple[Path, str]:
    """Return the path and the environment's id, which may be empty; a folder's own name may hold an ``@``."""
    path, _, identity = (name, "", "") if Path(name).is_dir() or "@" not in name else name.rpartition("@")
    in_data = data / "machines" / path
    return (in_data if not Path(path).exists() and _is_machine(in_data) else Path(path)), identity


def _is_machine(path: Path) -> bool:
    return (path / "machine.csv").is_file()


def _machine(path: Path, other: Path, data: Path) -> Path:
    """Return the machine's folder that a path is, or the one in it that the other path is or has too."""
    if _is_machine(path):
        return path
    names = machine_names(path)
    if not names:
        remedy = f"name one{did_you_mean(str(path), machine_names(data))}"
        raise UserError(f"{path} is neither a machine's folder, with a machine.csv in it, nor a data folder; {remedy}")
    others = [other.resolve().name] if _is_machine(other) else machine_names(other)
    candidates = [path / "machines" / name for name in [name for name in names if name in others] or names]
    if len(candidates) > 1:
        listed = ", ".join(folder.name for folder in candidates)
        raise UserError(f"{path} has {listed}; name the one to compare with {other}, as {candidates[0]}")
    return candidates[0]


def _read(folder: Path, identity: str) -> Side:
    """Read the environment whose id begins with ``identity``, or the newest if that is empty."""
    machine = MachineFolder(folder.parent, folder.name, folder)  # wherever it lies
    environment = machine.newest_environment()
    if identity:
        rows = machine.rows(Environment)
        fitting = [row for row in rows if row.environment_id.startswith(identity)]
        if len(fitting) != 1:
            ids = ", ".join(row.environment_id for row in rows)
            raise UserError(f"{folder}: {identity!r} does not select one environment; name one of {ids}")
        (environment,) = fitting

    kernels: dict[RoofKernel, list[RoofMeasurement]] = defaultdict(list)
    for row in machine.rows(RoofMeasurement):
        if row.environment_id == environment.environment_id:
            kernels[RoofKernel(row.roof_kernel, row.size, row.precision, row.pace)].append(row)
    runs = [row for row in machine.rows(Run) if row.environment_id == environment.environment_id]
    rounds = group_rounds(runs, machine.rows(Sample, runs))
    cells = {cell: comparison.of_cell(found) for cell, found in rounds.items()}
    return Side(folder, environment, cells, {kernel: comparison.of_roof(found) for kernel, found in kernels.items()})


def report(a: Side, b: Side, rows: Sequence[ComparedRow], *, as_markdown: bool = False) -> list[str]:
    """Return the sides, the tables and the rows that these leave out as lines of text or Markdown."""
    bullet, table = ("- ", markdown) if as_markdown else ("", aligned)
    lines = []
    for name, side in (("A", a), ("B", b)):
        environment = side.environment
        where, since = f"{side.folder}@{environment.environment_id}", environment.recorded_at[:10]
        lines.append(f"{bullet}{name}: {environment.label}, {where}, first measured {since}")
    pairs = [(name, getattr(a.environment, name), getattr(b.environment, name)) for name in ENVIRONMENT]
    changes = [f"{name} {old or 'none'} -> {new or 'none'}" for name, old, new in pairs if old != new]
    lines.append(f"{bullet}Changed: {', '.join(changes) or 'nothing that the environment records'}")
    for name, head in HEADS.items():
        of_table = [row for row in rows if row.table == name]
        cells = [_cells(row) for row in of_table if row.ratio is not None]
        if cells:
            lines += ["", *table([head, *cells], NUMBERS)]
        if of_table:
            lines.append("")
        lines += [re.sub(r"(?=\S)", bullet, line, count=1) for line in summary(of_table)]
    return lines


def _cells(row: ComparedRow) -> list[str]:
    has_one_process = row.basis == PROCESS and row.change in (SLOWER, FASTER)
    return [
        *("" if part is None else str(part) for part in row.key),
        latency(row.a.latency_s or 0.0),
        latency(row.b.latency_s or 0.0),
        f"{row.ratio:.3f}",
        "" if row.ratio_low is None else f"{row.ratio_low:.3f} to {row.ratio_high:.3f}",
        (row.change or "not tested") + (" in one process" if has_one_process else ""),
        ", ".join(f"{name}: {side.flags}" for name, side in (("A", row.a), ("B", row.b)) if side.flags),
    ]


def summary(rows: Sequence[ComparedRow]) -> list[str]:
    """Count the changes of cells or of roofs, and name the rows with a result on one side only."""
    thing = "cell" if rows and rows[0].table == RUNS else "roof"

    def count(number: int) -> str:
        return f"{number} {thing}{'' if number == 1 else 's'}"

    lines = []
    compared = [row for row in rows if row.ratio is not None]
    if compared:
        changes = [row.change for row in compared]
        counts = ", ".join(f"{changes.count(change)} {change}" for change in (SLOWER, FASTER, WITHIN_ERROR))
        mean = geometric_mean(row.ratio for row in compared if row.ratio)
        lines.append(f"{count(len(compared))} compared: {counts}; geometric mean of B/A {mean:.3f}")
    for caveat, how in CAVEATS.items():
        if affected := sum(caveat in f"{row.basis} {row.a.flags} {row.b.flags}" for row in compared):
            lines.append(f"{count(affected)} measured {how}")
    groups: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row.ratio is None:
            title, details = _gap(row)
            groups[title].append(row.key.describe() + details)
    for title, names in sorted(groups.items()):
        lines += [f"{count(len(names))} {title}:", *(f"  {name}" for name in names[:MOST_NAMED])]
        if len(names) > MOST_NAMED:
            lines.append(f"  and {len(names) - MOST_NAMED} more; --csv names all")
    return lines


def _gap(row: ComparedRow) -> tuple[str, str]:
    """Return why a row has no ratio, and the details."""
    a, b = row.a, row.b
    if not row.has_one_input_shape:
        shapes = f": {a.input_shape} in A, {b.input_shape} in B"
        return "not compared, with inputs of another shape on each side", shapes
    if a.status is None or b.status is None:
        return f"only in {'A' if b.status is None else 'B'}", ""
    if (a.status == "ok") == (b.status == "ok"):
        return "without a result on both sides", ""
    name, side, other = ("A", a, "B") if b.status == "ok" else ("B", b, "A")
    return f"without a result in {name}, with one in {other}", f": {side.status}, {side.reason}"
