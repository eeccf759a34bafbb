"""The verbs and their flags, and checks of the values that several verbs take."""

import importlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from types import ModuleType
from typing import Any

from measure.errors import UserError, as_called, by_spaces, quote, unknown
from roofwright.command_line import CommandLine

VERBS = {  # each verb's line in ``python -m measure --help``
    "model": "model NAME   counts, roof, latency, costliest layers of one model, and the first thing to try",
    "show": "show         the cells in the cache, with their latencies and intervals",
    "compare": "compare A B  what changed between two caches or environments, cell by cell",
    "import-ncu": "import-ncu FILE  add hardware counters that Nsight Compute read elsewhere to the cache",
    "import-trace": "import-trace FILE  where the time of a recorded step goes: a torch.profiler trace of any GPU",
    "trace": "trace NAME   an imported trace: time by kind of layer, roof, largest loss",
    "pack": "pack FILE.zip  put a machine's measurements into a zip, for somebody who adds it",
    "share": "share        pack a machine's measurements, check them, and say how to send them",
    "add-machine": "add-machine FOLDER|ZIP  check another person's measurements, and add them to the cache",
    "add-published": "add-published FILE  check a table of published GPU timings, and add it to the cache",
    "fit": "fit          fit the prediction of latencies to all timed cells, and check it",
    "predict": "predict MODEL  the least and the likely time of a model on chips that were not measured",
    "count-published": "count-published  count the models of published timings, at their input sizes",
    "forget": "forget MODEL  remove a model's measurements and counts from the cache",
    "doctor": "doctor       find what would spoil a measurement on this machine, and say how to fix it",
}


def module_of(verb: str) -> ModuleType:
    """Import the module whose ``main`` takes a verb's arguments."""
    return importlib.import_module(f"measure.verbs.{verb.replace('-', '_')}")


def parser_of(verb: str) -> CommandLine:
    """Return a verb's parser, by its module's ``DEFAULTS`` and docstring: what it does, and a table of its flags."""
    module = module_of(verb)
    description, _, table = (module.__doc__ or "").partition("\n\n")
    command_line = CommandLine(prog=as_called(f"measure {verb}"), description=" ".join(description.split()))
    command_line.for_more = getattr(module, "FOR_MORE", "")
    return add_flags(command_line, table, **getattr(module, "DEFAULTS", {}))


def add_flags(command_line: CommandLine, table: str, **defaults: Any) -> CommandLine:
    """Add the flags of a table, and ``--data``."""
    command_line.add_table(table, **defaults)
    text = "the cache's folder (default: %(default)s)"
    command_line.add_argument("--data", type=lambda path: check_folder(Path(path), "--data"), default="data", help=text)
    return command_line


def check_one_output(ways: Mapping[str, bool]) -> None:
    """Raise UserError for two formats at once: both would go to standard output."""
    chosen = [flag for flag, is_chosen in ways.items() if is_chosen]
    if len(chosen) > 1:
        raise UserError(f"{' and '.join(chosen)}: print in different ways; give one of them")


def parse_time(flag: str, text: str) -> float:
    """Return the seconds of ``90s``, ``10m``, ``1h30m`` or a plain number of seconds."""
    match = re.fullmatch(r"(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s?)?", text.strip())
    hours, minutes, rest = (int(part or 0) for part in match.groups()) if match else (0, 0, 0)
    seconds = 3600 * hours + 60 * minutes + rest
    if seconds <= 0:
        raise UserError(f"{flag}: {text!r} is not a valid time; use 90s, 10m or 1h30m")
    return float(seconds)


def parse_count(flag: str, text: str, least: int) -> int:
    """Return a whole number, ``least`` or more."""
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < least:
        raise UserError(f"{flag}: {text!r} is not a valid number; use a whole number ≥ {least}")
    return int(text)


def parse_batch_sizes(flag: str, texts: Sequence[str]) -> list[int]:
    """Return positive whole numbers, sorted, without repetition."""
    for text in texts:
        if several := by_spaces(text):
            raise UserError(f"{flag}: {quote(text)} is not a number{several}")
    return sorted({parse_count(flag, text, 1) for text in texts})


def parse_choices(flag: str, texts: Iterable[str], choices: Sequence[str]) -> list[str]:
    """Return the given choices in the order of ``choices``, without repetition."""
    for text in texts:
        if text not in choices:
            raise unknown(flag, text, choices)
    return [choice for choice in choices if choice in texts]


def parse_percent(flag: str, text: str) -> float:
    """Return ``5%`` or ``2.5 %`` as a share of 1."""
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*%", text.strip())
    if not match:
        raise UserError(f"{flag}: {text!r} is not a percentage; use 5% or 2.5%")
    return float(match[1]) / 100


def check_folder_name(name: str | None) -> None:
    """Raise UserError for a ``--machine`` that no folder may be called."""
    if name is not None and not re.fullmatch(r"[^\W_][\w.-]{0,63}", name):
        raise UserError(f"--machine: {quote(name)} is not a valid folder name; use letters, digits, '.', '_' and '-'")


def check_folder(path: Path, flag: str) -> Path:
    """Return the path, given for ``flag``. Raises UserError if it exists and is not a folder."""
    if path.exists() and not path.is_dir():
        raise UserError(f"{flag}: {path} is a file; name a folder")
    return path


def check_writable(data: Path) -> None:
    """Create the cache's folder. Raises UserError before a measurement whose rows could not be written."""
    for folder in (data, data / "workload", data / "machines"):
        check_folder(folder, "--data")
    try:
        data.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=data).close()
    except OSError as problem:
        raise UserError(f"--data: {data} cannot be written ({problem.strerror}); name a folder that can be") from None
