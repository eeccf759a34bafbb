"""The tasks of a run: small values, each with the function that a worker runs for it.

``missing.py`` plans them, ``storing.py`` writes their outcomes, and ``sections.py`` joins the three.
"""

from collections.abc import Callable, Hashable
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import Any, ClassVar

from measure.counting import count
from measure.domain import variants
from measure.domain.cell import Cell
from measure.domain.models import Model
from measure.domain.words import ROOF_KERNELS, STEP, SUSTAINED, TARGET
from measure.errors import one_line
from measure.machine.device import Device
from measure.models import catalog
from measure.profiling import ncu, profile
from measure.profiling.ncu_csv import CountedCell
from measure.profiling.profile import CellProfile
from measure.roofs import roofs
from measure.roofs.roofs import KernelTiming
from measure.timing import calls
from measure.timing.sampling import Sampling, Timing
from measure.timing.variant_setup import process_variables

BEFORE, AFTER = -1, 10**9  # the blocks before all rounds and after them
COMPILER = "torch._dynamo"  # optimizers and recorders of operators import it, compiled or not: 900 modules
Beat = Callable[[], None]  # gives a sign of life


@dataclass(frozen=True)
class Failure:
    """Why a task has no result: the status of its rows, and a reason, which is cut to one short line."""

    status: str
    reason: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", one_line(self.reason))


KILLED = Failure(
    "killed",
    "the process was killed from outside, and the system counted no kill for want of memory; the next run tries again",
)


class Task:
    """Something to measure. ``label`` names it to users."""

    section: ClassVar[str]
    is_of_machine: ClassVar[bool] = True  # False if the result is the same on every machine

    @property
    def label(self) -> str:
        raise NotImplementedError

    @property
    def columns(self) -> dict[str, Any]:
        """The task in ``--plan --json``: some of ``verbs.listing.TASK_KEYS``."""
        return {}

    @property
    def block(self) -> int:
        """Tasks of a block run in random order; a block ends before the next begins."""
        return BEFORE

    @property
    def rounds_of(self) -> Hashable:
        """What is measured in several rounds: none is tried after one failed. None if there are no rounds."""
        return None

    @property
    def libraries(self) -> tuple[str, ...]:
        """The modules that take seconds to import. A fork server imports them before it forks the task's process."""
        return ("torch",)

    def process(self, device_kind: str) -> Hashable:
        """Return a key: consecutive tasks with equal keys share a process. None asks for a process of its own."""
        return type(self), self.block

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that must be set before the process starts."""
        return {}

    def run(self, device: Device, sampling: Sampling, beat: Beat) -> Any:
        """Do the task in this process, after ``device.prepare``. Raises whatever a library raises."""
        raise NotImplementedError


@dataclass(frozen=True)
class WorkloadTask(Task):
    """Count a model at some batch sizes. ``autocast`` is the kind of device to count autocast for, or None."""

    model: Model
    batches: tuple[int, ...]
    precision: str
    autocast: str | None

    section = "workload"
    is_of_machine = False

    @property
    def label(self) -> str:
        how = "" if self.autocast is None else f" autocast on {self.autocast}"
        return f"workload {self.model.name} {self.precision}{how}"

    @property
    def columns(self) -> dict[str, Any]:
        named = {"model": self.model.name, "batch_sizes": self.batches}
        return {**named, "precision": self.precision, "autocast": self.autocast}

    @property
    def libraries(self) -> tuple[str, ...]:
        return (*super().libraries, COMPILER, *catalog.imported_by(self.model))

    def run(self, _device: Device, _sampling: Sampling, beat: Beat) -> list[count.Count]:
        return count.count_all(self.model, self.batches, self.precision, self.autocast, beat)


@dataclass(frozen=True)
class RoofTask(Task):
    """Time one roof kernel at one size and pace: it gives a roof or the clock."""

    roof_kernel: str
    precision: str
    size: int
    pace: str
    round: int | None = None

    section = "roofs"

    @property
    def label(self) -> str:
        number = "" if self.round is None else f", round {self.round + 1}"
        return f"roof {self.roof_kernel} {self.precision} {self.size} {self.pace}{number}"

    @property
    def columns(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def block(self) -> int:
        return self.round or BEFORE  # later rounds come with the cells' later ones

    @property
    def is_quick(self) -> bool:
        return ROOF_KERNELS[self.roof_kernel].is_quick and self.pace == SUSTAINED

    def run(self, device: Device, _sampling: Sampling, beat: Beat) -> KernelTiming:
        return roofs.measure(device, self.roof_kernel, self.precision, self.size, self.pace, beat)


roof_key = attrgetter("roof_kernel", "precision", "size", "pace", "round")
"""Identifies a RoofTask or its row on a machine."""


@dataclass(frozen=True)
class CellTask(Task):
    """Measure a cell in a process of its own, unless ``process`` says otherwise."""

    model: Model
    cell: Cell

    @property
    def label(self) -> str:
        return self.cell.label

    @property
    def columns(self) -> dict[str, Any]:
        named = self.cell._asdict()
        return {"model": self.model.name, "batch_sizes": [named.pop("batch")], **named}

    @property
    def libraries(self) -> tuple[str, ...]:
        compiles = self.cell.phase == STEP or variants.first_call_s(self.cell.variant) > 0
        return (*super().libraries, *([COMPILER] if compiles else []), *catalog.imported_by(self.model))

    def process(self, device_kind: str) -> Hashable:
        return None

    @property
    def variables(self) -> dict[str, str]:
        return process_variables(self.cell.variant)


@dataclass(frozen=True)
class RoundTask(CellTask):
    """Time one round of a cell: forward passes, or training steps."""

    round: int
    target: float = TARGET

    @property
    def section(self) -> str:  # type: ignore[override]
        return "training" if self.cell.phase == STEP else "inference"

    @property
    def label(self) -> str:
        return f"{super().label}, round {self.round + 1}"

    @property
    def columns(self) -> dict[str, Any]:
        return {**super().columns, "round": self.round}

    @property
    def block(self) -> int:
        return self.round

    @property
    def rounds_of(self) -> Hashable:
        return self.cell

    def process(self, device_kind: str) -> Hashable:
        """Share a process between the batch sizes of a round on a GPU, where a process takes seconds to begin."""
        if device_kind != "cuda" or variants.first_call_s(self.cell.variant):  # which sets each batch size up
            return None
        return self.model, self.cell.precision, self.cell.variant, self.round

    def run(self, device: Device, sampling: Sampling, beat: Beat) -> Timing:
        return calls.measure(device, self.model, self.cell, sampling, beat)


class ProfileTask(CellTask):
    section = "operators"
    block = 0  # in the same session as a plain round of its cell

    @property
    def label(self) -> str:
        return f"operators of {super().label}"

    def run(self, device: Device, sampling: Sampling, beat: Beat) -> CellProfile:
        return profile.measure(device, self.model, self.cell, sampling, beat)


class HardwareCounterTask(CellTask):
    section = "hardware-counters"
    block = AFTER

    @property
    def libraries(self) -> tuple[str, ...]:
        return ("torch",)  # the network is built in the program that is counted

    @property
    def label(self) -> str:
        return f"hardware counters of {super().label}"

    def run(self, device: Device, _sampling: Sampling, beat: Beat) -> CountedCell:
        return ncu.measure(device, self.model, self.cell, beat)
