"""The tasks of one kind of machine, from which its stations take the next."""

import threading
from collections import Counter
from collections.abc import Iterator, Sequence

from measure.cache.records import Cell
from measure.run.task import Task

TRIES = 2
"""How many nodes a task may lose: one that loses more is what kills them."""


class Queue:
    """Hands tasks out in order, each to one station; what a lost node was at goes back to the front."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = list(tasks)
        self._lost: Counter[Task] = Counter()
        self._lock = threading.Lock()
        self.hopeless: set[Cell] = set()
        """Cells of which a round failed, on whichever station."""

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
        """Leave a task that was not done to the next station."""
        with self._lock:
            self._tasks.insert(0, task)

    def is_deadly(self, task: Task) -> bool:
        """Return whether a node that was lost with this task is one too many."""
        with self._lock:
            self._lost[task] += 1
            return self._lost[task] >= TRIES
