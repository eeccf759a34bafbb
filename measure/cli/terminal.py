"""What every command has in common on a terminal: its exit codes, how it complains, and its log."""

import logging
import os
import sys
from collections.abc import Callable

from measure.errors import UserError

BAD_INPUT, INTERRUPTED, UNREAD = 2, 130, 141
"""Exit codes beside 0 and a verb's own 1. The latter two are 128 and a signal's number, as a shell has them: Ctrl-C's,
and that of a program whose output nobody reads any more."""

RED, PLAIN = "\x1b[31m", "\x1b[0m"


def answer(command: str, action: Callable[[], int]) -> int:
    """The exit code of a command: what ``action`` returns, or that of what ended it, told in one line.

    Bad input is told on standard error, Ctrl-C as well, neither with a traceback.
    """
    try:
        code = action()
        sys.stdout.flush()
    except UserError as problem:
        print(_in_colour(f"{command}: {_one_line(str(problem))}"), file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print(f"\n{command}: stopped", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        if _is_read():  # then it was another pipe
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains when it ends
        return UNREAD
    return code


def _is_read() -> bool:
    """Whether standard output takes one line more."""
    try:
        print(flush=True)
    except BrokenPipeError:
        return False
    return True


def _one_line(text: str) -> str:
    """A text whose control characters, which a file's or a model's name may have, show instead of acting."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def _in_colour(text: str) -> str:
    """A complaint in red on a terminal, unless NO_COLOR (https://no-color.org) is set."""
    wanted = sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return f"{RED}{text}{PLAIN}" if wanted else text


class _Handler(logging.StreamHandler):
    """Writes to standard error; on a terminal to whatever stands in its place, so that a progress bar stays whole."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self._own = sys.stderr
        self.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr if self._own.isatty() else self._own
        super().emit(record)


def log_to_stderr() -> None:
    """Lets this package say what it decides and why."""
    log = logging.getLogger("measure")
    log.handlers = [_Handler()]
    log.setLevel(logging.INFO)
