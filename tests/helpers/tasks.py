"""Tasks of cells, for tests of what plans, does and shows them."""

import dataclasses

from measure.domain.latency import Cell
from measure.run.cell_tasks import HardwareCounterTask, InferenceTask, ProfileTask, TrainingTask


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
