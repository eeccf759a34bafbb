"""The flags of ``python -m measure``, and what they ask for.

Where measurements go: a machine's folder in the cache, checked before anything is measured.
"""

import argparse
import dataclasses
import os
import re
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path

from measure.cache.folders import MachineFolder, Workloads
from measure.cache.records import Environment
from measure.cache.schema import SHAPE
from measure.counting import count
from measure.domain import precisions, variants
from measure.domain.models import BUILT_IN, QUICK, STORY, Model
from measure.domain.words import EAGER, FULL_PRECISION, MOST_ROUNDS, PRECISIONS, ROUNDS, TARGET, TF32
from measure.errors import UserError, unknown
from measure.machine import processor
from measure.machine.environment import folder_name
from measure.models import catalog, own_models
from measure.models.isolated import Isolated
from measure.run import plan
from measure.run.task import Request
from measure.timing.sampling import Sampling, round_sampling
from measure.verbs.flags import VERBS, CommandLine

BATCH_SIZES = (1, 64, 256)
QUICK_BATCH_SIZES = (1, 64)
TRAINING_BATCH_SIZES = (32,)
SEEDS = 10**6
"""Seeds are below this."""


def parser() -> CommandLine:
    """Return the flags. Their values are checked in ``main``, so that every complaint is one sentence."""
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
    _add_what(flags)
    _add_where(flags)
    _add_how_long(flags)
    _add_what_to_show(flags)
    return flags


def _add_what(flags: CommandLine) -> None:
    """Add the flags that say what is measured."""

    def add(flag: str, metavar: str, help: str, default: Sequence[str] | None = None) -> None:
        flags.add_argument(flag, nargs="+", metavar=metavar, default=default, help=help)

    devices = "cpu, cuda or cuda:N (an NVIDIA GPU, or an AMD one with a torch for ROCm), mps or auto"
    flags.add_argument("--device", default="auto", help=f"{devices} (default: %(default)s)")
    add(
        "--models",
        "NAME",
        "names, globs such as 'vgg*', torchvision:GLOB, torchaudio:GLOB, timm:NAME or language:GLOB, and "
        "package.module:function, a function of yours that returns a network and its inputs for a batch size "
        "(default: the built-in list)",
    )
    flags.add_argument(
        "--native-size",
        action="store_true",
        help="count each model at its own input size instead of 224 x 224 (--sections workload)",
    )
    trained = [str(size) for size in TRAINING_BATCH_SIZES]
    known = ", ".join((EAGER, *variants.NAMES))
    add("--batch-sizes", "N", "inputs in one forward pass (default: 1 64 256)")
    add("--training-batch-sizes", "N", "inputs in one training step (default: 32)", trained)
    sgd = "sgd (with momentum) or adam, for training steps (default: sgd)"
    add("--optimizers", "O", sgd, [variants.SGD])
    add(
        "--precisions",
        "P",
        "fp32, tf32, fp16, bf16 (default: fp32; on an NVIDIA GPU bf16 too, or fp16 where it has no units for bf16)",
    )
    add(
        "--variants",
        "V",
        f"{known}, or several joined by '+' (default: eager, and on a processor under Linux kept_memory as well "
        "unless the run is quick or has a budget)",
    )
    flags.add_argument("--threads", metavar="N", help="CPU threads (default: the physical cores)")
    add("--sections", "S", _sections_help())


def _add_where(flags: CommandLine) -> None:
    """Add the flags that say on which machines, and into which folder."""
    flags.add_argument("--data", type=Path, default=Path("data"), help="the cache's folder (default: %(default)s)")
    flags.add_argument("--machine", metavar="NAME", help="the machine's folder below it (default: from the hardware)")
    flags.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="measure on all machines of a Ray cluster side by side: auto for the one of this machine, or an address",
    )
    flags.add_argument(
        "--accelerators",
        metavar="KINDS",
        help="of a cluster's GPUs those of these kinds, such as T4,L4,A100 (default: all)",
    )


def _add_how_long(flags: CommandLine) -> None:
    """Add the flags that say how much is measured, and how well."""
    flags.add_argument(
        "--quick",
        action="store_true",
        help="a small selection: eight models at batch sizes 1 and 64, a training step and the operators of two, and "
        "fewer of the roofs' kernels",
    )
    flags.add_argument(
        "--target",
        metavar="P",
        default=f"{TARGET:.0%}",
        help=f"the width of a latency's 95 %% interval to reach, as ± per cent of it (default: {TARGET:.0%}%)",
    )
    flags.add_argument(
        "--max-rounds",
        metavar="N",
        help=f"rounds of a cell at most, each in a fresh process: {ROUNDS}, then one more while the interval is wider "
        f"than the target (default: {MOST_ROUNDS}; in a quick run {ROUNDS})",
    )
    flags.add_argument(
        "--seed", metavar="N", help="draw the order of the cells with this number (default: another each time)"
    )
    flags.add_argument("--try-anyway", action="store_true", help="try also what by its workload cannot fit into memory")
    flags.add_argument(
        "--call-limit",
        metavar="TIME",
        default="60s",
        help="give a cell up, as a timeout, when one call takes longer than this (default: %(default)s)",
    )
    flags.add_argument(
        "--budget",
        metavar="TIME",
        help="stop after this time, such as 90s, 10m or 1h30m, and begin with something for every part of the paper; "
        "--plan shows what is expected to be reached (default: none, which has no end)",
    )


def _add_what_to_show(flags: CommandLine) -> None:
    """Add the switches beside what is measured."""
    for name, help in {
        "--plan": "show what would be measured, and measure nothing",
        "--list": "show the models (or those of --models), and measure nothing",
        "--force": "measure again what is measured already",
        "--json": "print what --plan or --list shows as JSON (docs/json.md)",
    }.items():
        flags.add_argument(name, action="store_true", help=help)
    flags.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="show each task, and say on standard error what is decided and why: what is left out, what memory is "
        "expected to hold, when a process starts and ends, how long it warms up, why sampling stops",
    )


def _sections_help() -> str:
    known = ", ".join(f"{name} ({section.help})" for name, section in plan.SECTIONS.items())
    unusual = " and ".join(name for name in plan.SECTIONS if name not in plan.USUAL_SECTIONS)
    return f"{known}; default: all without {unusual}"


def parse_time(flag: str, text: str) -> float:
    """Return the seconds of ``90s``, ``10m``, ``1h30m`` or a plain number of seconds."""
    match = re.fullmatch(r"(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s?)?", text.strip())
    hours, minutes, seconds_left = (int(part or 0) for part in match.groups()) if match else (0, 0, 0)
    seconds = 3600 * hours + 60 * minutes + seconds_left
    if seconds <= 0:
        raise UserError(f"{flag}: {text!r} is not a valid time; use 90s, 10m or 1h30m")
    return float(seconds)


def parse_budget(text: str | None) -> float | None:
    """Return the seconds of a budget; None where it is not given or ``none``."""
    return None if text in (None, "none") else parse_time("--budget", text)


def parse_batch_sizes(flag: str, texts: Sequence[str]) -> list[int]:
    """Return positive whole numbers, smallest first, each once."""
    for text in texts:
        if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) == 0:
            raise UserError(f"{flag}: {text!r} is not a valid batch size; use whole numbers ≥ 1, such as 1 64 256")
    return sorted({int(text) for text in texts})


def parse_shape(flag: str, text: str) -> tuple[int, ...]:
    """Return the sizes of an input that are joined by ``x``."""
    if not SHAPE.fits(text):
        raise UserError(f"{flag}: {text!r} is not a valid shape; use whole numbers joined by x, such as 3x224x224")
    return tuple(map(int, text.split("x")))


def parse_choices(flag: str, texts: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return the chosen ones in the known order, each once."""
    for text in texts:
        if text not in known:
            raise unknown(flag, text, known)
    return [choice for choice in known if choice in texts]


def parse_threads(text: str | None) -> int:
    """Return a positive number of threads; by default one for each physical core."""
    if text is None:
        return processor.physical_cores()
    if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) == 0:
        raise UserError(f"--threads: {text!r} is not a valid number of threads; use a whole number ≥ 1")
    if int(text) > (cores := processor.visible_cores()):
        raise UserError(f"--threads: {text} are more than this machine's cores; use at most {cores}")
    return int(text)


def parse_count(flag: str, text: str, least: int) -> int:
    """Return a whole number, ``least`` or more."""
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < least:
        raise UserError(f"{flag}: {text!r} is not a valid number; use a whole number ≥ {least}")
    return int(text)


def parse_percent(flag: str, text: str) -> float:
    """Return the part that ``5%`` or ``2.5 %`` is of 1."""
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*%", text.strip())
    if not match:
        raise UserError(f"{flag}: {text!r} is not a percentage; use 5% or 2.5%")
    return float(match[1]) / 100


def parse_target(text: str) -> float:
    """Return the part of the median that the interval's half width may be: above 0, at most 100 %."""
    share = parse_percent("--target", text)
    if not 0 < share <= 1:
        raise UserError(f"--target: {text!r} is not a valid width; use more than 0% and at most 100% of the median")
    return share


def check_together(arguments: argparse.Namespace) -> None:
    """Raise UserError for flags that say nothing, or two things, beside each other."""
    if arguments.plan and arguments.list:
        raise UserError("--plan and --list: show different things; give one of them")
    if arguments.json and not (arguments.plan or arguments.list):
        raise UserError("--json: is what --plan or --list shows; give one of them with it")
    if arguments.accelerators and not arguments.cluster:
        raise UserError("--accelerators: chooses among a cluster's GPUs; give --cluster with it, or --device cuda:N")
    if arguments.cluster and arguments.json:
        raise UserError("--json: shows one machine's plan; leave it out, or leave out --cluster")


def check_device(request: Request, environment: Environment) -> None:
    """Raise UserError where no cell could be measured for what was asked of a machine's device."""
    if not plan.measures(request):
        return
    request = request.on(environment)
    if TF32 in request.precisions and environment.device != "cuda":
        raise UserError(
            f"--precisions: tf32 is a format of NVIDIA's GPUs, which {environment.device} is not; leave it out or say "
            "--device cuda"
        )
    if precisions.lacks_units(environment, request.precisions):
        raise UserError(
            f"--precisions: {environment.name} has no units for {' and '.join(request.precisions)} (compute capability "
            f"{environment.capability}); use fp32 or fp16"
        )
    if any(map(variants.is_autocast, request.variants)) and set(request.precisions) <= {FULL_PRECISION, TF32}:
        raise UserError("--variants: autocast casts to fp16 or bf16; give --precisions bf16 with it")


def make_sampling(arguments: argparse.Namespace) -> Sampling:
    """Say when a round of a cell has been sampled enough."""
    return dataclasses.replace(
        round_sampling(arguments.quick, parse_budget(arguments.budget)),
        target=parse_target(arguments.target) / 2,  # what differs between rounds comes on top
        call_limit_s=parse_time("--call-limit", arguments.call_limit),
    )


def make_seed(text: str | None) -> int:
    """Return the seed of the order of cells: the given one, or another each time."""
    return secrets.randbelow(SEEDS) if text is None else parse_count("--seed", text, 0)


def _most_rounds(arguments: argparse.Namespace) -> int:
    if arguments.max_rounds is None:
        return ROUNDS if arguments.quick else MOST_ROUNDS
    return parse_count("--max-rounds", arguments.max_rounds, ROUNDS)


def make_request(arguments: argparse.Namespace, describe: Callable[[str], Model] = own_models.describe) -> Request:
    """Return what the flags ask for, checked; ``describe`` returns an own model by its name."""
    names = arguments.models or (QUICK if arguments.quick else [model.name for model in BUILT_IN])
    trained = arguments.models or (STORY if arguments.quick else names)
    sizes = arguments.batch_sizes or list(map(str, QUICK_BATCH_SIZES if arguments.quick else BATCH_SIZES))
    budget_s = parse_budget(arguments.budget)
    usual_variants = [EAGER] if arguments.quick or budget_s is not None else []
    sections = parse_choices("--sections", arguments.sections or plan.USUAL_SECTIONS, tuple(plan.SECTIONS))
    request = Request(
        models=catalog.find(names, arguments.native_size, describe),
        batch_sizes=parse_batch_sizes("--batch-sizes", sizes),
        precisions=parse_choices("--precisions", arguments.precisions or (), PRECISIONS),
        sections=sections,
        variants=list(dict.fromkeys(map(variants.named, arguments.variants or usual_variants))),
        training_models=catalog.find(trained, describe=describe),
        training_batch_sizes=parse_batch_sizes("--training-batch-sizes", arguments.training_batch_sizes),
        optimizers=parse_choices("--optimizers", arguments.optimizers, variants.OPTIMIZERS),
        most_rounds=_most_rounds(arguments),
        target=parse_target(arguments.target),
        quick=arguments.quick,
        force=arguments.force,
        budget_s=budget_s,
    )
    if arguments.native_size and plan.measures(request):
        raise UserError("--native-size: is counted, not measured; give --sections workload with it")
    return request


def make_isolated(arguments: argparse.Namespace) -> Isolated:
    """Return the process for a user's own models, whose code nothing is known of: it may hang, crash or end it."""
    return Isolated(parse_time("--call-limit", arguments.call_limit))


def make_fresh_request(arguments: argparse.Namespace) -> Request:
    """Return what the flags ask for, checked, with own models that are what was counted, unless by force."""
    with make_isolated(arguments) as own:
        request = make_request(arguments, own.describe)
        if not request.force:
            count.check(request.models, Workloads(arguments.data).models(), own)
    return request


def make_request_of_one(flag: str, arguments: argparse.Namespace) -> Request:
    """Return the same for one model. Raises UserError, naming ``flag`` for ``--models``, for none and for several."""
    try:
        request = make_fresh_request(arguments)
    except UserError as problem:
        raise UserError(str(problem).replace("--models:", f"{flag}:")) from None
    if len(request.models) > 1:
        (pattern,) = arguments.models
        raise UserError(f"{flag}: {pattern!r} selects {len(request.models)} models; name one")
    return request


def check_folder_name(name: str) -> None:
    """Raise UserError for what no machine's folder may be called."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise UserError(f"--machine: {name!r} is not a valid folder name; use letters, digits, '.', '_' and '-'")


def check_folder(path: Path, what: str) -> None:
    """Raise UserError where something else than a folder stands at a path, given for ``what``."""
    if path.exists() and not path.is_dir():
        raise UserError(f"{what}: {path} is a file; name a folder")


def machine_folder(data: Path, name: str | None, environment: Environment) -> MachineFolder:
    """Return this machine's folder. Raises UserError where another machine measured into a folder of that name."""
    if name is not None:
        check_folder_name(name)
    folder = MachineFolder(data, name or folder_name(environment))
    check_folder(folder.folder, "--machine")
    others = {row.name for row in folder.environments() if row.hardware_id != environment.hardware_id}
    if others:
        raise UserError(f"--machine: {folder.folder} holds another machine ({others.pop()}); choose another name")
    return folder


def check_writable(data: Path) -> None:
    """Raise UserError before anything is measured that could not be kept."""
    for folder in (data, data / "workload", data / "machines"):
        check_folder(folder, "--data")
    try:
        data.mkdir(parents=True, exist_ok=True)
        probe = data / f".writable-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as problem:
        raise UserError(f"--data: {data} cannot be written ({problem.strerror}); name a folder that can be") from None
