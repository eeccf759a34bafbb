"""A run on a cluster: each kind of machine has a folder and a queue of tasks, each station takes the next."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measure.cache.folders import Workloads
from measure.cluster.crew import Manned
from measure.cluster.queue import Queue, Remote
from measure.domain.values import duration
from measure.errors import UserError
from measure.run import runner
from measure.run.estimate import Memory
from measure.run.plan import tasks_to_do
from measure.run.progress import TimeLeft
from measure.run.request import machine_folder
from measure.run.task import Cache, Request, Sitting, Task


@dataclass
class Kind:
    """The machines of one environment, which share their measurements."""

    cache: Cache
    tasks: list[Task]
    summary: runner.Summary = field(default_factory=runner.Summary)
    done: set[Task] = field(default_factory=set)


def kinds_of(crew: Sequence[Manned], request: Request, data: Path, machine: str | None, seed: int) -> dict[str, Kind]:
    """Return the kinds of machine among the stations, by environment, each with what it has to measure.

    Workloads that several kinds lack are counted by the first of them. Raises UserError where ``machine`` names one
    folder for several kinds.
    """
    workloads = Workloads(data)
    kinds: dict[str, Kind] = {}
    taken: set[Task] = set()
    for environment in {each.environment.environment_id: each.environment for each in crew}.values():
        cache = Cache(workloads, machine_folder(data, machine, environment), environment, Sitting(seed=seed))
        tasks = [task for task in tasks_to_do(request, cache) if task not in taken]
        taken |= {task for task in tasks if not task.is_of_machine}
        kinds[environment.environment_id] = Kind(cache, tasks)
    if machine and len(hardware := {each.cache.environment.hardware_id for each in kinds.values()}) > 1:
        raise UserError(
            f"--machine: {machine!r} is one folder, but the cluster has {len(hardware)} kinds of machine; leave it out"
        )
    return kinds


class SharedProgress:
    """The progress of all stations together: a line for each task that ends, with its station."""

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


class StationProgress:
    """One station's part of it."""

    def __init__(self, shared: SharedProgress, station: str) -> None:
        self._shared, self._station = shared, station
        self._began = 0.0

    def begin(self, task: Task) -> None:
        self._began = time.monotonic()

    def end(self, task: Task, outcome: Any) -> None:
        self._shared.end(self._station, task, outcome, time.monotonic() - self._began)

    def skip(self, task: Task) -> None:
        self._shared.skip(task)


class Fleet:
    """Stations at work, a thread here for each; rows are written by one of them at a time.

    Workloads are counted first, by whichever station is free: what fits into a memory follows from them.
    """

    def __init__(
        self,
        kinds: dict[str, Kind],
        say: Callable[[str], None],
        deadline: float | None = None,
        try_anyway: bool = False,
    ) -> None:
        self._kinds, self._say = kinds, say
        self._deadline, self._try_anyway = deadline, try_anyway
        self._phases = [
            {
                name: Queue([task for task in kind.tasks if task.is_of_machine is is_of_machine])
                for name, kind in kinds.items()
            }
            for is_of_machine in (False, True)
        ]
        self._shared = SharedProgress([task for kind in kinds.values() for task in kind.tasks], say)
        self._writing = threading.Lock()
        self._problems: list[Exception] = []

    @property
    def left(self) -> int:
        """Count the tasks that no station has done."""
        return sum(len(queue) for queues in self._phases for queue in queues.values())

    def work(self, crew: Iterable[Manned]) -> list[Manned]:
        """Have the stations do what is left, until it is done or time is up; return the lost stations.

        Raises the error that ended a station, such as a full disk, when the others have ended.
        """
        crew, lost = list(crew), []
        with ExitStack() as alone:
            for folder in {kind.cache.folder.folder: kind.cache.folder for kind in self._kinds.values()}.values():
                alone.enter_context(folder.locked(self._say))
            for queues in self._phases:
                lost += self._empty(queues, [each for each in crew if each not in lost])
                if any(queues.values()):
                    break
        return lost

    def _empty(self, queues: dict[str, Queue], crew: Sequence[Manned]) -> list[Manned]:
        """Do one phase of the work; return the lost stations."""
        lost: list[Manned] = []
        threads = [
            threading.Thread(target=self._man, args=(each, queue, lost), daemon=True)
            for each in crew
            if (queue := queues.get(each.environment.environment_id))
        ]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            time.sleep(0.05)  # join would not hear the keyboard
        if self._problems:
            raise self._problems[0]
        return lost

    def _man(self, manned: Manned, queue: Queue, lost: list[Manned]) -> None:
        """Give a station one task after another, in a thread of its own."""
        kind = self._kinds[manned.environment.environment_id]
        remote = Remote(manned.station, queue)
        store = _OneAtATime(kind.cache, self._writing)
        progress = StationProgress(self._shared, manned.place.name)
        memory = Memory(manned.memory_byte, kind.cache.workloads.models)
        refusal = runner.no_refusal if self._try_anyway else memory.refusal
        try:
            for task in queue:
                part = runner.run([task], remote, store, progress, self._deadline, refusal, queue.hopeless)
                if part.left:
                    queue.put_back(task)
                    break
                with self._writing:
                    kind.summary.add(part)
                if self._problems:
                    break
        except Exception as problem:  # shown by the main thread; the other stations end with their tasks
            self._problems.append(problem)
        if remote.is_lost:
            self._say(f"{manned.place.name} is lost; its task goes to another station")
            lost.append(manned)


@dataclass(frozen=True)
class _OneAtATime:
    """A cache that several threads put into, as others do into the same tables."""

    cache: Cache
    writing: threading.Lock

    def put(self, task: Task, outcome: Any) -> None:
        with self.writing:
            self.cache.put(task, outcome)
