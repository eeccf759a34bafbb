"""The tasks of a group of processes. One launch times several items of a round: a failure costs only the item under
way.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from measure.machine.device import Device
from measure.run.group import run_ranks
from measure.run.tasks import Beat, CellTask, Failure, Task
from measure.timing.groups import DataParallelModel, prepare_collective
from measure.timing.sampling import Sampling

SECTION = "distributed"
COLLECTIVE_SAMPLING = Sampling(warm_up_s=1.0, trend_s=0.1, least_s=0.3, limit_s=1.0, fewest=6)
PROCESSES = {"cpu": (2, 4), "cuda": (2, 4, 8), "mps": ()}  # of a group; at most one a GPU

Report = Mapping[str, Any]  # a rank's report of an item: columns of its row
Prepared = tuple[Callable[[], object], dict[str, Any]]  # a call to time, and further columns of the report


@dataclass(frozen=True)
class GroupResult:
    """The reports of the items, in the order of the task, from ranks with so many threads each."""

    threads: int
    reports: tuple[tuple[Any, Report], ...] = ()


@dataclass(frozen=True)
class GroupFailure(Failure):
    """Why a group ended early: the failure of the item under way, or of all if it ended before the first.

    ``result`` has the items that were done.
    """

    items: tuple[Any, ...] = ()
    result: GroupResult = field(default_factory=lambda: GroupResult(1))


@dataclass(frozen=True)
class GroupOrder:
    """What a rank is to do."""

    task: Any
    device_kind: str
    threads: int
    sampling: Sampling
    limit_s: float


class GroupTask(Task):
    """Some items to time on a group of processes, as one round."""

    section = SECTION
    processes: int
    items: tuple[Any, ...]
    round: int

    @property
    def block(self) -> int:
        return self.round

    def process(self, device_kind: str) -> Hashable:
        return None

    def prepare(self, device: Device) -> Callable[[Any], Prepared]:
        """Return a function that makes the call of an item, in a rank."""
        raise NotImplementedError

    def sampling(self, of_run: Sampling) -> Sampling:
        return of_run

    def run(self, device: Device, sampling: Sampling, beat: Beat) -> GroupResult | GroupFailure:
        import torch

        if not torch.distributed.is_available():
            raise NotImplementedError("this torch is built without its distributed package")
        threads = max(1, torch.get_num_threads() // self.processes)
        limit_s = sampling.call_limit_s
        order = GroupOrder(self, device.kind, threads, self.sampling(sampling), limit_s)
        reports, ending = run_ranks(self.processes, threads, order, len(self.items), limit_s, beat)
        found = tuple((item, reports[number]) for number, item in enumerate(self.items) if number in reports)
        result = GroupResult(threads, found)
        if ending is None:
            return result
        left = [item for number, item in enumerate(self.items) if number not in reports]
        return GroupFailure(ending.status, ending.reason, tuple(left[:1] if ending.was_ready else left), result)


@dataclass(frozen=True)
class CollectiveTask(GroupTask):
    """Time collectives at several sizes; an item is a collective and the bytes of its message."""

    processes: int
    precision: str
    items: tuple[tuple[str, int], ...]
    round: int

    @property
    def label(self) -> str:
        named = dict.fromkeys(collective for collective, _ in self.items)
        sizes = len({byte for _, byte in self.items})
        many = f"{sizes} size{'s' * (sizes > 1)}"
        return f"{', '.join(named)} {self.precision} at {many}, {self.processes} processes, round {self.round + 1}"

    @property
    def columns(self) -> dict[str, Any]:
        return {"precision": self.precision, "processes": self.processes, "round": self.round}

    @property
    def rounds_of(self) -> Hashable:
        return type(self), self.processes, self.precision, frozenset(self.items)

    def sampling(self, of_run: Sampling) -> Sampling:
        return COLLECTIVE_SAMPLING

    def prepare(self, device: Device) -> Callable[[Any], Prepared]:
        return lambda item: (prepare_collective(device, item[0], self.precision, item[1]), {})


@dataclass(frozen=True)
class DataParallelTask(GroupTask, CellTask):
    """Time data-parallel steps of a cell; an item says whether they communicate."""

    processes: int
    items: tuple[str, ...]
    round: int

    @property
    def label(self) -> str:
        return f"data-parallel {super().label}, {self.processes} processes, round {self.round + 1}"

    @property
    def columns(self) -> dict[str, Any]:
        return {**super().columns, "processes": self.processes, "round": self.round}

    @property
    def rounds_of(self) -> Hashable:
        return type(self), self.cell, self.processes, frozenset(self.items)

    def prepare(self, device: Device) -> Callable[[Any], Prepared]:
        made = DataParallelModel(device, self.model, self.cell)
        return lambda item: (made.step(item), {"gradient_byte": made.gradient_byte})
