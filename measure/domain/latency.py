"""The latency of a cell: its rounds, their median with its interval, and the rates that follow."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import inf
from operator import attrgetter
from statistics import median
from typing import Any, NamedTuple

from measure.domain.cell import Cell
from measure.domain.energy import RoundEnergy, estimate_energy
from measure.domain.models import parse_task
from measure.domain.records import Run, Sample
from measure.domain.statistics import estimate_rounds
from measure.domain.words import DRIFTING, INFERENCE, TARGET, WIDE, was_disturbed


class CellSample(NamedTuple):
    """The columns of a ``Sample`` that latency and energy need; a full ``Sample`` takes ten times the memory."""

    model: str
    batch: int
    precision: str
    phase: str
    variant: str
    round: int
    latency_s: float
    block: int
    energy_j: float | None


@dataclass(frozen=True)
class Rounds:
    """The runs of a cell (at least one), the latencies (s) of each run with a result, and the energies read."""

    runs: tuple[Run, ...]
    latencies: tuple[tuple[float, ...], ...]
    energies: tuple[RoundEnergy, ...]

    @property
    def deciding(self) -> Run:
        """The run that decides the cell's status: the first with a result, else the first."""
        return next((run for run in self.runs if (run.status == "ok") == bool(self.latencies)), self.runs[0])

    @property
    def flags(self) -> frozenset[str]:
        """The flags of all rounds. Several rounds are never ``drifting``; their joint interval decides ``wide``."""
        found = frozenset(flag for run in self.runs if run.flags for flag in run.flags.split(";"))
        if len(self.latencies) < 2:
            return found
        width = estimate_rounds(self.latencies).relative_half_width
        if width is None:  # of two rounds
            low, high = sorted(map(median, self.latencies))
            width = (high - low) / (high + low)
        target = max(self.runs, key=lambda run: run.recorded_at).target or TARGET
        return found - {WIDE, DRIFTING} | ({WIDE} if width > target else set())


def round_of(run: Any) -> tuple[Any, ...]:
    """Return the key of a run's round. A training step and its stages share one."""
    return run.environment_id, run.model, run.batch, run.precision, run.variant, run.phase == INFERENCE, run.round


def disturbed_rounds(runs: Iterable[Any]) -> set[tuple[Any, ...]]:
    """Return the keys (``round_of``) of the rounds that other programs disturbed."""
    return {round_of(run) for run in runs if was_disturbed(run.flags)}


def undisturbed_rounds(runs: Iterable[Any]) -> list[Any]:
    """Leave out the rounds that other programs disturbed, unless a cell has no others with a result."""
    runs = list(runs)
    disturbed = disturbed_rounds(runs)
    undisturbed = {round_of(run)[:-1] for run in runs if run.status == "ok" and round_of(run) not in disturbed}
    return [run for run in runs if round_of(run)[:-1] not in undisturbed or round_of(run) not in disturbed]


def group_rounds(runs: Iterable[Run], samples: Iterable[Sample | CellSample]) -> dict[Cell, Rounds]:
    """Group the undisturbed runs of one environment by cell, with their latencies and energies."""
    timed: dict[tuple[Any, ...], list[tuple[int, float, float | None]]] = defaultdict(list)
    for key, rows in groupby(samples, key=attrgetter(*Cell._fields, "round")):
        timed[key] += [(row.block, row.latency_s, row.energy_j) for row in rows]
    runs_of: dict[Cell, list[Run]] = defaultdict(list)
    for run in undisturbed_rounds(runs):
        runs_of[Cell.of(run)].append(run)
    found = {}
    for cell, of_cell in runs_of.items():
        rounds = [timed[key] for run in of_cell if run.status == "ok" and (key := (*cell, run.round)) in timed]
        latencies = tuple(tuple(latency_s for _, latency_s, _ in each) for each in rounds)
        found[cell] = Rounds(tuple(of_cell), latencies, tuple(filter(None, map(RoundEnergy.of, rounds))))
    return found


@dataclass(frozen=True)
class TimedCell:
    """A cell with the columns that ``docs/json.md`` names.

    ``latency_s`` is the median of the rounds' medians, None if the cell failed. ``latency_least_s`` and
    ``latency_most_s`` are the lowest and the highest of these medians. The ends of the 95 % interval are None for two
    rounds, and for one of too few samples or of a GPU's launches (``launch_bound``). ``tokens_per_s`` is None unless a
    language model reads or generates tokens. ``energy_j`` is the energy of one call, None if the device does not report
    it or too little was read.
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
    latency_least_s: float | None
    latency_most_s: float | None
    inputs_per_s: float | None
    tokens_per_s: float | None
    rounds: int
    flags: tuple[str, ...]
    input_shape: str | None
    energy_j: float | None = None
    energy_low_j: float | None = None
    energy_high_j: float | None = None
    joule_per_input: float | None = None
    joule_per_token: float | None = None


GROWTH = 2.0  # launching kernels takes as long for any batch, so a call that takes so much longer is the device's


def launch_bound(latencies_s: Mapping[Cell, float]) -> set[Cell]:
    """Return the cells of a GPU that may only take the time to launch their kernels: those without growth.

    That time differs between rounds. On the H100 and the H200, the medians of two rounds differ by 6 % in the median of
    these cells and by up to 340 %, those of the other cells by 1.4 % at most.
    """
    batches: dict[Cell, list[tuple[int, float]]] = defaultdict(list)
    for cell, latency_s in latencies_s.items():
        batches[cell._replace(batch=0)].append((cell.batch, latency_s))
    smaller_s = {
        cell: min((each_s for batch, each_s in batches[cell._replace(batch=0)] if batch < cell.batch), default=inf)
        for cell in latencies_s
    }
    return {cell for cell, latency_s in latencies_s.items() if latency_s < GROWTH * smaller_s[cell]}


def without_launches(cells: Sequence[TimedCell]) -> list[TimedCell]:
    """Take the intervals of a GPU's cells of one round if they may only take the time to launch their kernels."""
    bound = launch_bound({Cell.of(each): each.latency_s for each in cells if each.latency_s is not None})
    return [
        replace(each, latency_low_s=None, latency_high_s=None) if each.rounds == 1 and Cell.of(each) in bound else each
        for each in cells
    ]


def summarise_cell(
    cell: Cell, latencies: Sequence[Sequence[float]], flags: Iterable[str], input_shape: str | None,
    status: str = "ok", reason: str | None = None, energies: Sequence[RoundEnergy] = (),
) -> TimedCell:  # fmt: skip
    """Summarise a cell from its latencies (s) and energies, round by round; a failed cell has no rounds."""
    if not latencies:
        nothing = (None, None, None, None, None, None, None)
        return TimedCell(*cell, status, reason, *nothing, 0, tuple(sorted(flags)), input_shape)
    estimate, task, medians = estimate_rounds(latencies), parse_task(cell.model), list(map(median, latencies))
    tokens = cell.batch * task.read if task else None  # read or generated by a call
    timed = TimedCell(
        *cell, status, reason, estimate.median, estimate.low, estimate.high, min(medians), max(medians),
        inputs_per_s=cell.batch / estimate.median, tokens_per_s=tokens / estimate.median if tokens else None,
        rounds=len(latencies), flags=tuple(sorted(flags)), input_shape=input_shape,
    )  # fmt: skip
    energy = estimate_energy(energies)
    return timed if energy is None else replace(
        timed, energy_j=energy.median, energy_low_j=energy.low, energy_high_j=energy.high,
        joule_per_input=energy.median / cell.batch, joule_per_token=energy.median / tokens if tokens else None,
    )  # fmt: skip
