"""The progress of a run, one line for each part, and the summary that it ends with."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.progress import Progress, ProgressColumn
from rich.progress import Task as ShownTask
from rich.table import Column
from rich.text import Text

from measure.domain.latency import Cell
from measure.domain.values import duration
from measure.domain.words import INFERENCE, STEP
from measure.run.plan import Part
from measure.run.request import Request
from measure.run.run_cache import RunCache
from measure.run.runner import Summary
from measure.run.task import Failure, Task

USUAL_RATE, SURE_AFTER = 0.5, 20.0
"""A prior for the seconds per effort, and its weight in efforts: the first task of a run waits for imports."""


class TimeLeft:
    """Estimates the time left, at most the time to the deadline (of ``time.monotonic()``).

    Later rounds of a cell take as long as the latest; other tasks go by the latest tasks of their section.
    """

    def __init__(self, tasks: Iterable[Task], deadline: float | None = None) -> None:
        self._left = list(tasks)
        self.total, self.ended = len(self._left), 0
        self._deadline = deadline
        self._done: dict[type[Task], list[tuple[float, float]]] = defaultdict(list)
        self._cells: dict[Cell | None, float] = {}

    def done(self, task: Task, seconds: float) -> None:
        self.skip(task)
        self._done[type(task)].append((task.effort, seconds))
        if task.round_of:
            self._cells[task.round_of] = seconds

    def skip(self, task: Task) -> None:
        self._left.remove(task)
        self.ended += 1

    def extend(self, tasks: Iterable[Task]) -> None:
        self._left += tasks

    def seconds(self) -> float | None:
        """Return the seconds left; None until a task is done."""
        if not self._done:
            return None
        left = sum(self._cells.get(task.round_of, task.effort * self._rate(type(task))) for task in self._left)
        return left if self._deadline is None else min(left, max(0.0, self._deadline - time.monotonic()))

    def _rate(self, section: type[Task]) -> float:
        """Return the seconds per effort of the latest tasks of a section."""
        latest = self._done.get(section, [])[-12:]
        efforts, seconds = (sum(column) for column in zip((0.0, 0.0), *latest, strict=True))
        return (seconds + USUAL_RATE * SURE_AFTER) / (efforts + SURE_AFTER)

    def text(self) -> str:
        left = self.seconds()
        return "" if left is None else f"about {duration(left)} left"


class RunProgress:
    """Prints a line when a part ends, and with ``shows_tasks`` a line for each task.

    On a terminal a moving line shows the present task, the number of tasks left in the part, and the time to the end.
    A context manager, which restores the terminal.
    """

    def __init__(
        self, tasks: Sequence[Task], console: Console, deadline: float | None = None, shows_tasks: bool = False
    ) -> None:
        self._console = console
        self.total = len(tasks)
        """The number of tasks so far: results may call for more."""
        self.done = 0
        """The number of tasks that ended or were skipped."""
        self._shows_tasks = shows_tasks
        self._deadline = deadline
        self._time_left = TimeLeft(tasks, deadline)
        self._title = ""
        self._part_began = self._began = 0.0
        self._part_total = self._part_done = 0
        self._failures: list[Failure] = []
        self._present = ""
        # Two frames a second: more would load the processor that is being measured.
        self._line = Progress(
            _Line(self._moving_line),
            console=console,
            disable=not console.is_interactive,
            transient=True,
            refresh_per_second=2,
        )
        self._line.add_task("", total=None)

    def __enter__(self) -> "RunProgress":
        self._line.start()
        return self

    def __exit__(self, *_problem: object) -> None:
        self.end_part()
        self._line.stop()

    def extend(self, tasks: Sequence[Task]) -> None:
        """Add tasks that results call for."""
        self.total += len(tasks)
        self._time_left.extend(tasks)

    def begin_part(self, title: str, tasks: Sequence[Task]) -> None:
        """Begin a part of the run; print the line of the part before it."""
        self.end_part()
        self._title, self._part_began = title, time.monotonic()
        self._part_total, self._part_done, self._failures = len(tasks), 0, []

    def end_part(self) -> None:
        """Print the line of the present part, unless none of its tasks ended."""
        if self._part_done:
            counts = {
                "done": self._part_done - len(self._failures),
                "without a result": len(self._failures),
                "left": self._part_total - self._part_done,
            }
            said = ", ".join(f"{count} {what}" for what, count in counts.items() if count or what == "done")
            took = duration(time.monotonic() - self._part_began)
            is_bad = any(failure.status != "unsupported" for failure in self._failures)
            self.say(f"{self._title}: {said}; {took}{self._end_in()}", "red" if is_bad else None)
        self._part_done, self._present = 0, ""

    def begin(self, task: Task) -> None:
        self._began = time.monotonic()
        self._present = task.label
        self._line.refresh()

    def end(self, task: Task, outcome: Any) -> None:
        self._time_left.done(task, time.monotonic() - self._began)
        self._advance()
        if isinstance(outcome, Failure):
            self._failures.append(outcome)
        if self._shows_tasks:
            line = f"  [{self.done}/{self.total}] {task.label}: {task.describe(outcome)}"
            self.say(line, "red" if isinstance(outcome, Failure) else None)

    def skip(self, task: Task) -> None:
        """Count a round that is skipped because an earlier one failed."""
        self._time_left.skip(task)
        self._advance()

    def _advance(self) -> None:
        self.done += 1
        self._part_done += 1

    def _moving_line(self) -> str:
        if not self._present:
            return ""
        return f"{self._title}: {self._part_total - self._part_done} left{self._end_in()}; {self._present}"

    def _end_in(self) -> str:
        """Return the time to the end of the budget, or without one the estimated time to the end of the run."""
        if self._deadline is not None:
            minutes, seconds = divmod(round(max(0.0, self._deadline - time.monotonic())), 60)
            return f"; {minutes}:{seconds:02d} to the end of the budget"
        left = self._time_left.text()
        return f"; {left}" if left else ""

    def say(self, text: str, style: str | None = None) -> None:
        """Print a line above the moving one; rich leaves the style out with NO_COLOR or without colours."""
        self._console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


class _Line(ProgressColumn):
    """Shows the present text of a function."""

    def __init__(self, now: Callable[[], str]) -> None:
        self._now = now
        super().__init__(Column(no_wrap=True, overflow="ellipsis"))

    def render(self, task: ShownTask) -> Text:
        return Text(self._now())


REASONS = 3
"""The most reasons printed per status; the tables have all."""


def resumption(command: str, force: bool) -> str:
    """Say how to go on with the tasks left; ``--force`` would begin anew."""
    if force:
        return f"What is left keeps the rows that it had; to measure all of it again: {command}"
    return f"To go on with what is left: {command}"


def lines(summary: Summary, places: Sequence[str]) -> list[str]:
    """Return lines on the tasks done and failed, the reasons, and the folders."""
    failed = f", {len(summary.failures)} without a result" if summary.failures else ""
    said = [f"{summary.statuses['ok']} done{failed}, {summary.left} left; the files are in {' and '.join(places)}"]
    for status in dict.fromkeys(failure.status for _, failure in summary.failures):
        failures = [(task, failure) for task, failure in summary.failures if failure.status == status]
        said.append(f"  {len(failures)} {status}:")
        said += [f"    {task.label}: {failure.reason}" for task, failure in failures[:REASONS]]
        if len(failures) > REASONS:
            said.append(f"    and {len(failures) - REASONS} more")
    return said


def share_within_calls(summary: Summary) -> str | None:
    """Say which share of the cells' time passed within their calls; None without cells."""
    if not summary.cells_s:
        return None
    share = summary.executing_s / summary.cells_s
    return f"of the {duration(summary.cells_s)} that cells took, {share:.0%} passed within their calls"


def contents(request: Request, cache: RunCache, left: Sequence[Part], command: str) -> list[str]:
    """Return three lines: what the paper has of this machine, what it lacks, and the command that adds it."""
    held = _held(request, cache)
    said = [f"The paper has {', '.join(held) if held else 'nothing of this machine yet'}."]
    if not left:
        return [*said, "It lacks nothing of what was asked for."]
    lacked: dict[str, int] = {}
    for part in left:
        lacked[part.title] = lacked.get(part.title, 0) + len(part.tasks)
    said.append(f"It lacks {', '.join(f'{title} ({count})' for title, count in lacked.items())}.")
    return [*said, f"To add that: {command}"]


def _held(request: Request, cache: RunCache) -> list[str]:
    """Return what the cache holds of a request, each in a few words."""
    runs = [row for row in cache.rows(cache.folder.runs()) if row.status == "ok"]
    asked = {cell for phase in (INFERENCE, STEP) for _, cell in request.cells(phase)}
    cells = Counter(cell for cell in map(Cell.of, runs) if cell in asked)  # how many rounds each has
    held = []
    kernels = {row.roof_kernel for row in cache.rows(cache.folder.roof_measurements()) if row.status == "ok"}
    if kernels:
        held.append(f"a roof by {_counted(len(kernels), 'kernel')}")
    for batch in sorted({cell.batch for cell in cells if cell.phase == INFERENCE}):
        models = {cell.model for cell in cells if (cell.phase, cell.batch) == (INFERENCE, batch)}
        held.append(f"{_counted(len(models), 'model')} at batch {batch}")
    trained = {cell.model for cell in cells if cell.phase == STEP}
    profiles = [row for row in cache.rows(cache.folder.profiles()) if row.status == "ok"]
    profiled = {row.model for row in profiles if Cell.of(row) in asked}
    held += [f"training steps of {len(trained)}"] if trained else []
    held += [f"operators of {len(profiled)}"] if profiled else []
    if max(cells.values(), default=0) > 1:
        ends = dict.fromkeys((min(cells.values()), max(cells.values())))
        held.append(f"{' to '.join(map(str, ends))} rounds of each")
    return held


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
