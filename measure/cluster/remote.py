"""The local handle of a station."""

import time
from typing import TYPE_CHECKING, Any

from measure.cluster.queue import TRIES, Queue
from measure.run.task import Failure, Task
from measure.run.worker import BudgetSpent, Stopped

if TYPE_CHECKING:
    from ray.actor import ActorHandle


class NodeLost(Stopped):
    """A node died, or the station on it."""


class Remote:
    """Has a station do tasks, as ``Worker`` does them locally."""

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
