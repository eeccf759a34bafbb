"""One model on one machine: the answer that the cache holds, as far as it does."""

from dataclasses import dataclass

from measure.answering.advice import Advice, advise
from measure.answering.demands import Demand, LayerDemand, Reached, demands, layer_demands, reached
from measure.cache.rates import Rates, measured
from measure.cache.records import Cell, Environment, Profile
from measure.cache.words import EAGER, INFERENCE, shape_name, stored_as
from measure.cache.workload_records import Workload
from measure.domain.cells import timed_cells
from measure.errors import UserError
from measure.run.task import Cache, Request


@dataclass(frozen=True)
class Answer:
    """What a model asks for and reaches, at some batch sizes and precisions; ``layers`` are those of the first cell.

    Layers have times where that cell was profiled; the advice is about it.
    """

    model: str
    input_shape: str
    environment: Environment
    rates: Rates
    demands: list[Demand]
    cells: list[Reached]
    layers: list[LayerDemand]
    advice: Advice | None


def first_cell(request: Request) -> Cell:
    """Return the cell of a request for one model that is profiled: at the first precision and smallest batch size."""
    return Cell(request.models[0].name, request.batch_sizes[0], request.precisions[0], INFERENCE, EAGER)


def answer(cache: Cache, request: Request) -> Answer:
    """Return what the cache says of the one model of a request. Raises UserError where it could not be counted."""
    (model,) = request.models
    shape, first = shape_name(model.input_shape), first_cell(request)
    rates = measured(cache.rows(cache.folder.roof_measurements()))
    asked = demands(_counted(cache, request, shape), rates, request.precisions)
    cells = [cell for cell in timed_cells(cache.folder, cache.environment) if cell.model == model.name]
    profile = _profile(cache, first)
    operators = [] if profile is None else cache.folder.operators([profile])
    wanted = (model.name, shape, first.batch, stored_as(first.precision), None)
    counted = [
        row
        for row in cache.workloads.layers()
        if (row.model, row.input_shape, row.batch, row.precision, row.autocast) == wanted
    ]
    layers = layer_demands(counted, first.precision, rates, operators)
    base = next((cell for cell in cells if cell.cell == first and cell.latency_s is not None), None)
    advice = None if base is None else advise(base, cells, profile, layers, cache.environment)
    return Answer(model.name, shape, cache.environment, rates, asked, reached(cells, asked), layers, advice)


def _counted(cache: Cache, request: Request, shape: str) -> list[Workload]:
    (model,) = request.models
    rows = [
        row
        for row in cache.workloads.models()
        if (row.model, row.input_shape) == (model.name, shape) and row.batch in request.batch_sizes
    ]
    if rows and all(row.status != "ok" for row in rows):
        raise UserError(f"NAME: {model.name} could not be counted: {rows[0].reason}")
    return rows


def _profile(cache: Cache, cell: Cell) -> Profile | None:
    rows = cache.rows(cache.folder.profiles())
    return next((row for row in rows if Cell.of(row) == cell and row.status == "ok"), None)
