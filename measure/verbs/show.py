"""The contents of the cache: ``measure show``."""

import argparse
import json
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from measure.cache.folders import Folder, MachineFolder, Workloads, machine_names
from measure.cache.traces import StoredTrace, read_trace, trace_names
from measure.domain.cautions import flag_warnings
from measure.domain.cell import Cell
from measure.domain.groups import CollectiveCell, DataParallelCell, bus_byte_per_s, group_rows, summarise_rounds
from measure.domain.latency import TimedCell
from measure.domain.records import CollectiveMeasurement, DataParallelStep, Environment, KernelCounters
from measure.domain.values import latency, plain, si
from measure.domain.words import INFERENCE, STAGES, STEP
from measure.domain.workload_records import WORKLOAD, Workload
from measure.errors import UserError, as_called, chosen
from measure.predicting.records import COUNTED
from measure.verbs.flags import Verbs, add_formats, add_verb, no_measurements
from measure.verbs.terminal import Line, Table, aligned, interval, markdown, text, write_csv
from roofwright.command_line import data_flag

COUNTERS = {  # the columns that add up to each amount
    "kernels": (("calls",), ""), "kernel time": (("time_s",), "s"), "read": (("dram_read_byte",), "B"),
    "written": (("dram_write_byte",), "B"), "FLOP": (("fp64_flop", "fp32_flop", "fp16_flop"), "FLOP"),
    "of tensor cores": (("tensor_flop",), "FLOP"),
}  # fmt: skip
ENERGIES = {"energy/input": "joule_per_input", "energy/token": "joule_per_token"}  # columns, if a device reports it
NUMBERS = ("batch", "latency", "95 % interval", "inputs/s", "tokens/s", *ENERGIES, "rounds")
GROUP_NUMBERS = ("batch", "message_byte", "processes", "latency", "95 % interval", "rounds")
COUNTS = {  # the columns of counts, with their unit
    "parameters": ("parameter_count", ""), "FLOP": ("forward_flop", "FLOP"),
    "other FLOP": ("forward_other_flop", "FLOP"), "traffic": ("traffic_byte", "B"),
    "memory": ("inference_peak_byte", "B"), "backward FLOP": ("backward_flop", "FLOP"),
    "backward traffic": ("backward_traffic_byte", "B"), "training memory": ("training_peak_byte", "B"),
}  # fmt: skip


def add_verbs(verbs: Verbs) -> None:
    flags = add_verb(verbs, "show", show)
    flags.add_argument("models", nargs="*", metavar="MODEL", help="names, or globs such as 'vgg*' (default: all)")
    flags.add_argument("--machine", nargs="+", metavar="NAME", help="the machines' folders (default: all)")
    text = "list the stages of training steps too: forward pass with loss, backward pass, optimiser's update"
    flags.add_argument("--stages", action="store_true", help=text)
    formats = {"--json": "print JSON instead of a table (docs/json.md)", "--markdown": "print the tables as Markdown"}
    add_formats(flags, formats | {"--csv": "print all machines' cells as one table of CSV"})


def show(flags: argparse.Namespace) -> int:
    """Show the cells of each machine in the cache, with the median latency over their rounds, its 95 % interval and
    its flags. Only the newest environment of a machine is shown. With a choice of models their counts follow, also of
    models that were only counted, such as by predict; with no machine in the cache, all counts follow. Without a
    choice of models or machines, imported traces follow.
    """
    names = machine_names(flags.data)
    traces = [] if flags.models or flags.machine else [read_trace(flags.data, name) for name in trace_names(flags.data)]
    counts = read_counts(flags.data) if not flags.machine and (flags.models or not names) else []
    if not names and not traces and not counts:
        raise no_measurements(flags.data)
    machines, workloads = [], Workloads(flags.data)
    codes, phases = workloads.codes(), (INFERENCE, STEP, *(STAGES if flags.stages else ()))
    for name in sorted(chosen("--machine", flags.machine or names, names)):
        folder = MachineFolder(flags.data, name)
        environment = folder.newest_environment()
        machines.append((folder, environment, folder.cells(environment, codes, phases=phases)))
    _warn_of_torn_rows([*(folder for folder, *_ in machines), *workloads.folders()])
    steps = {folder.name: folder.rows_in(environment, DataParallelStep) for folder, environment, _ in machines}
    counters = {folder.name: folder.rows_in(environment, KernelCounters) for folder, environment, _ in machines}
    if flags.models:
        measured = {row.model for *_, cells in machines for row in cells}
        measured |= {row.model for found in (*steps.values(), *counters.values()) for row in found}
        there = measured | {row.model for row in counts}
        if not there:  # such as roofs alone
            how = f"{as_called('measure')} --models NAME{data_flag(flags.data)}"
            raise UserError(f"MODEL: no model was measured or counted yet in {flags.data}; run {how} first")
        wanted = chosen("MODEL", flags.models, there)
        counts = [row for row in counts if row.model in wanted]
        for *_, cells in machines:
            cells[:] = [cell for cell in cells if cell.model in wanted]
        steps = {name: [row for row in found if row.model in wanted] for name, found in steps.items()}
        counters = {name: [row for row in found if row.model in wanted] for name, found in counters.items()}
        machines = [each for each in machines if each[-1] or steps[each[0].name] or counters[each[0].name]]
    if flags.json:
        records = [
            {
                "folder": str(folder.folder),
                "environment": asdict(environment),
                "cells": list(map(asdict, cells)),
                "hardware_counters": [*map(asdict, counters[folder.name])],
                "collectives": collectives_as_json(folder.rows_in(environment, CollectiveMeasurement)),
                "data_parallel_steps": steps_as_json(steps[folder.name]),
            }
            for folder, environment, cells in machines
        ]
        listed = [
            {"trace": each.name, "network": first.network, "chip": first.chip, "step_s": each.step_s}
            for each in traces
            for first in each.devices[:1]
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
        parts = []
        for folder, environment, cells in machines:
            lines = cell_lines(folder, environment, cells, table) + step_lines(steps[folder.name], table)
            if not flags.models:
                lines += collective_lines(folder.rows_in(environment, CollectiveMeasurement), table)
            parts.append(lines + counter_lines(counters[folder.name], table))
        parts += [count_lines(counts, table)] if counts else []
        parts += [trace_lines(traces, table)] if traces else []
        print("\n\n".join(map("\n".join, parts)))
    return 0


def _warn_of_torn_rows(folders: Iterable[Folder]) -> None:
    """Name the tables with an incomplete last row, which every reader leaves out."""
    for path in (path for folder in folders for path in folder.paths.values() if path.exists()):
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1))
            if size and file.read() != b"\n":
                print(f"{path}: the last row is incomplete (a killed command left it) and left out", file=sys.stderr)


def cell_lines(folder: MachineFolder, environment: Environment, cells: Sequence[TimedCell], table: Table) -> list[str]:
    tokens = ["tokens/s"] if any(cell.tokens_per_s is not None for cell in cells) else []
    spent = [name for name, column in ENERGIES.items() if any(getattr(cell, column) is not None for cell in cells)]
    rows: list[Line] = [(*Cell._fields, "latency", "95 % interval", "inputs/s", *tokens, *spent, "rounds", "flags")]
    failed, flags = [], []
    for cell in cells:
        if cell.latency_s is None:
            if cell.phase not in STAGES:  # they fail as their step does
                failed.append(f"{Cell.of(cell).describe()}: {cell.status}, {cell.reason}")
            continue
        rates = [text(rate, plain) for rate in (cell.inputs_per_s, cell.tokens_per_s)[: 1 + len(tokens)]]
        lead = *map(str, Cell.of(cell)), latency(cell.latency_s), interval(cell)
        energies = [text(getattr(cell, ENERGIES[name]), partial(si, unit="J")) for name in spent]
        rows.append([*lead, *rates, *energies, str(cell.rounds), ", ".join(cell.flags)])
        flags.append(cell.flags)
    lines = [f"{environment.label}, {folder.folder}", ""]
    lines += table(rows, NUMBERS) if flags else ["No latency was measured on it."]
    bullet = "- " if table is markdown else ""
    for group in (failed, flag_warnings(flags)):
        lines += ["", *(bullet + line for line in group)] if group else []
    return lines


def read_counts(data: Path) -> list[Workload]:
    """Return the counts of runs and predictions, each workload once."""
    rows = [row for place in (COUNTED, "workload") for row in Workloads(data, place).rows(Workload)]
    return sorted({attrgetter(*WORKLOAD)(row): row for row in rows}.values(), key=lambda row: (row.model, row.batch))


def count_lines(counts: Sequence[Workload], table: Table) -> list[str]:
    rows: list[Line] = [("model", "input", "batch", "precision", *COUNTS)]
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


def counter_lines(counted: Iterable[KernelCounters], table: Table) -> list[str]:
    """Return a table of the hardware counters of each call, summed over its kernels; empty without any."""
    calls: dict[Cell, list[KernelCounters]] = defaultdict(list)
    for row in counted:
        calls[Cell.of(row)].append(row)
    rows: list[Line] = [(*Cell._fields, *COUNTERS)]
    for cell, kernels in calls.items():
        amounts = []
        for columns, unit in COUNTERS.values():
            values = [getattr(kernel, column) for kernel in kernels for column in columns]
            amounts.append("" if None in values else si(sum(values), unit))
        rows.append([*map(str, cell), *amounts])
    title = "Hardware counters of a call, all kernels together:"
    return ["", title, "", *table(rows, ("batch", *COUNTERS))] if calls else []


def collectives_as_json(rows: Sequence[CollectiveMeasurement]) -> list[dict[str, Any]]:
    found = []
    for cell, rounds in sorted(group_rows(rows, CollectiveCell.of).items()):
        time = summarise_rounds(rounds)
        rate = time.latency_s and bus_byte_per_s(cell.collective, cell.processes, cell.message_byte, time.latency_s)
        found.append(cell._asdict() | asdict(time) | {"bus_byte_per_s": rate})
    return found


def steps_as_json(rows: Sequence[DataParallelStep]) -> list[dict[str, Any]]:
    groups = sorted(group_rows(rows, DataParallelCell.of).items())
    byte = {cell: next((row.gradient_byte for row in rounds if row.gradient_byte), None) for cell, rounds in groups}
    return [
        cell._asdict() | asdict(summarise_rounds(rounds)) | {"gradient_byte": byte[cell]} for cell, rounds in groups
    ]


def collective_lines(rows: Sequence[CollectiveMeasurement], table: Table) -> list[str]:
    title = "Collectives; bus is the bandwidth as nccl-tests defines it:"
    rate = "bus", "bus_byte_per_s", partial(si, unit="B/s")
    return _group_lines(title, CollectiveCell._fields, *rate, collectives_as_json(rows), table)


def step_lines(rows: Sequence[DataParallelStep], table: Table) -> list[str]:
    title = "Data-parallel training steps; what communication costs is the difference of overlapped and none:"
    sent = "gradients", "gradient_byte", partial(si, unit="B")
    return _group_lines(title, DataParallelCell._fields, *sent, steps_as_json(rows), table)


def _group_lines(
    title: str, names: Sequence[str], head: str, column: str, form: Callable[[Any], str],
    found: Sequence[Mapping[str, Any]], table: Table,
) -> list[str]:  # fmt: skip
    """Return a table of the times of groups, with a ``column`` of their own under ``head``; empty without any."""
    if not found:
        return []
    rows: list[Line] = [(*names, head, "latency", "95 % interval", "rounds", "flags")]
    for each in found:
        low, high = each["latency_low_s"], each["latency_high_s"]
        ends = f"{latency(low)} to {latency(high)}" if low is not None and high is not None else ""
        times = text(each["latency_s"], latency) or each["status"], ends, str(each["rounds"]), ", ".join(each["flags"])
        rows.append([*(str(each[name]) for name in names), text(each[column], form), *times])
    reasons = dict.fromkeys(f"{each['status']}: {each['reason']}" for each in found if each["latency_s"] is None)
    return ["", title, "", *table(rows, (*GROUP_NUMBERS, head)), *(["", *reasons] if reasons else [])]


def trace_lines(traces: Sequence[StoredTrace], table: Table) -> list[str]:
    rows: list[Line] = [("trace", "network", "chip", "step")]
    for each in traces:
        first = each.devices[0]
        rows.append((each.name, first.network or "", first.chip or first.device_name or "", text(each.step_s, latency)))
    return [f"Traces; {as_called('measure trace NAME')} prints one", "", *table(rows, ("step",))]
