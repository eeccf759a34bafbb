"""How long tasks take, guessed before any has run: what a model asks for, held against the machine's roofs.

A run with a budget is ordered by it, and the plan of one says by it what is expected to be reached. Once tasks have
been done ``progress.TimeLeft`` knows better.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from measure.cache import rates
from measure.cache.hand_kept import Chip, chip_names, folded
from measure.cache.project import kept_by_hand
from measure.cache.records import Cell
from measure.cache.table import read
from measure.cache.words import FULL_PRECISION, PRECISION_BYTE, STEP, shape_name, stored_as
from measure.cache.workload_records import Workload
from measure.profiling.profile import FEWEST_STEPS, PLAIN, PROFILED_S
from measure.run.cell_tasks import CellTask, RoundTask
from measure.run.processes import FORKS, origin
from measure.run.task import Cache, Request, Task
from measure.run.worker import needs_fresh
from measure.timing.sampling import QUICK_ROUND, ROUND, Sampling

REACHED = 0.4
"""The part of its roof that a model's call is taken to reach."""

UNKNOWN_FLOP_PER_S: Mapping[str, float] = {"cpu": 100e9, "cuda": 10e12, "mps": 3e12}
UNKNOWN_BYTE_PER_S: Mapping[str, float] = {"cpu": 20e9, "cuda": 500e9, "mps": 100e9}
"""Taken for the roofs of a device that has neither been measured nor is in the chips' table."""

IMPORT_S = 5.0
BEGIN_S: Mapping[str, float] = {"cpu": 0.2, "cuda": 3.0, "mps": 1.0}
"""What a process takes to import torch and a library of models, and after that to begin with a device."""

BUILD_S, DRAWN_PER_S = 0.5, 1e8
"""What building a network takes: its modules, and random weights, so many of which a processor draws in a second."""

SAMPLES = 6
"""The fewest samples of which a median has an interval."""

ATTRIBUTION_S = 3.0
"""What it takes to attribute the operators of a profile to modules."""


class Estimate:
    """What is known of a machine, and of the models, before a run."""

    def __init__(self, request: Request, cache: Cache) -> None:
        self._kind = cache.environment.device
        self._round = QUICK_ROUND if request.quick else ROUND
        self._flop_per_s, self._byte_per_s = _rates(cache)
        self._counted: dict[tuple[str, str], list[Workload]] = defaultdict(list)
        for row in cache.workloads.models():
            if row.status == "ok" and row.autocast is None:
                self._counted[row.model, row.input_shape].append(row)

    def seconds(self, task: Task) -> float:
        """Return the time of a task in a process that has begun; by its effort where its model was not counted."""
        if not isinstance(task, CellTask) or (row := self._row(task)) is None:
            return task.effort
        call_s = self._call_s(row, task.cell)
        drawn = (row.parameter_count or 0) if self._kind == "cpu" else 0
        build_s = BUILD_S + drawn / DRAWN_PER_S
        if isinstance(task, RoundTask):
            is_timed_twice = task.cell.phase == STEP and self._kind != "cpu"  # as a whole, and stage by stage
            return build_s + _sampled_s(self._round, 2 * call_s if is_timed_twice else call_s)
        profiled_s = 2 * max(PROFILED_S, FEWEST_STEPS * call_s)
        return build_s + _sampled_s(PLAIN, call_s) + profiled_s + ATTRIBUTION_S

    def ends_s(self, tasks: Iterable[Task]) -> list[float]:
        """Return the time from the beginning of a run to the end of each of its tasks, processes' starts among it."""
        ends: list[float] = []
        now_s = 0.0
        previous: Task | None = None
        for task in tasks:
            if needs_fresh(previous, task, None, self._kind):
                now_s += BEGIN_S[self._kind]
                if previous is None or not FORKS or origin(task) != origin(previous):
                    now_s += IMPORT_S
            now_s += self.seconds(task)
            ends.append(now_s)
            previous = task
        return ends

    def _row(self, task: CellTask) -> Workload | None:
        """Return the count that is nearest to what the cell asks for."""
        rows = self._counted[task.model.name, shape_name(task.model.input_shape)]
        wanted = stored_as(task.cell.precision)
        return min(rows, key=lambda row: (row.precision != wanted, abs(row.batch - task.cell.batch)), default=None)

    def _call_s(self, row: Workload, cell: Cell) -> float:
        """Return the time of a call: of forward and backward pass in training."""
        flop, byte = row.forward_flop or 0, row.traffic_byte or 0
        if cell.phase == STEP:
            flop += row.backward_flop or 2 * flop
            byte += row.backward_traffic_byte or 2 * byte
        wider = PRECISION_BYTE[stored_as(cell.precision)] / PRECISION_BYTE[row.precision]
        flop_per_s = self._flop_per_s.get(cell.precision) or self._flop_per_s[FULL_PRECISION]
        bound_s = max(flop / flop_per_s, wider * byte / self._byte_per_s)
        return cell.batch / row.batch * bound_s / REACHED


def _sampled_s(sampling: Sampling, call_s: float) -> float:
    """Return what warm-up and samples of a call take, where it is steady enough for them to end soon."""
    block_s = max(sampling.block_s, call_s)
    warm_up_s = min(2 * call_s + 2 * max(sampling.trend * block_s, sampling.trend_s), sampling.warm_up_s + block_s)
    most_s = max(sampling.limit_s, sampling.fewest * block_s)
    return warm_up_s + min(max(sampling.least_s, SAMPLES * block_s), most_s)


def _rates(cache: Cache) -> tuple[dict[str, float], float]:
    """Return the rates of arithmetic, by precision, and of memory: measured ones first, then those of a datasheet."""
    kind = cache.environment.device
    sheet: list[Chip] = []
    if kind != "cpu":  # a machine may have a few cores of a processor
        chips = read(kept_by_hand(Chip, cache.workloads.data), Chip)
        sheet = [chip for chip in chips if folded(cache.environment.name) in chip_names(chip)]
    found = rates.measured(cache.rows(cache.folder.roof_measurements()))
    flop_per_s = {FULL_PRECISION: UNKNOWN_FLOP_PER_S[kind]}
    flop_per_s |= _greatest((chip.precision, chip.peak_flop_per_s) for chip in sheet)
    flop_per_s |= found.flop_per_s
    of_sheet = max((chip.bandwidth_byte_per_s for chip in sheet), default=UNKNOWN_BYTE_PER_S[kind])
    return flop_per_s, found.byte_per_s or of_sheet


def _greatest(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    greatest: dict[str, float] = {}
    for name, value in pairs:
        greatest[name] = max(value, greatest.get(name, 0.0))
    return greatest
