"""The pace of a machine that is not there: how long a run takes on it, by a clock that nobody waits for.

Nothing is computed. What a process, a network and a call take is assumed here; which processes begin, how calls are
warmed up and when samples suffice is the program's own. No number of it is data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from random import Random
from typing import Any

from measure.cache.workload_records import WORKLOAD, Workload
from measure.domain.words import PRECISION_BYTE, STAGES, STEP, shape_name
from measure.profiling.profile import FEWEST_STEPS, PLAIN, PROFILED_S
from measure.roofs.roofs import KernelTiming
from measure.run.cell_tasks import CellTask, ProfileTask, RoundTask, TrainingTask
from measure.run.processes import origin
from measure.run.sections import RoofTask
from measure.run.task import Task
from measure.run.worker import BudgetSpent, needs_fresh
from measure.timing.sampling import Sampling, sample
from measure.timing.stopwatch import StagedStopwatch, Stopwatch

NOISE = 0.01
"""The deviation of a call's logarithm."""

REACHED = 0.5
"""The part of the roof at which calls run."""

LEAST_CALL_S = 0.004
"""A call of some hundred kernels takes as long to launch them."""


@dataclass
class Pace:
    """Does tasks in the place of a worker; ``import_s`` and ``begin_s`` are what a process takes before its first."""

    kind: str
    flop_per_s: Mapping[str, float]
    byte_per_s: float
    import_s: float
    begin_s: float
    counted: Sequence[Workload]
    sampling: Sampling
    build_s: float = 0.5
    roof_s: float = 3.0
    attribution_s: float = 4.0
    now_s: float = 0.0
    done: list[Task] = field(default_factory=list)
    cells_s: float = 0.0
    """The time of all cells."""
    calls_s: float = 0.0
    """The part of it within their calls."""

    def __post_init__(self) -> None:
        self._draw = Random(1)
        self._previous: Task | None = None
        self._called_s = 0.0

    def monotonic(self) -> float:
        """Return the time, as ``time.monotonic`` does."""
        return self.now_s

    def run(self, task: Task, deadline: float | None = None) -> Any:
        """Put the clock forward to the end of a task, or to the deadline, and return a result as empty as can be."""
        began_s, self._called_s = self.now_s, 0.0
        if needs_fresh(self._previous, task, self.kind):
            self.now_s += self.begin_s
            if self._previous is None or origin(task) != origin(self._previous):
                self.now_s += self.import_s
        self._previous = task
        outcome = self._outcome(task)
        if deadline is not None and self.now_s > deadline:
            self.now_s = deadline
            raise BudgetSpent
        self.done.append(task)
        if isinstance(task, RoundTask):
            self.cells_s += self.now_s - began_s
            self.calls_s += self._called_s
        return outcome

    def _outcome(self, task: Task) -> Any:
        if isinstance(task, RoofTask):
            self.now_s += self.roof_s
            return KernelTiming(1.0, 1.0, 1.0, 6)
        if not isinstance(task, CellTask):
            self.now_s += 1.0
            return None
        self.now_s += self.build_s
        call_s = self._call_s(task)
        if isinstance(task, ProfileTask):
            timing = sample(self._stopwatch(call_s), PLAIN)
            self.now_s += 2 * max(PROFILED_S, FEWEST_STEPS * call_s) + self.attribution_s
            return timing
        if isinstance(task, TrainingTask):
            parts = [self._stopwatch(part * call_s).call for part in (0.3, 0.6, 0.1)]
            whole = StagedStopwatch(
                lambda: [part() for part in parts],
                lambda: None,
                self._clock,
                stages=dict(zip(STAGES, parts, strict=True)),
                is_asynchronous=self.kind != "cpu",
            )
            return sample(whole, self.sampling)
        return sample(self._stopwatch(call_s), self.sampling)

    def _stopwatch(self, call_s: float) -> Stopwatch:
        def call() -> None:
            taken_s = call_s * self._draw.lognormvariate(0.0, NOISE)
            self.now_s += taken_s
            self._called_s += taken_s

        return Stopwatch(call, lambda: None, self._clock)

    def _clock(self) -> int:
        return round(1e9 * self.now_s)

    def _call_s(self, task: CellTask) -> float:
        """Return the time of a call, by the count of one input of the model at fp32."""
        one = (task.model.name, shape_name(task.model.input_shape), 1, "fp32", None)
        (row,) = (row for row in self.counted if attrgetter(*WORKLOAD)(row) == one)
        assert row.forward_flop is not None
        assert row.traffic_byte is not None
        passes = 3 if task.cell.phase == STEP else 1
        flop, byte = passes * task.cell.batch * row.forward_flop, passes * task.cell.batch * row.traffic_byte
        bound_s = max(
            flop / self.flop_per_s[task.cell.precision],
            byte * PRECISION_BYTE[task.cell.precision] / 4 / self.byte_per_s,
        )
        return max(bound_s / REACHED, LEAST_CALL_S)
