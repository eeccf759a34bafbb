"""The tasks of one kind of machine, which its stations take in turn."""

import threading
from collections import Counter
from collections.abc import Iterator, Sequence

from measure.cache.records import Cell
from measure.run.task import Task

TRIES = 2
"""The number of lost nodes after which a task is taken to be their cause."""


class Queue:
    """Hands out tasks in order, each to one station; the task of a lost node returns to the front."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = list(tasks)
        self._lost: Counter[Task] = Counter()
        self._lock = threading.Lock()
        self.hopeless: set[Cell] = set()
        """Cells with a failed round, on any station."""

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[Task]:
        """Yield the tasks that no other station takes first."""
        while (task := self._next()) is not None:
            yield task

    def _next(self) -> Task | None:
        with self._lock:
            return self._tasks.pop(0) if self._tasks else None

    def put_back(self, task: Task) -> None:
        """Return a task that was not done, for the next station."""
        with self._lock:
            self._tasks.insert(0, task)

    def is_deadly(self, task: Task) -> bool:
        """Count a node lost with this task; return whether it is one too many."""
        with self._lock:
            self._lost[task] += 1
            return self._lost[task] >= TRIES
