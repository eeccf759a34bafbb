"""The verbs, the types of their flags' values, and the completion of both in a shell."""

import argparse
import importlib
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

from measure.domain import variants
from measure.domain.models import BUILT_IN
from measure.domain.words import EAGER
from measure.errors import UserError, as_called, by_spaces, quote, unknown
from roofwright.command_line import CommandLine, data_flag

LARGEST_COUNT = 10**9 - 1
Verbs: TypeAlias = "argparse._SubParsersAction[CommandLine]"
Run = Callable[[argparse.Namespace], int]  # returns the exit code, and raises UserError for bad input


class Verb(NamedTuple):
    """The file in ``measure/verbs`` that declares a verb, and the verb's line in ``python -m measure --help``."""

    file: str
    values: str
    help: str


VERBS = {
    "model": Verb("model", "NAME", "counts, roof, latency, costliest layers of one model, and the first thing to try"),
    "show": Verb("show", "", "the cells in the cache, with their latencies and intervals"),
    "compare": Verb("compare", "A B", "the changes between two caches or environments, cell by cell, or two traces"),
    "import-ncu": Verb("imports", "FILE", "add hardware counters that Nsight Compute read elsewhere to the cache"),
    "import-trace": Verb("traces", "FILE", "where the time of a recorded step goes: a torch.profiler trace of any GPU"),
    "trace": Verb("traces", "NAME", "an imported trace: time by kind of layer, roof, largest loss"),
    "pack": Verb("sharing", "FILE.zip", "put a machine's measurements into a zip, for somebody who adds it"),
    "share": Verb("sharing", "", "pack a machine's measurements, check them, and say how to send them"),
    "add-machine": Verb("sharing", "FOLDER|ZIP", "check another person's measurements, and add them to the cache"),
    "add-published": Verb("imports", "FILE", "check a table of published GPU timings, and add it to the cache"),
    "fit": Verb("upkeep", "", "fit the prediction of latencies to all timed cells, and check it"),
    "predict": Verb("predict", "MODEL", "the least and the likely time of a model on chips that were not measured"),
    "plan": Verb(
        "plan", "NAME", "plans of several GPUs: memory, communication, least step time, and how many GPUs pay"
    ),
    "count-published": Verb("imports", "", "count the models of published timings, at their input sizes"),
    "forget": Verb("upkeep", "MODEL", "remove a model's measurements and counts from the cache"),
    "doctor": Verb("upkeep", "", "find causes of bad measurements on this machine, and say how to fix them"),
}


def add_verb(verbs: Verbs, name: str, run: Run) -> CommandLine:
    """Add a verb that ``run`` carries out and its docstring describes, with ``--data``; return its parser."""
    about = " ".join((run.__doc__ or "").split())
    flags: CommandLine = verbs.add_parser(name, help=VERBS[name].help, description=about)
    flags.set_defaults(run=run)
    add_data(flags)
    return flags


def declare(verbs: Verbs, names: Iterable[str]) -> None:
    """Add the verbs of these names, with the others in their files: each file has a function ``add_verbs``."""
    for file in dict.fromkeys(VERBS[name].file for name in names):
        importlib.import_module(f"measure.verbs.{file}").add_verbs(verbs)


def parser_of(verb: str) -> CommandLine:
    verbs = CommandLine(prog=as_called("measure")).add_subparsers()
    declare(verbs, [verb])
    parser: CommandLine = verbs.choices[verb]
    return parser


def add_data(flags: argparse._ActionsContainer) -> None:
    text = "the cache's folder (default: %(default)s)"
    flags.add_argument("--data", type=lambda path: check_folder(Path(path), "--data"), default="data", help=text)


def add_place(flags: argparse._ActionsContainer) -> None:
    """Add ``--threads`` and ``--machine`` of a verb that measures."""
    text = "CPU threads (default: the physical cores, fewer under a container's CPU limit)"
    flags.add_argument("--threads", metavar="N", help=text)
    text = "the machine's folder in the cache (default: from the hardware)"
    flags.add_argument("--machine", type=parse_folder_name, metavar="NAME", help=text)


def add_formats(flags: argparse._ActionsContainer, formats: Mapping[str, str]) -> None:
    """Add switches that exclude each other, with their help."""
    group = flags.add_mutually_exclusive_group()
    for name, text in formats.items():
        group.add_argument(name, action="store_true", help=text)


def parse_time(text: str) -> float:
    """Return the seconds of ``90s``, ``10m``, ``1h30m`` or a plain number of seconds."""
    match = re.fullmatch(r"(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s?)?", text.strip())
    hours, minutes, rest = (int(part or 0) for part in match.groups()) if match else (0, 0, 0)
    seconds = 3600 * hours + 60 * minutes + rest
    if seconds <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a valid time; use 90s, 10m or 1h30m")
    return float(seconds)


def parse_count(text: str, least: int = 1) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < least:
        raise argparse.ArgumentTypeError(
            f"{quote(text)} is not a valid number; use a whole number, {least} to {LARGEST_COUNT}"
        )
    return int(text)


def parse_positive(text: str, below: float, problem: str) -> float:
    """Return a number above 0 and below a limit; else the ``problem`` with the text says what to write."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < below:
        raise argparse.ArgumentTypeError(f"{text!r} {problem}")
    return value


def parse_batch_size(text: str) -> int:
    if several := by_spaces(text):
        raise argparse.ArgumentTypeError(f"{quote(text)} is not a number{several}")
    return parse_count(text)


def parse_percent(text: str) -> float:
    """Return ``5%`` or ``2.5 %`` as a share of 1."""
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*%", text.strip())
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage; use 5% or 2.5%")
    return float(match[1]) / 100


def parse_folder_name(text: str) -> str:
    if not re.fullmatch(r"[^\W_][\w.-]{0,63}", text):
        raise UserError(f"--machine: {quote(text)} is not a valid folder name; use letters, digits, '.', '_' and '-'")
    return text


def check_folder(path: Path, flag: str) -> Path:
    """Raise UserError, naming ``flag``, for a path that exists and is not a folder. Return the path."""
    if path.exists() and not path.is_dir():
        raise UserError(f"{flag}: {path} is a file; name a folder")
    return path


def no_measurements(data: Path) -> UserError:
    return UserError(f"--data: no measurements in {data}; run {as_called('measure')}{data_flag(data)} first")


def next_step(data: Path) -> str:
    return f"Next: {as_called('report')}{data_flag(data)}"


def check_writable(data: Path) -> None:
    """Create the cache's folder. Raises UserError, before anything is measured, if rows could not be written."""
    from tempfile import TemporaryFile

    for folder in (data, data / "workload", data / "machines"):
        check_folder(folder, "--data")
    try:
        data.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=data).close()
    except OSError as problem:
        raise UserError(f"--data: {data} cannot be written ({problem.strerror}); name a folder that can be") from None


def completion(shell: str, measuring: CommandLine) -> str:
    """Return the script that completes ``roofwright`` in a shell. Raises UserError without shtab, or its support."""
    try:
        import shtab
    except ImportError:
        raise UserError("--print-completion: needs shtab; pip install shtab, or '.[completion]' in a clone") from None
    if shell not in shtab.SUPPORTED_SHELLS:
        raise unknown("--print-completion", shell, shtab.SUPPORTED_SHELLS)
    whole = CommandLine(prog="roofwright")
    parts = whole.add_subparsers(dest="part")
    rendering = importlib.import_module("report.__main__").parser()  # by name: measuring never needs the report
    report = parts.add_parser("report", help="render the paper", parents=[rendering], add_help=False)
    measure = parts.add_parser("measure", help="measure this machine", parents=[measuring], add_help=False)
    verbs = measure.add_subparsers(dest="verb")
    declare(verbs, VERBS)
    for name, flags in verbs.choices.items():
        flags.description = VERBS[name].help  # shtab takes it first, for the list of verbs
    models = [model.name for model in BUILT_IN]
    words = {
        "model": models,
        "models": models,
        "variants": [EAGER, *variants.NAMES],
        "device": ["auto", "cpu", "cuda", "mps"],
    }
    for action in (action for flags in (report, measure, *verbs.choices.values()) for action in flags._actions):
        if action.dest in words:
            action.choices = words[action.dest]
        elif action.dest == "data":
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif any(word in str(action.metavar) for word in ("FILE", "FOLDER")):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    return str(shtab.complete(whole, shell))
