"""The cells in a machine's cache, each with its latency, its interval, and what is held against it.

The rounds of cells: their runs, and what their samples took.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from measure.domain.models import tokens
from measure.domain.statistics import estimate_rounds
from measure.domain.words import EAGER, INFERENCE, STEP

if TYPE_CHECKING:
    from measure.cache.folders import MachineFolder
    from measure.cache.records import Environment, Run, Sample


class Cell(NamedTuple):
    """A model at one batch size, precision, phase and variant: what is measured, on whatever machine."""

    model: str
    batch: int
    precision: str
    phase: str
    variant: str

    @classmethod
    def of(cls, row: Any) -> "Cell":
        """Return the cell that a row belongs to."""
        return cls(*(getattr(row, name) for name in cls._fields))

    def describe(self) -> str:
        """Name the cell in full, for logs and comparisons."""
        return f"{self.model} batch {self.batch} {self.precision} {self.phase} {self.variant}"

    @property
    def label(self) -> str:
        """The cell in a plan: only what is not usual is named beside model, batch size and precision."""
        training = "" if self.phase == INFERENCE else "training "
        variant = "" if self.variant == EAGER else f" {self.variant}"
        return f"{training}{self.model} batch {self.batch} {self.precision}{variant}"


@dataclass(frozen=True)
class Rounds:
    """The runs of a cell, one at least, and the latencies (s) of the samples of each that has a result."""

    runs: "tuple[Run, ...]"
    latencies: tuple[tuple[float, ...], ...]

    @property
    def deciding(self) -> "Run":
        """The first run with a result where any has one, else the first that failed: its status is the cell's."""
        wanted = (run for run in self.runs if (run.status == "ok") == bool(self.latencies))
        return next(wanted, self.runs[0])

    @property
    def flags(self) -> frozenset[str]:
        """What is held against any of the rounds."""
        return frozenset(flag for run in self.runs if run.flags for flag in run.flags.split(";"))


def of_cells(runs: "Iterable[Run]", samples: "Iterable[Sample]") -> dict[Cell, Rounds]:
    """Return the rounds of each cell of one environment."""
    latencies: dict[tuple[Cell, int], list[float]] = defaultdict(list)
    for sample in samples:
        latencies[Cell.of(sample), sample.round].append(sample.latency_s)
    runs_of: dict[Cell, list[Run]] = defaultdict(list)
    for run in runs:
        runs_of[Cell.of(run)].append(run)
    return {
        cell: Rounds(
            tuple(of_cell),
            tuple(
                tuple(timed) for run in of_cell if run.status == "ok" and (timed := latencies.get((cell, run.round)))
            ),
        )
        for cell, of_cell in runs_of.items()
    }


@dataclass(frozen=True)
class TimedCell:
    """A cell, as ``docs/json.md`` names its columns.

    ``latency_s`` is the median of the rounds' medians; one that failed has none, and a ``reason``. The ends of its 95 %
    interval are None where there are too few rounds and samples for one. ``tokens_per_s`` is that of a language model:
    tokens that are read, or generated.
    """

    model: str
    batch: int
    precision: str
    phase: str
    variant: str
    status: str
    reason: str | None
    latency_s: float | None
    latency_low_s: float | None
    latency_high_s: float | None
    inputs_per_s: float | None
    tokens_per_s: float | None
    rounds: int
    flags: tuple[str, ...]
    input_shape: str | None

    @property
    def cell(self) -> Cell:
        return Cell(self.model, self.batch, self.precision, self.phase, self.variant)


def timed_cells(folder: "MachineFolder", environment: "Environment") -> list[TimedCell]:
    """Return the cells that an environment measured, training steps as a whole, in the order of their models.

    Raises UserError for a table that cannot be read.
    """
    runs = [run for run in folder.runs() if _is_shown(run, environment)]
    rounds = of_cells(runs, folder.samples(runs))
    return [_timed(cell, of_cell) for cell, of_cell in sorted(rounds.items(), key=_order)]


def _is_shown(run: "Run", environment: "Environment") -> bool:
    return run.environment_id == environment.environment_id and run.phase in (INFERENCE, STEP)


def _order(pair: tuple[Cell, Rounds]) -> tuple[str, str, str, str, int]:
    cell, _ = pair
    return cell.model, cell.phase, cell.precision, cell.variant, cell.batch


def timed_cell(
    cell: Cell,
    latencies: Sequence[Sequence[float]],
    flags: Iterable[str],
    input_shape: str | None,
    status: str = "ok",
    reason: str | None = None,
) -> TimedCell:
    """Return a cell by the latencies (s) of the samples of each of its rounds, of which a failed one has none."""
    median_s = low_s = high_s = None
    if latencies:
        estimate = estimate_rounds(latencies)
        median_s, low_s, high_s = estimate.median, estimate.low, estimate.high
    read = tokens(cell.model, cell.batch)
    return TimedCell(
        **cell._asdict(),
        status=status,
        reason=reason,
        latency_s=median_s,
        latency_low_s=low_s,
        latency_high_s=high_s,
        inputs_per_s=None if median_s is None else cell.batch / median_s,
        tokens_per_s=None if median_s is None or read is None else read / median_s,
        rounds=len(latencies),
        flags=tuple(sorted(flags)),
        input_shape=input_shape,
    )


def _timed(cell: Cell, rounds: Rounds) -> TimedCell:
    run = rounds.deciding
    return timed_cell(cell, rounds.latencies, rounds.flags, run.input_shape, run.status, run.reason)
