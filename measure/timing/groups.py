"""The work of a group of processes: collectives, a data-parallel training step, and a stopwatch that all ranks share.

Each rank of the group runs this code. A rank's own clock may decide nothing: ranks that take different numbers of calls
wait for each other for ever.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from measure.domain.cell import Cell
from measure.domain.collectives import ALL_GATHER, ALL_REDUCE
from measure.domain.groups import NO_COMMUNICATION
from measure.domain.models import Model
from measure.machine.device import Device
from measure.machine.sensors import HostLoad, Reading
from measure.models.tensors import torch_dtype
from measure.timing import calls
from measure.timing.stopwatch import Stopwatch

if TYPE_CHECKING:
    from torch import nn


def agree(values: list[int], adds: bool = False) -> list[int]:
    """Return the largest of each number over all ranks, or with ``adds`` the sum. No rank returns before all call it.

    The numbers travel between processors, also in a group of GPUs.
    """
    import torch
    from torch import distributed

    numbers = torch.tensor(values, dtype=torch.int64)
    distributed.all_reduce(numbers, distributed.ReduceOp.SUM if adds else distributed.ReduceOp.MAX)
    return [int(number) for number in numbers.tolist()]


class GroupStopwatch(Stopwatch):
    """Times blocks of calls from a barrier to the end of the slowest rank, the same on all ranks.

    Its clock stands still between blocks, and is the furthest of all ranks' after one: what ``sample`` decides by it,
    all ranks decide alike.
    """

    def __init__(
        self, call: Callable[[], object], synchronize: Callable[[], None], beat: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(call, synchronize, lambda: self._agreed_ns, beat)
        self._began_ns, self._agreed_ns = time.perf_counter_ns(), 0

    def _elapsed_s(self, calls: int) -> float:
        self.synchronize()
        agree([0])
        start_ns = time.perf_counter_ns()
        for _ in range(calls):
            self.call()
        self.synchronize()
        now_ns = time.perf_counter_ns()
        self._agreed_ns, slowest_ns = agree([now_ns - self._began_ns, now_ns - start_ns])
        return slowest_ns / 1e9


class GroupLoad(HostLoad):
    """Core time of the host, where the processes of all ranks count as one's own."""

    def read(self) -> Reading:
        found = super().read()
        (own_us,) = agree([round(1e6 * found.process_s)], adds=True)
        return Reading(found.at_s, found.core_s, found.idle_s, own_us / 1e6, found.stolen_s)


def prepare_collective(device: Device, collective: str, precision: str, message_byte: int) -> Callable[[], object]:
    """Return a call of a collective on fresh buffers of the group's ranks.

    ``message_byte`` is what all-reduce adds up, what all-gather returns, what reduce-scatter takes.
    """
    import torch
    from torch import distributed

    dtype, ranks = torch_dtype(precision), distributed.get_world_size()
    share = max(1, message_byte // dtype.itemsize // ranks)
    whole = torch.zeros(share * ranks, dtype=dtype, device=device.torch_name)  # zeros stay zeros when added up
    if collective == ALL_REDUCE:
        return lambda: distributed.all_reduce(whole)
    part = torch.zeros(share, dtype=dtype, device=device.torch_name)
    if collective == ALL_GATHER:
        return lambda: distributed.all_gather_into_tensor(whole, part)
    return lambda: distributed.reduce_scatter_tensor(part, whole)


@dataclass
class DataParallelModel:
    """A training step of a network under DistributedDataParallel, each rank with inputs of its own."""

    device: Device
    model: Model
    cell: Cell

    def __post_init__(self) -> None:
        self._wrapped: Any = None
        self._step: Any = calls.prepare(self.device, self.model, self.cell, self._wrap)

    def _wrap(self, network: "nn.Module") -> "nn.Module":
        from torch.nn.parallel import DistributedDataParallel

        places = [self.device.torch_name] if self.device.kind == "cuda" else None
        self._wrapped = DistributedDataParallel(network, device_ids=places)
        return self._wrapped

    @property
    def gradient_byte(self) -> int:
        return sum(each.nbytes for each in self._wrapped.parameters() if each.requires_grad)

    def step(self, communication: str) -> Callable[[], object]:
        """Return a call that takes one step, with its communication or without."""
        return self._step_alone if communication == NO_COMMUNICATION else self._step

    def _step_alone(self) -> None:
        with self._wrapped.no_sync():
            self._step.forward()
            self._step.backward()
        self._step.update()
