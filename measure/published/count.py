"""Count the models that others timed: the work of one input at fp32, by kind of layer."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from measure.cache import table
from measure.counting.count import Count, count_all
from measure.domain.models import Model
from measure.domain.schema import TABLES, file_of
from measure.domain.words import FULL_PRECISION
from measure.errors import UserError, as_called, chosen
from measure.models import catalog
from measure.models.libraries import TIMM
from measure.published.records import PublishedCount, PublishedKind, PublishedTiming

BATCHES = (1, 64)  # the difference gives the bytes of each further input; some operators copy only a large batch
SHARED = {field.name for field in fields(PublishedCount)} - {"model", "input_size"}  # columns of a workload, too

Shape = tuple[str, int | None]  # a model and its input size; None: the model's own size
Rows = tuple[PublishedCount, list[PublishedKind]]


def timed(data: Path, globs: Sequence[str]) -> list[Shape]:
    """Return the models and sizes that others timed, in the table's order. Raises UserError if there are none."""
    path = file_of(PublishedTiming, data)
    shapes = dict.fromkeys((row.model, row.input_size) for row in table.read(path, PublishedTiming))
    if not shapes:
        raise UserError(f"{path}: holds no timings; add some with {as_called('measure add-published')}")
    models = chosen("--models", globs, {model for model, _ in shapes})
    return [shape for shape in shapes if shape[0] in models]


def model_at(name: str, input_size: int | None) -> Model:
    """Return a model at a size. Raises NotImplementedError if the installed libraries lack it."""
    try:
        (model,) = catalog.find([name if ":" in name else f"torchvision:{name}"])
    except UserError as problem:
        raise NotImplementedError(str(problem).removeprefix("--models: ")) from None
    return replace(model, input_shape=(model.input_shape[0], input_size, input_size)) if input_size else model


def count(name: str, input_size: int | None, beat: Callable[[], None]) -> Rows:
    """Count a model at a size."""
    model = model_at(name, input_size)
    one, many = count_all(model, BATCHES, FULL_PRECISION, None, beat, may_run=False)  # rows are of any input
    columns: dict[str, Any] = {column: getattr(one.workload, column) for column in SHARED}
    if name.startswith(TIMM.prefix):
        columns["family"] = TIMM.module_of(name)
    of_many = _sum_by_kind(many)
    kinds = []
    for key, sums in _sum_by_kind(one).items():
        further_byte = max(round((of_many[key]["byte"] - sums["byte"]) / (BATCHES[1] - 1)), 0)
        kinds.append(PublishedKind(name, input_size, *key, **sums, further_byte=further_byte))
    return PublishedCount(name, input_size, **columns), kinds


def _sum_by_kind(one: Count) -> dict[tuple[str, str], dict[str, Any]]:
    """Sum operators by stage and kind of layer."""
    sums: dict[tuple[str, str], Any] = defaultdict(Counter)
    for row in one.operators:
        of_one = {"calls": 1, "flop": row.flop, "other_flop": row.other_flop, "byte": row.byte}
        sums[row.stage, row.layer_kind].update({column: row.calls * number for column, number in of_one.items()})
    return sums


def counted(data: Path) -> set[Shape]:
    return {(row.model, row.input_size) for row in table.read(file_of(PublishedCount, data), PublishedCount)}


def add(data: Path, row: PublishedCount, kinds: Sequence[PublishedKind]) -> None:
    """Add a model at a size, or replace its earlier rows and those that a kill left. Its row commits its kinds."""
    path, key = file_of(PublishedCount, data), TABLES[PublishedCount].key
    with table.in_turn(path.parent):
        table.ChildTable(file_of(PublishedKind, data), PublishedKind, key).put([(row, kinds)])
        table.put(path, PublishedCount, table.read(path, PublishedCount), [row])
