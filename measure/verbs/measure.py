"""``python -m measure`` without a verb: a run that fills the cache."""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, nullcontext
from functools import partial
from math import ceil, inf
from typing import Any

from measure.cache.folders import Workloads
from measure.counting.count import not_counted
from measure.domain.models import OWN, Model
from measure.domain.records import Run
from measure.domain.values import duration
from measure.domain.words import FULL_PRECISION
from measure.domain.workload_records import Workload
from measure.errors import UserError
from measure.machine import devices
from measure.machine.checks import wait_for_quiet, warning_of_use
from measure.machine.environment import current
from measure.models.own_models import BrokenModelError
from measure.profiling import ncu
from measure.run import plan, runner
from measure.run.estimate import DurationEstimate, MemoryFit
from measure.run.group_storing import check_groups
from measure.run.request import Request, parse_threads
from measure.run.sections import DISTRIBUTED, put
from measure.run.storing import RunCache, machine_folder
from measure.run.tasks import KILLED, HardwareCounterTask, RoundTask, Task
from measure.run.worker import Worker
from measure.verbs import listing
from measure.verbs.flags import check_writable, completion, next_step
from measure.verbs.run_flags import check_together, make_sampling, parser, resolve_request
from measure.verbs.terminal import log_to_stderr, make_console, stop_as_by_ctrl_c
from roofwright.command_line import INTERRUPTED

MADE_BY = "ROOFWRIGHT_MADE_BY"  # where ``make``, which renders the paper next, names its own command


def measure(flags: argparse.Namespace, request: Request, deadline: float | None) -> int:
    """Plan, and measure the tasks that the cache lacks on this machine."""
    device, threads = devices.find(flags.device), parse_threads(flags.threads)
    environment = current(device, threads)
    if plan.measures(request):
        request.check_device(environment)
    if DISTRIBUTED in request.sections:
        check_groups(environment.device)
    request = request.on(environment)
    machine = f"{environment.name} ({device.torch_name}"
    folder = machine_folder(flags.data, flags.machine, environment)
    cache = RunCache(Workloads(flags.data), folder, environment, flags.seed)
    before = listing.read_earlier(cache, request)
    if not flags.json:
        print(*before.announcements(), sep="\n", end="\n" if before.codes else "", flush=True)
    request = before.request_of(request)
    parts = plan.in_parts(plan.missing_tasks(request, cache), request, cache)
    tasks = [task for part in parts for task in part.tasks]
    if flags.json:
        print(json.dumps(listing.plan_as_json(tasks, environment, str(folder.folder)), indent=2))
    elif flags.plan:
        lines = [task.label for task in tasks]
        if request.budget_s is not None:
            lines = listing.parts_as_lines(parts, DurationEstimate(request, cache).ends_s(tasks), request.budget_s)
        print(*lines, f"{len(tasks)} to measure on {machine}) into {folder.folder}", sep="\n")
    elif not tasks:
        print(f"Nothing left to measure on {machine}): see {folder.folder}")
    if flags.plan or not tasks:
        if not flags.json:
            _print_earlier(cache)
        if not flags.plan:
            _print_contents(request, cache, [], flags)
        return 0
    folder.tables()  # a damaged table fails now, not after an hour
    if any(isinstance(task, HardwareCounterTask) for task in tasks):
        ncu.check(device)
    check_writable(flags.data)
    estimate = DurationEstimate(request, cache)
    if not cache.rows(Run):
        _check_budget(request.budget_s, tasks, estimate)
    is_of_machine = any(task.is_of_machine for task in tasks)
    if is_of_machine:
        waited_s = _wait(flags.wait, device.torch_name)
        deadline = None if deadline is None else deadline + waited_s
    limit = "" if request.budget_s is None else f", for {duration(request.budget_s)} at most"
    print(f"Measuring {machine}, {threads} threads) into {folder.folder}{limit}", flush=True)
    how = (
        {}
        if flags.try_anyway
        else {"refusal": MemoryFit(device.memory_byte(), cache.workloads, device.kind == "cpu").refusal}
    )
    display = runner.RunProgress(tasks, make_console(), deadline, flags.verbose, estimate.seconds)
    summary, done = runner.Summary(), set[Task]()
    lock = folder.locked(display.say) if is_of_machine else nullcontext()

    def store(task: Task, outcome: Any) -> None:
        put(cache, task, outcome, worker.facts)

    try:
        with closing(Worker(device.torch_name, threads, make_sampling(flags))) as worker, lock, display:
            while parts and not summary.left:
                part, *later = parts
                display.begin_part(part.title, part.tasks)
                runner.run(part.tasks, worker, store, display, deadline, summary=summary, **how)
                reached = len(part.tasks) - summary.left
                done.update(part.tasks[:reached])
                left = [*part.tasks[reached:], *(task for each in later for task in each.tasks)]
                if not left:
                    left = plan.further_tasks(request, cache, done)
                    display.extend(left)
                parts = plan.in_parts(left, request, cache)  # anew: the first roof improves the estimates
    except KeyboardInterrupt:
        files = f"the files are in {' and '.join(cache.places(tasks))}"
        print(f"\nStopped after {display.done} of {display.total}. Everything measured so far is kept; {files}")
        print(runner.resumption(flags.command, flags.force))
        return INTERRUPTED
    summary.left = sum(len(part.tasks) for part in parts)
    resume = [runner.resumption(flags.command, force=True)] if flags.force and parts else []
    print("\n".join([*runner.lines(summary, cache.places(tasks)), *before.lines(cache), *resume]))
    killed = [task for task, failure in summary.failures if failure == KILLED]  # the next run tries them again
    left = [*killed, *(task for part in parts for task in part.tasks)]
    _print_contents(request, cache, plan.in_parts(left, request, cache), flags)
    return _say_broken(_own_failures(summary, request))


def _note_broken(broken: Mapping[str, BrokenModelError], request: Request, workloads: Workloads) -> None:
    """Keep a row for each own model that fails before its inputs are known, unless it was counted when it worked."""
    counted = {row.model for row in workloads.rows(Workload) if row.status == "ok"}
    for name, problem in broken.items():
        if name not in counted:
            reason = str(problem).removeprefix("--models: ")
            model = Model(name, OWN, OWN, (1,))  # with some shape, as it has none
            workloads.put([not_counted(model, min(request.batch_sizes), FULL_PRECISION, None, "error", reason)])


def _own_failures(summary: runner.Summary, request: Request) -> list[str]:
    own = {model.name for model in request.models if model.source == OWN}
    failed = [(task, why) for task, why in summary.failures if task.columns.get("model") in own]
    return [f"{task.label}: {why.reason}" for task, why in failed if why.status == "error"]


def _say_broken(reasons: Iterable[object]) -> int:
    """Print why a user's own models were not measured, in red, and return the exit code."""
    if lines := "\n".join(f"without a result: {reason}" for reason in reasons):
        make_console(stderr=True).print(lines, style="red", markup=False, highlight=False, soft_wrap=True)
    return UserError.exit_code if lines else 0


def _check_budget(budget_s: float | None, tasks: Sequence[Task], estimate: DurationEstimate) -> None:
    """Raise UserError for a budget that ends before the first latency: no part of the paper would say more for it."""
    ends_s = (end_s for task, end_s in zip(tasks, estimate.ends_s(tasks), strict=True) if isinstance(task, RoundTask))
    least_s = next(ends_s, 0.0)
    if budget_s is not None and budget_s < least_s:
        why = f"{duration(budget_s)} end before the first latency, which is there after about {duration(least_s)}"
        raise UserError(f"--budget: {why}; give {5 * ceil(least_s / 5)}s or more, or fewer --models")


def _print_earlier(cache: RunCache) -> None:
    """Print when the folder's rows were measured, maybe by someone else on an equal machine."""
    if dates := sorted(row.recorded_at[:10] for row in cache.rows(Run)):
        since = f"from {dates[0]} to {dates[-1]}" if dates[0] != dates[-1] else f"on {dates[0]}"
        print(f"Rows in this folder were measured {since}; if not by you, --machine NAME keeps yours apart")


def _wait(limit_s: float | None, device: str) -> float:
    """Wait for quiet as ``--wait`` says, warn of other users of the machine, and return the time waited (s)."""
    waited_s = 0.0 if limit_s is None else wait_for_quiet(device, limit_s, partial(print, flush=True))
    hint = "" if limit_s is not None else "; --wait 2m waits up to two minutes for quiet"
    if warning := warning_of_use(device, hint):
        print(warning, file=sys.stderr)
    return waited_s


def _print_contents(request: Request, cache: RunCache, left: list[plan.Part], flags: argparse.Namespace) -> None:
    made_by = os.environ.get(MADE_BY)
    print("\n".join(listing.contents(request, cache, left, made_by or flags.command)))
    if not made_by:
        print(next_step(flags.data))


def measure_on_cluster(flags: argparse.Namespace, request: Request, deadline: float | None) -> int:
    from measure.run import cluster

    if HardwareCounterTask.section in request.sections:
        raise UserError("--sections: counters are read on one machine at a time; leave them or --cluster out")
    if DISTRIBUTED in request.sections:
        raise UserError("--sections: distributed takes all GPUs of one machine; leave it or --cluster out")
    names = ("device", "threads", "accelerators", "data", "machine", "try_anyway", "seed")
    settings = {name: getattr(flags, name) for name in names}
    ends = inf if deadline is None else deadline
    run = cluster.ClusterRun(request=request, sampling=make_sampling(flags), deadline=ends, **settings)
    resume = runner.resumption(flags.command, flags.force)
    with cluster.connected(flags.cluster), closing(run):
        run.open()
        kinds = run.kinds.values()
        before = [listing.read_earlier(kind.cache, request) for kind in kinds]
        for line in dict.fromkeys(line for each in before for line in each.announcements()):
            print(line, flush=True)
        for each in before:
            run.request = each.request_of(run.request)
        run.plan()
        if flags.plan:
            for kind in kinds:
                folder = kind.cache.folder
                print(*(f"{folder.name}: {task.label}\n" for task in kind.tasks), sep="", end="")
                print(f"{len(kind.tasks)} to measure on {kind.cache.environment.name} into {folder.folder}")
            return 0
        if not run.tasks:
            print(f"Nothing left to measure on the cluster: see {flags.data}")
            return 0
        check_writable(flags.data)
        try:
            summary = run.run()
        except KeyboardInterrupt:
            print(f"\nStopped. Everything measured so far is kept.\n{resume}")
            return INTERRUPTED
    places = sorted({str(kind.cache.folder.folder) for kind in kinds})
    moved = [line for each, kind in zip(before, kinds, strict=True) for line in each.lines(kind.cache)]
    print("\n".join([*runner.lines(summary, places), *moved, *([resume] if summary.left else [])]))
    print(next_step(flags.data))
    return _say_broken(_own_failures(summary, request))


def main(flags: argparse.Namespace) -> int:
    began = time.monotonic()
    if flags.print_completion:
        print(completion(flags.print_completion, parser()))
        return 0
    check_together(flags)
    if flags.verbose:
        log_to_stderr()
    stop_as_by_ctrl_c()  # before own models have a process
    request, broken = resolve_request(flags)
    if flags.list:
        rows = listing.models_as_rows(request.models, Workloads(flags.data).rows(Workload))
        print(json.dumps({"models": rows}, indent=2) if flags.json else "\n".join(listing.models_as_lines(rows)))
        return _say_broken(broken.values())
    if broken and not flags.plan:
        _note_broken(broken, request, Workloads(flags.data))
    deadline = None if request.budget_s is None else began + request.budget_s
    code = (measure_on_cluster if flags.cluster else measure)(flags, request, deadline)
    return _say_broken(broken.values()) or code
