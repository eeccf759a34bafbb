"""Whether a cell can fit into a device's memory, by what the workload table says that it needs."""

from collections.abc import Callable, Iterable
from functools import cached_property

from measure.plan import InferenceTask
from measure.records import Workload, shape_name, stored_as
from measure.worker import Failure


class Memory:
    """The memory of a device, in bytes, and what the counted workloads need of it."""

    def __init__(self, device_byte: int, workloads: Callable[[], Iterable[Workload]]) -> None:
        self._device_byte = device_byte
        self._workloads = workloads

    @cached_property
    def _peaks(self) -> dict[tuple[str, str, int, str], int]:
        """Looked up late: the run that needs them may have counted them first."""
        return {
            (row.model, row.input_shape, row.batch, row.precision): row.inference_peak_byte
            for row in self._workloads()
            if row.autocast is None and row.inference_peak_byte is not None
        }

    def refusal(self, task: InferenceTask) -> Failure | None:
        """Why a task need not be tried; None where it fits, or where its workload was not counted.

        What is counted are tensors alone: a library's workspace comes on top, so that what just fits may still fail.
        """
        shape = shape_name(task.model.input_shape)
        stored = stored_as(task.precision)
        needed = self._peaks.get((task.model.name, shape, task.batch, stored))
        if needed is None or needed <= self._device_byte:
            return None
        return Failure(
            "oom",
            f"not tried: its tensors need {needed / 1e9:.1f} GB, the device has {self._device_byte / 1e9:.1f} GB",
        )
