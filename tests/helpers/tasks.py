"""Tasks of cells, and the cache of a run, for tests of what plans, does and shows them."""

import dataclasses
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

from helpers.rows import ENVIRONMENT, VERSION
from measure.cache.folders import MachineFolder
from measure.cache.records import Sample
from measure.domain.latency import Cell, group_rounds
from measure.models import catalog
from measure.run.cell_tasks import HardwareCounterTask, InferenceTask, ProfileTask, TrainingTask
from measure.run.request import Request
from measure.run.task import RunCache


def cell(model, batch=1, precision="fp32", variant="eager", phase="inference"):
    return Cell(model.name, batch, precision, phase, variant)


def inference_task(model, batch, precision, variant, number):
    return InferenceTask(model, cell(model, batch, precision, variant), number)


def training_task(model, batch, precision, variant, number):
    return TrainingTask(model, cell(model, batch, precision, variant, "step"), number)


def profile_task(model, batch, precision, variant, phase):
    return ProfileTask(model, cell(model, batch, precision, variant, phase))


def counter_task(model, batch, precision, variant, phase):
    return HardwareCounterTask(model, cell(model, batch, precision, variant, phase))


def changed(task, round_=None, **cell_changes):
    """The task of another cell, or another round of it."""
    task = dataclasses.replace(task, cell=task.cell._replace(**cell_changes))
    return task if round_ is None else dataclasses.replace(task, round=round_)


def asked(models="alexnet", batch_sizes=(1,), sections=("inference",), precisions=("fp32",), **changes):
    return Request(catalog.find(models.split()), batch_sizes, precisions, sections, **changes)


def run_cache(*rows, seed=1, data=Path("nowhere"), **environment):
    """The cache of a run that holds these rows of any table, on ``ENVIRONMENT`` with these changes."""
    tables = defaultdict(list)
    for row in rows:
        tables[type(row)].append(row)
    held = SimpleNamespace(
        rows=lambda record: tables[record],
        rounds=lambda runs: group_rounds(runs, tables[Sample]),
        cells=lambda environment: MachineFolder.cells(held, environment),
        data=data,
    )
    return RunCache(held, held, dataclasses.replace(ENVIRONMENT, **environment), seed, "today", VERSION)
