"""The tasks of one kind of machine, which its stations take in turn; and how a station is given one."""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from measure.cache.records import Cell
from measure.run.task import Failure, Task
from measure.run.worker import BudgetSpent, Stopped

if TYPE_CHECKING:
    from ray.actor import ActorHandle

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
        while True:
            with self._lock:
                if not self._tasks:
                    return
                task = self._tasks.pop(0)
            yield task

    def put_back(self, task: Task) -> None:
        """Return a task that was not done, for the next station."""
        with self._lock:
            self._tasks.insert(0, task)

    def is_deadly(self, task: Task) -> bool:
        """Count a node lost with this task; return whether it is one too many."""
        with self._lock:
            self._lost[task] += 1
            return self._lost[task] >= TRIES


class NodeLost(Stopped):
    """A node died, or the station on it."""


class Remote:
    """The local handle of a station, which does tasks as ``Worker`` does them here."""

    def __init__(self, station: "ActorHandle[Any]", queue: Queue) -> None:
        self._station, self._queue = station, queue
        self.is_lost = False

    def run(self, task: Task, deadline: float | None = None) -> Any:
        """Return the outcome of a task; a failure where it lost more nodes than chance explains.

        Raises BudgetSpent when ``time.monotonic()`` passes the deadline, and NodeLost where the station is gone.
        """
        import ray
        from ray.exceptions import RayActorError

        if self.is_lost:
            raise NodeLost
        seconds = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            outcome = ray.get(self._station.run.remote(task, seconds))
        except RayActorError:
            self.is_lost = True
            if self._queue.is_deadly(task):
                return Failure("error", f"{TRIES} nodes died while they ran it")
            raise NodeLost from None
        if outcome is None:
            raise BudgetSpent
        return outcome
