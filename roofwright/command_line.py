"""The command line of both programs: one parser, exit codes, and errors of one line.

Every error is a UserError of one sentence, where argparse would print a page of usage.
"""

import argparse
import errno
import io
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn

from measure.errors import UserError, as_called, did_you_mean, printable, unknown

BAD_INPUT, INTERRUPTED, UNREAD = 2, 130, 141  # exit codes; the last two are 128 plus SIGINT or SIGPIPE, as in a shell


class CommandLine(argparse.ArgumentParser):
    """A parser that takes flags in full only, and a flag with values only once.

    argparse accepts a flag's first letters, and keeps the last of repeated values silently.
    """

    for_more = ""  # the command that takes more values than this one

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def parse_args(self, words: Sequence[str], namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse the words; ``command`` of the result is the whole command as a shell takes it.

        Raises UserError, also for a repeated flag, and for an empty value: a script's unset variable.
        """
        flag, given, actions = "an argument", set(), self._option_string_actions
        for word in takewhile(lambda word: word != "--", words):
            name, is_joined, value = word.partition("=")
            if name in actions:
                flag = name
                if name in given and actions[name].nargs != 0:
                    raise UserError(f"{name}: given more than once; give all values after one {name}")
                given.add(name)
            elif word.startswith("--"):
                self.error(f"unrecognized arguments: {word}")
            if not word or (name in actions and is_joined and not value):
                raise UserError(f"{flag}: the value is empty; give one or leave it out")
        parsed = super().parse_args(words, namespace)
        parsed.command = shlex.join([*self.prog.split(), *words])
        return parsed

    def error(self, message: str) -> NoReturn:
        """Raise UserError in place of argparse's page of usage."""
        choice = re.fullmatch(r"argument (.+?): invalid choice: '(.*)' \(choose from (.*)\)", message, re.DOTALL)
        if choice:
            raise unknown(choice[1], choice[2], [each.strip(" '") for each in choice[3].split(",")])
        if exclusive := re.fullmatch(r"argument (.+?): not allowed with argument (.+)", message):
            raise UserError(f"{exclusive[2]} and {exclusive[1]}: print in different ways; give one of them")
        problem, hint = " ".join(message.removeprefix("argument ").split()), ""
        if stray := re.fullmatch(r"unrecognized arguments: (\S+).*", message, re.DOTALL):
            word = stray[1].partition("=")[0]
            problem = f"there is no flag {word}" if word.startswith("-") else f"nothing is expected at {word!r}"
            hint = did_you_mean(word, self._option_string_actions) or (
                self.for_more and f"; use {as_called(self.for_more)}"
            )
        elif "; " in problem:  # a flag's type names the remedy
            raise UserError(problem)
        raise UserError(f"{problem}{hint or f'; see {self.prog} --help'}")


def data_flag(data: Path) -> str:
    """Return the flag that points a suggested command at this cache; empty for the default folder."""
    return "" if data == Path("data") else f" --data {shlex.quote(str(data))}"


def answer(command: str, action: Callable[[], int]) -> int:
    """Run a command and return its exit code.

    Bad input, Ctrl-C and an output that cannot be written print one line on standard error, without a traceback.
    """
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115  a shell's 2>&- leaves none
    if sys.stdout is None:
        _print_error(command, "standard output is closed; send it somewhere, such as > /dev/null")
        return BAD_INPUT
    if isinstance(sys.stdout, io.TextIOWrapper):  # a pipe on Windows lacks the letters of many names
        sys.stdout.reconfigure(errors="replace")
    with _one_interrupt():
        try:
            code = action()
            sys.stdout.flush()
        except UserError as problem:
            _print_error(command, str(problem))
            return problem.exit_code
        except KeyboardInterrupt:
            print(f"\n{command}: stopped", file=sys.stderr)
            return INTERRUPTED
        except OSError as problem:
            if problem.errno in (errno.EMFILE, errno.ENFILE):
                _print_error(command, "too many files are open; allow more, such as with ulimit -n 1024")
                return BAD_INPUT
            try:
                print(flush=True)
            except OSError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains at exit
            else:
                raise  # another file or pipe failed
            if isinstance(problem, BrokenPipeError):
                return UNREAD
            _print_error(
                command, f"standard output cannot be written ({problem.strerror}); make room or write elsewhere"
            )
            return BAD_INPUT
        return code


@contextmanager
def _one_interrupt() -> Iterator[None]:
    """Heed one Ctrl-C and ignore further ones, so that none disturbs the ending."""

    def stop(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    is_ours = before is signal.default_int_handler and threading.current_thread() is threading.main_thread()
    if is_ours:
        signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        if is_ours and signal.getsignal(signal.SIGINT) is stop:
            signal.signal(signal.SIGINT, before)


def _print_error(command: str, message: str) -> None:
    """Print a line on standard error, red on a terminal unless NO_COLOR (https://no-color.org) is set.

    Escapes control characters: the name of a file or a model may contain them.
    """
    line = f"{command}: {printable(message)}"
    if sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb":
        line = f"\x1b[31m{line}\x1b[0m"
    with suppress(OSError):  # a terminal that was closed
        print(line, file=sys.stderr)
