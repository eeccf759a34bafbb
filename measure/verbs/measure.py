"""``python -m measure`` without a verb: its flags, their checks, and a run that fills the cache."""

import argparse
import dataclasses
import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, nullcontext
from functools import partial
from math import ceil, inf
from typing import Any

from measure.cache.folders import MachineFolder, Workloads, machine_names
from measure.cache.records import Profile, Run
from measure.cache.workload_records import Workload
from measure.counting.count import not_counted
from measure.domain import variants
from measure.domain.models import ALL_MEASURED, BUILT_IN, OWN, QUICK, STORY, Model
from measure.domain.values import duration
from measure.domain.words import EAGER, FULL_PRECISION, MOST_ROUNDS, PRECISIONS, ROUNDS, TARGET
from measure.errors import UserError, as_called
from measure.machine import devices
from measure.machine.checks import wait_for_quiet, warning_of_use
from measure.machine.environment import current
from measure.models import catalog, identity
from measure.models.own_models import BrokenModelError
from measure.profiling import ncu
from measure.run import plan, runner
from measure.run.cell_tasks import HardwareCounterTask, RoundTask
from measure.run.estimate import DurationEstimate, MemoryFit
from measure.run.request import Request, parse_threads
from measure.run.sections import SECTIONS, USUAL_SECTIONS
from measure.run.task import KILLED, RunCache, Task, machine_folder
from measure.run.worker import IsolatedCalls, Worker
from measure.timing.sampling import Sampling, round_sampling
from measure.verbs import changes, flags
from measure.verbs.listing import contents, models_as_lines, models_as_rows, parts_as_lines, plan_as_json
from measure.verbs.terminal import log_to_stderr, make_console, stop_as_by_ctrl_c
from roofwright.command_line import INTERRUPTED, CommandLine, data_flag

MADE_BY = "ROOFWRIGHT_MADE_BY"  # where ``make``, which renders the paper next, names its own command


def parser() -> CommandLine:
    """Return the flags of a run."""
    verbs = {f"{name} {verb.values}".rstrip(): verb.help for name, verb in flags.VERBS.items()}
    width = max(map(len, verbs))
    command_line = CommandLine(
        prog=as_called("measure"),
        description="Measure how deep networks run on this machine, and keep the results as CSV.\n"
        "The same command resumes a run that was stopped: it measures only what is missing.\n\n"
        "A cell is a model at one batch size, precision and variant, in a forward pass or a training step.\n"
        "It is timed in several rounds, each in a fresh process. A variant is a way to run the same network.",
        epilog=f"Other commands, with flags of their own ({as_called('measure compare --help')}):\n"
        + "".join(f"  {verb:{width}}  {text}\n" for verb, text in verbs.items())
        + "\nExit codes: 0 done; 1 compare or doctor found a reason to fail; 2 bad input, or your model failed;"
        "\n130 stopped by Ctrl-C."
        f"\nThen render the paper: {as_called('report')}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = command_line.add_argument_group("what to measure").add_argument
    text = (
        "names, globs such as 'vgg*', torchvision:GLOB, torchaudio:GLOB, timm:NAME, language:GLOB, hf:NAME or "
        "hf:CONFIG.json (Hugging Face), and package.module:function, a function of yours that returns a network and "
        "its inputs for a batch size; or measured, all that a machine in the cache measured (default: the built-in "
        "list)"
    )
    add("--models", nargs="+", metavar="NAME", help=text)
    text = "eight models at batch sizes 1 and 64, a training step and the operators of two, and fewer roof kernels"
    add("--quick", action="store_true", help=text)
    usual = " and ".join(name for name in SECTIONS if name not in USUAL_SECTIONS)
    text = (
        f"{', '.join(f'{name} ({section.help})' for name, section in SECTIONS.items())}; default: all without {usual}"
    )
    add("--sections", nargs="+", choices=SECTIONS, default=USUAL_SECTIONS, metavar="S", help=text)
    text = "inputs in one forward pass (default: 1 64 256)"
    add("--batch-sizes", nargs="+", type=flags.parse_batch_size, metavar="N", help=text)
    text = "inputs in one training step (default: 32)"
    add("--training-batch-sizes", nargs="+", type=flags.parse_batch_size, default=[32], metavar="N", help=text)
    text = "sgd (with momentum) or adam, for training steps (default: sgd)"
    add("--optimizers", nargs="+", choices=variants.OPTIMIZERS, default=[variants.SGD], metavar="O", help=text)
    text = "fp32, tf32, fp16, bf16 (default: fp32; on an NVIDIA GPU also bf16, or fp16 if it has no units for bf16)"
    add("--precisions", nargs="+", choices=PRECISIONS, default=(), metavar="P", help=text)
    text = (
        f"{EAGER} (as it is), {', '.join(f'{each.name} ({each.help})' for each in variants.VARIANTS)}, or several "
        "joined by '+' (default: eager; on a processor under Linux also kept_memory, unless the run is quick or has a "
        "budget)"
    )
    add("--variants", nargs="+", metavar="V", help=text)
    text = "count each model at its own input size instead of 224 x 224 (--sections workload)"
    add("--native-size", action="store_true", help=text)
    add("--force", action="store_true", help="measure again what is measured already")
    where = command_line.add_argument_group("where")
    add = where.add_argument
    text = (
        "cpu, cuda or cuda:N (an NVIDIA GPU, or an AMD one with a torch for ROCm), mps or auto (default: %(default)s)"
    )
    add("--device", default="auto", metavar="DEVICE", help=text)
    add("--threads", metavar="N", help="CPU threads (default: the physical cores, fewer under a container's CPU limit)")
    flags.add_data(where)
    text = "the machine's folder in the cache (default: from the hardware)"
    add("--machine", type=flags.parse_folder_name, metavar="NAME", help=text)
    text = "measure on all machines of a Ray cluster at once: auto for this machine's cluster, or an address"
    add("--cluster", metavar="ADDRESS", help=text)
    add("--accelerators", metavar="KINDS", help="use only a cluster's GPUs of these kinds, such as T4,L4,A100")
    add = command_line.add_argument_group("how precisely, and for how long").add_argument
    text = "the wanted width of a latency's 95 %% interval, as ± per cent of it (default: %(default)s)"
    add("--target", type=_parse_target, default=f"{TARGET:.0%}", metavar="P", help=text)
    text = (
        f"the most rounds of a cell, each in a fresh process: {ROUNDS} that other programs leave alone, then one more "
        f"while the interval is wider than the target (default: {MOST_ROUNDS}; in a quick run {ROUNDS}); fewer than "
        f"{ROUNDS} give a range"
    )
    add("--max-rounds", type=flags.parse_count, metavar="N", help=text)
    text = (
        "stop after this time, such as 90s, 10m or 1h30m, and begin with the batch sizes that you name, then with "
        "something for every part of the paper; --plan shows how far it should reach (default: none, no end)"
    )
    add("--budget", type=_parse_budget, metavar="TIME", help=text)
    text = (
        "when other programs use the machine, wait up to this long for quiet before measuring, such as 2m; it does not "
        "count against the budget (default: say who uses it, and begin)"
    )
    add("--wait", type=flags.parse_time, metavar="TIME", help=text)
    text = "give a cell up, as a timeout, when one call takes longer than this (default: %(default)s)"
    add("--call-limit", type=flags.parse_time, default="60s", metavar="TIME", help=text)
    add("--try-anyway", action="store_true", help="try also cells whose counted tensors cannot fit into memory")
    text = "draw the order of the cells with this number (default: another each time)"
    add("--seed", type=partial(flags.parse_count, least=0), metavar="N", help=text)
    output = command_line.add_argument_group("what to print")
    add = output.add_argument
    instead = {"--plan": "show what would be measured, and measure nothing"}
    instead |= {"--list": "show the models (or those of --models), and measure nothing"}
    flags.add_formats(output, instead)
    add("--json", action="store_true", help="print the output of --plan or --list as JSON (docs/json.md)")
    text = "show each task, and log decisions on standard error: skipped cells, new processes, warm-up, sampling"
    add("-v", "--verbose", action="store_true", help=text)
    text = (
        "print the completion of the command roofwright for a shell, such as bash or zsh (needs shtab), and measure "
        "nothing"
    )
    add("--print-completion", metavar="SHELL", help=text)
    return command_line


def check_together(arguments: argparse.Namespace) -> None:
    """Raise UserError for flags that contradict each other, or need another flag."""
    if arguments.json and not (arguments.plan or arguments.list):
        raise UserError("--json: formats --plan or --list; give one of them with it")
    if arguments.accelerators and not arguments.cluster:
        raise UserError("--accelerators: chooses among a cluster's GPUs; give --cluster with it, or --device cuda:N")
    if arguments.cluster and arguments.wait:
        raise UserError("--wait: watches this machine alone; leave it out, or leave out --cluster")
    if arguments.cluster and arguments.json:
        raise UserError("--json: shows one machine's plan; leave it out, or leave out --cluster")


def _parse_budget(text: str) -> float | None:
    return None if text == "none" else flags.parse_time(text)


def _parse_target(text: str) -> float:
    share = flags.parse_percent(text)
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a valid width; use more than 0% and at most 100% of the median"
        )
    return share


def with_defaults(**given: Any) -> argparse.Namespace:
    """Return the flags of a run, with these values and the defaults of the others."""
    command_line = parser()
    command_line.set_defaults(**given)
    return command_line.parse_args([])


def make_sampling(arguments: argparse.Namespace) -> Sampling:
    """Return when a round of a cell has enough samples."""
    return dataclasses.replace(
        round_sampling(arguments.budget),
        target=arguments.target / 2,  # the variation between rounds comes on top
        call_limit_s=arguments.call_limit,
    )


def make_seed(given: int | None) -> int:
    """Return the seed of the order of cells, a random one by default."""
    return secrets.randbelow(10**6) if given is None else given


def _named_models(arguments: argparse.Namespace) -> list[str]:
    """Return the models that ``--models`` names. ``measured`` leaves out models that only their owner has."""
    names: list[str] = arguments.models or []
    if ALL_MEASURED not in names:
        return names
    folders = [MachineFolder(arguments.data, name) for name in machine_names(arguments.data)]
    rows = {row.model for folder in folders for record in (Run, Profile) for row in folder.rows(record)}
    measured = [name for name in sorted(rows) if catalog.knows(name)]
    if not measured:
        raise UserError(f"--models: no machine in {arguments.data} measured a model that is known here; name models")
    return [*measured, *(name for name in names if name != ALL_MEASURED)]


def make_request(arguments: argparse.Namespace, describe: Callable[[str], Model] = identity.describe) -> Request:
    """Check the flags and return the request. ``describe`` turns the name of a user's own model into a Model."""
    quick, budget_s = arguments.quick, arguments.budget
    named = _named_models(arguments)
    names = named or (QUICK if quick else [model.name for model in BUILT_IN])
    usual_variants = [EAGER] if quick or budget_s is not None else []
    most_rounds = arguments.max_rounds or (ROUNDS if quick else MOST_ROUNDS)
    sizes = arguments.batch_sizes or ([1, 64] if quick else [1, 64, 256])
    request = Request(
        models=catalog.find(names, arguments.native_size, describe),
        batch_sizes=sorted(set(sizes)),
        precisions=[name for name in PRECISIONS if name in arguments.precisions],
        sections=[name for name in SECTIONS if name in arguments.sections],
        variants=list(dict.fromkeys(map(variants.canonical_name, arguments.variants or usual_variants))),
        training_models=catalog.find(named or (STORY if quick else names), describe=describe),
        training_batch_sizes=sorted(set(arguments.training_batch_sizes)),
        optimizers=[name for name in variants.OPTIMIZERS if name in arguments.optimizers],
        rounds=min(ROUNDS, most_rounds),
        most_rounds=most_rounds,
        target=arguments.target,
        quick=quick,
        force=arguments.force,
        has_named_batches=arguments.batch_sizes is not None,
        budget_s=budget_s,
    )
    if arguments.native_size and plan.measures(request):
        raise UserError("--native-size: is counted, not measured; give --sections workload with it")
    return request


def resolve_request(arguments: argparse.Namespace) -> tuple[Request, dict[str, BrokenModelError]]:
    """Return the request, and why some of a user's own models are not in it. Raises UserError if all of them fail."""
    models, broken = dict[str, Model](), dict[str, BrokenModelError]()
    # Their code may hang or crash, so it runs in a process of its own
    with closing(IsolatedCalls(arguments.call_limit)) as own:
        for name in filter(catalog.is_own, dict.fromkeys(arguments.models or ())):
            try:
                models[name] = own.describe(name)
            except BrokenModelError as problem:
                broken[name] = problem
    arguments.models = [name for name in arguments.models or () if name not in broken]
    if broken and not arguments.models:
        raise UserError("\n".join(map(str, broken.values())))
    return make_request(arguments, models.__getitem__), broken


def resolve_request_of_one(flag: str, arguments: argparse.Namespace) -> Request:
    """Return the request for one model. Raises UserError, naming ``flag`` for ``--models``, for none or several."""
    try:
        request, _ = resolve_request(arguments)
    except UserError as problem:
        raise type(problem)(str(problem).replace("--models:", f"{flag}:")) from None
    if len(request.models) > 1:
        raise UserError(f"{flag}: {arguments.models[0]!r} selects {len(request.models)} models; name one")
    return request


def measure(arguments: argparse.Namespace, request: Request, deadline: float | None) -> int:
    """Plan, and measure the tasks that the cache lacks on this machine."""
    device, threads = devices.find(arguments.device), parse_threads(arguments.threads)
    environment = current(device, threads)
    if plan.measures(request):
        request.check_device(environment)
    request = request.on(environment)
    machine = f"{environment.name} ({device.torch_name}"
    folder = machine_folder(arguments.data, arguments.machine, environment)
    cache = RunCache(Workloads(arguments.data), folder, environment, make_seed(arguments.seed))
    before = changes.read_earlier(cache, request)
    if not arguments.json:
        print(*before.announcements(), sep="\n", end="\n" if before.codes else "", flush=True)
    request = before.request_of(request)
    parts = plan.in_parts(plan.missing_tasks(request, cache), request, cache)
    tasks = [task for part in parts for task in part.tasks]
    if arguments.json:
        print(json.dumps(plan_as_json(tasks, environment, str(folder.folder)), indent=2))
    elif arguments.plan:
        lines = [task.label for task in tasks]
        if request.budget_s is not None:
            lines = parts_as_lines(parts, DurationEstimate(request, cache).ends_s(tasks), request.budget_s)
        print(*lines, f"{len(tasks)} to measure on {machine}) into {folder.folder}", sep="\n")
    elif not tasks:
        print(f"Nothing left to measure on {machine}): see {folder.folder}")
    if arguments.plan or not tasks:
        if not arguments.json:
            _print_earlier(cache)
        if not arguments.plan:
            _print_contents(request, cache, [], arguments)
        return 0
    folder.tables()  # a damaged table fails now, not after an hour
    if any(isinstance(task, HardwareCounterTask) for task in tasks):
        ncu.check(device)
    flags.check_writable(arguments.data)
    estimate = DurationEstimate(request, cache)
    if not cache.rows(folder.rows(Run)):
        _check_budget(request.budget_s, tasks, estimate)
    is_of_machine = any(task.is_of_machine for task in tasks)
    if is_of_machine:
        waited_s = _wait(arguments.wait, device.torch_name)
        deadline = None if deadline is None else deadline + waited_s
    limit = "" if request.budget_s is None else f", for {duration(request.budget_s)} at most"
    print(f"Measuring {machine}, {threads} threads) into {folder.folder}{limit}", flush=True)
    how = {} if arguments.try_anyway else {"refusal": MemoryFit(device.memory_byte(), cache.workloads).refusal}
    display = runner.RunProgress(tasks, make_console(), deadline, arguments.verbose, estimate.seconds)
    summary, done = runner.Summary(), set[Task]()
    lock = folder.locked(display.say) if is_of_machine else nullcontext()
    try:
        with closing(Worker(device.torch_name, threads, make_sampling(arguments))) as worker, lock, display:
            while parts and not summary.left:
                part, *later = parts
                display.begin_part(part.title, part.tasks)
                runner.run(part.tasks, worker, cache.put, display, deadline, summary=summary, **how)
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
        print(runner.resumption(arguments.command, arguments.force))
        return INTERRUPTED
    summary.left = sum(len(part.tasks) for part in parts)
    resume = [runner.resumption(arguments.command, force=True)] if arguments.force and parts else []
    print("\n".join([*runner.lines(summary, cache.places(tasks)), *before.lines(cache), *resume]))
    killed = [task for task, failure in summary.failures if failure == KILLED]  # the next run tries them again
    left = [*killed, *(task for part in parts for task in part.tasks)]
    _print_contents(request, cache, plan.in_parts(left, request, cache), arguments)
    return _say_broken(_own_failures(summary, request))


def _note_broken(broken: Mapping[str, BrokenModelError], request: Request, workloads: Workloads) -> None:
    """Keep a row for each own model that fails before its inputs are known, unless it was counted when it worked."""
    known = {row.model for row in workloads.rows(Workload) if row.status == "ok"}
    for name, problem in broken.items():
        if name not in known:
            reason = str(problem).removeprefix("--models: ")
            model = Model(name, OWN, OWN, (1,))  # with some shape, as it has none
            workloads.put([not_counted(model, min(request.batch_sizes), FULL_PRECISION, None, "error", reason)])


def _own_failures(summary: runner.Summary, request: Request) -> list[str]:
    """Return why a user's own models failed."""
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
    if dates := sorted(row.recorded_at[:10] for row in cache.rows(cache.folder.rows(Run))):
        since = f"from {dates[0]} to {dates[-1]}" if dates[0] != dates[-1] else f"on {dates[0]}"
        print(f"What is there already was measured {since}; if not by you, --machine NAME keeps yours apart")


def _wait(limit_s: float | None, device: str) -> float:
    """Wait for quiet as ``--wait`` says, and return how long (s); say who uses the machine when a run begins on it."""
    waited_s = 0.0
    if limit_s is not None:
        waited_s = wait_for_quiet(device, limit_s, lambda line: print(line, flush=True))
    if warning := warning_of_use(device):
        hint = "" if limit_s is not None else "; --wait 2m waits up to two minutes for quiet"
        print(f"{warning}{hint}", file=sys.stderr)
    return waited_s


def _print_contents(request: Request, cache: RunCache, left: list[plan.Part], arguments: argparse.Namespace) -> None:
    """Print which parts of the paper this machine has and lacks, and the next command."""
    made_by = os.environ.get(MADE_BY)
    print("\n".join(contents(request, cache, left, made_by or arguments.command)))
    if not made_by:
        print(f"Next: {as_called('report')}{data_flag(arguments.data)}")


def measure_on_cluster(arguments: argparse.Namespace, request: Request, deadline: float | None) -> int:
    """Measure on all devices of a Ray cluster."""
    from measure.run import cluster

    if HardwareCounterTask.section in request.sections:
        raise UserError("--sections: counters are read on one machine at a time; leave them or --cluster out")
    names = ("device", "threads", "accelerators", "data", "machine", "try_anyway")
    settings = {name: getattr(arguments, name) for name in names}
    settings |= {"seed": make_seed(arguments.seed), "deadline": inf if deadline is None else deadline}
    run = cluster.ClusterRun(request=request, sampling=make_sampling(arguments), **settings)
    resume = runner.resumption(arguments.command, arguments.force)
    with cluster.connected(arguments.cluster), closing(run):
        run.open()
        kinds = run.kinds.values()
        before = [changes.read_earlier(kind.cache, request) for kind in kinds]
        for line in dict.fromkeys(line for each in before for line in each.announcements()):
            print(line, flush=True)
        for each in before:
            run.request = each.request_of(run.request)
        run.plan()
        if arguments.plan:
            for kind in kinds:
                folder = kind.cache.folder
                print(*(f"{folder.name}: {task.label}\n" for task in kind.tasks), sep="", end="")
                print(f"{len(kind.tasks)} to measure on {kind.cache.environment.name} into {folder.folder}")
            return 0
        if not run.tasks:
            print(f"Nothing left to measure on the cluster: see {arguments.data}")
            return 0
        flags.check_writable(arguments.data)
        try:
            summary = run.run()
        except KeyboardInterrupt:
            print(f"\nStopped. Everything measured so far is kept.\n{resume}")
            return INTERRUPTED
    places = sorted({str(kind.cache.folder.folder) for kind in kinds})
    moved = [line for each, kind in zip(before, kinds, strict=True) for line in each.lines(kind.cache)]
    print("\n".join([*runner.lines(summary, places), *moved, *([resume] if summary.left else [])]))
    print(f"Next: {as_called('report')}{data_flag(arguments.data)}")
    return _say_broken(_own_failures(summary, request))


def main(arguments: argparse.Namespace) -> int:
    """Return exit code 0, or 130 after Ctrl-C. Raises UserError for bad input."""
    began = time.monotonic()
    if arguments.print_completion:
        print(flags.completion(arguments.print_completion, parser()))
        return 0
    check_together(arguments)
    if arguments.verbose:
        log_to_stderr()
    stop_as_by_ctrl_c()  # before own models have a process
    request, broken = resolve_request(arguments)
    if arguments.list:
        rows = models_as_rows(request.models, Workloads(arguments.data).rows(Workload))
        print(json.dumps({"models": rows}, indent=2) if arguments.json else "\n".join(models_as_lines(rows)))
        return _say_broken(broken.values())
    if broken and not arguments.plan:
        _note_broken(broken, request, Workloads(arguments.data))
    deadline = None if request.budget_s is None else began + request.budget_s
    code = (measure_on_cluster if arguments.cluster else measure)(arguments, request, deadline)
    return _say_broken(broken.values()) or code
