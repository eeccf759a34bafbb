"""What all commands share on a terminal: exit codes, error messages and the log."""

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
    """Run a command; return the exit code of ``action``, or that of what ended it.

    Bad input and Ctrl-C print one line on standard error, without a traceback.
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
    """Return whether standard output takes one more line."""
    try:
        print(flush=True)
    except BrokenPipeError:
        return False
    return True


def _one_line(text: str) -> str:
    """Escape control characters, which a file's or a model's name may contain."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def _in_colour(text: str) -> str:
    """Colour a message red on a terminal, unless NO_COLOR (https://no-color.org) is set."""
    wanted = sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return f"{RED}{text}{PLAIN}" if wanted else text


class _Handler(logging.StreamHandler):
    """Writes to standard error; on a terminal to whatever replaces it, so that a progress bar stays whole."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self._original = sys.stderr
        self.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr if self._original.isatty() else self._original
        super().emit(record)


def log_to_stderr() -> None:
    """Log what this package decides and why."""
    log = logging.getLogger("measure")
    log.handlers = [_Handler()]
    log.setLevel(logging.INFO)
