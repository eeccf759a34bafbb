"""Cells: their tasks, the cache of a run, their rounds on a machine, and their times."""

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from helpers.rows import ENVIRONMENT, RECORDED_AT, VERSION, run, samples
from measure.cache.folders import MachineFolder
from measure.domain.cell import Cell
from measure.domain.latency import TimedCell, group_rounds
from measure.domain.records import Run, Sample
from measure.models import catalog
from measure.run.request import Request
from measure.run.storing import RunCache
from measure.run.tasks import HardwareCounterTask, ProfileTask, RoundTask
from measure.timing.sampling import Sampling

HASTY = Sampling(warm_up_s=0.0, least_s=0.0, limit_s=0.0)
"""The fewest samples there are."""


def cell(model, batch=1, precision="fp32", variant="eager", phase="inference"):
    return Cell(model.name, batch, precision, phase, variant)


def small_cell(network, precision, variant, phase, batch=2):
    """A model of ``helpers.small_network``, and a cell of it."""
    (model,) = catalog.find([f"helpers.small_network:{network}"])
    return model, cell(model, batch, precision, variant, phase)


def inference_task(model, batch, precision, variant, number):
    return RoundTask(model, cell(model, batch, precision, variant), number)


def training_task(model, batch, precision, variant, number):
    return RoundTask(model, cell(model, batch, precision, variant, "step"), number)


def profile_task(model, batch, precision, variant, phase):
    return ProfileTask(model, cell(model, batch, precision, variant, phase))


def counter_task(model, batch, precision, variant, phase):
    return HardwareCounterTask(model, cell(model, batch, precision, variant, phase))


def changed(task, round_=None, **cell_changes):
    """The task of another cell, or another round of it."""
    task = replace(task, cell=task.cell._replace(**cell_changes))
    return task if round_ is None else replace(task, round=round_)


def ask(models="alexnet", batch_sizes=(1,), sections=("inference",), precisions=("fp32",), **changes):
    return Request(catalog.find(models.split()), batch_sizes, precisions, sections, **changes)


def changed_rows(*rows, **changes):
    return [replace(row, **changes) for row in rows]


def timed_rounds(model, latencies_s, batch=1, **changes):
    """The rows of a cell's rounds, with one sample per round."""
    rows = []
    for number, latency_s in enumerate(latencies_s):
        (sample,) = samples(1, model, batch, number)
        rows += [run(model, batch, round_=number), replace(sample, latency_s=latency_s)]
    return changed_rows(*rows, **changes)


def run_cache(*rows, seed=1, data=Path("nowhere"), **environment):
    """The cache of a run with these rows of any table, on ``ENVIRONMENT`` with these changes."""
    tables = defaultdict(list)
    for row in rows:
        tables[type(row)].append(row)
    held = SimpleNamespace(
        rows=lambda record: tables[record],
        rows_in=lambda environment, record: MachineFolder.rows_in(held, environment, record),
        rounds=lambda runs: group_rounds(runs, tables[Sample]),
        cells=lambda environment: MachineFolder.cells(held, environment),
        data=data,
    )
    return RunCache(held, held, replace(ENVIRONMENT, **environment), seed, "today", VERSION)


DATED = replace(
    ENVIRONMENT, environment_id="aaaa00000000", hardware_id="h", name="Chip", memory_byte=8, torch="2.14.1",
    recorded_at=RECORDED_AT,
)  # fmt: skip
NEWER = replace(DATED, environment_id="aabb00000000", recorded_at="2026-02-01T00:00:00+00:00")
CELL = Cell("alexnet", 1, "fp32", "inference", "eager")


def machine(data, name="box", *environments):
    folder = MachineFolder(data, name)
    for environment in environments or (DATED,):
        folder.put_environment(environment)
    return folder


def put(folder, round, latencies, status="ok", reason=None, environment=DATED, flags=None, at=RECORDED_AT, **read):
    """Commit a round; ``read`` are columns of all its samples."""
    cell = {"environment_id": environment.environment_id, **CELL._asdict(), "round": round}
    about = {"status": status, "reason": reason, "flags": flags, "input_shape": "3x224x224"}
    about_sample = {"block": 1} | read
    samples = [Sample(**cell, sample=index, latency_s=each, **about_sample) for index, each in enumerate(latencies)]
    folder.put_run(Run(**cell, **about, recorded_at=at), samples)


def timed(batch=1, latency_s=2.0, variant="eager"):
    """A cell of one model, as in an answer about it."""
    columns = CELL._asdict() | {"batch": batch, "variant": variant}
    return TimedCell(
        **columns, status="ok", reason=None, latency_s=latency_s, latency_low_s=0.9 * latency_s,
        latency_high_s=1.1 * latency_s, latency_least_s=0.9 * latency_s, latency_most_s=1.1 * latency_s,
        inputs_per_s=batch / latency_s, tokens_per_s=None, rounds=3, flags=(),
        input_shape="3x2x2",
    )  # fmt: skip
