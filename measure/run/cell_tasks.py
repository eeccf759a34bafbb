"""Tasks that measure something of a cell: one of its rounds, or a look into its call."""

import logging
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

from measure.cache.models import Model
from measure.cache.records import Cell, Run, Sample
from measure.cache.words import INFERENCE, STEP
from measure.run.task import Cache, Columns, Failure, Request, Task, became, latency
from measure.timing.sampling import Timing
from measure.timing.statistics import estimate_median
from measure.utc import now

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CellTask(Task):
    """Measure something of a cell, in a process of its own."""

    model: Model
    cell: Cell

    is_alone = True

    @property
    def label(self) -> str:
        return self.cell.label

    @property
    def columns(self) -> Columns:
        return {
            "model": self.model.name,
            "batch_sizes": [self.cell.batch],
            "phase": self.cell.phase,
            "precision": self.cell.precision,
            "variant": self.cell.variant,
        }


@dataclass(frozen=True)
class RoundTask(CellTask):
    """Measure one of several rounds of a cell.

    ``phases`` are those of the rows that it gives, last the one that its cell is known by; ``forward_passes`` says how
    much work its call is.
    """

    round: int

    phases: ClassVar[tuple[str, ...]]
    forward_passes: ClassVar[int]

    @classmethod
    def missing(cls, request: Request, cache: Cache) -> list[Self]:
        """Return the rounds to do: those of one batch size together, and all cells once before any of them again.

        A run that is cut short still makes a paper, and the rounds of a cell lie apart in time. A cell of which a round
        failed is not tried again.
        """
        tasks = [
            cls(model, cell, number)
            for group in request.cells(cls.phases[-1])
            for number in range(request.rounds)
            for model, cell in group
        ]
        if request.force:
            return tasks
        runs = cache.rows(cache.folder.runs())
        measured = {(Cell.of(row), row.round) for row in runs}
        failed = {Cell.of(row): row for row in runs if row.status != "ok"}
        for cell in dict.fromkeys(task.cell for task in tasks if task.cell in failed):
            why = f"{failed[cell].status} ({failed[cell].reason})"
            _log.info("not tried again without --force: %s, %s", cell.describe(), why)
        return [task for task in tasks if task.cell not in failed and (task.cell, task.round) not in measured]

    @property
    def round_of(self) -> Cell:
        return self.cell

    @property
    def effort(self) -> float:
        return 5.0 + 0.5 * self.forward_passes * min(self.cell.batch, 128)

    @property
    def label(self) -> str:
        return f"{super().label}, round {self.round + 1}"

    @property
    def columns(self) -> Columns:
        return {**super().columns, "round": self.round}

    @abstractmethod
    def timing(self, result: Any, phase: str) -> Timing:
        """Return what was timed of a phase."""

    def peak_byte(self, result: Any) -> int | None:
        """Return the most memory that a call of the whole took, where that is known."""
        return None

    def store(self, cache: Cache, outcome: Any) -> None:
        *stages, whole = (self._rows(cache, phase, outcome) for phase in self.phases)
        cache.folder.put_run(*whole, stages)

    def _rows(self, cache: Cache, phase: str, outcome: Any) -> tuple[Run, list[Sample]]:
        """Return what the tables hold of one phase."""
        key = {**cache.key(self.cell._replace(phase=phase)), "round": self.round}
        run = {**key, **became(outcome), "recorded_at": now()}
        if isinstance(outcome, Failure):
            return Run(**run), []
        timing = self.timing(outcome, phase)
        peak_byte = self.peak_byte(outcome) if phase == self.cell.phase else None
        samples = [
            Sample(
                **key,
                sample=index,
                block=timing.block,
                latency_s=timed.latency_s,
                event_s=timed.event_s,
                **asdict(timed.conditions),
            )
            for index, timed in enumerate(timing.samples)
        ]
        return Run(**run, flags=";".join(timing.flags) or None, peak_byte=peak_byte), samples

    def summary(self, result: Any) -> str:
        latencies_s = self.timing(result, self.cell.phase).latencies_s
        estimate = estimate_median(latencies_s)
        width = estimate.relative_half_width
        spread = "no interval" if width is None else f"±{100 * width:.1f} %"
        return f"{latency(estimate.median)} ({spread}, {len(latencies_s)} samples)"


@dataclass(frozen=True)
class LookTask(CellTask):
    """Look into a model's forward pass, or into its training step, once."""

    is_quick = False
    trains = True

    @classmethod
    @abstractmethod
    def looked_into(cls, cache: Cache) -> Sequence[Any]:
        """Return the rows of all cells that were looked into in this way."""

    @classmethod
    def missing(cls, request: Request, cache: Cache) -> list[Self]:
        seen = set() if request.force else set(map(Cell.of, cache.rows(cls.looked_into(cache))))
        return [
            cls(model, cell)
            for phase in (INFERENCE, STEP)
            for group in request.cells(phase)
            for model, cell in group
            if cell not in seen
        ]

    @property
    def effort(self) -> float:
        """As that of a round, which runs more calls."""
        return 4.0 + (0.75 if self.cell.phase == STEP else 0.25) * min(self.cell.batch, 128)

    @property
    def label(self) -> str:
        return f"{self.section.replace('-', ' ')} of {super().label}"
