"""The flags of a run, their checks, and the request that they make."""

import argparse
import dataclasses
import secrets
from collections.abc import Callable, Collection
from contextlib import closing
from functools import partial
from typing import Any

from measure.cache.folders import MachineFolder, machine_names
from measure.domain import variants
from measure.domain.models import ALL_MEASURED, BUILT_IN, QUICK, STORY, Model
from measure.domain.records import Profile, Run
from measure.domain.words import EAGER, MOST_ROUNDS, PRECISIONS, ROUNDS, TARGET
from measure.errors import UserError, as_called
from measure.models import catalog, identity
from measure.models.own_models import BrokenModelError
from measure.run import plan
from measure.run.group_storing import gpu_count
from measure.run.request import Request
from measure.run.sections import DISTRIBUTED, SECTIONS, USUAL_SECTIONS
from measure.run.worker import IsolatedCalls
from measure.timing.sampling import Sampling, round_sampling
from measure.verbs import flags
from roofwright.command_line import CommandLine


def parser() -> CommandLine:
    verbs = {f"{name} {verb.values}".rstrip(): verb.help for name, verb in flags.VERBS.items()}
    width = max(map(len, verbs))
    command_line = CommandLine(
        prog=as_called("measure"),
        description="Measure how deep networks run on this machine, and keep the results as CSV.\n"
        "The same command resumes a stopped run: it measures only the rest.\n\n"
        "A cell is a model at one batch size, precision and variant, in a forward pass or a training step.\n"
        "It is timed in several rounds, each in a fresh process. A variant is a way to run the same network.",
        epilog=f"Other commands, with flags of their own ({as_called('measure compare --help')}):\n"
        + "".join(f"  {verb:{width}}  {text}\n" for verb, text in verbs.items())
        + "\nExit codes: 0 done; 1 compare or doctor found a reason to fail; 2 bad input, or your model failed;"
        "\n130 stopped by Ctrl-C."
        f"\nThen render the paper: {as_called('report')}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = command_line.add_argument_group("models and cells").add_argument
    text = (
        "names, globs such as 'vgg*', torchvision:GLOB, torchaudio:GLOB, timm:NAME, language:GLOB, hf:NAME or "
        "hf:CONFIG.json (Hugging Face), and package.module:function or package.module:GLOB, functions of yours that "
        "return a network and its inputs for a batch size; or measured, all models of the cache's machines (default: "
        "the built-in list)"
    )
    add("--models", nargs="+", metavar="NAME", help=text)
    text = "eight models at batch sizes 1 and 64, a training step and the operators of two, and fewer roof kernels"
    add("--quick", action="store_true", help=text)
    usual = " and ".join(name for name in SECTIONS if name not in USUAL_SECTIONS)
    listed = ", ".join(f"{name} ({section.help})" for name, section in SECTIONS.items())
    add(
        "--sections",
        nargs="+",
        choices=SECTIONS,
        default=USUAL_SECTIONS,
        metavar="S",
        help=f"{listed}; default: all without {usual}; a machine with several GPUs has {DISTRIBUTED} too, for their "
        "links decide how fast they train, unless the run is quick or names one of them",
    )
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
    add("--force", action="store_true", help="measure all of it again")
    where = command_line.add_argument_group("where")
    add = where.add_argument
    text = "cpu, cuda or cuda:N (an NVIDIA GPU, or an AMD one with torch for ROCm), mps or auto (default: auto)"
    add("--device", default="auto", metavar="DEVICE", help=text)
    flags.add_data(where)
    flags.add_place(where)
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
    add("--try-anyway", action="store_true", help="try also cells with counted tensors that cannot fit into memory")
    text = "draw the order of the cells with this number (default: another each time)"
    seed = secrets.randbelow(10**6)
    add("--seed", type=partial(flags.parse_count, least=0), default=seed, metavar="N", help=text)
    output = command_line.add_argument_group("output")
    add = output.add_argument
    instead = {"--plan": "list the tasks, and measure nothing"}
    instead |= {"--list": "list the models (all, or as --models says), and measure nothing"}
    flags.add_formats(output, instead)
    add("--json", action="store_true", help="print the output of --plan or --list as JSON (docs/json.md)")
    text = "show each task, and log decisions on standard error: skipped cells, new processes, warm-up, sampling"
    add("-v", "--verbose", action="store_true", help=text)
    text = "print the completion of roofwright for a shell, such as bash or zsh (needs shtab), and measure nothing"
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
        raise argparse.ArgumentTypeError(f"{text!r} is not a valid width; use more than 0% and at most 100%")
    return share


def with_defaults(**given: Any) -> argparse.Namespace:
    """Return the flags of a run, given some values."""
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


def _named_models(arguments: argparse.Namespace) -> list[str]:
    """Return the models that ``--models`` names. ``measured`` leaves out models that only their owner has."""
    names: list[str] = arguments.models or []
    if ALL_MEASURED not in names:
        return names
    folders = [MachineFolder(arguments.data, name) for name in machine_names(arguments.data)]
    rows = {row.model for folder in folders for record in (Run, Profile) for row in folder.rows(record)}
    measured = [name for name in sorted(rows) if catalog.knows(name)]
    if not measured:
        raise UserError(f"--models: no machine in {arguments.data} measured a model of a library; name models")
    return [*measured, *(name for name in names if name != ALL_MEASURED)]


def _sections(arguments: argparse.Namespace) -> Collection[str]:
    """Return the sections of the flags. A run that names none measures the links of several GPUs as well."""
    sections: Collection[str] = arguments.sections
    is_of_all = arguments.device in ("auto", "cuda")
    is_of_all &= not (arguments.quick or arguments.cluster or arguments.list)  # a list asks no driver
    if sections is USUAL_SECTIONS and is_of_all and gpu_count() > 1:
        return {*sections, DISTRIBUTED}
    return sections


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
        sections=[name for name in SECTIONS if name in _sections(arguments)],
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
        has_named_models=bool(named),
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
        names = list[str]()
        for given in arguments.models or ():
            try:
                names += own.match(given) if catalog.is_own(given) else [given]
            except BrokenModelError as problem:
                broken[given] = problem
        for name in filter(catalog.is_own, dict.fromkeys(names)):
            try:
                models[name] = own.describe(name)
            except BrokenModelError as problem:
                broken[name] = problem
    arguments.models = [name for name in names if name not in broken]
    if broken and not arguments.models:
        raise UserError("\n".join(map(str, broken.values())))
    return make_request(arguments, models.__getitem__), broken


def resolve_request_of_one(flag: str, arguments: argparse.Namespace) -> Request:
    """Return the request for one model. Raises UserError, naming ``flag`` for ``--models``, for none or several."""
    try:
        given = arguments.models[0]
        request, _ = resolve_request(arguments)
    except UserError as problem:
        raise type(problem)(str(problem).replace("--models:", f"{flag}:")) from None
    if len(request.models) > 1:
        raise UserError(f"{flag}: {given!r} selects {len(request.models)} models; name one")
    return request
