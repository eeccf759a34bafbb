"""Estimates before a run: how long tasks take, from counts and roofs, and whether a cell fits into memory.

The durations order a run with a budget. During a run ``progress.TimeLeft`` knows better.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from math import inf, log

from measure.cache.hand_kept import Chip
from measure.cache.project import kept_by_hand
from measure.cache.records import Sample
from measure.cache.table import read
from measure.cache.workload_records import Workload
from measure.domain import variants
from measure.domain.chips import datasheet_roof, fold_name, rows_by_name
from measure.domain.latency import Cell
from measure.domain.roofs import Roof, machine_roof
from measure.domain.words import EAGER, FULL_PRECISION, INFERENCE, PRECISION_BYTE, STEP, shape_name, stored_as
from measure.profiling.profile import FEWEST_STEPS, PROFILED_S, plain_sampling
from measure.run.cell_tasks import CellTask, RoundTask
from measure.run.processes import FORKS, origin
from measure.run.request import Request
from measure.run.run_cache import RunCache
from measure.run.task import Failure, Task
from measure.run.worker import needs_fresh
from measure.timing.sampling import Sampling, round_sampling

REACHED = 0.4
"""The share of its roof that a call is assumed to reach."""

UNKNOWN_FLOP_PER_S: Mapping[str, float] = {"cpu": 100e9, "cuda": 10e12, "mps": 3e12}
UNKNOWN_BYTE_PER_S: Mapping[str, float] = {"cpu": 20e9, "cuda": 500e9, "mps": 100e9}
"""Assumed roofs of a device that was not measured and is not in the table of chips."""

IMPORT_S = 5.0
BEGIN_S: Mapping[str, float] = {"cpu": 0.2, "cuda": 3.0, "mps": 1.0}
"""The time to import torch and a library of models, and then to set up a device."""

BUILD_S, DRAWN_PER_S = 0.5, 1e8
"""The time to build a network's modules, and how many random weights a processor draws per second."""

STEP_PASSES = 3
"""A training step takes about this many forward passes."""

SAMPLES = 6
"""The fewest samples whose median has an interval."""

ATTRIBUTION_S = 3.0
"""The time to attribute the operators of a profile to modules."""


class DurationEstimate:
    """Estimates the duration of tasks on a machine."""

    def __init__(self, request: Request, cache: RunCache) -> None:
        self._kind = cache.environment.device
        self._round = round_sampling(request.quick, request.budget_s)
        self._roof = _assumed_roof(cache)
        self._counted: dict[tuple[str, str], list[Workload]] = defaultdict(list)
        for row in cache.workloads.models():
            if row.status == "ok" and row.autocast is None:
                self._counted[row.model, row.input_shape].append(row)
        self._timed = _timed(cache.rows(cache.folder.samples()))

    def seconds(self, task: Task) -> float:
        """Return the time of a task, without the start of its process; its effort if its model was not counted."""
        if not isinstance(task, CellTask) or (row := self._row(task)) is None:
            return task.effort
        call_s = self._call_s(row, task.cell)
        drawn = (row.parameter_count or 0) if self._kind == "cpu" else 0
        build_s = BUILD_S + drawn / DRAWN_PER_S
        if isinstance(task, RoundTask):
            is_timed_twice = task.cell.phase == STEP and self._kind != "cpu"  # as a whole, and stage by stage
            return build_s + _sampled_s(self._round, 2 * call_s if is_timed_twice else call_s)
        profiled_s = 2 * max(PROFILED_S, FEWEST_STEPS * call_s)
        return build_s + _sampled_s(plain_sampling(self._round), call_s) + profiled_s + ATTRIBUTION_S

    def ends_s(self, tasks: Iterable[Task]) -> list[float]:
        """Return the time from the start of the run to the end of each task, starts of processes included."""
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
        """Return the count with the nearest batch size, at the cell's precision if possible."""
        rows = self._counted[task.model.name, shape_name(task.model.input_shape)]
        wanted = stored_as(task.cell.precision)
        return min(rows, key=lambda row: (row.precision != wanted, abs(row.batch - task.cell.batch)), default=None)

    def _call_s(self, row: Workload, cell: Cell) -> float:
        """Return the time of a call: scaled from a timed forward pass, else from the roof."""
        passes = STEP_PASSES if cell.phase == STEP else 1
        timed = self._timed.get((cell.model, cell.precision), [])
        if timed:
            batch, latency_s = min(timed, key=lambda each: abs(log(each[0] / cell.batch)))
            return passes * latency_s * cell.batch / batch
        flop, byte = row.forward_flop or 0, row.traffic_byte or 0
        if cell.phase == STEP:
            flop += row.backward_flop or 2 * flop
            byte += row.backward_traffic_byte or 2 * byte
        wider = PRECISION_BYTE[stored_as(cell.precision)] / PRECISION_BYTE[row.precision]
        roofline = self._roof.at(cell.precision) or self._roof.at(FULL_PRECISION)
        assert roofline is not None  # at full precision there is always a guess
        return float(cell.batch / row.batch * roofline.least_s(flop, wider * byte) / REACHED)


def _timed(samples: Iterable[Sample]) -> dict[tuple[str, str], list[tuple[int, float]]]:
    """Return ``(batch, least latency)`` of the timed forward passes, by model and precision."""
    least: dict[tuple[str, str, int], float] = {}
    for row in samples:
        if (row.phase, row.variant) == (INFERENCE, EAGER):
            key = (row.model, row.precision, row.batch)
            least[key] = min(row.latency_s, least.get(key, inf))
    found: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for (model, precision, batch), latency_s in least.items():
        found[model, precision].append((batch, latency_s))
    return found


def _sampled_s(sampling: Sampling, call_s: float) -> float:
    """Return the time of warm-up and samples of a steady call."""
    block_s = max(sampling.block_s, call_s)
    warm_up_s = min(2 * call_s + 2 * max(sampling.trend * block_s, sampling.trend_s), sampling.warm_up_s + block_s)
    most_s = max(sampling.limit_s, sampling.fewest * block_s)
    return warm_up_s + min(max(sampling.least_s, SAMPLES * block_s), most_s)


def datasheet(cache: RunCache) -> Roof | None:
    """Return the roof of a GPU by its datasheet; None for a processor: a machine may have a few of its cores."""
    if cache.environment.device == "cpu":
        return None
    chips = rows_by_name(read(kept_by_hand(Chip, cache.workloads.data), Chip))
    sheet = chips.get(fold_name(cache.environment.name))
    return datasheet_roof(sheet) if sheet else None


def _assumed_roof(cache: RunCache) -> Roof:
    """Return the roof of a device: measured rates first, then those of its datasheet, then a guess."""
    kind = cache.environment.device
    sheet, found = datasheet(cache), machine_roof(cache.rows(cache.folder.roof_measurements()))
    peaks = {FULL_PRECISION: UNKNOWN_FLOP_PER_S[kind], **(sheet.flop_per_s if sheet else {}), **found.flop_per_s}
    return Roof(peaks, found.byte_per_s or (sheet.byte_per_s if sheet else UNKNOWN_BYTE_PER_S[kind]))


_log = logging.getLogger(__name__)


class MemoryFit:
    """Refuses cells whose counted tensors exceed the device's memory, in bytes."""

    def __init__(self, device_byte: int, workloads: Callable[[], Iterable[Workload]]) -> None:
        self._device_byte = device_byte
        self._workloads = workloads

    @cached_property
    def _counted(self) -> dict[tuple[str, str, int, str], Workload]:
        """Read late: the same run may count them first."""
        return {
            (row.model, row.input_shape, row.batch, row.precision): row
            for row in self._workloads()
            if row.autocast is None
        }

    def refusal(self, task: Task) -> Failure | None:
        """Return a Failure for a cell that cannot fit; None if it may, or if it was not counted.

        Only tensors are counted. A library's workspace comes on top, so a cell that just fits may still fail.
        """
        if not isinstance(task, CellTask):
            return None
        cell = task.cell
        key = (cell.model, shape_name(task.model.input_shape), cell.batch, stored_as(cell.precision))
        row = self._counted.get(key)
        needed = None if row is None else _peak_byte(cell, row)
        if needed is None:
            _log.info("%s: its memory was not counted; it is tried", task.label)
            return None
        _log.info("%s: its tensors need %.2f of %.2f GB", task.label, needed / 1e9, self._device_byte / 1e9)
        if needed <= self._device_byte:
            return None
        return Failure(
            "oom", f"not tried: its tensors need {needed / 1e9:.1f} GB, the device has {self._device_byte / 1e9:.1f} GB"
        )


def _peak_byte(cell: Cell, row: Workload) -> int | None:
    """Return the peak memory of a call; None if it was not counted."""
    if cell.phase == INFERENCE:
        return row.inference_peak_byte
    if not variants.uses_adam(cell.variant) or row.training_peak_byte is None:
        return row.training_peak_byte
    assert row.momentum_byte is not None
    assert row.adam_byte is not None
    return row.training_peak_byte - row.momentum_byte + row.adam_byte
