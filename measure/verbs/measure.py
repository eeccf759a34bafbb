"""``python -m measure`` without a verb: its flags, their checks, and a run that fills the cache."""

import argparse
import dataclasses
import json
import logging
import os
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path

from measure.cache.folders import Workloads
from measure.counting import count
from measure.domain import variants
from measure.domain.latency import Cell
from measure.domain.models import BUILT_IN, QUICK, STORY, Model
from measure.domain.values import duration
from measure.domain.words import EAGER, MOST_ROUNDS, PRECISIONS, ROUNDS, TARGET
from measure.errors import UserError
from measure.machine import devices
from measure.machine.checks import warning_of_load
from measure.machine.environment import current
from measure.models import catalog, own_models
from measure.run import plan, runner
from measure.run.estimate import DurationEstimate, MemoryFit
from measure.run.plan import Part, models_as_json, models_as_lines, parts_as_lines, plan_as_json
from measure.run.request import Request, parse_threads
from measure.run.run_cache import RunCache, Sitting, machine_folder
from measure.run.sections import SECTIONS, USUAL_SECTIONS
from measure.run.task import Task
from measure.run.worker import IsolatedCalls, Worker
from measure.timing.sampling import Sampling, round_sampling
from measure.verbs.flags import (
    VERBS,
    CommandLine,
    check_folder,
    check_folder_name,
    check_writable,
    data_flag,
    parse_batch_sizes,
    parse_choices,
    parse_count,
    parse_percent,
    parse_time,
)
from measure.verbs.terminal import INTERRUPTED, log_to_stderr, make_console, stop_as_by_ctrl_c

_log = logging.getLogger("measure")

MADE_BY = "ROOFWRIGHT_MADE_BY"
"""``make`` puts its own command into this environment variable, and renders the paper next."""

BATCH_SIZES, QUICK_BATCH_SIZES, TRAINING_BATCH_SIZES = ("1", "64", "256"), ("1", "64"), ("32",)
SEEDS = 10**6
"""Seeds are below this."""


def parser() -> CommandLine:
    """Return the flags. Their values stay text here; ``make_request`` checks them, one sentence a complaint."""
    flags = CommandLine(
        prog="python -m measure",
        description="Measure how deep networks run on this machine, and keep the results as CSV.\n"
        "What is measured already is not measured again: the same command resumes a run that was stopped.",
        epilog="Commands beside it, with flags of their own (python -m measure compare --help):\n"
        + "".join(f"  {line}\n" for line in VERBS.values())
        + "\nExit codes: 0 done; 1 what compare and doctor were asked to fail on; 2 bad input; 130 stopped by Ctrl-C."
        "\nThen render the paper: python -m report",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = flags.add_argument
    several, switch = partial(add, nargs="+"), partial(add, action="store_true")
    names = ", ".join((EAGER, *variants.NAMES))
    sections = ", ".join(f"{name} ({section.help})" for name, section in SECTIONS.items())
    unusual = " and ".join(name for name in SECTIONS if name not in USUAL_SECTIONS)
    add(
        "--device",
        default="auto",
        help="cpu, cuda or cuda:N (an NVIDIA GPU, or an AMD one with a torch for ROCm), mps or auto "
        "(default: %(default)s)",
    )
    several(
        "--models",
        metavar="NAME",
        help="names, globs such as 'vgg*', torchvision:GLOB, torchaudio:GLOB, timm:NAME or language:GLOB, and "
        "package.module:function, a function of yours that returns a network and its inputs for a batch size "
        "(default: the built-in list)",
    )
    switch("--native-size", help="count each model at its own input size instead of 224 x 224 (--sections workload)")
    several("--batch-sizes", metavar="N", help="inputs in one forward pass (default: 1 64 256)")
    several(
        "--training-batch-sizes",
        metavar="N",
        default=TRAINING_BATCH_SIZES,
        help="inputs in one training step (default: 32)",
    )
    several(
        "--optimizers",
        metavar="O",
        default=[variants.SGD],
        help="sgd (with momentum) or adam, for training steps (default: sgd)",
    )
    several(
        "--precisions",
        metavar="P",
        help="fp32, tf32, fp16, bf16 (default: fp32; on an NVIDIA GPU bf16 too, or fp16 where it has no units for "
        "bf16)",
    )
    several(
        "--variants",
        metavar="V",
        help=f"{names}, or several joined by '+' (default: eager, and on a processor under Linux kept_memory as well "
        "unless the run is quick or has a budget)",
    )
    add("--threads", metavar="N", help="CPU threads (default: the physical cores)")
    several("--sections", metavar="S", help=f"{sections}; default: all without {unusual}")
    add("--data", type=Path, default=Path("data"), help="the cache's folder (default: %(default)s)")
    add("--machine", metavar="NAME", help="the machine's folder below it (default: from the hardware)")
    add(
        "--cluster",
        metavar="ADDRESS",
        help="measure on all machines of a Ray cluster side by side: auto for the one of this machine, or an address",
    )
    add(
        "--accelerators",
        metavar="KINDS",
        help="of a cluster's GPUs those of these kinds, such as T4,L4,A100 (default: all)",
    )
    switch(
        "--quick",
        help="a small selection: eight models at batch sizes 1 and 64, a training step and the operators of two, and "
        "fewer of the roofs' kernels",
    )
    add(
        "--target",
        metavar="P",
        default=f"{TARGET:.0%}",
        help=f"the width of a latency's 95 %% interval to reach, as ± per cent of it (default: {TARGET:.0%}%)",
    )
    add(
        "--max-rounds",
        metavar="N",
        help=f"rounds of a cell at most, each in a fresh process: {ROUNDS}, then one more while the interval is wider "
        f"than the target (default: {MOST_ROUNDS}; in a quick run {ROUNDS})",
    )
    add("--seed", metavar="N", help="draw the order of the cells with this number (default: another each time)")
    switch("--try-anyway", help="try also what by its workload cannot fit into memory")
    add(
        "--call-limit",
        metavar="TIME",
        default="60s",
        help="give a cell up, as a timeout, when one call takes longer than this (default: %(default)s)",
    )
    add(
        "--budget",
        metavar="TIME",
        help="stop after this time, such as 90s, 10m or 1h30m, and begin with something for every part of the paper; "
        "--plan shows what is expected to be reached (default: none, which has no end)",
    )
    switch("--plan", help="show what would be measured, and measure nothing")
    switch("--list", help="show the models (or those of --models), and measure nothing")
    switch("--force", help="measure again what is measured already")
    switch("--json", help="print what --plan or --list shows as JSON (docs/json.md)")
    switch(
        "-v",
        "--verbose",
        help="show each task, and say on standard error what is decided and why: what is left out, what memory is "
        "expected to hold, when a process starts and ends, how long it warms up, why sampling stops",
    )
    return flags


def check_together(arguments: argparse.Namespace) -> None:
    """Raise UserError for flags that contradict each other, or need another flag."""
    if arguments.plan and arguments.list:
        raise UserError("--plan and --list: show different things; give one of them")
    if arguments.json and not (arguments.plan or arguments.list):
        raise UserError("--json: is what --plan or --list shows; give one of them with it")
    if arguments.accelerators and not arguments.cluster:
        raise UserError("--accelerators: chooses among a cluster's GPUs; give --cluster with it, or --device cuda:N")
    if arguments.cluster and arguments.json:
        raise UserError("--json: shows one machine's plan; leave it out, or leave out --cluster")


def parse_budget(text: str | None) -> float | None:
    """Return the seconds of a budget; None without one."""
    return None if text in (None, "none") else parse_time("--budget", text)


def _parse_target(text: str) -> float:
    share = parse_percent("--target", text)
    if not 0 < share <= 1:
        raise UserError(f"--target: {text!r} is not a valid width; use more than 0% and at most 100% of the median")
    return share


def make_sampling(arguments: argparse.Namespace) -> Sampling:
    """Return when a round of a cell has enough samples."""
    return dataclasses.replace(
        round_sampling(arguments.quick, parse_budget(arguments.budget)),
        target=_parse_target(arguments.target) / 2,  # the variation between rounds comes on top
        call_limit_s=parse_time("--call-limit", arguments.call_limit),
    )


def make_seed(text: str | None) -> int:
    """Return the seed of the order of cells, a random one by default."""
    return secrets.randbelow(SEEDS) if text is None else parse_count("--seed", text, 0)


def make_request(arguments: argparse.Namespace, describe: Callable[[str], Model] = own_models.describe) -> Request:
    """Check the flags and return the request. ``describe`` turns the name of a user's own model into a Model."""
    names = arguments.models or (QUICK if arguments.quick else [model.name for model in BUILT_IN])
    trained = arguments.models or (STORY if arguments.quick else names)
    sizes = arguments.batch_sizes or (QUICK_BATCH_SIZES if arguments.quick else BATCH_SIZES)
    budget_s = parse_budget(arguments.budget)
    usual_variants = [EAGER] if arguments.quick or budget_s is not None else []
    sections = parse_choices("--sections", arguments.sections or USUAL_SECTIONS, tuple(SECTIONS))
    most_rounds = ROUNDS if arguments.quick else MOST_ROUNDS
    if arguments.max_rounds is not None:
        most_rounds = parse_count("--max-rounds", arguments.max_rounds, ROUNDS)
    request = Request(
        models=catalog.find(names, arguments.native_size, describe),
        batch_sizes=parse_batch_sizes("--batch-sizes", sizes),
        precisions=parse_choices("--precisions", arguments.precisions or (), PRECISIONS),
        sections=sections,
        variants=list(dict.fromkeys(map(variants.canonical_name, arguments.variants or usual_variants))),
        training_models=catalog.find(trained, describe=describe),
        training_batch_sizes=parse_batch_sizes("--training-batch-sizes", arguments.training_batch_sizes),
        optimizers=parse_choices("--optimizers", arguments.optimizers, variants.OPTIMIZERS),
        most_rounds=most_rounds,
        target=_parse_target(arguments.target),
        quick=arguments.quick,
        force=arguments.force,
        budget_s=budget_s,
    )
    if arguments.native_size and plan.measures(request):
        raise UserError("--native-size: is counted, not measured; give --sections workload with it")
    return request


def resolve_request(arguments: argparse.Namespace) -> Request:
    """Return the request, with a user's own models described and compared to their earlier counts.

    Their code may hang or crash, so it runs in a process of its own. ``--force`` skips the comparison, ``--list`` too.
    """
    with IsolatedCalls(parse_time("--call-limit", arguments.call_limit)) as own:
        request = make_request(arguments, own.describe)
        if not (request.force or arguments.list):
            count.check(request.models, Workloads(arguments.data).models(), own.call)
    return request


def resolve_request_of_one(flag: str, arguments: argparse.Namespace) -> Request:
    """Return the request for one model. Raises UserError, naming ``flag`` for ``--models``, for none or several."""
    try:
        request = resolve_request(arguments)
    except UserError as problem:
        raise UserError(str(problem).replace("--models:", f"{flag}:")) from None
    if len(request.models) > 1:
        (pattern,) = arguments.models
        raise UserError(f"{flag}: {pattern!r} selects {len(request.models)} models; name one")
    return request


def show_models(data: Path, models: Sequence[Model], as_json: bool) -> None:
    """Print the models with their counts, as far as they were counted."""
    counted = Workloads(data).models()
    if as_json:
        print(json.dumps(models_as_json(models, counted), indent=2))
    else:
        print("\n".join(models_as_lines(models, counted)))


def show_plan(parts: Sequence[Part], request: Request, cache: RunCache, torch_name: str, as_json: bool) -> None:
    """Print the tasks to do; with a budget, also how many of each part it is expected to reach."""
    tasks = [task for part in parts for task in part.tasks]
    if as_json:
        print(json.dumps(plan_as_json(tasks, cache.environment, str(cache.folder.folder)), indent=2))
        return
    if request.budget_s is None:
        lines = [task.label for task in tasks]
    else:
        lines = parts_as_lines(parts, DurationEstimate(request, cache).ends_s(tasks), request.budget_s)
    for line in lines:
        print(line)
    print(f"{len(tasks)} to measure on {cache.environment.name} ({torch_name}) into {cache.folder.folder}")


def measure(arguments: argparse.Namespace) -> int:
    """Plan, and measure the tasks that the cache lacks."""
    began = time.monotonic()
    request = resolve_request(arguments)
    deadline = None if request.budget_s is None else began + request.budget_s
    device = devices.find(arguments.device)
    threads = parse_threads(arguments.threads)
    sampling = make_sampling(arguments)
    environment = current(device, threads)
    if plan.measures(request):
        request.check_device(environment)
    request = request.on(environment)
    machine = f"{environment.name} ({device.torch_name}"
    _log.info("%s), %d threads: environment %s", machine, threads, environment.environment_id)
    folder = machine_folder(arguments.data, arguments.machine, environment)
    cache = RunCache(Workloads(arguments.data), folder, environment, Sitting(seed=make_seed(arguments.seed)))
    tasks = plan.missing_tasks(request, cache)
    parts = plan.in_parts(tasks, request, cache)
    if arguments.plan:
        show_plan(parts, request, cache, device.torch_name, arguments.json)
        return 0
    if not tasks:
        print(f"Nothing left to measure on {machine}): see {folder.folder}")
        _print_contents(request, cache, [], arguments)
        return 0
    folder.tables()  # a damaged table fails now, not after an hour
    for section in {type(task) for task in tasks}:
        section.check(device)
    check_writable(arguments.data)
    if any(task.is_of_machine for task in tasks) and (warning := warning_of_load()):
        print(warning, file=sys.stderr)
    limit = "" if request.budget_s is None else f", for {duration(request.budget_s)} at most"
    print(f"Measuring {machine}, {threads} threads) into {folder.folder}{limit}", flush=True)
    memory = MemoryFit(device.memory_byte(), cache.workloads.models)
    with closing(Worker(device.torch_name, threads, sampling)) as worker:
        return _do(parts, request, cache, worker, memory, arguments, deadline)


def _do(
    parts: Sequence[Part],
    request: Request,
    cache: RunCache,
    worker: Worker,
    memory: MemoryFit,
    arguments: argparse.Namespace,
    deadline: float | None,
) -> int:
    """Do the tasks part by part, then the further rounds that their results call for, and print the summary."""
    from measure.run import progress as summary
    from measure.run.progress import RunProgress

    stop_as_by_ctrl_c()
    tasks = [task for part in parts for task in part.tasks]
    refusal = runner.no_refusal if arguments.try_anyway else memory.refusal
    progress = RunProgress(tasks, make_console(), deadline, arguments.verbose)
    lock = cache.folder.locked(progress.say) if any(task.is_of_machine for task in tasks) else nullcontext()
    places, resume = cache.places(tasks), summary.resumption(arguments.command, arguments.force)
    outcome, done, hopeless = runner.Summary(), set[Task](), set[Cell]()
    try:
        with lock, progress:
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
                parts = plan.in_parts(left, request, cache)  # anew: the first roof improves the estimates
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
    _print_contents(request, cache, parts, arguments)
    return 0


def _print_contents(request: Request, cache: RunCache, left: Sequence[Part], arguments: argparse.Namespace) -> None:
    """Print what the paper has and lacks of this machine, and the next command."""
    from measure.run import progress as summary

    made_by = os.environ.get(MADE_BY)
    print("\n".join(summary.contents(request, cache, left, made_by or arguments.command)))
    if not made_by:
        print(f"Next: python -m report{data_flag(arguments.data)}")


def measure_on_cluster(arguments: argparse.Namespace) -> int:
    """Measure on all devices of a Ray cluster."""
    from measure.run import cluster

    began = time.monotonic()
    request, sampling, seed = resolve_request(arguments), make_sampling(arguments), make_seed(arguments.seed)
    deadline = None if request.budget_s is None else began + request.budget_s
    run = cluster.ClusterRun(
        request=request,
        sampling=sampling,
        device=arguments.device,
        threads=arguments.threads,
        accelerators=arguments.accelerators,
        data=arguments.data,
        machine=arguments.machine,
        seed=seed,
        deadline=deadline,
        try_anyway=arguments.try_anyway,
    )
    from measure.run.progress import lines, resumption

    resume = resumption(arguments.command, arguments.force)
    with cluster.connected(arguments.cluster), closing(run):
        run.open()
        if arguments.plan:
            print("\n".join(run.plan_lines()))
            return 0
        if not run.has_tasks:
            print(f"Nothing left to measure on the cluster: see {arguments.data}")
            return 0
        check_writable(arguments.data)
        try:
            summary = run.run()
        except KeyboardInterrupt:
            print(f"\nStopped. Everything measured so far is kept.\n{resume}")
            return INTERRUPTED
    print("\n".join(lines(summary, run.folders)))
    if summary.left:
        print(resume)
    print(f"Next: python -m report{data_flag(arguments.data)}")
    return 0


def main(argv: Sequence[str]) -> int:
    """Return exit code 0, or 130 after Ctrl-C. Raises UserError for bad input."""
    arguments = parser().parse_args(argv)
    check_together(arguments)
    check_folder(arguments.data, "--data")
    if arguments.machine is not None:
        check_folder_name(arguments.machine)
    if arguments.verbose:
        log_to_stderr()
    if arguments.list:
        show_models(arguments.data, resolve_request(arguments).models, arguments.json)
        return 0
    return measure_on_cluster(arguments) if arguments.cluster else measure(arguments)
