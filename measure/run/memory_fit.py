"""Whether a cell can fit into a device's memory, by what the workload table says that it needs."""

import logging
from collections.abc import Callable, Iterable
from functools import cached_property

from measure.cache import variants
from measure.cache.records import Cell
from measure.cache.words import INFERENCE, shape_name, stored_as
from measure.cache.workload_records import Workload
from measure.run.cell_tasks import CellTask
from measure.run.task import Failure, Task

_log = logging.getLogger(__name__)


class Memory:
    """The memory of a device, in bytes, and what the counted workloads need of it."""

    def __init__(self, device_byte: int, workloads: Callable[[], Iterable[Workload]]) -> None:
        self._device_byte = device_byte
        self._workloads = workloads

    @cached_property
    def _counted(self) -> dict[tuple[str, str, int, str], Workload]:
        """Looked up late: the run that needs them may have counted them first."""
        return {
            (row.model, row.input_shape, row.batch, row.precision): row
            for row in self._workloads()
            if row.autocast is None
        }

    def refusal(self, task: Task) -> Failure | None:
        """Return why a task of a cell need not be tried; None where it fits, or its workload was not counted.

        What is counted are tensors alone: a library's workspace comes on top, so that what just fits may still fail.
        """
        if not isinstance(task, CellTask):
            return None
        cell = task.cell
        key = (cell.model, shape_name(task.model.input_shape), cell.batch, stored_as(cell.precision))
        row = self._counted.get(key)
        needed = None if row is None else _peak_byte(cell, row)
        if needed is None:
            _log.info("%s: what memory it needs was not counted; it is tried", task.label)
            return None
        _log.info("%s: its tensors need %.2f of %.2f GB", task.label, needed / 1e9, self._device_byte / 1e9)
        if needed <= self._device_byte:
            return None
        return Failure(
            "oom", f"not tried: its tensors need {needed / 1e9:.1f} GB, the device has {self._device_byte / 1e9:.1f} GB"
        )


def _peak_byte(cell: Cell, row: Workload) -> int | None:
    """Return what a call of the cell takes at most; None where that was not counted."""
    if cell.phase == INFERENCE:
        return row.inference_peak_byte
    if variants.ADAM not in variants.parts(cell.variant) or row.training_peak_byte is None:
        return row.training_peak_byte
    assert row.momentum_byte is not None
    assert row.adam_byte is not None
    return row.training_peak_byte - row.momentum_byte + row.adam_byte
