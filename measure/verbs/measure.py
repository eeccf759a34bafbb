"""The command ``python -m measure`` without a verb: measures what the cache lacks."""

import argparse
import json
import logging
import os
import sys
import time
from collections.abc import Sequence
from contextlib import closing, nullcontext
from pathlib import Path

from measure.cache.folders import Workloads
from measure.cache.records import Cell
from measure.domain.models import Model
from measure.domain.values import duration
from measure.machine import devices
from measure.machine.environment import current
from measure.machine.host import warning_of_load
from measure.run import plan, runner
from measure.run.estimate import Estimate, Memory
from measure.run.plan import Part, models_as_json, models_as_lines, parts_as_lines, plan_as_json
from measure.run.request import (
    check_device,
    check_folder,
    check_together,
    check_writable,
    machine_folder,
    make_fresh_request,
    make_isolated,
    make_request,
    make_sampling,
    make_seed,
    parse_threads,
    parser,
)
from measure.run.task import Cache, Request, Sitting, Task
from measure.run.worker import Worker
from measure.verbs.flags import data_flag
from measure.verbs.terminal import INTERRUPTED, log_to_stderr, stop_as_by_ctrl_c

_log = logging.getLogger("measure")

MADE_BY = "ROOFWRIGHT_MADE_BY"
"""The environment variable in which ``make`` says which of its commands runs this one, and renders the paper next."""


def show_models(data: Path, models: Sequence[Model], as_json: bool) -> None:
    """Print models, with what the workload table knows of them."""
    counted = Workloads(data).models()
    if as_json:
        print(json.dumps(models_as_json(models, counted), indent=2))
    else:
        print("\n".join(models_as_lines(models, counted)))


def show_plan(parts: Sequence[Part], request: Request, cache: Cache, torch_name: str, as_json: bool) -> None:
    """Print what would be measured, and what of it is expected to be reached within the request's budget, if any."""
    tasks = [task for part in parts for task in part.tasks]
    if as_json:
        print(json.dumps(plan_as_json(tasks, cache.environment, str(cache.folder.folder)), indent=2))
        return
    if request.budget_s is None:
        lines = [task.label for task in tasks]
    else:
        lines = parts_as_lines(parts, Estimate(request, cache).ends_s(tasks), request.budget_s)
    for line in lines:
        print(line)
    print(f"{len(tasks)} to measure on {cache.environment.name} ({torch_name}) into {cache.folder.folder}")


def measure(arguments: argparse.Namespace) -> int:
    """Plan, and measure what is missing."""
    began = time.monotonic()
    request = make_fresh_request(arguments)
    deadline = None if request.budget_s is None else began + request.budget_s
    device = devices.find(arguments.device)
    threads = parse_threads(arguments.threads)
    sampling = make_sampling(arguments)
    environment = current(device, threads)
    check_device(request, environment)
    request = request.on(environment)
    machine = f"{environment.name} ({device.torch_name}"
    _log.info("%s), %d threads: environment %s", machine, threads, environment.environment_id)
    folder = machine_folder(arguments.data, arguments.machine, environment)
    cache = Cache(Workloads(arguments.data), folder, environment, Sitting(seed=make_seed(arguments.seed)))
    tasks = plan.missing_tasks(request, cache)
    parts = plan.in_parts(tasks, request, cache)
    if arguments.plan:
        show_plan(parts, request, cache, device.torch_name, arguments.json)
        return 0
    report = f"python -m report{data_flag(arguments.data)}"
    if not tasks:
        print(f"Nothing left to measure on {machine}): see {folder.folder}")
        _print_contents(request, cache, [], arguments.command, report)
        return 0
    folder.tables()  # a damaged one is said now, not after an hour
    for section in {type(task) for task in tasks}:
        section.check(device)
    check_writable(arguments.data)
    if any(task.is_of_machine for task in tasks) and (warning := warning_of_load()):
        print(warning, file=sys.stderr)
    limit = "" if request.budget_s is None else f", for {duration(request.budget_s)} at most"
    print(f"Measuring {machine}, {threads} threads) into {folder.folder}{limit}", flush=True)
    with closing(Worker(device.torch_name, threads, sampling)) as worker:
        return _do(parts, request, cache, device, worker, arguments, deadline, report)


def _do(
    parts: Sequence[Part],
    request: Request,
    cache: Cache,
    device: devices.Device,
    worker: Worker,
    arguments: argparse.Namespace,
    deadline: float | None,
    report: str,
) -> int:
    """Do the tasks part by part, then those that their results call for, and say how that went."""
    from measure.run import progress as summary
    from measure.run.progress import RunProgress
    from measure.verbs.terminal import Console

    stop_as_by_ctrl_c()
    tasks = [task for part in parts for task in part.tasks]
    memory = Memory(device.memory_byte(), cache.workloads.models)
    refusal = runner.no_refusal if arguments.try_anyway else memory.refusal
    progress = RunProgress(tasks, Console(), deadline, arguments.verbose)
    alone = cache.folder.locked(progress.say) if any(task.is_of_machine for task in tasks) else nullcontext()
    places, resume = cache.places(tasks), summary.resumption(arguments.command, arguments.force)
    outcome, done, hopeless = runner.Summary(), set[Task](), set[Cell]()
    try:
        with alone, progress:
            while parts and not outcome.left:
                part, *later = parts
                progress.begin_part(part.title, part.tasks)
                outcome.add(runner.run(part.tasks, worker, cache, progress, deadline, refusal, hopeless))
                reached = len(part.tasks) - outcome.left
                done.update(part.tasks[:reached])
                left = [*part.tasks[reached:], *(task for each in later for task in each.tasks)]
                if not left:
                    left = plan.further_tasks(request, cache, done)
                    progress.extend(left)
                parts = plan.in_parts(left, request, cache)  # anew: the first roof tells what the rest will take
    except KeyboardInterrupt:
        print(
            f"\nStopped after {progress.done} of {progress.total}. Everything measured so far is kept; "
            f"the files are in {' and '.join(places)}\n{resume}"
        )
        return INTERRUPTED
    outcome.left = sum(len(part.tasks) for part in parts)
    if share := summary.share_within_calls(outcome):
        _log.info("%s", share)
    print("\n".join(summary.lines(outcome, places)))
    if arguments.force and parts:
        print(resume)
    _print_contents(request, cache, parts, arguments.command, report)
    return 0


def _print_contents(request: Request, cache: Cache, left: Sequence[Part], command: str, report: str) -> None:
    """Print what the paper has and lacks of this machine, and the next command."""
    from measure.run import progress as summary

    made_by = os.environ.get(MADE_BY)
    print("\n".join(summary.contents(request, cache, left, made_by or command)))
    if not made_by:
        print(f"Next: {report}")


def main(argv: Sequence[str]) -> int:
    """Return exit code 0, or 130 when stopped from the keyboard. Raises UserError for bad input."""
    arguments = parser().parse_args(argv)
    check_together(arguments)
    check_folder(arguments.data, "--data")
    if arguments.verbose:
        log_to_stderr()
    if arguments.list:
        with make_isolated(arguments) as own:
            request = make_request(arguments, own.describe)
        show_models(arguments.data, request.models, arguments.json)
        return 0
    if arguments.cluster:
        from measure.cluster import command

        return command.measure(arguments)
    return measure(arguments)
