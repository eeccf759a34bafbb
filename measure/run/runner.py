"""Does tasks one by one and puts each outcome into the cache at once."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from measure.cache.table import UnreadableError
from measure.domain.latency import Cell
from measure.run.cell_tasks import RoundTask
from measure.run.task import Failure, Task
from measure.run.worker import BudgetSpent, Worker

if TYPE_CHECKING:
    from measure.run.progress import RunProgress

_log = logging.getLogger(__name__)

Put = Callable[[Task, Any], None]  # stores the outcome of a task, as ``RunCache.put`` does


@dataclass
class Summary:
    """How a run went: tasks by status, failures, the number of tasks left, and the cells of failed rounds.

    ``cells_s`` is the time of all cells, failed ones included; ``executing_s`` is its part within their calls.
    """

    statuses: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[Task, Failure]] = field(default_factory=list)
    left: int = 0
    hopeless: set[Cell] = field(default_factory=set)
    cells_s: float = 0.0
    executing_s: float = 0.0

    def is_hopeless(self, task: Task) -> bool:
        """Return whether an earlier round of the task's cell failed."""
        return isinstance(task, RoundTask) and task.cell in self.hopeless

    def count(self, task: Task, outcome: Any, seconds: float) -> None:
        """Add a task, which took so many seconds."""
        failed = isinstance(outcome, Failure)
        self.statuses[outcome.status if failed else "ok"] += 1
        if failed:
            self.failures.append((task, outcome))
        if isinstance(task, RoundTask):
            self.cells_s += seconds
            if failed:
                self.hopeless.add(task.cell)
            else:
                self.executing_s += outcome.executing_s


def run(
    tasks: Sequence[Task],
    worker: Worker,
    put: Put,
    progress: "RunProgress",
    deadline: float | None = None,
    refusal: Callable[[Task], Failure | None] = lambda _task: None,
    summary: Summary | None = None,
) -> Summary:
    """Do and ``put`` the tasks in order until ``time.monotonic()`` passes the deadline, and add them to the summary.

    The task at the deadline is given up and counts as left. A task that ``refusal`` gives a Failure for gets it without
    a try. Rounds of a cell are skipped after one of them failed.
    """
    summary = summary or Summary()
    for index, task in enumerate(tasks):
        if summary.is_hopeless(task):
            _log.info("%s: skipped, since an earlier round of it failed", task.label)
            progress.skip(task)
            continue
        began = time.monotonic()
        try:
            if deadline is not None and began >= deadline:
                raise BudgetSpent
            progress.begin(task)
            outcome = refusal(task) or worker.run(task, deadline)
        except BudgetSpent:
            summary.left += len(tasks) - index
            break
        outcome = keep(put, task, outcome)
        summary.count(task, outcome, time.monotonic() - began)
        progress.end(task, outcome)
    return summary


def keep(put: Put, task: Task, outcome: Any) -> Any:
    """Store an outcome; return it, or the Failure that replaces it if no table can hold it."""
    try:
        put(task, outcome)
    except UnreadableError as problem:
        outcome = Failure("error", str(problem))
        put(task, outcome)
    return outcome
