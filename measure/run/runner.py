"""Does the tasks of a plan one by one and puts each result into the cache at once."""

import dataclasses
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from measure.cache.folders import MachineFolder, Workloads
from measure.cache.records import (
    STEP,
    Ceiling,
    CounterProfile,
    Environment,
    KernelCounters,
    KernelTime,
    OperatorTime,
    Profile,
    Run,
    Sample,
)
from measure.counting.count import not_counted
from measure.hardware_counters.counted_cell import CountedCell
from measure.profiling.profile import Profiled
from measure.roofs import roofs
from measure.run.plan import (
    CeilingTask,
    Cell,
    CellTask,
    CounterTask,
    ProfileTask,
    RoundTask,
    Task,
    WorkloadTask,
)
from measure.run.worker import Failure, Outcome, Stopped
from measure.timing.sampling import Timing
from measure.timing.training import StepTiming
from measure.utc import now

_log = logging.getLogger(__name__)


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
        """Takes in how another part of the run went."""
        self.statuses += other.statuses
        self.failures += other.failures
        self.left += other.left
        self.cells_s += other.cells_s
        self.executing_s += other.executing_s


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
                outcome = roofs.unmeasured(
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
        elif isinstance(task, RoundTask):
            *stages, whole = (self._round(task, phase, outcome) for phase in task.phases)
            self._folder.put_run(*whole, stages)
        elif isinstance(task, ProfileTask):
            self._folder.put_profile(*self._profile(task, outcome))
        elif isinstance(task, CounterTask):
            self._folder.put_counters(*self._counters(task, outcome))
        else:
            if isinstance(outcome, Failure):
                why = (outcome.status, outcome.reason)
                outcome = [
                    not_counted(task.model, batch, task.precision, task.autocast, *why)
                    for batch in task.batches
                ]
            assert isinstance(outcome, list)
            self._workloads.put(outcome)

    def _round(self, task: RoundTask, phase: str, outcome: Outcome) -> tuple[Run, list[Sample]]:
        """What the tables hold of one phase of a round."""
        environment_id = self._environment.environment_id
        cell = (environment_id, task.model.name, task.batch, task.precision, phase, task.variant)
        if isinstance(outcome, Failure):
            return Run(*cell, outcome.status, outcome.reason, now(), task.round), []
        peak_byte = None
        if isinstance(outcome, StepTiming):
            peak_byte = outcome.peak_byte if phase == STEP else None
            outcome = outcome.phases[phase]
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
        return Run(*cell, "ok", None, now(), task.round, flags, peak_byte), samples

    def _profile(
        self, task: ProfileTask, outcome: Outcome
    ) -> tuple[Profile, list[OperatorTime], list[KernelTime]]:
        """What the tables hold of a profile."""
        cell = self._key(task)
        if isinstance(outcome, Failure):
            return Profile(*cell, outcome.status, outcome.reason, now()), [], []
        assert isinstance(outcome, Profiled)
        times = (outcome.steps, outcome.plain_s, outcome.profiled_s, outcome.busy_s)
        asked = outcome.system_use or (None, None)
        return (
            Profile(*cell, "ok", None, now(), *times, *asked),
            [OperatorTime(*cell, *each) for each in outcome.operators],
            [KernelTime(*cell, *each) for each in outcome.kernels],
        )

    def _counters(self, task: CounterTask, outcome: Outcome) -> tuple[CounterProfile, list[KernelCounters]]:
        """What the tables hold of a cell under the hardware counters."""
        cell = self._key(task)
        if isinstance(outcome, Failure):
            return CounterProfile(*cell, outcome.status, outcome.reason, now()), []
        assert isinstance(outcome, CountedCell)
        counted = outcome.counted
        about = (outcome.tool, counted.capability, outcome.steps, counted.tensor_gap)
        return (
            CounterProfile(*cell, "ok", None, now(), *about),
            [KernelCounters(*cell, **each._asdict()) for each in counted.kernels],
        )

    def _key(self, task: CellTask) -> tuple[str, str, int, str, str, str]:
        """A cell, as tables name it."""
        phase, model, batch, precision, variant = task.cell
        return self._environment.environment_id, model, batch, precision, phase, variant


def no_refusal(_task: CellTask) -> None:
    """Lets every cell be tried."""


def run(
    tasks: Sequence[Task],
    executor: Executor,
    store: Store,
    progress: Progress,
    deadline: float | None = None,
    refusal: Callable[[CellTask], Failure | None] = no_refusal,
    hopeless: set[Cell] | None = None,
) -> Summary:
    """Does the tasks in order until they are at their end, or ``time.monotonic()`` passes the deadline.

    The task that the deadline falls into is given up and is left for the next run. A cell that ``refusal`` has a
    reason against gets that without being tried; of one that failed, which ``hopeless`` collects, no further round is.
    """
    summary = Summary()
    hopeless = set() if hopeless is None else hopeless
    for index, task in enumerate(tasks):
        if deadline is not None and time.monotonic() >= deadline:
            summary.left = len(tasks) - index
            break
        if isinstance(task, RoundTask) and task.cell in hopeless:
            _log.info("%s: skipped, since an earlier round of it failed", task.label)
            progress.skip(task)
            continue
        progress.begin(task)
        began = time.monotonic()
        refused = refusal(task) if isinstance(task, CellTask) else None
        try:
            outcome = refused or executor.run(task, deadline)
        except Stopped:
            summary.left = len(tasks) - index
            break
        store.put(task, outcome)
        if isinstance(task, RoundTask):
            summary.cells_s += time.monotonic() - began
        if isinstance(outcome, Timing | StepTiming):
            summary.executing_s += outcome.executing_s
        if isinstance(outcome, Failure):
            summary.statuses[outcome.status] += 1
            summary.failures.append((task, outcome))
            if isinstance(task, RoundTask):
                hopeless.add(task.cell)
        else:
            summary.statuses["ok"] += 1
        progress.end(task, outcome)
    return summary
