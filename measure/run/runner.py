"""Does the tasks of a plan one by one and puts each result into the cache at once."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from measure.cache.records import Cell
from measure.cache.table import UnreadableError
from measure.run.task import Failure, Task
from measure.run.worker import Stopped

_log = logging.getLogger(__name__)


class Executor(Protocol):
    """What does a task: the worker process, or a station of a cluster."""

    def run(self, task: Task, deadline: float | None = None) -> Any: ...


class Store(Protocol):
    """What keeps the outcome of each task: the cache, or one that several threads put into."""

    def put(self, task: Task, outcome: Any) -> None: ...


class Progress(Protocol):
    """What is told of each task: a bar, or a line of a cluster's log."""

    def begin(self, task: Task) -> None: ...

    def end(self, task: Task, outcome: Any) -> None: ...

    def skip(self, task: Task) -> None: ...


@dataclass
class Summary:
    """How a run went: tasks by status, the failures among them, and how many its budget left.

    ``cells_s`` is the time that cells took in all, those that failed among them; ``executing_s`` what of it passed
    within their calls, those of warm-up included.
    """

    statuses: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[Task, Failure]] = field(default_factory=list)
    left: int = 0
    cells_s: float = 0.0
    executing_s: float = 0.0

    def add(self, other: "Summary") -> None:
        """Take in how another part of the run went."""
        self.statuses += other.statuses
        self.failures += other.failures
        self.left += other.left
        self.cells_s += other.cells_s
        self.executing_s += other.executing_s

    def count(self, task: Task, outcome: Any, seconds: float) -> None:
        """Take in what became of a task, and how long it took."""
        if task.round_of:
            self.cells_s += seconds
        if isinstance(outcome, Failure):
            self.statuses[outcome.status] += 1
            self.failures.append((task, outcome))
            return
        self.statuses["ok"] += 1
        if task.round_of:
            self.executing_s += outcome.executing_s


def no_refusal(_task: Task) -> None:
    """Let every cell be tried."""


def run(
    tasks: Sequence[Task],
    executor: Executor,
    store: Store,
    progress: Progress,
    deadline: float | None = None,
    refusal: Callable[[Task], Failure | None] = no_refusal,
    hopeless: set[Cell] | None = None,
) -> Summary:
    """Do the tasks in order until they are at their end, or ``time.monotonic()`` passes the deadline.

    The task that the deadline falls into is given up and is left for the next run. A cell that ``refusal`` has a
    reason against gets that without being tried; of one that failed, which ``hopeless`` collects, no further round is.
    """
    summary = Summary()
    hopeless = set() if hopeless is None else hopeless
    for index, task in enumerate(tasks):
        began = time.monotonic()
        if deadline is not None and began >= deadline:
            summary.left = len(tasks) - index
            break
        if task.round_of in hopeless:
            _log.info("%s: skipped, since an earlier round of it failed", task.label)
            progress.skip(task)
            continue
        progress.begin(task)
        try:
            outcome = refusal(task) or executor.run(task, deadline)
        except Stopped:
            summary.left = len(tasks) - index
            break
        outcome = keep(store, task, outcome)
        summary.count(task, outcome, time.monotonic() - began)
        if task.round_of and isinstance(outcome, Failure):
            hopeless.add(task.round_of)
        progress.end(task, outcome)
    return summary


def keep(store: Store, task: Task, outcome: Any) -> Any:
    """Put an outcome into the store; return it, or the failure that takes its place where no table can hold it."""
    try:
        store.put(task, outcome)
    except UnreadableError as problem:
        outcome = Failure("error", str(problem))
        store.put(task, outcome)
    return outcome
