"""The command line of measuring: ``python -m measure``."""

import argparse
import importlib
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from measure import catalog, devices, freshness, plan
from measure.arguments import (
    VERBS,
    make_request,
    make_sampling,
    parse_budget,
    parse_threads,
    parser,
)
from measure.cache import Workloads
from measure.destination import check_writable, machine_folder
from measure.environment import current
from measure.errors import UserError
from measure.nsight import counted_cell
from measure.records import shape_name

INTERRUPTED = 130


def show_models(data: Path, models: Sequence[catalog.Model]) -> None:
    """Prints models, with what the workload table knows of them."""
    counted = {
        (row.model, row.input_shape): f"{row.parameter_count / 1e6:>10.2f} M{row.forward_flop / 1e9:>8.2f}"
        for row in Workloads(data).models()
        if row.batch == 1 and row.parameter_count is not None and row.forward_flop is not None
    }
    width = max(18, *(len(model.name) for model in models)) + 2
    print(f"{'model':{width}}{'source':13}{'family':14}{'input':12}{'parameters':>12}{'GFLOP':>8}")
    for model in models:
        shape = shape_name(model.input_shape)
        numbers = counted.get((model.name, shape), "")
        print(f"{model.name:{width}}{model.source:13}{model.family:14}{shape:12}{numbers}".rstrip())


def measure(arguments: argparse.Namespace) -> int:
    """Plans, and measures what is missing."""
    began = time.monotonic()
    request = make_request(arguments)
    budget_s = parse_budget(arguments.budget) if arguments.budget else None
    deadline = None if budget_s is None else began + budget_s
    device = devices.find(arguments.device)
    threads = parse_threads(arguments.threads)
    sampling = make_sampling(arguments)
    environment = current(device, threads)
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
    for table in (folder.samples, folder.operators, folder.kernels, folder.counters):
        table()  # a damaged one is said now, not after an hour
    if arguments.plan:
        for task in tasks:
            print(task.label)
        print(f"{len(tasks)} to measure on {environment.name} ({device.torch_name}) into {folder.folder}")
        return 0
    if not tasks:
        print(f"Nothing left to measure on {environment.name} ({device.torch_name}): see {folder.folder}")
        return 0
    check_writable(arguments.data)
    if any(task.section == "counters" for task in tasks):
        counted_cell.check(device)

    from rich.console import Console

    from measure import runner
    from measure.fit import Memory
    from measure.progress import RunProgress, duration
    from measure.worker import Worker

    print(
        f"Measuring {environment.name} ({device.torch_name}, {threads} threads) into {folder.folder}",
        flush=True,
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite kill leaves no worker behind either
    worker = Worker(device.torch_name, threads, environment.environment_id, sampling)
    memory = Memory(device.memory_byte(), workloads.models)
    store = runner.Store(workloads, folder, environment)
    alone = folder.locked() if any(task.section != "workload" for task in tasks) else nullcontext()
    try:
        with alone, RunProgress(tasks, Console()) as progress:
            for aside in folder.repair():
                progress.say(
                    f"A line of {aside.stem} was torn when a run was killed; it is set aside in {aside}"
                )
            refusal = runner.no_refusal if arguments.try_anyway else memory.refusal
            summary = runner.run(tasks, worker, store, progress, deadline, refusal)
    except KeyboardInterrupt:
        print("\nStopped. Everything measured so far is kept; the same command goes on from here.")
        return INTERRUPTED
    finally:
        worker.close()
    done = summary.statuses.total()
    print(
        f"{done} measured, {len(summary.failures)} of them without a result, {summary.left} left: {folder.folder}"
    )
    for task, failure in summary.failures:
        print(f"  {task.label}: {failure.status}, {failure.reason}")
    if summary.cells_s:
        share = summary.executing_s / summary.cells_s
        print(f"Of the {duration(summary.cells_s)} that cells took, {share:.0%} passed within their calls")
    if summary.left and budget_s is not None:
        print(f"The budget of {duration(budget_s)} is spent; the same command goes on from here.")
    else:
        print("Next: python -m report")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0, 1 for what a verb was asked to fail on, 2 for bad input, 130 when stopped from the keyboard."""
    words = sys.argv[1:] if argv is None else list(argv)
    verb = words[0] if words and words[0] in VERBS else None
    try:
        if verb:
            return importlib.import_module(f"measure.{verb.replace('-', '_')}").main(words[1:])
        arguments = parser().parse_args(words)
        if arguments.list:
            show_models(arguments.data, make_request(arguments).models)
            return 0
        return measure(arguments)
    except UserError as problem:
        print(f"python -m measure{f' {verb}' if verb else ''}: {problem}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
