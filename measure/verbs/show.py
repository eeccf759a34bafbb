"""The cache and this machine, looked after: ``measure show``, ``forget``, ``fit`` and ``doctor``."""

import argparse
import json
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from measure.cache import table
from measure.cache.folders import PARENTS, Folder, MachineFolder, Workloads, machine_names
from measure.cache.traces import StoredTrace, read_trace, trace_names
from measure.domain.cell import Cell
from measure.domain.latency import TimedCell
from measure.domain.records import Environment, HardwareCounterProfile, KernelCounters, Profile, Run
from measure.domain.schema import file_of
from measure.domain.values import latency, percent, plain, si
from measure.domain.words import FULL_PRECISION
from measure.domain.workload_records import WORKLOAD, Workload
from measure.errors import UserError, as_called, chosen, printable
from measure.predicting import records as predictions
from measure.predicting.records import COUNTED, Coefficient, NetworkFactor, PredictionError
from measure.verbs.flags import Verbs, add_formats, add_verb, check_writable, no_measurements
from measure.verbs.terminal import Table, aligned, markdown, text, write_csv
from roofwright.command_line import data_flag

COUNTERS = {  # the columns that add up to each amount
    "kernels": (("calls",), ""), "kernel time": (("time_s",), "s"), "read": (("dram_read_byte",), "B"),
    "written": (("dram_write_byte",), "B"), "FLOP": (("fp64_flop", "fp32_flop", "fp16_flop"), "FLOP"),
    "of tensor cores": (("tensor_flop",), "FLOP"),
}  # fmt: skip
NUMBERS = ("batch", "latency", "95 % interval", "inputs/s", "tokens/s", "rounds")
COUNTS = {  # the columns of counts, with their unit
    "parameters": ("parameter_count", ""),
    "FLOP": ("forward_flop", "FLOP"),
    "other FLOP": ("forward_other_flop", "FLOP"),
    "traffic": ("traffic_byte", "B"),
    "memory": ("inference_peak_byte", "B"),
    "backward FLOP": ("backward_flop", "FLOP"),
    "backward traffic": ("backward_traffic_byte", "B"),
    "training memory": ("training_peak_byte", "B"),
}
WORDS = {
    Run: "rounds",
    Profile: "profiles",
    HardwareCounterProfile: "profiles under hardware counters",
    Workload: "counts",
}
PARTS = "rows left by a killed command"
HEAD = ("left out", "device", "precision", "variant", "phase", "latencies", "median error", "9 in 10 within", "covered")


def add_verbs(verbs: Verbs) -> None:
    """Declare show, forget, fit and doctor."""
    about = (
        "Show what the cache holds of each machine: its cells, with the median latency over their rounds, its 95 % "
        "interval and its flags. Only the newest environment of a machine is shown. With a choice of models their "
        "counts follow, also of models that were only counted, such as by predict; with no machine in the cache, all "
        "counts follow. Without a choice of models or machines, imported traces follow."
    )
    flags = add_verb(verbs, "show", show, about)
    flags.add_argument("models", nargs="*", metavar="MODEL", help="names, or globs such as 'vgg*' (default: all)")
    flags.add_argument("--machine", nargs="+", metavar="NAME", help="the machines' folders (default: all)")
    formats = {"--json": "print JSON instead of a table (docs/json.md)", "--markdown": "print the tables as Markdown"}
    add_formats(flags, formats | {"--csv": "print all machines' cells as one table of CSV"})
    about = (
        "Remove the measurements of models on every machine, and their counts, from the cache. With --machine, remove "
        "only the measurements on that machine. Only measuring again brings them back."
    )
    add = add_verb(verbs, "forget", forget, about).add_argument
    add("models", nargs="+", metavar="MODEL", help="names, or globs such as 'mine:*'")
    add("--machine", nargs="+", metavar="NAME", help="the machines' folders (default: all, and counts)")
    add("--plan", action="store_true", help="print what would go, and remove nothing")
    about = (
        "Fit the model of latencies to the published measurements and the cache's own machines, predict the calls that "
        "each fit leaves out, and write the tables of data/prediction for predict and the paper."
    )
    add_verb(verbs, "fit", fit, about)
    about = (
        "Check this machine for causes of bad measurements, and say how to fix them. Nothing is measured or changed. A "
        "warning shifts figures or widens their intervals; a problem spoils or prevents them. The exit code is 1 if "
        "there is a problem."
    )
    flags = add_verb(verbs, "doctor", doctor, about)
    flags.add_argument("--json", action="store_true", help="print JSON instead of lines")


def show(flags: argparse.Namespace) -> int:
    """Return exit code 0. Raises UserError for bad input."""
    names = machine_names(flags.data)
    traces = [] if flags.models or flags.machine else [read_trace(flags.data, name) for name in trace_names(flags.data)]
    counts = counted(flags.data) if not flags.machine and (flags.models or not names) else []
    if not names and not traces and not counts:
        raise no_measurements(flags.data)
    machines, codes = [], Workloads(flags.data).codes()
    for name in sorted(chosen("--machine", flags.machine or names, names)):
        folder = MachineFolder(flags.data, name)
        environment = folder.newest_environment()
        machines.append((folder, environment, folder.cells(environment, codes)))
    if flags.models:
        known = {row.model for *_, cells in machines for row in cells} | {row.model for row in counts}
        wanted = chosen("MODEL", flags.models, known)
        counts = [row for row in counts if row.model in wanted]
        for *_, cells in machines:
            cells[:] = [cell for cell in cells if cell.model in wanted]
        machines = [machine for machine in machines if machine[-1]]
    if flags.json:
        records = [
            {
                "folder": str(folder.folder),
                "environment": asdict(environment),
                "cells": list(map(asdict, cells)),
                "hardware_counters": [asdict(each) for each in folder.rows(KernelCounters) if is_of(environment, each)],
            }
            for folder, environment, cells in machines
        ]
        listed = [
            {
                "trace": each.name,
                "network": each.devices[0].network,
                "chip": each.devices[0].chip,
                "step_s": each.step_s,
            }
            for each in traces
        ]
        found = {"machines": records, "counts": [*map(asdict, counts)], "traces": listed}
        print(json.dumps(found, indent=2, allow_nan=False))
    elif flags.csv:
        if counts and not machines:
            raise UserError("--csv: prints latencies, and these models were only counted; use --json for their counts")
        columns = ["machine", *(field.name for field in fields(TimedCell))]
        rows = [
            {"machine": folder.name} | asdict(cell) | {"flags": ";".join(cell.flags)}
            for folder, _, cells in machines
            for cell in cells
        ]
        write_csv(sys.stdout, rows, columns)
    else:
        table = markdown if flags.markdown else aligned
        parts = [
            cell_lines(*machine, table) + ([] if flags.models else counter_lines(*machine[:2], table))
            for machine in machines
        ]
        parts += [count_lines(counts, table)] if counts else []
        parts += [trace_lines(traces, table)] if traces else []
        print("\n\n".join(map("\n".join, parts)))
    return 0


def cell_lines(folder: MachineFolder, environment: Environment, cells: Sequence[TimedCell], table: Table) -> list[str]:
    """Return a machine's table with its title, and the cells without a result below it."""
    tokens = ["tokens/s"] if any(cell.tokens_per_s is not None for cell in cells) else []
    rows: list[Sequence[str]] = [(*Cell._fields, "latency", "95 % interval", "inputs/s", *tokens, "rounds", "flags")]
    failed = []
    for cell in cells:
        if cell.latency_s is None:
            bullet = "- " if table is markdown else ""
            failed.append(f"{bullet}{Cell.of(cell).describe()}: {cell.status}, {cell.reason}")
            continue
        bounds = (cell.latency_low_s, cell.latency_high_s)
        is_range = bounds[0] is None and cell.rounds > 1
        bounds = (cell.latency_least_s, cell.latency_most_s) if is_range else bounds
        ends = " to ".join(latency(end) for end in bounds if end is not None) + (" (range)" if is_range else "")
        rates = [text(rate, plain) for rate in (cell.inputs_per_s, cell.tokens_per_s)[: 1 + len(tokens)]]
        lead = *map(str, Cell.of(cell)), latency(cell.latency_s), ends
        rows.append([*lead, *rates, str(cell.rounds), ", ".join(cell.flags)])
    lines = table(rows, NUMBERS) if len(rows) > 1 else ["No latency was measured on it."]
    return [f"{environment.label}, {folder.folder}", "", *lines, *(["", *failed] if failed else [])]


def counted(data: Path) -> list[Workload]:
    """Return what was counted, for a run or a prediction, each workload once."""
    rows = [row for place in (COUNTED, "workload") for row in Workloads(data, place).rows(Workload)]
    return sorted({attrgetter(*WORKLOAD)(row): row for row in rows}.values(), key=lambda row: (row.model, row.batch))


def count_lines(counts: Sequence[Workload], table: Table) -> list[str]:
    """Return counts as a table with its title, and what could not be counted below it."""
    rows: list[Sequence[str]] = [("model", "input", "batch", "precision", *COUNTS)]
    failed = []
    for row in counts:
        how = row.precision if row.autocast is None else f"{row.precision}, autocast on {row.autocast}"
        if row.status != "ok":
            failed.append(f"{row.model}, batch {row.batch}, {how}: {row.status}, {row.reason}")
            continue
        cells = (text(getattr(row, name), partial(si, unit=unit)) for name, unit in COUNTS.values())
        rows.append((row.model, row.input_shape, str(row.batch), how, *cells))
    lines = table(rows, ("batch", *COUNTS)) if len(rows) > 1 else []
    return ["Counts of a call as this program runs it", "", *lines, *([""] if lines and failed else []), *failed]


def is_of(environment: Environment, row: KernelCounters) -> bool:
    return row.environment_id == environment.environment_id


def counter_lines(folder: MachineFolder, environment: Environment, table: Table) -> list[str]:
    """Return a table of what hardware counters counted in one call, summed over its kernels; empty without any."""
    calls: dict[Cell, list[KernelCounters]] = {}
    for row in folder.rows(KernelCounters):
        if is_of(environment, row):
            calls.setdefault(Cell.of(row), []).append(row)
    rows: list[Sequence[str]] = [(*Cell._fields, *COUNTERS)]
    for cell, kernels in calls.items():
        amounts = []
        for columns, unit in COUNTERS.values():
            values = [getattr(kernel, column) for kernel in kernels for column in columns]
            amounts.append("" if None in values else si(sum(values), unit))
        rows.append([*map(str, cell), *amounts])
    title = "Hardware counters of a call, all kernels together:"
    return ["", title, "", *table(rows, ("batch", *COUNTERS))] if calls else []


def trace_lines(traces: Sequence[StoredTrace], table: Table) -> list[str]:
    """Return the imported traces as a table with its title."""
    rows: list[Sequence[str]] = [("trace", "network", "chip", "step")]
    for each in traces:
        first = each.devices[0]
        rows.append((each.name, first.network or "", first.chip or first.device_name or "", latency(each.step_s)))
    return [f"Traces; {as_called('measure trace NAME')} prints one", "", *table(rows, ("step",))]


def forget(flags: argparse.Namespace) -> int:
    """Return exit code 0. Raises UserError for bad input, before anything is removed."""
    known = machine_names(flags.data)
    named = chosen("--machine", flags.machine or known, known)
    folders = [MachineFolder(flags.data, name) for name in known if name in named]
    workloads = Workloads(flags.data)
    of_models: list[tuple[Folder, Path]] = [(folder, folder.folder) for folder in folders]
    if not flags.machine:
        of_models += [(folder, workloads.folder) for folder in workloads.folders()]
    # Also parts whose round, profile or count is gone: a forget that was killed leaves them
    tables = [
        (place, WORDS.get(record, PARTS), table.columns(path, record, only=["model"])["model"])
        for folder, place in of_models
        for record, path in folder.paths.items()
        if record in {*PARENTS, *PARENTS.values()}
    ]
    models = chosen("MODEL", flags.models, {model for _, _, found in tables for model in found})
    removed: dict[Path, Counter[str]] = defaultdict(Counter)
    for place, word, found in tables:
        removed[place][word] += sum(model in models for model in found)
    for place, counts in removed.items():
        parts = counts.pop(PARTS)
        if listed := [f"{word}: {count}" for word, count in counts.items() if count] or [f"{PARTS}: {parts}"] * (
            parts > 0
        ):
            print(f"{place}: {', '.join(listed)}")
    if not flags.plan:
        for folder in folders:
            with folder.locked():
                folder.leave_out(models)
        if not flags.machine:
            workloads.leave_out(models)
    print(f"{'Would forget' if flags.plan else 'Forgot'} {', '.join(map(printable, sorted(models)))}")
    return 0


def fit(flags: argparse.Namespace) -> int:
    """Return exit code 0. Raises UserError for bad input, and without a call that is both timed and counted."""
    from measure.predicting import timings
    from measure.predicting.study import study

    calls = timings.read(flags.data)
    if not calls:
        lack = "holds no latency of a counted model on a device with known roofs"
        raise UserError(f"--data: {flags.data} {lack}; measure one with {as_called('measure')}{data_flag(flags.data)}")
    check_writable(flags.data)
    path = file_of(PredictionError, flags.data)
    with table.held(path.parent / table.NAME, f"is fitting in {path.parent}; wait for it or name another --data"):
        costs = timings.launch_costs(calls)
        coefficients, networks, errors = study(calls, costs, lambda name: print(name, file=sys.stderr))
        written = (Coefficient, coefficients), (NetworkFactor, networks), (PredictionError, errors)
        for record, rows in written:
            table.write(file_of(record, flags.data), record, [_round(row) for row in rows])
    lines = [
        (
            row.left_out, row.device, row.precision, row.variant, row.phase, str(row.calls), percent(row.median_error),
            percent(row.p90_error), "" if row.coverage is None else percent(row.coverage),
        )
        for row in errors
        if (row.method, row.batches, row.sort) == (predictions.OURS, predictions.ALL, predictions.ALL)
    ]  # fmt: skip
    print("\n".join(aligned([HEAD, *lines], HEAD[5:])))
    return 0


def _round(row: Any) -> Any:
    """Return a row with its floats rounded to five significant digits."""
    floats = {name: float(f"{value:.5g}") for name, value in vars(row).items() if isinstance(value, float)}
    return replace(row, **floats)


def doctor(arguments: argparse.Namespace) -> int:
    """Return 0, or 1 if there is a problem. Raises UserError for bad input."""
    from measure.machine import checks  # late: the other verbs need no psutil

    damage, workloads = [], list[Workload]()
    try:
        workloads = Workloads(arguments.data).rows(Workload)
    except UserError as problem:
        damage = [checks.Finding(checks.PROBLEM, "cache", str(problem))]
    needs = [
        (row.inference_peak_byte, f"{row.model} batch {row.batch} {row.precision}")
        for row in workloads
        if row.inference_peak_byte is not None and row.precision == FULL_PRECISION
    ]
    largest = max(needs)[::-1] if needs else None
    host = checks.check_host(largest)  # before the imports of the libraries, which are load of their own
    tuning = checks.check_tuning(os.environ)
    findings = [*damage, *host, *tuning, *checks.check_libraries(), *checks.check_gpus()]
    if arguments.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2, ensure_ascii=False))
    else:
        width = max(len(finding.subject) for finding in findings)
        for finding in findings:
            advice = f"; {finding.advice}" if finding.advice else ""
            print(f"{finding.level:9}  {finding.subject:{width}}  {finding.fact}{advice}")
    return int(any(finding.level == checks.PROBLEM for finding in findings))
