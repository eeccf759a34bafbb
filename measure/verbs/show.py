"""``python -m measure show``: the cells in the cache; and the answer about one model, as ``model`` prints it too."""

import csv
import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from measure.cache.folders import MachineFolder, machine_names
from measure.cache.records import Environment, Profile
from measure.cache.table import as_text
from measure.cache.workload_records import Workload
from measure.domain.advice import Advice, advise
from measure.domain.demands import CellDemand, LayerDemand, Reached, bound, costliest, demands, layer_demands, reached
from measure.domain.latency import Cell, TimedCell, read_cells
from measure.domain.roofs import Roof, machine_roof
from measure.domain.values import latency, percent, plain, si
from measure.domain.words import EAGER, FLAGS, INFERENCE, shape_name, stored_as
from measure.errors import UserError, chosen, unknown
from measure.run.request import Request
from measure.run.run_cache import RunCache
from measure.verbs.flags import CommandLine, check_folder, check_one_output, data_flag
from measure.verbs.terminal import Line, aligned, markdown

HEAD = ("model", "batch", "precision", "phase", "variant", "latency", "95 % interval", "inputs/s", "rounds", "flags")
NUMBERS = ("batch", "latency", "95 % interval", "inputs/s", "tokens/s", "rounds")
TOKENS = "tokens/s"
"""The column after that of inputs, if a language model was timed."""

Machine = tuple[MachineFolder, Environment, list[TimedCell]]


def parser() -> CommandLine:
    flags = CommandLine(
        prog="python -m measure show",
        description="Show what the cache holds of each machine: its cells, with the median latency over their rounds, "
        "its 95 % interval and its flags. Only the newest environment of a machine is shown.",
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
    """Read the machines of these names, or all. Raises UserError for an unknown name, or an empty cache."""
    known = machine_names(data)
    for name in names or ():
        if name not in known:
            raise unknown("--machine", name, known)
    if not known:
        raise UserError(f"--data: no measurements in {data}; run python -m measure{data_flag(data)} first")
    folders = [MachineFolder(data, name) for name in names or known]
    environments = [folder.newest_environment() for folder in folders]
    return [(folder, each, read_cells(folder, each)) for folder, each in zip(folders, environments, strict=True)]


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


@dataclass(frozen=True)
class ModelAnswer:
    """The demands and results of a model at some batch sizes and precisions.

    ``layers`` and ``advice`` are those of the first cell; layers have times if it was profiled.
    """

    model: str
    input_shape: str
    environment: Environment
    rates: Roof
    demands: list[CellDemand]
    cells: list[Reached]
    layers: list[LayerDemand]
    advice: Advice | None


def first_cell(request: Request) -> Cell:
    """Return the cell of a request that is profiled: at its first precision and smallest batch size."""
    return Cell(request.models[0].name, request.batch_sizes[0], request.precisions[0], INFERENCE, EAGER)


def answer(cache: RunCache, request: Request) -> ModelAnswer:
    """Read the answer about a request's one model from the cache. Raises UserError if it could not be counted."""
    (model,) = request.models
    shape, first = shape_name(model.input_shape), first_cell(request)
    rates = machine_roof(cache.rows(cache.folder.roof_measurements()))
    asked = demands(_counted(cache, request, shape), rates, request.precisions)
    cells = [cell for cell in read_cells(cache.folder, cache.environment) if cell.model == model.name]
    profile = _profile(cache, first)
    operators = [] if profile is None else cache.folder.operators([profile])
    wanted = (model.name, shape, first.batch, stored_as(first.precision), None)
    counted = [
        row
        for row in cache.workloads.layers()
        if (row.model, row.input_shape, row.batch, row.precision, row.autocast) == wanted
    ]
    layers = layer_demands(counted, first.precision, rates, operators)
    base = next((cell for cell in cells if cell.cell == first and cell.latency_s is not None), None)
    advice = None if base is None else advise(base, cells, profile, layers, cache.environment)
    return ModelAnswer(model.name, shape, cache.environment, rates, asked, reached(cells, asked), layers, advice)


def _counted(cache: RunCache, request: Request, shape: str) -> list[Workload]:
    (model,) = request.models
    rows = [
        row
        for row in cache.workloads.models()
        if (row.model, row.input_shape) == (model.name, shape) and row.batch in request.batch_sizes
    ]
    if rows and all(row.status != "ok" for row in rows):
        raise UserError(f"NAME: {model.name} could not be counted: {rows[0].reason}")
    return rows


def _profile(cache: RunCache, cell: Cell) -> Profile | None:
    rows = cache.rows(cache.folder.profiles())
    return next((row for row in rows if Cell.of(row) == cell and row.status == "ok"), None)


ANSWER_NUMBERS = frozenset(
    {"batch", "FLOP", "bytes", "FLOP/B", "memory", "latency", "±", "inputs/s", "reached", "attainable", "share"}
    | {"calls", "parameters", "time"}
)
"""The columns that are aligned to the right."""

Table = Callable[[Sequence[Line], frozenset[str]], list[str]]


def heading(found: ModelAnswer, table: Table) -> list[str]:
    """Return a title with model and machine, and a table of the demands."""
    return [
        f"{found.model} on {found.environment.label}, inputs of {found.input_shape}",
        "",
        *table(
            [("batch", "precision", "FLOP", "bytes", "FLOP/B", "memory"), *map(_demand, found.demands)], ANSWER_NUMBERS
        ),
    ]


def bound_lines(found: ModelAnswer, roof: Roof | None, source: str) -> list[str]:
    """Print the least time of a call under a roof that is known before anything is timed.

    ``source`` names the origin of the roof, or the reason why there is none.
    """
    if roof is None:
        return [f"No first look at the roof: {source}."]
    said = []
    for demand in found.demands:
        roofline = roof.at(demand.precision)
        if roofline is None:
            continue
        least_s = roofline.least_s(demand.flop, demand.byte)
        rates = f"{si(roofline.peak_flop_per_s, 'FLOP/s')} and {si(roofline.bandwidth_byte_per_s, 'B/s')}"
        said.append(
            f"Batch {demand.batch} at {demand.precision}: {latency(least_s)} or more, bound by "
            f"{bound(roofline, demand.flop, demand.byte)} ({rates} {source})."
        )
    return said


def _demand(demand: CellDemand) -> Line:
    return (
        str(demand.batch),
        demand.precision,
        si(demand.flop, "FLOP"),
        si(demand.byte, "B"),
        plain(demand.intensity_flop_per_byte),
        si(demand.peak_byte, "B"),
    )


def lines(found: ModelAnswer, table: Table, with_layers: bool, data_flag: str) -> list[str]:
    """Return the results, the costliest layers (or all), the advice and the caveats."""
    batch = found.demands[0].batch
    said = [*_reached_lines(found, table), "", roof_line(found.rates, [each.precision for each in found.demands])]
    if most := costliest(found.layers):
        named = ", ".join(f"{layer.path} ({layer.layer_kind}) {percent(layer.time_share or 0.0)}" for layer in most)
        said.append(f"Costliest layers at batch size {batch}: {named} of the operators' time.")
    if found.advice:
        said += advice_lines(found.advice, batch, data_flag)
    said += caveats(found.cells)
    return [*said, "", *layer_lines(found.layers, table)] if with_layers else said


def _reached_lines(found: ModelAnswer, table: Table) -> list[str]:
    """Return a table of the timed cells under their roof, and the reasons of those that failed."""
    asked = {(each.batch, each.precision): each for each in found.demands}
    timed = [cell for cell in found.cells if cell.timed.latency_s is not None]
    head = ("batch", "precision", "latency", "±", "inputs/s", "reached", "attainable", "share", "bound by")
    rows = [_reached(cell, asked[cell.timed.batch, cell.timed.precision]) for cell in timed]
    said = table([head, *rows], ANSWER_NUMBERS) if rows else []
    return said + [
        f"Batch size {cell.timed.batch} at {cell.timed.precision}: {cell.timed.status}, {cell.timed.reason}"
        for cell in found.cells
        if cell.timed.latency_s is None
    ]


def _reached(cell: Reached, demand: CellDemand) -> Line:
    timed = cell.timed
    return (
        str(timed.batch),
        timed.precision,
        latency(timed.latency_s or 0.0),
        _half_width(timed.latency_s, timed.latency_low_s, timed.latency_high_s),
        plain(timed.inputs_per_s or 0.0),
        si(cell.flop_per_s or 0.0, "FLOP/s"),
        "" if demand.attainable_flop_per_s is None else si(demand.attainable_flop_per_s, "FLOP/s"),
        "" if cell.roof_share is None else percent(cell.roof_share),
        demand.bound or "",
    )


def _half_width(middle_s: float | None, low_s: float | None, high_s: float | None) -> str:
    """Return half of an interval as a percentage of its middle; empty without one."""
    return "" if not middle_s or low_s is None or high_s is None else percent((high_s - low_s) / 2 / middle_s)


def layer_lines(layers: Iterable[LayerDemand], table: Table) -> list[str]:
    """Return a table of the layers in the order in which they run, with times if the cell was profiled."""
    head = ("layer", "type", "calls", "parameters", "FLOP", "bytes", "bound by", "time", "share")
    rows = [
        (
            layer.path,
            layer.type,
            str(layer.calls),
            si(layer.parameter_count, ""),
            si(layer.flop, "FLOP"),
            si(layer.byte, "B"),
            layer.bound or "",
            "" if layer.time_s is None else latency(layer.time_s),
            "" if layer.time_share is None else percent(layer.time_share),
        )
        for layer in layers
    ]
    return table([head, *rows], ANSWER_NUMBERS)


def roof_line(rates: Roof, precisions: Iterable[str]) -> str:
    """Name the roofs behind the shares."""
    known = [each for each in dict.fromkeys(precisions) if each in rates.flop_per_s]
    if not known or rates.byte_per_s is None:
        return "The roof was not measured."
    peaks = " and ".join(f"{si(rates.flop_per_s[each], 'FLOP/s')} at {each}" for each in known)
    said = f"The roof: {peaks}, and {si(rates.byte_per_s, 'B/s')} from memory, as measured here."
    if not rates.load:
        return said
    return (
        f"{said} Other programs used {percent(rates.load)} of the cores meanwhile, so the roof is too low and each "
        "share of it too high: measure again when they are done."
    )


def advice_lines(advice: Advice, batch: int, data_flag: str) -> list[str]:
    """Print the first thing to try, and its reason."""
    if advice.gain is not None:
        return [f"Try first: {advice.remedy}, measured to be {advice.gain:.3g} times as fast as batch size {batch}."]
    return [
        f"Try first: {advice.remedy}. That is a hypothesis: {advice.why}. To test it:",
        f"  python -m measure {advice.flags}{data_flag}",
    ]


def caveats(cells: Iterable[Reached]) -> list[str]:
    """Print each flag once, with its batch sizes and precisions."""
    about: dict[str, list[str]] = {}
    for cell in cells:
        for flag in cell.timed.flags:
            about.setdefault(flag, []).append(f"{cell.timed.batch} at {cell.timed.precision}")
    return [f"Mind batch size {', '.join(which)}: {FLAGS[flag]} ({flag})." for flag, which in about.items()]
