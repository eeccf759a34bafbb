"""A command's flags, whose errors are one sentence each instead of argparse's pages of usage.

The commands beside measuring.
"""

import argparse
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from measure.errors import UserError, did_you_mean, unknown


class CommandLine(argparse.ArgumentParser):
    """Parses a command's words. A flag is written in full, and may be given once if it takes values: argparse would
    take its beginning for it, and keep only the last.

    ``parse_args`` raises UserError where argparse ends the program.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        self._flags: list[str] = []
        self._taking_values: set[str] = set()
        super().__init__(*arguments, **settings)
        self.allow_abbrev = False

    def add_argument(self, *names: Any, **settings: Any) -> argparse.Action:
        action = super().add_argument(*names, **settings)
        self._flags += action.option_strings
        if action.nargs != 0:
            self._taking_values.update(action.option_strings)
        return action

    def parse_args(self, words: Sequence[str], namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse the words; ``command`` is the whole command, as a shell takes it."""
        self._refuse_unknown(words)
        self._refuse_repeated(words)
        self._refuse_empty(words)
        said = super().parse_args(words, namespace)
        said.command = shlex.join([*self.prog.split(), *words])
        return said

    def _refuse_unknown(self, words: Iterable[str]) -> None:
        """Raise UserError first: argparse would complain about what follows an unknown flag instead."""
        for word in words:
            if word == "--":
                return
            if word.startswith("--") and word.partition("=")[0] not in self._flags:
                raise self._complaint(f"unrecognized arguments: {word}")

    def _refuse_repeated(self, words: Iterable[str]) -> None:
        given = [word.partition("=")[0] for word in words]
        for flag in given:
            if flag in self._taking_values and given.count(flag) > 1:
                raise UserError(f"{flag}: given {given.count(flag)} times; give all values after one {flag}")

    def _refuse_empty(self, words: Iterable[str]) -> None:
        """Raise UserError for what a script's unset variable leaves, which would be taken for not given."""
        flag = ""
        for word in words:
            name, is_joined, value = word.partition("=")
            if name in self._flags:
                flag = name
            if not word or (name in self._flags and is_joined and not value):
                raise UserError(f"{flag or 'an argument'}: the value is empty; give one or leave it out")

    def error(self, message: str) -> NoReturn:
        """Turn argparse's error into one that says what to do."""
        raise self._complaint(message)

    def _complaint(self, message: str) -> UserError:
        choice = re.fullmatch(r"argument (.+?): invalid choice: '(.*)' \(choose from (.*)\)", message, re.DOTALL)
        if choice:
            return unknown(choice[1], choice[2], [each.strip(" '") for each in choice[3].split(",")])
        stray = re.fullmatch(r"unrecognized arguments: (\S+).*", message, re.DOTALL)
        if stray:
            word = stray[1].partition("=")[0]
            what = f"there is no flag {word}" if word.startswith("-") else f"nothing is expected at {word!r}"
            return UserError(f"{what}{did_you_mean(word, self._flags) or f'; see {self.prog} --help'}")
        return UserError(f"{' '.join(message.removeprefix('argument ').split())}; see {self.prog} --help")


def check_one_output(ways: Mapping[str, bool]) -> None:
    """Raise UserError where more than one of the ways to print was chosen: they share standard output."""
    chosen = [flag for flag, is_chosen in ways.items() if is_chosen]
    if len(chosen) > 1:
        raise UserError(f"{' and '.join(chosen)}: print in different ways; give one of them")


def data_flag(data: Path) -> str:
    """Return the flag that a further command needs to find this cache: none where it is the usual one."""
    return "" if data == Path("data") else f" --data {shlex.quote(str(data))}"


VERBS = {
    "model": "model NAME   counts, roof, latency, costliest layers of one model, and what to try first",
    "show": "show         the cells in the cache, with their latencies and intervals",
    "compare": "compare A B  what changed between two caches or environments, cell by cell",
    "import-ncu": "import-ncu FILE  put into the cache what Nsight Compute counted elsewhere",
    "pack": "pack FILE.zip  put what a machine measured into a zip, for somebody who adds it",
    "add-machine": "add-machine FOLDER|ZIP  check what another person's machine measured, and add it to the cache",
    "add-published": "add-published FILE  check a table of what others measured of GPUs, and add it to the cache",
    "fit": "fit          fit how latencies are predicted to all that was timed, and check it",
    "predict": "predict MODEL  the least and the likely time of a model on chips that were not measured",
    "count-published": "count-published  count the models that others timed, at the sizes they were timed at",
    "forget": "forget MODEL  remove from the cache what was measured and counted of a model",
    "doctor": "doctor       what would spoil a measurement on this machine, and what to do about it",
}
"""What each does."""


def module_of(verb: str) -> str:
    """Return the module whose ``main`` takes a verb's arguments."""
    return f"measure.verbs.{verb.replace('-', '_')}"
