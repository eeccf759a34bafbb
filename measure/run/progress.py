"""What a user sees of a run: a bar on a terminal, one line a task where the output is piped."""

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn
from rich.progress import Progress as Bar

from measure.cache.records import Cell
from measure.cli.quantities import duration
from measure.run.task import Failure, Task

USUAL_RATE, SURE_AFTER = 0.5, 20.0
"""The seconds that an effort usually takes, and the efforts of a section that have to be done to outweigh that: the
first task of a run waits for imports, and sections differ."""


class TimeLeft:
    """Estimates the time left: a cell's later rounds take what its first took, others what the latest of their section.

    It is never more than what is left until ``time.monotonic()`` passes the deadline.
    """

    def __init__(self, tasks: Iterable[Task], deadline: float | None = None) -> None:
        self._left = list(tasks)
        self._deadline = deadline
        self._done: dict[type[Task], list[tuple[float, float]]] = defaultdict(list)
        self._cells: dict[Cell | None, float] = {}

    def done(self, task: Task, seconds: float) -> None:
        self._left.remove(task)
        self._done[type(task)].append((task.effort, seconds))
        if task.round_of:
            self._cells[task.round_of] = seconds

    def skip(self, task: Task) -> None:
        self._left.remove(task)

    def extend(self, tasks: Iterable[Task]) -> None:
        self._left += tasks

    def seconds(self) -> float | None:
        """Return the seconds left; None until a task is done."""
        if not self._done:
            return None
        left = sum(self._cells.get(task.round_of, task.effort * self._rate(type(task))) for task in self._left)
        return left if self._deadline is None else min(left, max(0.0, self._deadline - time.monotonic()))

    def _rate(self, section: type[Task]) -> float:
        """Return the seconds that an effort takes by the latest tasks of a section, which resemble the next most."""
        latest = self._done.get(section, [])[-12:]
        efforts, seconds = (sum(column) for column in zip((0.0, 0.0), *latest, strict=True))
        return (seconds + USUAL_RATE * SURE_AFTER) / (efforts + SURE_AFTER)

    def text(self) -> str:
        left = self.seconds()
        return "" if left is None else f"about {duration(left)} left"


class RunProgress:
    """Shows a run's progress; a context manager, so that the terminal is left in order."""

    def __init__(self, tasks: list[Task], console: Console, deadline: float | None = None) -> None:
        self._console = console
        self.total = len(tasks)
        """The tasks that are known of: rounds may call for further ones."""
        self.done = 0
        """The tasks that have ended, skipped ones among them."""
        self._time_left = TimeLeft(tasks, deadline)
        self._began = 0.0
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            disable=not console.is_interactive,
        )
        self._shown: TaskID = self._bar.add_task("", total=self.total, left="")

    def __enter__(self) -> "RunProgress":
        self._bar.start()
        return self

    def __exit__(self, *_problem: object) -> None:
        self._bar.stop()

    def extend(self, tasks: Sequence[Task]) -> None:
        """Take in tasks that earlier ones' results call for."""
        self.total += len(tasks)
        self._time_left.extend(tasks)
        self._bar.update(self._shown, total=self.total)

    def begin(self, task: Task) -> None:
        self._began = time.monotonic()
        self._bar.update(self._shown, description=task.label)

    def end(self, task: Task, outcome: Any) -> None:
        self._time_left.done(task, time.monotonic() - self._began)
        self._advance()
        line = f"{task.label}: {task.describe(outcome)}"
        if not self._console.is_interactive:
            line = f"[{self.done}/{self.total}] {line}; {self._time_left.text()}"
        self.say(line, "red" if isinstance(outcome, Failure) else None)

    def skip(self, task: Task) -> None:
        """Note that a round is not measured, because one before failed."""
        self._time_left.skip(task)
        self._advance()

    def _advance(self) -> None:
        self.done += 1
        self._bar.update(self._shown, advance=1, left=self._time_left.text())

    def say(self, text: str, style: str | None = None) -> None:
        """Print a line above the bar, in a style where the terminal has colours and NO_COLOR is not set."""
        self._console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)
