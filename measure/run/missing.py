"""The tasks of each section that a request asks for and the cache lacks, and their turns in a run with a budget."""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable
from enum import Enum
from itertools import product
from math import inf
from operator import attrgetter
from typing import Any

from measure.counting import count
from measure.domain import precisions, variants
from measure.domain.cell import Cell
from measure.domain.latency import TimedCell, disturbed_rounds, round_of
from measure.domain.models import Model
from measure.domain.records import HardwareCounterProfile, Profile, RoofMeasurement, Run
from measure.domain.roofs import flop_per_s, is_loaded, machine_roof
from measure.domain.statistics import estimate_rounds
from measure.domain.words import (
    BURST,
    EAGER,
    FULL_PRECISION,
    INFERENCE,
    STEP,
    STREAM_ARRAYS,
    same_shape,
    shape_name,
    stored_as,
)
from measure.domain.workload_records import WORKLOAD, Workload
from measure.roofs.roofs import first_kernels, roof_kernels, second_kernels
from measure.run.request import Request
from measure.run.storing import RunCache
from measure.run.tasks import KILLED, HardwareCounterTask, ProfileTask, RoofTask, RoundTask, WorkloadTask, roof_key

_log = logging.getLogger(__name__)

SHORT_BUDGET_S = 600.0  # shorter budgets begin with profiles at the smallest batch size


class Tier(Enum):
    """The turns of a run with a budget and their titles: wherever it ends, the paper has gained the most."""

    COUNTS = "counts"  # FLOP and bytes of the first models
    FIRST_LATENCY = "a first latency"  # of a leading model: a budget that ends in the roofs has shown something
    FIRST_ROOF = "a first roof"  # one matrix product and one stream through memory: enough to draw a roof
    FIRST_CELLS = "batch {first}"  # one cell of every model, before any model has a second
    SECOND_CELLS = "batch {second}"  # a second batch size of every model
    NAMED_CELLS = "other batch sizes"  # of every model, if the user named the batch sizes
    STEPS = "training steps"  # of the two leading models
    PROFILES = "operators"  # of the two leading models
    OTHER_CELLS = "other cells"  # and profiles of the other models, model by model
    LONG = "long cells"  # each would take a large share of the budget; the shortest first
    ROUNDS = "further rounds"  # the second and third
    MORE_ROUNDS = "more rounds"  # of cells with wide intervals, or that other programs disturbed
    ROOFS = "finer roofs"  # at the precision of the models, and the clock
    REST = "caches and other precisions"


def missing_counts(request: Request, cache: RunCache) -> list[WorkloadTask]:
    """Count again if the formulas have changed, also after failures, or if an own model has other code."""
    codes = {model.name: model.code for model in request.models}
    rows = () if request.force else cache.workloads.rows(Workload)
    counted = {
        attrgetter(*WORKLOAD)(row)
        for row in rows
        if row.status != KILLED.status and row.counting == count.VERSION and row.code == codes.get(row.model)
    }
    kind = cache.environment.device
    autocasts = [kind if variants.is_autocast(variant) else None for variant in request.variants]
    ways = dict.fromkeys(product(map(stored_as, request.precisions), autocasts))
    ways.pop((FULL_PRECISION, kind), None)
    trains = bool(set(request.sections) - {WorkloadTask.section, RoofTask.section, "inference"})
    tasks = []
    for (precision, autocast), model in product(ways, request.models):
        trained = trains and model in request.training_models
        batches = sorted({*request.batch_sizes, *(request.training_batch_sizes if trained else ())})
        named = (model.name, shape_name(model.input_shape))
        left = tuple(batch for batch in batches if (*named, batch, precision, autocast) not in counted)
        if left:
            tasks.append(WorkloadTask(model, left, precision, autocast))
    return tasks


def count_tier(task: WorkloadTask, request: Request) -> Tier:
    return Tier.COUNTS if request.rank(task.model) < 2 else Tier.FIRST_CELLS


def missing_roofs(request: Request, cache: RunCache) -> list[RoofTask]:
    """Time a kernel again if other programs were busy, or if a network outran it in a later round.

    Other programs may have slowed such a kernel unseen.
    """
    rows = () if request.force else cache.tried(RoofMeasurement)
    timed = {roof_key(row) for row in rows if not is_loaded(row)}
    if timed:
        last = max((row.recorded_at for row in cache.rows(Run)), default="")
        timed -= {roof_key(row) for _, _, row in cells_above_roof(cache) if (row.recorded_at or "") < last}
    wanted = precisions.product_precisions(cache.environment, request.precisions)
    kind = cache.environment.device
    tasks = [RoofTask(*each) for each in roof_kernels(kind, wanted)]
    if request.quick:
        chosen = {*first_kernels(kind, tuple(request.precisions)), *second_kernels(kind)}
        tasks = [task for task in tasks if task.is_quick or roof_key(task) in chosen]
    return [task for task in tasks if roof_key(task) not in timed]


def roof_tier(task: RoofTask, request: Request) -> Tier:
    """Begin with a first roof. A short budget has the idle power and the L2 later."""
    if roof_key(task) in first_kernels(request.device_kind, tuple(request.precisions)):
        return Tier.FIRST_ROOF
    if roof_key(task) in second_kernels(request.device_kind):
        return Tier.ROOFS if (request.budget_s or inf) < SHORT_BUDGET_S else Tier.FIRST_ROOF
    if task.round and task.is_quick:
        return Tier.ROUNDS
    is_of_cache = task.roof_kernel in STREAM_ARRAYS and task.round is None
    is_of_no_model = task.roof_kernel == "matmul" and task.precision not in request.precisions
    return Tier.REST if task.pace == BURST or is_of_cache or is_of_no_model else Tier.ROOFS


def cells_above_roof(cache: RunCache) -> list[tuple[TimedCell, float, RoofMeasurement]]:
    """Return the cells that ran faster than any kernel at their precision, with their rate (FLOP/s) and that kernel."""
    roof = machine_roof(cache.rows(RoofMeasurement)).arithmetic
    counted = {attrgetter(*WORKLOAD)(row): row.forward_flop for row in cache.workloads.rows(Workload)} if roof else {}
    found = []
    for cell in cache.folder.cells(cache.environment) if roof else ():
        key = (cell.model, cell.input_shape, cell.batch, stored_as(cell.precision), None)
        flop, row = counted.get(key), roof.get(cell.precision)
        if flop and row and cell.latency_s and (cell.phase, cell.variant) == (INFERENCE, EAGER):
            rate = flop / cell.latency_s
            if rate > flop_per_s(row):
                found.append((cell, rate, row))
    return found


def _rows_of(cells: Iterable[tuple[Model, Cell]], rows: Iterable[Any]) -> list[Any]:
    """Keep the rows of these cells, measured with the present input shape and code of their models."""
    models = {cell: model for model, cell in cells}
    found = []
    for row in rows:
        model = models.get(Cell.of(row))
        if model and row.code == model.code and same_shape(shape_name(model.input_shape), row.input_shape):
            found.append(row)
    return found


def missing_rounds(phase: str, request: Request, cache: RunCache) -> list[RoundTask]:
    """Return the rounds to do. A cell with a failed round is not tried again.

    Cells of one model, batch size and phase get equally many rounds, so that comparisons of precisions or variants
    compare rounds of the same blocks. With ``request.force``, all rounds are done again.
    """
    cells = request.cells(phase)
    measured: dict[Cell, set[int]] = defaultdict(set)
    failed: dict[Cell, Run] = {}
    for row in _rows_of(cells, cache.tried(Run)):
        measured[Cell.of(row)].add(row.round)
        if row.status != "ok":
            failed[Cell.of(row)] = row
    if request.force:
        wanted = {cell: max([request.rounds, *(number + 1 for number in measured[cell])]) for _, cell in cells}
        measured.clear()
    else:
        for cell, row in failed.items():
            _log.info("not tried again without --force: %s, %s (%s)", cell.describe(), row.status, row.reason)
        wanted = _rounds_wanted(request, [cell for _, cell in cells if cell not in failed], measured, cache)
    return [
        RoundTask(model, cell, number, request.target)
        for model, cell in cells
        for number in range(wanted.get(cell, 0))
        if number not in measured[cell]
    ]


def _rounds_wanted(request: Request, cells: list[Cell], done: dict[Cell, set[int]], cache: RunCache) -> dict[Cell, int]:
    """Return how many rounds each cell should have, ``request.most_rounds`` at most.

    Rounds that other programs disturbed are made up for, as the latency leaves them out. One more follows if an
    interval of the cell's group is too wide.
    """
    groups: dict[tuple[str, int, str], list[Cell]] = defaultdict(list)
    for cell in cells:
        groups[cell.model, cell.batch, cell.phase].append(cell)
    runs = cache.rows(Run)
    disturbed = disturbed_rounds(runs)
    in_vain = [run for run in runs if round_of(run) in disturbed]
    lost = Counter(Cell.of(run) for run in in_vain if run.round in done.get(Cell.of(run), ()))
    complete: list[Cell] = []  # cells that may need another round
    wanted: dict[Cell, int] = {}
    for group in groups.values():
        counts = {len(done[cell]) for cell in group}
        undisturbed = min(request.rounds + max(lost[cell] for cell in group), request.most_rounds)
        rounds = max(request.rounds, undisturbed, *counts)
        wanted |= dict.fromkeys(group, rounds)
        if counts == {rounds} and rounds < request.most_rounds:
            complete += group
    chosen = set(complete)
    of_chosen = [run for run in runs if Cell.of(run) in chosen]
    rounds_of = cache.folder.rounds(of_chosen) if of_chosen else {}
    for cell in complete:
        latencies = rounds_of[cell].latencies if cell in rounds_of else ()
        width = estimate_rounds(latencies).relative_half_width if latencies else None
        if width is None or width > request.target:
            wanted |= dict.fromkeys(groups[cell.model, cell.batch, cell.phase], len(done[cell]) + 1)
    return wanted


def round_tier(task: RoundTask, request: Request) -> Tier:
    batch = task.cell.batch
    if task.round:
        return Tier.ROUNDS if task.round < request.rounds else Tier.MORE_ROUNDS
    if not request.is_base(task.cell):
        return Tier.OTHER_CELLS
    if task.cell.phase == STEP:
        is_first = task.model in request.leading and batch == min(request.training_batch_sizes)
        return Tier.STEPS if is_first else Tier.OTHER_CELLS
    if batch == min(request.batch_sizes):
        return Tier.FIRST_CELLS
    if request.has_named_batches:
        return Tier.NAMED_CELLS
    return Tier.SECOND_CELLS if batch == request.second_batch else Tier.OTHER_CELLS


def _cells_without(record: type[Any], request: Request, cache: RunCache) -> list[tuple[Model, Cell]]:
    """Return the cells of both phases that have no row in a table; all of them by force."""
    cells = [pair for phase in (INFERENCE, STEP) for pair in request.cells(phase)]
    rows = [] if request.force else cache.tried(record)
    seen = set(map(Cell.of, _rows_of(cells, rows)))
    return [(model, cell) for model, cell in cells if cell not in seen]


def missing_profiles(request: Request, cache: RunCache) -> list[ProfileTask]:
    tasks = [ProfileTask(*pair) for pair in _cells_without(Profile, request, cache)]
    return [task for task in tasks if not request.quick or profile_tier(task, request) == Tier.PROFILES]


def profile_tier(task: ProfileTask, request: Request) -> Tier:
    """Begin with a profile of inference of each model, and one of a training step of each leading model."""
    if task.cell.phase != INFERENCE:
        batch = min(request.training_batch_sizes)
    elif request.quick or (request.budget_s or inf) < SHORT_BUDGET_S:  # a profile of a large batch takes long
        batch = min(request.batch_sizes)
    else:
        batch = request.second_batch or min(request.batch_sizes)
    if task.cell.batch != batch or not request.is_base(task.cell):
        return Tier.REST
    if task.model in request.leading:
        return Tier.PROFILES
    return Tier.OTHER_CELLS if task.cell.phase == INFERENCE else Tier.REST


def missing_counters(request: Request, cache: RunCache) -> list[HardwareCounterTask]:
    return [HardwareCounterTask(*pair) for pair in _cells_without(HardwareCounterProfile, request, cache)]
