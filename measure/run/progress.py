"""The progress of a run, one line for each part, and the summary at its end."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from measure.cache.records import Profile, RoofMeasurement, Run
from measure.domain.latency import Cell
from measure.domain.values import duration
from measure.domain.words import INFERENCE, STEP
from measure.run.plan import Part
from measure.run.request import Request
from measure.run.runner import Summary
from measure.run.task import Failure, RunCache, Task

if TYPE_CHECKING:
    from rich.console import Console

PRIOR_S = 20.0  # the weight of the estimates in the pace of a run: its first task imports
REASONS = 3  # the most reasons printed per status; the tables have all


class RunProgress:
    """Prints a line when a part ends, and with ``shows_tasks`` a line for each task.

    On a terminal a moving line shows the present task, the number of tasks left in the part, and the time to the end.
    A context manager, which restores the terminal. ``done`` of ``total`` tasks ended or were skipped so far.
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

        self.total = self.done = 0
        self._console, self._deadline, self._shows_tasks = console, deadline, shows_tasks
        self._seconds = seconds
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
        """Add tasks that results call for."""
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
            self.say(f"  [{self.done}/{self.total}] {task.label}: {task.describe(outcome)}", failed)

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


def resumption(command: str, force: bool) -> str:
    """Say how to go on with the tasks left; ``--force`` would begin anew."""
    again = "The tasks left keep their earlier rows; to measure everything again"
    return f"{again if force else 'To go on with what is left'}: {command}"


def lines(summary: Summary, places: Sequence[str]) -> list[str]:
    """Return lines on the tasks done and failed, the reasons, and the folders."""
    failed = f", {len(summary.failures)} without a result" if summary.failures else ""
    text = [f"{summary.statuses['ok']} done{failed}, {summary.left} left; the files are in {' and '.join(places)}"]
    for status in dict.fromkeys(failure.status for _, failure in summary.failures):
        reasons = [f"    {task.label}: {why.reason}" for task, why in summary.failures if why.status == status]
        text += [f"  {len(reasons)} {status}:", *reasons[:REASONS]]
        if len(reasons) > REASONS:
            text.append(f"    and {len(reasons) - REASONS} more")
    return text


def contents(request: Request, cache: RunCache, left: Sequence[Part], command: str) -> list[str]:
    """Return three lines: the parts of this machine that the paper has, those it lacks, and the next command."""

    def measured(record: type[Any]) -> list[Any]:
        return [row for row in cache.rows(cache.folder.rows(record)) if row.status == "ok"]

    asked = {cell for phase in (INFERENCE, STEP) for _, cell in request.cells(phase)}
    rounds = Counter(cell for cell in map(Cell.of, measured(Run)) if cell in asked)
    timed: dict[int, set[str]] = defaultdict(set)  # the models by batch size
    for cell in rounds:
        if cell.phase == INFERENCE:
            timed[cell.batch].add(cell.model)
    named = {
        "a roof by {} kernel{}": {row.roof_kernel for row in measured(RoofMeasurement)},
        **{f"{{}} model{{}} at batch {batch}": timed[batch] for batch in sorted(timed)},
        "training steps of {}": {cell.model for cell in rounds if cell.phase == STEP},
        "operators of {}": {row.model for row in measured(Profile) if Cell.of(row) in asked},
    }
    held = [text.format(len(names), "s" * (len(names) > 1)) for text, names in named.items() if names]
    if max(rounds.values(), default=0) > 1:
        ends = dict.fromkeys((min(rounds.values()), max(rounds.values())))
        held.append(f"{' to '.join(map(str, ends))} rounds of each")
    text = f"The paper has {', '.join(held) or 'nothing of this machine yet'}."
    if not left:
        return [text, "It lacks nothing of what was asked for."]
    lacked = ", ".join(f"{part.title} ({len(part.tasks)})" for part in left)
    return [text, f"It lacks {lacked}.", f"To add that: {command}"]
