"""The terminal of all verbs: signals, the log, consoles and tables."""

import csv
import logging
import signal
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from measure.cache.table import as_text
from measure.domain.values import latency
from measure.errors import printable

if TYPE_CHECKING:
    import rich.console

    from measure.domain.latency import TimedCell


def stop_as_by_ctrl_c() -> None:
    """Let SIGTERM and a closed terminal end the work as Ctrl-C does, so that no worker is left behind."""
    for name in ("SIGTERM", "SIGHUP"):  # Windows has no SIGHUP
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores it
            signal.signal(number, signal.default_int_handler)


class _Handler(logging.StreamHandler):
    """Writes to the present ``sys.stderr``, which a progress bar on a terminal replaces."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def log_to_stderr() -> None:
    """Log this package's decisions and their reasons."""
    handler = _Handler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))
    log = logging.getLogger("measure")
    log.handlers = [handler]
    log.setLevel(logging.INFO)


def make_console(**settings: Any) -> "rich.console.Console":
    """Return a console that raises BrokenPipeError as ``print`` does; rich would exit with 1."""
    from rich.console import Console

    class PipedConsole(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return PipedConsole(**settings)


Line = Sequence[str]
Table = Callable[[Sequence[Line], Collection[str]], list[str]]  # a printer of tables: ``aligned`` or ``markdown``


def text(value: Any, form: Callable[[Any], str]) -> str:
    """Return a cell of a table; empty for an unknown value."""
    return "" if value is None else form(value)


def aligned(lines: Sequence[Line], numbers: Collection[str]) -> list[str]:
    """Align cells in columns, to the right under the heads in ``numbers``. The first line is the head."""
    columns = []
    for head, *cells in zip(*([*map(printable, line)] for line in lines), strict=True):
        width = max(map(len, (head, *cells)))
        columns.append([cell.rjust(width) if head in numbers else cell.ljust(width) for cell in (head, *cells)])
    return ["  ".join(line).rstrip() for line in zip(*columns, strict=True)]


def markdown(lines: Sequence[Line], numbers: Collection[str]) -> list[str]:
    """Return the same as a Markdown table, with the cells' markup escaped."""
    rule = ["---:" if name in numbers else ":---" for name in lines[0]]
    escaped = str.maketrans({letter: f"\\{letter}" for letter in "\\|*_`<["})
    head, *rows = ([printable(cell).translate(escaped) for cell in line] for line in lines)
    return [f"| {' | '.join(line)} |" for line in (head, rule, *rows)]


def name_first(names: Sequence[str]) -> str:
    """Join the first five names, and count the others."""
    others = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(map(printable, names[:5])) + others


def interval(cell: "TimedCell") -> str:
    """Return the ends of a cell's 95 % interval, else of the range of its rounds; empty for a single round."""
    if cell.latency_low_s is not None and cell.latency_high_s is not None:
        return f"{latency(cell.latency_low_s)} to {latency(cell.latency_high_s)}"
    if cell.rounds < 2 or cell.latency_least_s is None or cell.latency_most_s is None:
        return ""
    return f"{latency(cell.latency_least_s)} to {latency(cell.latency_most_s)} (range)"


def write_csv(file: TextIO, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Write rows with these columns; unknown values stay empty, and no spreadsheet takes a text for a formula."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([as_text(row[name]) for name in columns] for row in rows)
