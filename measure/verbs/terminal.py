"""What all commands share on a terminal: exit codes, error messages and the log.

The terminal as rich writes to it; measuring alone needs rich.

What holds of this process for a while: its environment variables, and that it does not search for garbage.

Tables of short texts: as lines of a terminal, or as Markdown.
"""

import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import rich.console

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


class Console(rich.console.Console):
    """Raises BrokenPipeError where nobody reads any more, as ``print`` does: rich would end the program with 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


@contextmanager
def in_environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables, for this process and those that it starts, and put back what was there."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


ALLOCATIONS = 100_000
"""So many more objects than before let the search for cyclic garbage begin; Python's own number is 700."""


@contextmanager
def without_garbage_search() -> Iterator[None]:
    """Pause the search for cyclic garbage within, exempt what is there at the end, and search rarely from then on.

    Tables are tens of thousands of records and documents as many elements, without a cycle; visiting them would take a
    quarter of the time. Charts allocate millions of objects, of which few are in cycles: searching among them takes a
    tenth.
    """
    searched = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(ALLOCATIONS)
        if searched:
            gc.enable()


Line = Sequence[str]


def aligned(lines: Sequence[Line], numbers: Collection[str]) -> list[str]:
    """Align lines of cells in columns; those that the first line calls by a name of ``numbers`` on the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if head in numbers else cell.ljust(width)
            for head, cell, width in zip(lines[0], line, widths, strict=True)
        ).rstrip()
        for line in lines
    ]


def markdown(lines: Sequence[Line], numbers: Collection[str]) -> list[str]:
    """Return the same as a table of Markdown, whose first line is its head."""
    head, *rows = lines
    rule = ["---:" if name in numbers else ":---" for name in head]
    return [f"| {' | '.join(map(_plain, line))} |" for line in (head, rule, *rows)]


def _plain(cell: str) -> str:
    """Return a cell that neither ends its column nor is markup."""
    return "".join(f"\\{letter}" if letter in "\\|*_`<[" else letter for letter in cell)
