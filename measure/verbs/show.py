"""``python -m measure show``: the cells in the cache. Also the answer about one model, as ``model`` prints it."""

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from measure.cache.folders import MachineFolder, machine_names
from measure.cache.records import Environment
from measure.domain.advice import Advice, advise
from measure.domain.demands import CellDemand, LayerDemand, Reached, bound, demands, layer_demands, reached
from measure.domain.latency import Cell, TimedCell, read_cells
from measure.domain.roofs import Roof, machine_roof
from measure.domain.values import latency, percent, plain, si
from measure.domain.words import EAGER, FLAGS, INFERENCE, shape_name, stored_as
from measure.errors import UserError, chosen, unknown
from measure.run.request import Request
from measure.run.run_cache import RunCache
from measure.verbs.flags import CommandLine, check_folder, check_one_output, data_flag
from measure.verbs.terminal import Line, aligned, markdown, write_csv

NUMBERS = frozenset(
    {"batch", "latency", "95 % interval", "inputs/s", "tokens/s", "rounds", "FLOP", "bytes", "FLOP/B", "memory", "±"}
    | {"reached", "attainable", "share", "calls", "parameters", "time"}
)
"""The columns that are aligned to the right."""

COSTLIEST = 3
"""How many layers are named as the costliest."""


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
    flags = parser().parse_args(argv)
    check_one_output({"--json": flags.json, "--markdown": flags.markdown, "--csv": flags.csv})
    check_folder(flags.data, "--data")
    names = machine_names(flags.data)
    if not names:
        raise UserError(f"--data: no measurements in {flags.data}; run python -m measure{data_flag(flags.data)} first")
    machines = []
    for name in flags.machine or names:
        if name not in names:
            raise unknown("--machine", name, names)
        folder = MachineFolder(flags.data, name)
        environment = folder.newest_environment()
        machines.append((folder, environment, read_cells(folder, environment)))
    if flags.models:
        wanted = chosen("MODEL", flags.models, {cell.model for *_, cells in machines for cell in cells})
        machines = [
            (folder, each, [cell for cell in cells if cell.model in wanted]) for folder, each, cells in machines
        ]
        machines = [machine for machine in machines if machine[-1]]
    if flags.json:
        records = [
            {"folder": str(folder.folder), "environment": asdict(environment), "cells": list(map(asdict, cells))}
            for folder, environment, cells in machines
        ]
        print(json.dumps({"machines": records}, indent=2, allow_nan=False))
    elif flags.csv:
        columns = ["machine", *(field.name for field in fields(TimedCell))]
        rows = [
            {"machine": folder.name} | asdict(cell) | {"flags": ";".join(cell.flags)}
            for folder, _, cells in machines
            for cell in cells
        ]
        write_csv(sys.stdout, rows, columns)
    else:
        print("\n\n".join("\n".join(cell_lines(*machine, as_markdown=flags.markdown)) for machine in machines))
    return 0


def cell_lines(
    folder: MachineFolder, environment: Environment, cells: Sequence[TimedCell], *, as_markdown: bool
) -> list[str]:
    """Return a machine's table with its title, and the cells without a result below it."""
    has_tokens = any(cell.tokens_per_s is not None for cell in cells)
    tokens = ["tokens/s"] if has_tokens else []
    head = (*Cell._fields, "latency", "95 % interval", "inputs/s", *tokens, "rounds", "flags")
    rows: list[Sequence[str]] = []
    failed = []
    for cell in cells:
        if cell.latency_s is None:
            failed.append(f"{'- ' if as_markdown else ''}{cell.cell.describe()}: {cell.status}, {cell.reason}")
            continue
        ends = [latency(end) for end in (cell.latency_low_s, cell.latency_high_s) if end is not None]
        rates = [cell.inputs_per_s, cell.tokens_per_s] if has_tokens else [cell.inputs_per_s]
        values = [latency(cell.latency_s), " to ".join(ends), *(_text(rate, plain) for rate in rates)]
        rows.append([*map(str, cell.cell), *values, str(cell.rounds), ", ".join(cell.flags)])
    table = (markdown if as_markdown else aligned)([head, *rows], NUMBERS)
    title = f"{environment.label}, {folder.folder}"
    return [title, "", *(table if rows else ["No cell of it has a result."]), *(["", *failed] if failed else [])]


def _text(value: float | None, form: Callable[[float], str]) -> str:
    """Return a cell of a table; empty for an unknown value."""
    return "" if value is None else form(value)


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
    (model,), first = request.models, first_cell(request)
    identity = model.name, shape_name(model.input_shape)
    counts = [
        row
        for row in cache.workloads.models()
        if (row.model, row.input_shape) == identity and row.batch in request.batch_sizes
    ]
    if counts and all(row.status != "ok" for row in counts):
        raise UserError(f"NAME: {model.name} could not be counted: {counts[0].reason}")
    roof = machine_roof(cache.rows(cache.folder.roof_measurements()))
    asked = demands(counts, roof, request.precisions)
    cells = [cell for cell in read_cells(cache.folder, cache.environment) if cell.model == model.name]
    profiles = cache.rows(cache.folder.profiles())
    profile = next((row for row in profiles if Cell.of(row) == first and row.status == "ok"), None)
    operators = [] if profile is None else cache.folder.operators([profile])
    layers = [
        row
        for row in cache.workloads.layers()
        if (row.model, row.input_shape) == identity
        and (row.batch, row.precision, row.autocast) == (first.batch, stored_as(first.precision), None)
    ]
    of_layers = layer_demands(layers, first.precision, roof, operators)
    base = next((cell for cell in cells if cell.cell == first and cell.latency_s is not None), None)
    advice = None if base is None else advise(base, cells, profile, of_layers, cache.environment)
    return ModelAnswer(*identity, cache.environment, roof, asked, reached(cells, asked), of_layers, advice)


Table = Callable[[Sequence[Line], frozenset[str]], list[str]]


def heading(found: ModelAnswer, table: Table) -> list[str]:
    """Return a title with model and machine, and a table of the demands."""
    rows: list[Line] = [("batch", "precision", "FLOP", "bytes", "FLOP/B", "memory")]
    for each in found.demands:
        amounts = si(each.flop, "FLOP"), si(each.byte, "B"), plain(each.intensity_flop_per_byte)
        rows.append((str(each.batch), each.precision, *amounts, si(each.peak_byte, "B")))
    title = f"{found.model} on {found.environment.label}, inputs of {found.input_shape}"
    return [title, "", *table(rows, NUMBERS)]


def bound_lines(found: ModelAnswer, roof: Roof | None, source: str) -> list[str]:
    """Print the least time of a call under a roof that is known before anything is timed.

    ``source`` names the origin of the roof, or the reason why there is none.
    """
    if roof is None:
        return [f"No first look at the roof: {source}."]
    lines = []
    for demand in found.demands:
        if roofline := roof.at(demand.precision):
            least = latency(roofline.least_s(demand.flop, demand.byte))
            limit = bound(roofline, demand.flop, demand.byte)
            rates = f"{si(roofline.peak_flop_per_s, 'FLOP/s')} and {si(roofline.bandwidth_byte_per_s, 'B/s')}"
            where = f"Batch {demand.batch} at {demand.precision}"
            lines.append(f"{where}: {least} or more, bound by {limit} ({rates} {source}).")
    return lines


def lines(found: ModelAnswer, table: Table, with_layers: bool, data_flag: str) -> list[str]:
    """Return the timed cells under their roof, the costliest layers (or all), the advice and the caveats."""
    head: Line = ("batch", "precision", "latency", "±", "inputs/s", "reached", "attainable", "share", "bound by")
    asked = {(each.batch, each.precision): each for each in found.demands}
    rows, failed = [head], []
    caveats: dict[str, list[str]] = defaultdict(list)
    for cell in found.cells:
        timed, demand = cell.timed, asked[cell.timed.batch, cell.timed.precision]
        for flag in timed.flags:
            caveats[flag].append(f"{timed.batch} at {timed.precision}")
        if timed.latency_s is None:
            failed.append(f"Batch size {timed.batch} at {timed.precision}: {timed.status}, {timed.reason}")
            continue
        width_s = None
        if timed.latency_low_s is not None and timed.latency_high_s is not None:
            width_s = timed.latency_high_s - timed.latency_low_s
        times = latency(timed.latency_s), "" if width_s is None else percent(width_s / 2 / timed.latency_s)
        rates = (_text(rate, _flop_per_s) for rate in (cell.flop_per_s, demand.attainable_flop_per_s))
        share, limit = _text(cell.roof_share, percent), demand.bound or ""
        rows.append((str(timed.batch), timed.precision, *times, _text(timed.inputs_per_s, plain), *rates, share, limit))
    said = [*(table(rows, NUMBERS) if len(rows) > 1 else []), *failed, "", roof_line(found)]
    batch = found.demands[0].batch
    timed_layers = sorted((each for each in found.layers if each.time_s), key=lambda each: -(each.time_s or 0.0))
    if timed_layers:
        named = (
            f"{each.path} ({each.layer_kind}) {percent(each.time_share or 0.0)}" for each in timed_layers[:COSTLIEST]
        )
        said.append(f"Costliest layers at batch size {batch}: {', '.join(named)} of the operators' time.")
    advice = found.advice
    if advice and advice.gain is not None:
        gain = f"{advice.gain:.3g} times as fast as batch size {batch}"
        said.append(f"Try first: {advice.remedy}, measured to be {gain}.")
    elif advice:
        said.append(f"Try first: {advice.remedy}. That is a hypothesis: {advice.why}. To test it:")
        said.append(f"  python -m measure {advice.flags}{data_flag}")
    said += [f"Mind batch size {', '.join(which)}: {FLAGS[flag]} ({flag})." for flag, which in caveats.items()]
    return [*said, "", *layer_lines(found.layers, table)] if with_layers else said


def _flop_per_s(rate: float) -> str:
    return si(rate, "FLOP/s")


def layer_lines(layers: Iterable[LayerDemand], table: Table) -> list[str]:
    """Return a table of the layers in the order in which they run, with times if the cell was profiled."""
    rows: list[Line] = [("layer", "type", "calls", "parameters", "FLOP", "bytes", "bound by", "time", "share")]
    for each in layers:
        amounts = si(each.parameter_count, ""), si(each.flop, "FLOP"), si(each.byte, "B"), each.bound or ""
        times = _text(each.time_s, latency), _text(each.time_share, percent)
        rows.append((each.path, each.type, str(each.calls), *amounts, *times))
    return table(rows, NUMBERS)


def roof_line(found: ModelAnswer) -> str:
    """Name the roof behind the shares."""
    roof = found.rates
    precisions = [each for each in dict.fromkeys(each.precision for each in found.demands) if each in roof.flop_per_s]
    if not precisions or roof.byte_per_s is None:
        return "The roof was not measured."
    peaks = " and ".join(f"{_flop_per_s(roof.flop_per_s[each])} at {each}" for each in precisions)
    line = f"The roof: {peaks}, and {si(roof.byte_per_s, 'B/s')} from memory, as measured here."
    if roof.load:
        line += f" Other programs used {percent(roof.load)} of the cores meanwhile, so the roof is too low and each "
        line += "share of it too high: measure again when they are done."
    return line
