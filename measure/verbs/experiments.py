"""Experiments on one model that keep nothing: its first calls (``model --warm-up``), its number types (``--types``)."""

import argparse
import json
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from measure.domain.cell import Cell
from measure.domain.values import latency, plain
from measure.domain.words import EAGER, INFERENCE, STEP
from measure.errors import UserError
from measure.machine.device import Device
from measure.profiling import number_types
from measure.profiling.number_types import StepTypes
from measure.run.request import Request
from measure.run.tasks import Beat, CellTask, Failure
from measure.run.worker import Worker
from measure.timing import first_calls
from measure.timing.first_calls import CALLS, MEASURED
from measure.timing.sampling import Sampling, Timing
from measure.verbs.terminal import Line, Table

ALONE = 5  # the first calls that have a line each
AUTOCAST, CAST = "autocast", ("fp16", "bf16")


@dataclass(frozen=True)
class FirstCallsTask(CellTask):
    section = "first-calls"

    def run(self, device: Device, _sampling: Sampling, beat: Beat) -> Timing:
        return first_calls.measure(device, self.model, self.cell, beat)


@dataclass(frozen=True)
class TypesTask(CellTask):
    section = "types"

    def run(self, device: Device, _sampling: Sampling, _beat: Beat) -> StepTypes:
        return number_types.measure(device, self.model, self.cell)


def _outcomes(tasks: Iterable[CellTask], worker: Worker) -> dict[Cell, Any]:
    """Run each task in a process of its own. Raises UserError for the first that fails."""
    found = {}
    for task in tasks:
        outcome = worker.run(task)
        if isinstance(outcome, Failure):
            raise UserError(f"NAME: {task.label}: {outcome.status}, {outcome.reason}")
        found[task.cell] = outcome
    return found


def answer(flags: argparse.Namespace, request: Request, device: Device, threads: int, sampling: Sampling,
           table: Table, label: str) -> int:  # fmt: skip
    """Run the experiment that the flags name, at the first precision and smallest batch size, and print it."""
    model, batch, precision = request.models[0], request.batch_sizes[0], request.precisions[0]
    if flags.types and precision not in CAST:
        precision = "bf16"
    phases, variant = ((STEP,), AUTOCAST) if flags.types else ((INFERENCE, STEP), EAGER)
    make = TypesTask if flags.types else FirstCallsTask
    with closing(Worker(device.torch_name, threads, sampling)) as worker:
        found = _outcomes((make(model, Cell(model.name, batch, precision, each, variant)) for each in phases), worker)
    head = {"model": model.name, "batch": batch, "precision": precision}
    if flags.types:
        (types,) = found.values()
        printed, lines = asdict(types), types_lines(types, precision, table)
    else:
        timed = {name: timing.latencies_s for name, timing in _parts(found).items()}
        printed = {"latencies_s": timed, "averages": {
            name: [asdict(each) for each in first_calls.averages(times)] for name, times in timed.items()
        }}  # fmt: skip
        lines = first_call_lines(timed, table)
    if flags.json:
        print(json.dumps(head | printed, indent=2, allow_nan=False))
    else:
        print(f"{model.name} on {label}, batch size {batch}, {precision}", "", *lines, sep="\n")
    return 0


def _parts(found: dict[Cell, Timing]) -> dict[str, Timing]:
    """Return the timings by phase, and by stage of the step."""
    parts: dict[str, Timing] = {}
    for cell, timing in found.items():
        parts |= {cell.phase: timing, **timing.stages}
    return parts


def first_call_lines(timed: dict[str, tuple[float, ...]], table: Table) -> list[str]:
    """Return the first calls one by one, then what a benchmark of ten calls reports after some warm-up calls."""
    rows: list[Line] = [("call", *timed)]
    rows += [(str(number + 1), *(latency(times[number]) for times in timed.values())) for number in range(ALONE)]
    rows.append((f"{ALONE + 1} to {CALLS}", *(latency(median(times[ALONE:])) for times in timed.values())))
    lines = [
        f"The first {CALLS} calls of a new process, one by one; the last line is a median:",
        "",
        *table(rows, [*timed]),
    ]
    averages = {name: first_calls.averages(times) for name, times in timed.items()}
    head = ("warm-up calls", *timed)
    means: list[Line] = [head]
    for place, first in enumerate(next(iter(averages.values()))):
        row = (averages[name][place] for name in timed)
        means.append((str(first.warm_up), *(f"{latency(each.mean_s)} ± {latency(each.deviation_s)}" for each in row)))
    lines += ["", f"Mean ± standard deviation of {MEASURED} calls after some warm-up calls:", "", *table(means, head)]
    ratios = ", ".join(f"{plain(first_calls.excess(times))} ({name})" for name, times in timed.items())
    return [*lines, "", f"First call over the median of the last {MEASURED}: {ratios}."]


def types_lines(found: StepTypes, precision: str, table: Table) -> list[str]:
    rows: list[Line] = [("layer", "type", "parameters", "input", "output", "gradients")]
    for each in found.layers:
        types = (each.parameters, each.inputs, each.outputs, each.gradients)
        rows.append((each.path, each.type, *map(", ".join, types)))
    return [
        f"Number types in a training step under autocast to {precision}:", "", *table(rows, ()), "",
        f"loss: {found.loss}; all parameters: {', '.join(found.parameters)}; "
        f"their gradients: {', '.join(found.gradients)}",
    ]  # fmt: skip
