"""The rounds of cells: their runs, and what their samples took."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from measure.cache.records import Cell, Run, Sample


@dataclass(frozen=True)
class Rounds:
    """The runs of a cell, one at least, and the latencies (s) of the samples of each that has a result."""

    runs: tuple[Run, ...]
    latencies: tuple[tuple[float, ...], ...]

    @property
    def deciding(self) -> Run:
        """The first run with a result where any has one, else the first that failed: its status is the cell's."""
        wanted = (run for run in self.runs if (run.status == "ok") == bool(self.latencies))
        return next(wanted, self.runs[0])

    @property
    def flags(self) -> frozenset[str]:
        """What is held against any of the rounds."""
        return frozenset(flag for run in self.runs if run.flags for flag in run.flags.split(";"))


def of_cells(runs: Iterable[Run], samples: Iterable[Sample]) -> dict[Cell, Rounds]:
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
