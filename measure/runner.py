"""Does the tasks of a plan one by one and puts each result into the cache at once."""

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from measure import ceilings
from measure.cache import MachineFolder, Workloads
from measure.environment import now
from measure.plan import CeilingTask, InferenceTask, Task, WorkloadTask
from measure.records import INFERENCE, Ceiling, Environment, Run, Sample
from measure.timing import Timing
from measure.worker import BudgetSpent, Failure, Outcome
from measure.workload import not_counted


class Executor(Protocol):
    """What does a task: the worker process, or a null one in tests."""

    def run(self, task: Task, deadline: float | None = None) -> Outcome: ...


class Progress(Protocol):
    """What is told of each task."""

    def begin(self, task: Task) -> None: ...

    def end(self, task: Task, outcome: Outcome) -> None: ...

    def skip(self, task: Task) -> None: ...


@dataclass
class Summary:
    """How a run went: tasks by status, the failures among them, and whether its budget ended it."""

    statuses: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[Task, Failure]] = field(default_factory=list)
    left: int = 0


class Store:
    """Puts outcomes into the cache."""

    def __init__(self, workloads: Workloads, folder: MachineFolder, environment: Environment) -> None:
        self._workloads = workloads
        self._folder = folder
        self._environment = environment

    def put(self, task: Task, outcome: Outcome) -> None:
        """One task's outcome, a failure as well as a result."""
        environment_id = self._environment.environment_id
        if not isinstance(task, WorkloadTask):
            self._folder.put_environment(self._environment)
        if isinstance(task, CeilingTask):
            if isinstance(outcome, Failure):
                outcome = ceilings.unmeasured(
                    environment_id,
                    task.kernel,
                    task.precision,
                    task.size,
                    task.pace,
                    outcome.status,
                    outcome.reason,
                )
            assert isinstance(outcome, Ceiling)
            self._folder.put_ceilings([outcome])
        elif isinstance(task, InferenceTask):
            cell = (environment_id, task.model.name, task.batch, task.precision, INFERENCE, task.variant)
            if isinstance(outcome, Failure):
                self._folder.put_run(Run(*cell, outcome.status, outcome.reason, now(), task.round), [])
                return
            assert isinstance(outcome, Timing)
            samples = [
                Sample(
                    *cell,
                    index,
                    outcome.block,
                    timed.latency_s,
                    task.round,
                    timed.event_s,
                    **dataclasses.asdict(timed.conditions),
                )
                for index, timed in enumerate(outcome.samples)
            ]
            flags = ";".join(outcome.flags) or None
            self._folder.put_run(Run(*cell, "ok", None, now(), task.round, flags), samples)
        else:
            if isinstance(outcome, Failure):
                why = (outcome.status, outcome.reason)
                outcome = [
                    not_counted(task.model, batch, task.precision, task.autocast, *why)
                    for batch in task.batches
                ]
            assert isinstance(outcome, list)
            self._workloads.put(outcome)


def no_refusal(_task: InferenceTask) -> None:
    """Lets every cell be tried."""


def run(
    tasks: Sequence[Task],
    executor: Executor,
    store: Store,
    progress: Progress,
    budget_s: float | None = None,
    refusal: Callable[[InferenceTask], Failure | None] = no_refusal,
) -> Summary:
    """Does the tasks in order until they or the budget are at their end.

    The task that the budget's end falls into is given up and is left for the next run. A cell that ``refusal`` has a
    reason against gets that without being tried; of one that failed, no further round is.
    """
    summary = Summary()
    hopeless: set[tuple[str, int, str, str]] = set()
    deadline = None if budget_s is None else time.monotonic() + budget_s
    for index, task in enumerate(tasks):
        if deadline is not None and time.monotonic() >= deadline:
            summary.left = len(tasks) - index
            break
        if isinstance(task, InferenceTask) and task.cell in hopeless:
            progress.skip(task)
            continue
        progress.begin(task)
        refused = refusal(task) if isinstance(task, InferenceTask) else None
        try:
            outcome = refused or executor.run(task, deadline)
        except BudgetSpent:
            summary.left = len(tasks) - index
            break
        store.put(task, outcome)
        if isinstance(outcome, Failure):
            summary.statuses[outcome.status] += 1
            summary.failures.append((task, outcome))
            if isinstance(task, InferenceTask):
                hopeless.add(task.cell)
        else:
            summary.statuses["ok"] += 1
        progress.end(task, outcome)
    return summary
