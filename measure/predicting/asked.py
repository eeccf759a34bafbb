"""What a model asks for that is to be predicted: counted once, and kept in the cache like every other count."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure.cache.folders import Workloads
from measure.cache.models import Model
from measure.cache.words import EAGER, shape_name, stored_as
from measure.cache.workload_records import Workload
from measure.errors import UserError
from measure.predicting.demand import Demand
from measure.predicting.timings import counted_demands
from measure.run import arguments, runner
from measure.run.destination import check_writable
from measure.run.sections.workload import WorkloadTask
from measure.run.task import Task
from measure.run.worker import Worker
from measure.timing.sampling import Sampling


@dataclass(frozen=True)
class Asked:
    """A call of a model: what it asks for, and the most memory (B) alive at once in it."""

    demand: Demand
    peak_byte: int | None


@dataclass(frozen=True)
class _Store:
    """Keeps counts, and needs no machine."""

    workloads: Workloads

    def put(self, task: Task, outcome: Any) -> None:
        task.store(self, outcome)  # type: ignore[arg-type]


class _Silent:
    """Progress of what takes a moment."""

    def begin(self, task: Task) -> None: ...

    def end(self, task: Task, outcome: Any) -> None: ...

    def skip(self, task: Task) -> None: ...


def find(flag: str, name: str, batches: Sequence[int], precision: str, data: Path) -> Model:
    """Return the one model of this name. Raises UserError, naming ``flag``, for none and for several."""
    sizes = [str(batch) for batch in batches]
    words = ["--models", name, "--batch-sizes", *sizes, "--precisions", precision, "--data", str(data)]
    said: argparse.Namespace = arguments.parser().parse_args([*words, "--sections", "workload", "--variants", EAGER])
    try:
        models = arguments.make_fresh_request(said).models
    except UserError as problem:
        raise UserError(str(problem).replace("--models:", f"{flag}:")) from None
    if len(models) > 1:
        raise UserError(f"{flag}: {name!r} selects {len(models)} models; name one")
    return models[0]


def ask(model: Model, batches: Sequence[int], precision: str, trains: bool, data: Path) -> dict[int, Asked]:
    """Return what a model asks for at each batch size, counting what the cache lacks.

    Raises UserError where it cannot be counted, or not be trained.
    """
    workloads, stored = Workloads(data), stored_as(precision)
    shape = shape_name(model.input_shape)
    wanted = [(model.name, shape, batch, stored) for batch in batches]

    def row_of() -> dict[tuple[str, str, int, str], Workload]:
        rows = [row for row in workloads.counted() if row.autocast is None]
        return {(row.model, row.input_shape, row.batch, row.precision): row for row in rows}

    known = row_of()
    missing = tuple(key[2] for key in wanted if key not in known)
    if missing:
        check_writable(data)
        worker = Worker("cpu", 1, Sampling())
        try:
            runner.run([WorkloadTask(model, missing, stored, None)], worker, _Store(workloads), _Silent())
        finally:
            worker.close()
        known = row_of()
    for key in wanted:
        if known[key].status != "ok":
            raise UserError(f"{model.name}: cannot be counted ({known[key].reason})")
        if trains and known[key].backward_flop is None:
            raise UserError(f"{model.name}: its training cannot be counted ({known[key].reason})")
    operators = [row for row in workloads.operators() if (row.model, row.input_shape) == (model.name, shape)]
    demands = counted_demands([known[key] for key in wanted], operators)
    return {
        key[2]: Asked(
            demands[*key, trains][1], known[key].training_peak_byte if trains else known[key].inference_peak_byte
        )
        for key in wanted
    }
