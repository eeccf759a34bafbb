"""Compare measurements before and after a change, or of two machines: ``measure compare``."""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from measure.cache.folders import MachineFolder, Workloads, machine_names
from measure.cache.traces import trace_names
from measure.domain import comparison
from measure.domain.causes import ProfiledCell, causes, profiled_cell
from measure.domain.cell import Cell
from measure.domain.comparison import RUNS, ComparedRow, RoofKernel, Side
from measure.domain.groups import CollectiveCell, DataParallelCell, group_rows
from measure.domain.growth import CountedRow, compare_counts
from measure.domain.records import (
    CollectiveMeasurement,
    DataParallelStep,
    Environment,
    OperatorTime,
    Profile,
    RoofMeasurement,
    Run,
    Sample,
)
from measure.domain.words import IDLE_POWER, ROOF_KERNELS
from measure.domain.workload_records import Layer, Workload
from measure.errors import UserError, as_called, did_you_mean
from measure.verbs import traces
from measure.verbs.compared import Cause, Compared, overview, report
from measure.verbs.flags import Verbs, add_formats, add_verb, parse_percent
from measure.verbs.terminal import aligned, markdown, name_first, write_csv


def add_verbs(verbs: Verbs) -> None:
    flags = add_verb(verbs, "compare", main)
    add = flags.add_argument
    text = (
        "a machine (its folder, or its name in --data), or a data folder; add @ and an environment's id to choose "
        "another than the newest; or a trace, by its folder in data/traces"
    )
    add("a", metavar="A", help=text)
    add("b", metavar="B", help="the side to compare with A, named alike")
    text = "further sides; one table holds each against A: a row a cell, a column a side"
    add("more", nargs="*", metavar="C", help=text)
    add("--csv", metavar="FILE", help="write all cells and roofs as CSV (- for stdout)")
    formats = {"--json": "print JSON instead of a table (docs/json.md)"}
    formats |= {"--markdown": "print Markdown instead, as for a comment on a change"}
    add_formats(flags, formats)
    text = (
        "for each cell that both sides profiled, which kinds of layer, clock, system time or allocator make the "
        "difference: terms that add up to the measured ratio"
    )
    add("--why", action="store_true", help=text)
    text = "exit with 1 if parameters, FLOP, bytes or peak memory of a model grew, or can no longer be counted"
    add("--fail-on-growth", action="store_true", help=text)
    text = (
        "exit with 1 if a cell became significantly slower by more than this, or no longer runs; a change of less is "
        "not called undecided"
    )
    add("--fail-on-regression", type=parse_percent, metavar="PERCENT", help=text)


def main(flags: argparse.Namespace) -> int:
    """Compare measurements before and after a change (a commit, a driver, another torch), or of two machines. First
    come the counts, which are exact: parameters, FLOP, bytes and peak memory. Then the times, cell by cell; B/A above 1
    means that B takes longer. A change is called slower or faster if it is significant at 5 % after Benjamini and
    Hochberg's correction for the number of cells, and undecided if it is not but could still be 5 %, or if other
    programs used a machine in all rounds. Of two imported traces, which kinds of layer make the difference: terms that
    add up to the ratio of their steps.
    """
    if flags.csv == "-" and (flags.json or flags.markdown):
        other = "--json" if flags.json else "--markdown"
        raise UserError(f"--csv - and {other}: print in different ways; give one of them")
    limit = flags.fail_on_regression
    matters = comparison.MATTERS if limit is None else limit
    if {flags.a, flags.b, *flags.more} <= set(trace_names(flags.data)):
        if flags.more or flags.csv or limit is not None or flags.fail_on_growth:
            raise UserError("two traces are compared, as text, --markdown or --json; leave further names and flags out")
        table = None if flags.json else markdown if flags.markdown else aligned
        print(traces.compared(flags.data, [flags.a, flags.b], table))
        return 0
    compared: list[Compared] = []
    names = (flags.b, *flags.more)
    for name in names:
        a, b = find(flags.a, name, flags.data)
        both = Compared(a, b, comparison.compare(a, b, matters), _counts(a, b), matters=matters)
        is_empty = all(row.ratio is None for row in both.rows) and not both.counts
        if is_empty and (not flags.more or (name == names[-1] and not compared)):
            gap = "have no cell, roof or collective with a result in common"
            raise UserError(f"{flags.a} and {name} {gap}; measure the same models, batch sizes and precisions on both")
        if flags.fail_on_growth and not both.counts:
            gap = f"--fail-on-growth: {flags.a} and {name} have no counts of their own in common"
            raise UserError(f"{gap}; measure each into its own --data with workload among the --sections")
        if flags.why:
            both = replace(both, causes=find_causes(both.rows, a, b))
            if not both.causes:
                gap = f"--why: {flags.a} and {name} have no profiled cell with a latency in common"
                raise UserError(f"{gap}; run {as_called('measure')} --sections inference operators on both")
        compared.append(both)
    lines = [{"b": str(both.b.folder)} | row.columns() for both in compared for row in both.rows]
    columns = list(lines[0])[0 if len(compared) > 1 else 1 :] if lines else []
    if flags.csv == "-":
        write_csv(sys.stdout, lines, columns)
    elif flags.csv:
        try:
            with Path(flags.csv).open("w", newline="", encoding="utf-8") as file:
                write_csv(file, lines, columns)
        except OSError as error:
            raise UserError(f"--csv: {flags.csv} cannot be written ({error.strerror}); name another file") from None
    if flags.json:
        pairs = [both.as_json() for both in compared]
        print(json.dumps(pairs[0] if len(pairs) == 1 else {"pairs": pairs}, indent=2, allow_nan=False))
    elif flags.csv != "-" and flags.more and not flags.why:
        print("\n".join(overview(compared, markdown if flags.markdown else aligned)))
    elif flags.csv != "-":
        print("\n\n".join("\n".join(report(both, as_markdown=flags.markdown)) for both in compared))
    slower = dict.fromkeys(
        row.key.describe() for both in compared for row in both.rows if limit is not None and row.is_regression(matters)
    )
    grown = dict.fromkeys(row.describe() for both in compared for row in both.grown if flags.fail_on_growth)
    if grown:
        print(f"--fail-on-growth: {name_first(list(grown))}", file=sys.stderr)
    if slower:
        print(f"--fail-on-regression {100 * limit:g}%: {', '.join(slower)}", file=sys.stderr)
    return int(bool(grown or slower))


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
    """Read the environment with an id that begins with ``identity``, or the newest if that is empty."""
    machine = _machine_folder(folder)
    environment = machine.newest_environment()
    if identity:
        rows = machine.rows(Environment)
        fitting = [row for row in rows if row.environment_id.startswith(identity)]
        if len(fitting) != 1:
            ids = ", ".join(row.environment_id for row in rows)
            raise UserError(f"{folder}: {identity!r} does not select one environment; name one of {ids}")
        (environment,) = fitting

    kernels: dict[RoofKernel, list[RoofMeasurement]] = defaultdict(list)
    for row in machine.rows_in(environment, RoofMeasurement):
        if ROOF_KERNELS[row.roof_kernel].gives == IDLE_POWER:
            continue  # its time is a wait
        kernels[RoofKernel(row.roof_kernel, row.size, row.precision, row.pace)].append(row)
    rounds = machine.rounds(machine.rows_in(environment, Run))
    cells = {cell: comparison.of_cell(found) for cell, found in rounds.items()}
    roofs = {kernel: comparison.of_roof(found) for kernel, found in kernels.items()}
    collectives = group_rows(machine.rows_in(environment, CollectiveMeasurement), CollectiveCell.of)
    steps = group_rows(machine.rows_in(environment, DataParallelStep), DataParallelCell.of)
    groups = ({key: comparison.of_group(rows) for key, rows in found.items()} for found in (collectives, steps))
    return Side(folder, environment, cells, roofs, *groups)


def _machine_folder(folder: Path) -> MachineFolder:
    """Return a machine wherever its folder lies."""
    return MachineFolder(folder.parent, folder.name, folder)


def _workloads(side: Side) -> Workloads:
    """Return the counts of the data folder that holds a machine, or of an unpacked zip, which brings its own."""
    data = side.folder.resolve().parent.parent
    return Workloads(side.folder if (side.folder / "workload").is_dir() else data)


def _counts(a: Side, b: Side) -> list[CountedRow]:
    """Compare the counts of two data folders; two machines in one folder share them."""
    one, other = _workloads(a), _workloads(b)
    if one.folder.resolve() == other.folder.resolve():
        return []
    return compare_counts(one.rows(Workload), other.rows(Workload))


def find_causes(rows: Sequence[ComparedRow], a: Side, b: Side) -> list[Cause]:
    """Return the causes of each cell that has a latency and a profile on both sides, in the order of the rows."""
    cells = {row.key: row for row in rows if row.table == RUNS and row.ratio is not None}
    layers_a, layers_b = (_workloads(side).rows(Layer) for side in (a, b))
    one = _profiled(a, set(cells), [*layers_b, *layers_a])  # a side's own layers last: they replace the other's
    other = _profiled(b, set(cells), [*layers_a, *layers_b])
    return [
        Cause(row, one[key], other[key], causes(one[key], other[key]))
        for key, row in cells.items()
        if isinstance(key, Cell) and key in one and key in other
    ]


def _profiled(side: Side, cells: Collection[Any], layers: Iterable[Layer]) -> dict[Cell, ProfiledCell]:
    """Return the profiles of these cells, with their latencies on this side."""
    of_model: dict[str, dict[str, Layer]] = defaultdict(dict)
    for layer in layers:
        of_model[layer.model][layer.path] = layer
    machine, environment = _machine_folder(side.folder), side.environment
    rows = machine.rows_in(environment, Profile)
    profiles = {Cell.of(row): row for row in rows if row.status == "ok" and Cell.of(row) in cells}
    operators: dict[Cell, list[OperatorTime]] = defaultdict(list)
    for operator in machine.rows(OperatorTime, profiles.values()):
        operators[Cell.of(operator)].append(operator)
    runs = [row for row in machine.rows_in(environment, Run) if row.status == "ok" and Cell.of(row) in profiles]
    clocks_hz: dict[Cell, list[float]] = defaultdict(list)
    for sample in machine.rows(Sample, runs):
        if sample.clock_hz is not None:
            clocks_hz[Cell.of(sample)].append(sample.clock_hz)
    found = {}
    for cell, profile in profiles.items():
        split = profiled_cell(
            side.cells[cell].latency_s or 0.0,
            profile,
            operators[cell],
            of_model[cell.model].values(),
            threads=environment.threads,
            clocks_hz=clocks_hz[cell],
            is_gpu=environment.device != "cpu",
        )
        if split is not None:
            found[cell] = split
    return found
