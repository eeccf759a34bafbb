"""Does tasks one by one, shows the progress, puts each outcome into the cache at once, and sums the run up."""

import time
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from measure.cache.table import UnreadableError
from measure.domain.values import duration
from measure.run.sections import describe
from measure.run.tasks import Failure, Task
from measure.run.worker import BudgetSpent, Worker

if TYPE_CHECKING:
    from rich.console import Console

PRIOR_S = 20.0  # the weight of the estimates in the pace of a run: its first task imports
REASONS = 3  # the most reasons printed per status; the tables have all


class RunProgress:
    """Prints a line when a part ends, and with ``shows_tasks`` a line for each task.

    On a terminal a moving line shows the present task, the number of tasks left in the part, and the time to the end.
    ``seconds`` estimates the time of a task.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        console: "Console",
        deadline: float | None = None,
        shows_tasks: bool = False,
        seconds: Callable[[Task], float] = lambda _task: 1.0,
    ) -> None:
        from rich.live import Live
        from rich.text import Text

        self.total = self.done = 0  # tasks; ``done`` ended or were skipped
        self._console, self._deadline, self._shows_tasks, self._seconds = console, deadline, shows_tasks, seconds
        self._left_s: dict[Task, float] = {}  # the estimates of the tasks left
        self._took_s = self._expected_s = PRIOR_S  # the tasks that ended
        self.extend(tasks)
        self._title = self._present = ""
        self._part_began = self._began = 0.0
        self._part_left = self._part_done = 0
        self._failures: list[Failure] = []
        self._line = Live(
            get_renderable=lambda: Text(self._moving_line(), no_wrap=True, overflow="ellipsis"),
            console=console,
            transient=True,
            refresh_per_second=2,  # more would load the processor that is being measured
        )

    def __enter__(self) -> "RunProgress":
        if self._console.is_interactive:
            self._line.start()
        return self

    def __exit__(self, *_problem: object) -> None:
        self.end_part()
        self._line.stop()

    def extend(self, tasks: Sequence[Task]) -> None:
        self.total += len(tasks)
        self._left_s |= {task: self._seconds(task) for task in tasks}

    def begin_part(self, title: str, tasks: Sequence[Task]) -> None:
        """Begin a part of the run; print the line of the part before it."""
        self.end_part()
        self._title, self._part_began = title, time.monotonic()
        self._part_left, self._failures = len(tasks), []

    def end_part(self) -> None:
        """Print the line of the present part, unless none of its tasks ended."""
        if self._part_done:
            failed = len(self._failures)
            text = f"{self._title}: {self._part_done - failed} done"
            text += f", {failed} without a result" if failed else ""
            text += f", {self._part_left} left" if self._part_left else ""
            text += f"; {duration(time.monotonic() - self._part_began)}{self._to_the_end()}"
            self.say(text, any(failure.status != "unsupported" for failure in self._failures))
        self._part_done, self._present = 0, ""

    def begin(self, task: Task) -> None:
        self._began, self._present = time.monotonic(), task.label
        if self._line.is_started:
            self._line.refresh()

    def end(self, task: Task, outcome: Any) -> None:
        self._took_s += time.monotonic() - self._began
        self._expected_s += self._left_s[task]
        self.skip(task)
        if failed := isinstance(outcome, Failure):
            self._failures.append(outcome)
        if self._shows_tasks:
            self.say(f"  [{self.done}/{self.total}] {task.label}: {describe(task, outcome)}", failed)

    def skip(self, task: Task) -> None:
        """Count a task off, such as a round that is skipped because an earlier one failed."""
        del self._left_s[task]
        self.done, self._part_done, self._part_left = self.done + 1, self._part_done + 1, self._part_left - 1

    def _moving_line(self) -> str:
        return f"{self._title}: {self._part_left} left{self._to_the_end()}; {self._present}" if self._present else ""

    def _to_the_end(self) -> str:
        """Return the time to the end of the budget, or without one the estimated time to the end of the run."""
        if self._deadline is not None:
            minutes, seconds = divmod(round(max(0.0, self._deadline - time.monotonic())), 60)
            return f"; {minutes}:{seconds:02d} to the end of the budget"
        pace = self._took_s / self._expected_s
        return f"; about {duration(pace * sum(self._left_s.values()))} left" if self.done else ""

    def say(self, text: str, is_bad: bool = False) -> None:
        """Print a line above the moving one, red if bad."""
        self._console.print(text, style="red" if is_bad else None, markup=False, highlight=False, soft_wrap=True)


@dataclass
class Summary:
    statuses: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[Task, Failure]] = field(default_factory=list)
    left: int = 0  # tasks that were not done
    hopeless: set[Hashable] = field(default_factory=set)  # what failed in a round

    def is_hopeless(self, task: Task) -> bool:
        return task.rounds_of is not None and task.rounds_of in self.hopeless

    def count(self, task: Task, outcome: Any) -> None:
        failed = isinstance(outcome, Failure)
        self.statuses[outcome.status if failed else "ok"] += 1
        if failed:
            self.failures.append((task, outcome))
            if task.rounds_of is not None:
                self.hopeless.add(task.rounds_of)


def resumption(command: str, force: bool) -> str:
    """Say how to go on with the tasks left; ``--force`` would begin anew."""
    again = "The tasks left keep their earlier rows; to measure everything again"
    return f"{again if force else 'To go on with what is left'}: {command}"


def lines(summary: Summary, places: Sequence[str]) -> list[str]:
    failed = f", {len(summary.failures)} without a result" if summary.failures else ""
    text = [f"{summary.statuses['ok']} done{failed}, {summary.left} left; the files are in {' and '.join(places)}"]
    for status in dict.fromkeys(failure.status for _, failure in summary.failures):
        reasons = [f"    {task.label}: {why.reason}" for task, why in summary.failures if why.status == status]
        text += [f"  {len(reasons)} {status}:", *reasons[:REASONS]]
        if len(reasons) > REASONS:
            text.append(f"    and {len(reasons) - REASONS} more")
    return text


def run(
    tasks: Sequence[Task],
    worker: Worker,
    put: Callable[[Task, Any], None],
    progress: RunProgress,
    deadline: float | None = None,
    refusal: Callable[[Task], Failure | None] = lambda _task: None,
    summary: Summary | None = None,
) -> Summary:
    """Do the tasks in order until ``time.monotonic()`` passes the deadline, and add them to the summary.

    The task at the deadline is given up and counts as left. A task gets the Failure of ``refusal`` without a try.
    Rounds of a cell, or of a group's items, are skipped after one of them failed.
    """
    summary = summary or Summary()
    for index, task in enumerate(tasks):
        if summary.is_hopeless(task):
            progress.skip(task)
            continue
        try:
            if deadline is not None and time.monotonic() >= deadline:
                raise BudgetSpent
            progress.begin(task)
            outcome = refusal(task) or worker.run(task, deadline)
        except BudgetSpent:
            summary.left += len(tasks) - index
            break
        outcome = keep(put, task, outcome)
        summary.count(task, outcome)
        progress.end(task, outcome)
    return summary


def keep(put: Callable[[Task, Any], None], task: Task, outcome: Any) -> Any:
    """Store an outcome; return it, or the Failure that replaces it if no table can hold it."""
    try:
        put(task, outcome)
    except UnreadableError as problem:
        outcome = Failure("error", str(problem))
        put(task, outcome)
    return outcome
