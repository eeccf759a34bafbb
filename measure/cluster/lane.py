"""The progress of a run on a cluster: a line for each task that ends, with its station."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from measure.run.progress import TimeLeft, duration
from measure.run.task import Task


class Shared:
    """The progress of all stations together."""

    def __init__(self, tasks: Sequence[Task], say: Callable[[str], None]) -> None:
        self.say = say
        self._total = len(tasks)
        self._done = 0
        self._time_left = TimeLeft(tasks)
        self._stations: set[str] = set()
        self._lock = threading.Lock()

    def end(self, station: str, task: Task, outcome: Any, seconds: float) -> None:
        with self._lock:
            self._done += 1
            self._stations.add(station)
            self._time_left.done(task, seconds)
            left = duration((self._time_left.seconds() or 0.0) / len(self._stations))
            self.say(
                f"[{self._done}/{self._total}] {station}: {task.label}: {task.describe(outcome)}; about {left} left"
            )

    def skip(self, task: Task) -> None:
        with self._lock:
            self._done += 1
            self._time_left.skip(task)


class Lane:
    """One station's progress."""

    def __init__(self, shared: Shared, station: str) -> None:
        self._shared, self._station = shared, station
        self._began = 0.0

    def begin(self, task: Task) -> None:
        self._began = time.monotonic()

    def end(self, task: Task, outcome: Any) -> None:
        self._shared.end(self._station, task, outcome, time.monotonic() - self._began)

    def skip(self, task: Task) -> None:
        self._shared.skip(task)
