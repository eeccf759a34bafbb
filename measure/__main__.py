"""The command line of measuring: ``python -m measure``."""

import argparse
import importlib
import json
import logging
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from measure.cache.folders import Workloads
from measure.cache.models import Model
from measure.cache.records import Environment
from measure.cli.suggestion import did_you_mean
from measure.cli.terminal import INTERRUPTED, answer, log_to_stderr
from measure.counting import freshness
from measure.errors import UserError
from measure.hardware_counters import counted_cell
from measure.machine import devices
from measure.machine.environment import current
from measure.run import plan
from measure.run.arguments import (
    VERBS,
    check_device,
    check_together,
    make_request,
    make_sampling,
    parse_threads,
    parse_time,
    parser,
)
from measure.run.destination import check_folder, check_writable, data_flag, machine_folder
from measure.run.listing import models_as_json, models_as_lines, plan_as_json

_log = logging.getLogger("measure")


def show_models(data: Path, models: Sequence[Model], as_json: bool) -> None:
    """Prints models, with what the workload table knows of them."""
    counted = Workloads(data).models()
    if as_json:
        print(json.dumps(models_as_json(models, counted), indent=2))
    else:
        print("\n".join(models_as_lines(models, counted)))


def show_plan(
    tasks: Sequence[plan.Task], environment: Environment, torch_name: str, folder: Path, as_json: bool
) -> None:
    """Prints what would be measured."""
    if as_json:
        print(json.dumps(plan_as_json(tasks, environment, str(folder)), indent=2))
        return
    for task in tasks:
        print(task.label)
    print(f"{len(tasks)} to measure on {environment.name} ({torch_name}) into {folder}")


def measure(arguments: argparse.Namespace) -> int:
    """Plans, and measures what is missing."""
    began = time.monotonic()
    request = make_request(arguments)
    budget_s = parse_time("--budget", arguments.budget) if arguments.budget else None
    deadline = None if budget_s is None else began + budget_s
    device = devices.find(arguments.device)
    threads = parse_threads(arguments.threads)
    sampling = make_sampling(arguments)
    check_device(request, device)
    environment = current(device, threads)
    _log.info(
        "%s (%s), %d threads: environment %s",
        environment.name,
        device.torch_name,
        threads,
        environment.environment_id,
    )
    folder = machine_folder(arguments.data, arguments.machine, environment)
    workloads = Workloads(arguments.data)
    if not request.force:
        freshness.check(request.models, workloads.models())
    tasks = plan.tasks_to_do(
        request,
        device.kind,
        environment.environment_id,
        workloads.counted(),
        folder.ceilings(),
        folder.runs(),
        folder.profiles(),
        folder.counter_profiles(),
    )
    if arguments.plan:
        show_plan(tasks, environment, device.torch_name, folder.folder, arguments.json)
        return 0
    if not tasks:
        print(f"Nothing left to measure on {environment.name} ({device.torch_name}): see {folder.folder}")
        return 0
    for table in (folder.samples, folder.operators, folder.kernels, folder.counters):
        table()  # a damaged one is said now, not after an hour
    if any(task.section == "counters" for task in tasks):
        counted_cell.check(device)
    check_writable(arguments.data)

    from rich.console import Console

    from measure.run import runner, summary
    from measure.run.memory_fit import Memory
    from measure.run.progress import RunProgress
    from measure.run.worker import Worker

    print(
        f"Measuring {environment.name} ({device.torch_name}, {threads} threads) into {folder.folder}",
        flush=True,
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite kill leaves no worker behind either
    worker = Worker(device.torch_name, threads, environment.environment_id, sampling)
    memory = Memory(device.memory_byte(), workloads.models)
    store = runner.Store(workloads, folder, environment)
    progress = RunProgress(tasks, Console())
    alone = (
        folder.locked(progress.say) if any(task.section != "workload" for task in tasks) else nullcontext()
    )
    places = {
        str(workloads.models_path.parent if task.section == "workload" else folder.folder) for task in tasks
    }
    resume = summary.resumption(arguments.command, request.force)
    try:
        with alone, progress:
            refusal = runner.no_refusal if arguments.try_anyway else memory.refusal
            outcome = runner.run(tasks, worker, store, progress, deadline, refusal)
    except KeyboardInterrupt:
        print(
            f"\nStopped after {progress.done} of {len(tasks)}. Everything measured so far is kept; the files are in "
            f"{' and '.join(sorted(places))}\n{resume}"
        )
        return INTERRUPTED
    finally:
        worker.close()
    report = f"python -m report{data_flag(arguments.data)}"
    print("\n".join(summary.lines(outcome, sorted(places), resume, report)))
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0, 1 for what a verb was asked to fail on, 2 for bad input, 130 when stopped from the keyboard."""
    words = sys.argv[1:] if argv is None else list(argv)
    verb = f" {words[0]}" if words and words[0] in VERBS else ""
    return answer(f"python -m measure{verb}", lambda: run(words))


def run(words: Sequence[str]) -> int:
    """Does what the words say. Raises UserError for bad input."""
    if words and not words[0].startswith("-"):
        verb, *rest = words
        if verb not in VERBS:
            raise UserError(
                f"there is no command {verb!r}; say {', '.join(VERBS)}, or flags alone to measure"
                + did_you_mean(verb, VERBS)
            )
        code: int = importlib.import_module(f"measure.{verb.replace('-', '_')}").main(rest)
        return code
    arguments = parser().parse_args(words)
    check_together(arguments)
    check_folder(arguments.data, "--data")
    if arguments.verbose:
        log_to_stderr()
    if arguments.list:
        show_models(arguments.data, make_request(arguments).models, arguments.json)
        return 0
    if arguments.cluster:
        from measure.cluster import command

        return command.measure(arguments)
    return measure(arguments)


if __name__ == "__main__":
    sys.exit(main())
