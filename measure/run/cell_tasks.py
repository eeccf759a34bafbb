"""Tasks that measure something of a cell: one of its rounds, or a look into its call."""

import logging
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from typing import Any, ClassVar, Self

from measure.cache.records import Cell, Run, Sample
from measure.domain import variants
from measure.domain.models import Model
from measure.domain.statistics import estimate_median, estimate_rounds
from measure.domain.values import latency
from measure.domain.words import INFERENCE, STEP, same_shape, shape_name
from measure.models import catalog
from measure.run.task import Cache, Columns, Failure, Request, Task, Tier
from measure.timing.sampling import Timing

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CellTask(Task):
    """Measure something of a cell."""

    model: Model
    cell: Cell

    @property
    def label(self) -> str:
        return self.cell.label

    @property
    def variables(self) -> dict[str, str]:
        return variants.variables(self.cell.variant)

    @property
    def libraries(self) -> tuple[str, ...]:
        return (*super().libraries, *catalog.imported_by(self.model))

    def process(self, device_kind: str) -> Hashable:
        return None

    @property
    def columns(self) -> Columns:
        return {
            "model": self.model.name,
            "batch_sizes": [self.cell.batch],
            "phase": self.cell.phase,
            "precision": self.cell.precision,
            "variant": self.cell.variant,
        }


def _of_inputs(cells: Iterable[tuple[Model, Cell]], rows: Iterable[Any]) -> list[Any]:
    """Return the rows that were measured at the shapes of input that the models have, or do not say at which.

    What was measured at another shape, before the list of models named this one, is not what is asked for.
    """
    shapes = {model.name: shape_name(model.input_shape) for model, _ in cells}
    found = []
    for row in rows:
        shape = shapes.get(row.model)
        if same_shape(shape, row.input_shape):
            found.append(row)
        else:
            _log.info("%s was measured at inputs of %s, not %s", Cell.of(row).describe(), row.input_shape, shape)
    return found


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
        """Return the rounds to do. A cell of which a round failed is not tried again.

        Cells of one model, batch size and phase get as many rounds as one another, so that what compares precisions or
        variants compares rounds of the same blocks. Once they have the fewest they get one more where the interval of
        any of them is too wide. By force, all that they have are done again.
        """
        cells = request.cells(cls.phases[-1])
        runs = _of_inputs(cells, cache.tried(cache.folder.runs()))
        measured: dict[Cell, set[int]] = defaultdict(set)
        failed: dict[Cell, Run] = {}
        for row in runs:
            measured[Cell.of(row)].add(row.round)
            if row.status != "ok":
                failed[Cell.of(row)] = row
        if request.force:
            most = {cell: max([request.rounds, *(number + 1 for number in measured[cell])]) for _, cell in cells}
            return [cls(model, cell, number) for model, cell in cells for number in range(most[cell])]
        for _, cell in cells:
            if cell in failed:
                why = f"{failed[cell].status} ({failed[cell].reason})"
                _log.info("not tried again without --force: %s, %s", cell.describe(), why)
        left = [(model, cell) for model, cell in cells if cell not in failed]
        wanted = _rounds_wanted(request, [cell for _, cell in left], measured, cache)
        return [
            cls(model, cell, number)
            for model, cell in left
            for number in range(wanted[cell])
            if number not in measured[cell]
        ]

    @property
    def round_of(self) -> Cell:
        return self.cell

    @property
    def block(self) -> int:
        return self.round

    def tier(self, request: Request) -> Tier:
        if self.round:
            return Tier.ROUNDS if self.round < request.rounds else Tier.REST
        return self.first_tier(request) if request.is_base(self.cell) else Tier.OTHER_CELLS

    @abstractmethod
    def first_tier(self, request: Request) -> Tier:
        """Return the tier of a first round at the request's first precision and variant."""

    def process(self, device_kind: str) -> Hashable:
        """Return what the batch sizes of a round share, where it takes a process seconds to begin with the device.

        A variant that sets something up in its first call does so by the batch size: each needs its own.
        """
        if device_kind != "cuda" or variants.first_call_s(self.cell.variant):
            return None
        return self.model, self.cell.precision, self.cell.variant, self.round

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
        cell = self.cell._replace(phase=phase)
        run = {**cache.row(self.model, cell, outcome), "round": self.round}
        if isinstance(outcome, Failure):
            return Run(**run), []
        key = {**cache.key(cell), "round": self.round}
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


def _rounds_wanted(
    request: Request, cells: Sequence[Cell], measured: Mapping[Cell, Collection[int]], cache: Cache
) -> dict[Cell, int]:
    """Return how many rounds each cell should have, as far as those that it has can tell."""
    groups: dict[tuple[str, int, str], list[Cell]] = defaultdict(list)
    for cell in cells:
        groups[cell.model, cell.batch, cell.phase].append(cell)
    widths: dict[Cell, float] | None = None
    wanted: dict[Cell, int] = {}
    for group in groups.values():
        fewest, most = min(len(measured[cell]) for cell in group), max(len(measured[cell]) for cell in group)
        rounds = max(request.rounds, most)
        if fewest == most == rounds < request.most_rounds:
            widths = _widths(cells, cache) if widths is None else widths
            wide = [cell for cell in group if widths.get(cell, inf) > request.target]
            rounds += bool(wide)
            for cell in wide:
                _log.info("one more round: %s is known to ±%.1f %%", cell.describe(), 100 * widths.get(cell, inf))
        wanted |= dict.fromkeys(group, rounds)
    return wanted


def _widths(cells: Collection[Cell], cache: Cache) -> dict[Cell, float]:
    """Return the relative half width of these cells' intervals, of those that have one."""
    asked = set(cells)
    rounds: dict[Cell, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in cache.rows(cache.folder.samples()):
        if (cell := Cell.of(row)) in asked:
            rounds[cell][row.round].append(row.latency_s)
    widths = {cell: estimate_rounds(list(of_cell.values())).relative_half_width for cell, of_cell in rounds.items()}
    return {cell: width for cell, width in widths.items() if width is not None}


@dataclass(frozen=True)
class LookTask(CellTask):
    """Look into a model's forward pass, or into its training step, once."""

    trains = True

    @classmethod
    @abstractmethod
    def looked_into(cls, cache: Cache) -> Sequence[Any]:
        """Return the rows of all cells that were looked into in this way."""

    @classmethod
    def missing(cls, request: Request, cache: Cache) -> list[Self]:
        cells = [pair for phase in (INFERENCE, STEP) for pair in request.cells(phase)]
        rows = [] if request.force else _of_inputs(cells, cache.tried(cls.looked_into(cache)))
        seen = set(map(Cell.of, rows))
        return [cls(model, cell) for model, cell in cells if cell not in seen]

    @property
    def effort(self) -> float:
        """As that of a round, which runs more calls."""
        return 4.0 + (0.75 if self.cell.phase == STEP else 0.25) * min(self.cell.batch, 128)

    @property
    def label(self) -> str:
        return f"{self.section.replace('-', ' ')} of {super().label}"
