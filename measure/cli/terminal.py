"""What all commands share on a terminal: exit codes, error messages and the log."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from measure.errors import UserError

BAD_INPUT, INTERRUPTED, UNREAD = 2, 130, 141
"""Exit codes beside 0 and a verb's own 1. The latter two are 128 and a signal's number, as a shell has them: Ctrl-C's,
and that of a program whose output nobody reads any more."""

RED, PLAIN = "\x1b[31m", "\x1b[0m"


def stop_as_by_ctrl_c() -> None:
    """Let a polite kill and a closed terminal end the work as Ctrl-C does, so that neither leaves a worker behind."""
    for name in ("SIGTERM", "SIGHUP"):  # Windows has no terminal that closes
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # as nohup sets it
            signal.signal(number, signal.default_int_handler)


def answer(command: str, action: Callable[[], int]) -> int:
    """Run a command; return the exit code of ``action``, or that of what ended it.

    Bad input, Ctrl-C and an output that takes no more print one line on standard error, without a traceback.
    """
    with _one_interrupt():
        try:
            code = action()
            sys.stdout.flush()
        except UserError as problem:
            _complain(command, str(problem))
            return BAD_INPUT
        except KeyboardInterrupt:
            print(f"\n{command}: stopped", file=sys.stderr)
            return INTERRUPTED
        except OSError as problem:
            if _takes_more():  # then it was another file or pipe
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains when it ends
            if isinstance(problem, BrokenPipeError):
                return UNREAD
            _complain(command, f"standard output cannot be written ({problem.strerror}); make room or write elsewhere")
            return BAD_INPUT
        return code


@contextmanager
def _one_interrupt() -> Iterator[None]:
    """Let one Ctrl-C end what runs within; further ones pass from then on: none disturbs how the program ends."""

    def stop(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is stop:
            signal.signal(signal.SIGINT, before)


def _takes_more() -> bool:
    """Return whether standard output takes one more line."""
    try:
        print(flush=True)
    except OSError:
        return False
    return True


def _complain(command: str, what: str) -> None:
    """Print a line on standard error, red on a terminal unless NO_COLOR (https://no-color.org) is set."""
    line = f"{command}: {_one_line(what)}"
    wanted = sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    with suppress(OSError):  # a terminal that was closed
        print(f"{RED}{line}{PLAIN}" if wanted else line, file=sys.stderr)


def _one_line(text: str) -> str:
    """Escape control characters, which a file's or a model's name may contain."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


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
