"""Estimates before a run: the duration of tasks, from counts and roofs, and whether a cell fits into memory."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property
from math import inf, log

from measure.cache.folders import Workloads
from measure.cache.project import read_both
from measure.domain import variants
from measure.domain.cell import Cell
from measure.domain.chips import datasheet_roof, fold_name, rows_by_name
from measure.domain.records import RoofMeasurement, Sample
from measure.domain.roofs import Roof, Roofline, machine_roof
from measure.domain.values import si
from measure.domain.words import (
    BURST,
    EAGER,
    FULL_PRECISION,
    HEAT_S,
    INFERENCE,
    PRECISION_BYTE,
    REST_S,
    STEP,
    shape_name,
    stored_as,
)
from measure.domain.workload_records import Workload
from measure.profiling.profile import FEWEST_STEPS, PROFILED_S, plain_sampling
from measure.published.records import Chip
from measure.roofs import roofs
from measure.run.group_tasks import COLLECTIVE_SAMPLING, CollectiveTask, DataParallelTask
from measure.run.processes import FORKS, origin
from measure.run.request import Request
from measure.run.storing import RunCache
from measure.run.tasks import CellTask, Failure, RoofTask, RoundTask, Task
from measure.run.worker import needs_fresh
from measure.timing.sampling import ENERGY_S, Sampling, round_sampling

# Assumed roofs of a device that was not measured and is not in the table of chips
UNKNOWN_FLOP_PER_S: Mapping[str, float] = {"cpu": 100e9, "cuda": 10e12, "mps": 3e12}
UNKNOWN_BYTE_PER_S: Mapping[str, float] = {"cpu": 20e9, "cuda": 500e9, "mps": 100e9}

REACHED = 0.4  # the share of its roof that a call is assumed to reach
STEP_PASSES = 3  # a training step takes about this many forward passes
COUNT_S, ROOF_S = 1.0, 0.4  # the time to count a model; the time to set a roof kernel up
UNCOUNTED_S, UNCOUNTED_INPUT_S = 5.0, 0.5  # a cell of an uncounted model, plus each of its first 128 inputs
SAMPLES = 6  # the fewest samples with an interval
IMPORT_S = 5.0  # the time to import torch and a library of models
BEGIN_S: Mapping[str, float] = {"cpu": 0.2, "cuda": 3.0, "mps": 1.0}  # the time to set up a device then
BUILD_S = 0.5  # the time to build a network's modules
DRAWN_PER_S = 1e8  # how many random weights a processor draws per second
LAUNCH_S = 8.0  # the time of torchrun to start its ranks, which import torch, and to end
ATTRIBUTION_S = 3.0  # the time to attribute the operators of a profile to modules


class DurationEstimate:
    def __init__(self, request: Request, cache: RunCache) -> None:
        self._kind = cache.environment.device
        self._round = round_sampling(request.budget_s)
        sheet, found = datasheet(cache), machine_roof(cache.rows(RoofMeasurement))
        self._flop_per_s = {FULL_PRECISION: UNKNOWN_FLOP_PER_S[self._kind]}
        self._flop_per_s |= {**(sheet.flop_per_s if sheet else {}), **found.flop_per_s}
        self._byte_per_s = found.byte_per_s or (sheet and sheet.byte_per_s) or UNKNOWN_BYTE_PER_S[self._kind]
        self._counted: dict[tuple[str, str], list[Workload]] = defaultdict(list)
        for row in cache.workloads.rows(Workload):
            if row.status == "ok" and row.autocast is None:
                self._counted[row.model, row.input_shape].append(row)
        self._least_s: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)  # forward passes, by batch size
        for sample in cache.rows(Sample):
            if (sample.phase, sample.variant) == (INFERENCE, EAGER):
                of_batch = self._least_s[sample.model, sample.precision]
                of_batch[sample.batch] = min(sample.latency_s, of_batch.get(sample.batch, inf))

    def seconds(self, task: Task) -> float:
        """Return the time of a task, without the start of its process."""
        if isinstance(task, RoofTask):
            return self._roof_s(task)
        if isinstance(task, CollectiveTask):
            return LAUNCH_S + len(task.items) * self._sampled_s(COLLECTIVE_SAMPLING, COLLECTIVE_SAMPLING.block_s)
        if not isinstance(task, CellTask):
            return COUNT_S
        rows = self._counted[task.model.name, shape_name(task.model.input_shape)]
        stored, batch = stored_as(task.cell.precision), task.cell.batch
        row = min(rows, key=lambda row: (row.precision != stored, abs(row.batch - batch)), default=None)
        if row is None:
            return UNCOUNTED_S + UNCOUNTED_INPUT_S * (STEP_PASSES if task.cell.phase == STEP else 1) * min(batch, 128)
        call_s = self._call_s(row, task.cell)
        drawn = (row.parameter_count or 0) if self._kind == "cpu" else 0
        build_s = BUILD_S + drawn / DRAWN_PER_S
        if isinstance(task, RoundTask):
            is_timed_twice = task.cell.phase == STEP and self._kind != "cpu"  # as a whole, and stage by stage
            return build_s + self._sampled_s(self._round, 2 * call_s if is_timed_twice else call_s)
        if isinstance(task, DataParallelTask):
            together_s = call_s * (task.processes if self._kind == "cpu" else 1)  # they share the cores
            return LAUNCH_S + build_s + len(task.items) * self._sampled_s(self._round, together_s)
        profiled_s = 2 * max(PROFILED_S, FEWEST_STEPS * call_s)
        return build_s + self._sampled_s(plain_sampling(self._round), call_s) + profiled_s + ATTRIBUTION_S

    def ends_s(self, tasks: Iterable[Task]) -> list[float]:
        """Return the time from the start of the run to the end of each task, starts of processes included."""
        ends: list[float] = []
        now_s = 0.0
        previous: Task | None = None
        for task in tasks:
            if needs_fresh(previous, task, self._kind):
                now_s += BEGIN_S[self._kind]
                if previous is None or not FORKS or origin(task) != origin(previous):
                    now_s += IMPORT_S
                now_s += HEAT_S * isinstance(task, RoofTask)
            now_s += self.seconds(task)
            ends.append(now_s)
            previous = task
        return ends

    def _roof_s(self, task: RoofTask) -> float:
        """Return the time of a roof kernel at the known roof."""
        work = roofs.flop_and_byte(task.roof_kernel, task.precision, task.size)
        flop_per_s = self._flop_per_s.get(task.precision) or self._flop_per_s[FULL_PRECISION]
        call_s = max(roofs.CALL_S, Roofline(flop_per_s, self._byte_per_s).least_s(*work))
        sampling = roofs.sampling_of(self._kind, task.roof_kernel, task.size, task.pace)
        rests = 1 + REST_S / sampling.block_s if task.pace == BURST else 1
        return ROOF_S + rests * self._sampled_s(sampling, call_s)

    def _call_s(self, row: Workload, cell: Cell) -> float:
        """Return the time of a call: scaled from a timed forward pass, else from the roof."""
        if timed := self._least_s.get((cell.model, cell.precision)):
            batch = min(timed, key=lambda batch: abs(log(batch / cell.batch)))
            return (STEP_PASSES if cell.phase == STEP else 1) * timed[batch] * cell.batch / batch
        flop, byte = row.forward_flop or 0, row.traffic_byte or 0
        if cell.phase == STEP:
            flop += row.backward_flop or 2 * flop
            byte += row.backward_traffic_byte or 2 * byte
        wider = PRECISION_BYTE[stored_as(cell.precision)] / PRECISION_BYTE[row.precision]
        flop_per_s = self._flop_per_s.get(cell.precision) or self._flop_per_s[FULL_PRECISION]
        bound_s = Roofline(flop_per_s, self._byte_per_s).least_s(flop, wider * byte)
        return float(cell.batch / row.batch * bound_s / REACHED)

    def _sampled_s(self, sampling: Sampling, call_s: float) -> float:
        """Return the time of warm-up and samples of a steady call. A CUDA device is taken to count its energy."""
        block_s = max(sampling.block_s, call_s)
        warm_up_s = min(2 * call_s + 2 * max(sampling.trend * block_s, sampling.trend_s), sampling.warm_up_s + block_s)
        least_s = max(sampling.least_s, ENERGY_S if sampling.has_energy and self._kind == "cuda" else 0.0)
        most_s = max(sampling.limit_s, sampling.fewest * block_s)
        return warm_up_s + min(max(least_s, SAMPLES * block_s), most_s)


def datasheet(cache: RunCache) -> Roof | None:
    """Return the roof of a GPU by its datasheet; None for a processor: a machine may have a few of its cores."""
    if cache.environment.device == "cpu":
        return None
    chips = rows_by_name(read_both(Chip, cache.workloads.data))
    sheet = chips.get(fold_name(cache.environment.name))
    return datasheet_roof(sheet) if sheet else None


class MemoryFit:
    """Refuses cells with more counted tensors (B) than the device has memory."""

    def __init__(self, device_byte: int, workloads: Workloads, is_shared: bool = True) -> None:
        """Take the memory of a device, and whether all processes of a group share it, as those of a processor do."""
        self._device_byte, self._workloads, self._is_shared = device_byte, workloads, is_shared

    @cached_property
    def _counted(self) -> dict[tuple[str, str, int, str], Workload]:
        """Read late: the same run may count them first."""
        rows = (row for row in self._workloads.rows(Workload) if row.autocast is None)
        return {(row.model, row.input_shape, row.batch, row.precision): row for row in rows}

    def refusal(self, task: Task) -> Failure | None:
        """Return a Failure for a cell that cannot fit. Others may still fail: a library's workspace is not counted."""
        if not isinstance(task, CellTask):
            return None
        cell = task.cell
        row = self._counted.get((cell.model, shape_name(task.model.input_shape), cell.batch, stored_as(cell.precision)))
        peak = "inference_peak_byte" if cell.phase == INFERENCE else "training_peak_byte"
        needed = getattr(row, peak, None)
        if row is None or needed is None:
            return None
        if cell.phase == STEP and variants.uses_adam(cell.variant):
            needed += (row.adam_byte or 0) - (row.momentum_byte or 0)
        if isinstance(task, DataParallelTask) and self._is_shared:
            needed *= task.processes
        sizes = f"{si(needed, 'B')}, the device has {si(self._device_byte, 'B')}"
        return Failure("oom", f"not tried: its tensors need {sizes}") if needed > self._device_byte else None
