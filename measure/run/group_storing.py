"""The missing rounds of groups of processes, and how their outcomes become rows, or a few words."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from operator import itemgetter
from random import Random
from typing import Any

from measure.domain.cell import Cell
from measure.domain.collectives import ALL_REDUCE
from measure.domain.groups import (
    BACKENDS,
    COMMUNICATIONS,
    OVERSUBSCRIBED,
    TIMED_COLLECTIVES,
    CollectiveCell,
    DataParallelCell,
    bus_byte_per_s,
    group_rows,
    summarise_rounds,
)
from measure.domain.models import Model
from measure.domain.records import CollectiveMeasurement, DataParallelStep
from measure.domain.values import latency, si
from measure.domain.words import LOAD, LOADED, STEP, same_shape, shape_name, stored_as, was_disturbed
from measure.errors import UserError
from measure.machine import devices
from measure.run.group_tasks import (
    PROCESSES,
    CollectiveTask,
    DataParallelTask,
    GroupFailure,
    GroupResult,
    GroupTask,
    Report,
)
from measure.run.request import Request
from measure.run.storing import Columns, RunCache
from measure.run.tasks import Failure

SIZES = {"cpu": [4**power for power in range(6, 14)], "cuda": [4**power for power in range(6, 16)]}
"""Bytes of a message: 4 KiB to 64 MiB, on GPUs to 1 GiB."""


def group_sizes(device_kind: str) -> list[int]:
    """Return how many processes the groups of this machine have."""
    return [each for each in PROCESSES[device_kind] if device_kind != "cuda" or each <= gpu_count()]


def check_groups(device_kind: str) -> None:
    """Raise UserError if the device has no group of processes."""
    if not group_sizes(device_kind):
        lack = "two GPUs or more" if device_kind == "cuda" else f"collectives, which torch lacks for {device_kind}"
        raise UserError(f"--sections distributed: needs {lack}; --device cpu measures processes of the processor")


def gpu_count() -> int:
    return sum(name.startswith("cuda:") for name in devices.available_names())


def missing_groups(request: Request, cache: RunCache) -> list[GroupTask]:
    """Return the rounds of collectives and data-parallel steps to do. A cell with a failed round is not tried again."""
    kind = cache.environment.device
    tasks: list[GroupTask] = []
    sizes = group_sizes(kind)
    collectives = group_rows(cache.tried(CollectiveMeasurement), CollectiveCell.of)
    for processes, precision in product(sizes, dict.fromkeys(map(stored_as, request.precisions))):
        at = precision, processes, BACKENDS[kind]
        messages = product(TIMED_COLLECTIVES, SIZES[kind])
        tried: dict[Any, list[Any]] = {item: collectives.get(CollectiveCell(*item, *at), []) for item in messages}
        for number, items in _rounds(tried, request):
            Random(f"{cache.seed} {number} {processes} {precision}").shuffle(items)
            tasks.append(CollectiveTask(processes, precision, tuple(items), number))
    steps = group_rows(cache.tried(DataParallelStep), DataParallelCell.of)
    for processes, (model, cell) in product(sizes, step_cells(request)):
        tried = {}
        for item in COMMUNICATIONS:
            key = cell.model, cell.batch, cell.precision, cell.variant, item, processes, BACKENDS[kind]
            tried[item] = [row for row in steps.get(DataParallelCell(*key), []) if _is_of(row, model)]
        for number, chosen in _rounds(tried, request):
            Random(f"{cache.seed} {number} {processes} {cell}").shuffle(chosen)
            tasks.append(DataParallelTask(model, cell, processes, tuple(chosen), number))
    return tasks


def step_cells(request: Request) -> list[tuple[Model, Cell]]:
    """Return the steps to train in parallel, in the first variant: of named models, else of the leading ones."""
    leading = {model.name for model in request.leading}
    cells = replace(request, variants=request.variants[:1]).cells(STEP)
    return [each for each in cells if request.has_named_models or each[0].name in leading]


def _is_of(row: DataParallelStep, model: Model) -> bool:
    return row.code == model.code and same_shape(shape_name(model.input_shape), row.input_shape)


def _rounds(tried: Mapping[Any, list[Any]], request: Request) -> list[tuple[int, list[Any]]]:
    """Return the items of each round to do: ``request.rounds``, one more for each that other programs disturbed, then
    one more while an interval is too wide. A failed item has none. ``tried`` has the rows of each item.
    """
    missing: dict[int, list[Any]] = {}
    for item, rows in tried.items():
        done = set() if request.force else {row.round for row in rows}
        if not request.force and any(row.status != "ok" for row in rows):
            continue
        lost = sum(was_disturbed(row.flags) for row in rows)  # other programs had the cores
        undisturbed = min(request.rounds + lost, request.most_rounds)
        wanted = max([request.rounds, undisturbed, *(row.round + 1 for row in rows)])
        if len(done) >= wanted and wanted < request.most_rounds:
            width = summarise_rounds(rows, request.target).relative_half_width
            wanted += width is None or width > request.target
        for number in range(wanted):
            if number not in done:
                missing.setdefault(number, []).append(item)
    return sorted(missing.items())


def store_groups(cache: RunCache, task: GroupTask, outcome: GroupResult | Failure) -> None:
    """Write a row for each item that has a result or failed; the others are left to be done."""
    result = outcome if isinstance(outcome, GroupResult) else GroupResult(1)
    failed = task.items
    if isinstance(outcome, GroupFailure):
        result, failed = outcome.result, outcome.items
    columns = [(item, _outcome_columns(cache, task, result.threads, found)) for item, found in result.reports]
    if isinstance(outcome, Failure):
        why = cache.signature(Failure(outcome.status, outcome.reason))
        columns += [(item, why) for item in failed]
    common: Columns = {"processes": task.processes, "backend": BACKENDS[cache.environment.device], "round": task.round}
    if isinstance(task, CollectiveTask):
        common |= {"environment_id": cache.environment.environment_id, "precision": task.precision}
        cache.folder.put_collectives(
            [CollectiveMeasurement(**common, collective=item[0], message_byte=item[1], **row) for item, row in columns]
        )
    elif isinstance(task, DataParallelTask):
        common |= {**cache.key(task.cell), "input_shape": shape_name(task.model.input_shape), "code": task.model.code}
        cache.folder.put_data_parallel_steps(
            [DataParallelStep(**common, communication=item, **row) for item, row in columns]
        )


def _outcome_columns(cache: RunCache, task: GroupTask, threads: int, found: Report) -> Columns:
    """Return the columns of a row from a rank's report: a time, or that the backend has no such call."""
    if found.get("status"):
        return cache.signature(Failure(found["status"], found["reason"]))
    load = found["load"]
    flags = list(found["flags"])
    if load is not None and load >= LOAD:
        flags.append(LOADED)
    if task.processes > (cache.environment.cores or task.processes):
        flags.append(OVERSUBSCRIBED)
    times = {name: value for name, value in found.items() if name != "flags"}
    return {**cache.signature(None), **times, "threads": threads, "flags": ";".join(flags) or None}


def describe_groups(task: GroupTask, result: GroupResult) -> str:
    """Name the largest all-reduce of a group, or the step's time and what communication adds."""
    times = {item: found["latency_s"] for item, found in result.reports if "latency_s" in found}
    if isinstance(task, DataParallelTask):
        both = [times.get(each) for each in COMMUNICATIONS]
        words = [latency(each) for each in both if each is not None]
        return f"{' with communication, '.join(words)}{' without' if len(words) > 1 else ''}" or "no result"
    most = max((item for item in times if item[0] == ALL_REDUCE), key=itemgetter(1), default=None)
    several = f"{len(times)} times"
    if most is None:
        return several
    rate = bus_byte_per_s(most[0], task.processes, most[1], times[most])
    return f"{several}; all_reduce of {si(most[1], 'B')} at {si(rate, 'B/s')} of bus bandwidth"
