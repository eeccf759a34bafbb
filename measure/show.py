"""The command ``python -m measure show``: the cells in the cache, each with its latency and its interval."""

import csv
import dataclasses
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

from measure.cache.folders import MachineFolder, machine_names
from measure.cache.records import Environment
from measure.cache.table import as_text
from measure.cli.flags import CommandLine, check_one_output, data_flag
from measure.cli.quantities import latency, plain
from measure.cli.suggestion import chosen, unknown
from measure.cli.tables import aligned, markdown
from measure.domain.cells import TimedCell, timed_cells
from measure.errors import UserError
from measure.run.destination import check_folder

HEAD = ("model", "batch", "precision", "phase", "variant", "latency", "95 % interval", "inputs/s", "rounds", "flags")
NUMBERS = ("batch", "latency", "95 % interval", "inputs/s", "tokens/s", "rounds")
TOKENS = "tokens/s"
"""A column beside that of inputs, where a language model was timed."""

Machine = tuple[MachineFolder, Environment, list[TimedCell]]


def parser() -> CommandLine:
    flags = CommandLine(
        prog="python -m measure show",
        description="Show what the cache holds of each machine: its cells, with the median latency over their rounds, "
        "its 95 % interval and what is held against them. Of a machine that was measured in several environments the "
        "newest is shown.",
    )
    flags.add_argument("models", nargs="*", metavar="MODEL", help="names, or globs such as 'vgg*' (default: all)")
    flags.add_argument("--machine", nargs="+", metavar="NAME", help="the machines' folders (default: all)")
    flags.add_argument("--json", action="store_true", help="print JSON instead of a table (docs/json.md)")
    flags.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    flags.add_argument("--csv", action="store_true", help="print all machines' cells as one table of CSV")
    flags.add_argument("--data", type=Path, default=Path("data"), help="the cache's folder (default: %(default)s)")
    return flags


def main(argv: Sequence[str]) -> int:
    """Return exit code 0. Raises UserError for bad input."""
    asked = parser().parse_args(argv)
    check_one_output({"--json": asked.json, "--markdown": asked.markdown, "--csv": asked.csv})
    check_folder(asked.data, "--data")
    machines = _chosen(_machines(asked.data, asked.machine), asked.models)
    if asked.json:
        print(json.dumps(as_json(machines), indent=2, allow_nan=False))
    elif asked.csv:
        write_csv(sys.stdout, machines)
    else:
        print("\n\n".join("\n".join(_lines(machine, asked.markdown)) for machine in machines))
    return 0


def _machines(data: Path, names: Sequence[str] | None) -> list[Machine]:
    """Read the machines of these names, or all. Raises UserError for a name that is none, and where there is none."""
    known = machine_names(data)
    for name in names or ():
        if name not in known:
            raise unknown("--machine", name, known)
    if not known:
        raise UserError(f"--data: {data} holds no machine; measure one with python -m measure{data_flag(data)}")
    folders = [MachineFolder(data, name) for name in names or known]
    environments = [folder.newest_environment() for folder in folders]
    return [(folder, each, timed_cells(folder, each)) for folder, each in zip(folders, environments, strict=True)]


def _chosen(machines: list[Machine], patterns: Sequence[str]) -> list[Machine]:
    """Return the machines with their cells of some models. Raises UserError for a pattern that fits no model's name."""
    if not patterns:
        return machines
    wanted = chosen("MODEL", patterns, {cell.model for _, _, cells in machines for cell in cells})
    kept = [(folder, each, [cell for cell in cells if cell.model in wanted]) for folder, each, cells in machines]
    return [machine for machine in kept if machine[-1]]


def _lines(machine: Machine, as_markdown: bool) -> list[str]:
    """Return a machine's table with its title, and the cells without a result below it."""
    folder, environment, cells = machine
    timed = [cell for cell in cells if cell.latency_s is not None]
    has_tokens = any(cell.tokens_per_s is not None for cell in timed)
    at = HEAD.index("rounds")
    rows = [(*HEAD[:at], TOKENS, *HEAD[at:]) if has_tokens else HEAD, *(_row(cell, has_tokens) for cell in timed)]
    table = (markdown if as_markdown else aligned)(rows, NUMBERS) if timed else ["No cell of it has a result."]
    failed = [f"{cell.cell.describe()}: {cell.status}, {cell.reason}" for cell in cells if cell.latency_s is None]
    mark = "- " if as_markdown else ""
    return [
        f"{environment.label}, {folder.folder}",
        "",
        *table,
        *([""] if failed else []),
        *(mark + line for line in failed),
    ]


def _row(cell: TimedCell, has_tokens: bool) -> tuple[str, ...]:
    assert cell.latency_s is not None
    assert cell.inputs_per_s is not None
    known = cell.latency_low_s is not None and cell.latency_high_s is not None
    interval = f"{latency(cell.latency_low_s or 0)} to {latency(cell.latency_high_s or 0)}" if known else ""
    labels = (cell.model, str(cell.batch), cell.precision, cell.phase, cell.variant)
    tokens = ["" if cell.tokens_per_s is None else plain(cell.tokens_per_s)] if has_tokens else []
    return (
        *labels, latency(cell.latency_s), interval, plain(cell.inputs_per_s), *tokens, str(cell.rounds),
        ", ".join(cell.flags),
    )  # fmt: skip


def as_json(machines: Iterable[Machine]) -> dict[str, Any]:
    return {
        "machines": [
            {
                "folder": str(folder.folder),
                "environment": dataclasses.asdict(environment),
                "cells": [dataclasses.asdict(cell) for cell in cells],
            }
            for folder, environment, cells in machines
        ]
    }


def write_csv(file: TextIO, machines: Iterable[Machine]) -> None:
    """Write all cells, with every column and the machine's folder first; an empty cell is an unknown value."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["machine", *(field.name for field in dataclasses.fields(TimedCell))])
    for folder, _, cells in machines:
        for cell in cells:
            values = dataclasses.asdict(cell) | {"flags": ";".join(cell.flags)}
            writer.writerow([folder.name, *map(as_text, values.values())])
