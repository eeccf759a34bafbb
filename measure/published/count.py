"""Count the models that others timed: the work of one input at fp32, by kind of layer and intensity."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from measure.published.records import INTENSITIES, PublishedCount, PublishedKind, PublishedTiming

BATCHES = (1, 64)  # the difference gives the bytes of each further input; some operators copy only a large batch
SUMMED = ("calls", "flop", "other_flop", "byte")
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
    sums: dict[tuple[str, str, int, int], Any] = defaultdict(Counter)
    for (stage, kind), of_one, of_many in _pairs(one, many):
        further_byte = (of_many["byte"] - of_one["byte"]) / (BATCHES[1] - 1)
        flop = of_one["flop"] or of_many["flop"] / BATCHES[1]
        key = stage, kind, intensity_class(flop, of_one["byte"]), intensity_class(flop, further_byte)
        sums[key].update(of_one, further_byte=further_byte)
    kinds = []
    for key, of_class in sums.items():
        further_byte = max(round(of_class.pop("further_byte")), 0)
        kinds.append(PublishedKind(name, input_size, *key, further_byte=further_byte, **of_class))
    return PublishedCount(name, input_size, **columns), kinds


def _pairs(one: Count, many: Count) -> Iterator[tuple[tuple[str, str], Any, Any]]:
    """Yield stage, kind and the sums of calls at both batches: of each operator, or of several that cannot be matched.

    Operators of one name and FLOP match in the order of their first calls. FLOP are those of an input, or of the batch
    if the operator works on parameters alone.
    """
    found: dict[Any, Any] = defaultdict(lambda: ([], []))
    for at, each in enumerate((one, many)):
        for row in each.operators:
            name = row.stage, row.layer_kind, row.operator
            whole, of_input = (*name, row.flop), (*name, row.flop / row.batch)
            is_whole = whole in found and of_input not in found
            of_one_call = {column: row.calls * getattr(row, column) for column in SUMMED[1:]}
            found[whole if is_whole else of_input][at].append(Counter(calls=row.calls, **of_one_call))
    for (stage, kind, *_), both in found.items():
        if len({tuple(sums["calls"] for sums in each) for each in both}) > 1:
            both = [[_total(each)] for each in both]
        yield from (((stage, kind), *pair) for pair in zip(*both, strict=True))


def _total(counters: Iterable[Any]) -> Any:
    total: Any = Counter(dict.fromkeys(SUMMED, 0))
    for each in counters:
        total.update(each)
    return total


def intensity_class(flop: float, byte: float) -> int:
    """Return the power of two at or below FLOP per byte; the last class of each side is open."""
    if flop <= 0:
        return INTENSITIES[0]
    if byte <= 0:
        return INTENSITIES[-1]
    return max(min(2 ** math.floor(math.log2(flop / byte)), INTENSITIES[-1]), INTENSITIES[0])


def counted(data: Path) -> set[Shape]:
    return {(row.model, row.input_size) for row in table.read(file_of(PublishedCount, data), PublishedCount)}


def add(data: Path, row: PublishedCount, kinds: Sequence[PublishedKind]) -> None:
    """Add a model at a size, or replace its earlier rows and those that a kill left. Its row commits its kinds."""
    path, key = file_of(PublishedCount, data), TABLES[PublishedCount].key
    with table.in_turn(path.parent):
        table.ChildTable(file_of(PublishedKind, data), PublishedKind, key).put([(row, kinds)])
        table.put(path, PublishedCount, table.read(path, PublishedCount), [row])
