"""Record which storages are alive at each operator of a training step, who made them, and who keeps them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn

from measure.counting.memory import LiveMemory, Overload, overload_of, storage_key, tensors_in
from measure.counting.recorder import LOSS, Recorder, unwrapped

# The names under which torch's autograd nodes keep the first result of their operator (``derivatives.yaml``)
RESULTS = ("result", "result0", "output", "out")


class OperatorRun(NamedTuple):
    """One run of an operator in a step. Its index among all of the step is the time in this file."""

    is_backward: bool
    module: nn.Module
    operator: str


@dataclass
class Storage:
    """The life of a storage: it is alive at the operators from ``birth`` to before ``death`` (None: to the end).

    ``readers`` are operators of the forward pass; ``savers`` those that keep it for the backward pass, in order.
    """

    byte: int
    birth: int
    death: int | None = None
    readers: list[int] = field(default_factory=list)
    savers: list[int] = field(default_factory=list)


class Save(NamedTuple):
    """A tensor kept for the backward pass: the number of its storage (None: resident), when, and by which operator."""

    number: int | None
    time: int
    saver: int


class MemoryHistory(LiveMemory):
    """Live memory that remembers the life of each storage, by its number."""

    def __init__(self, resident: Iterable[Any]) -> None:
        super().__init__(resident)
        self.storages: dict[int, Storage] = {}
        self.time = 0
        self._replaced: dict[int, int] = {}  # by the number of the old storage, the new one that may be written over it

    def number(self, tensor: Any) -> int | None:
        number = super().number(tensor)
        if number is not None and number not in self.storages:
            self.storages[number] = Storage(tensor.untyped_storage().nbytes(), self.time)
            self._replaced.clear()  # what is alive by now is held
        return number

    def overwrites(self, new: Any, old: Any) -> None:
        super().overwrites(new, old)
        if self._overwritten is not None and self._overwritten[0] == storage_key(old):
            self._replaced[self._overwritten[1][0]] = self._blocks[storage_key(new)][0]

    def _free(self, key: int) -> None:
        number = self._blocks[key][0]
        new = self._replaced.pop(number, None)
        self.storages[number].death = self.time if new is None else self.storages[new].birth
        super()._free(key)


class StepRecorder(Recorder):
    """A recorder of a training step that notes every operator and the storages that it makes, reads and saves."""

    def __init__(self, network: nn.Module, inputs: Any) -> None:
        super().__init__(network, inputs)
        self.memory: MemoryHistory = MemoryHistory(self._resident)
        self.runs: list[OperatorRun] = []
        self.saves: list[Save] = []
        self._pending: list[tuple[int | None, int]] = []  # number and key of tensors saved since the last operator

    def _save(self, tensor: torch.Tensor) -> torch.Tensor:
        if not self._in_backward and self._module() is not LOSS:
            self._pending += [(self.memory.number(each), storage_key(each)) for each in tensors_in([unwrapped(tensor)])]
        return super()._save(tensor)

    def run_backward(self, outputs: Sequence[torch.Tensor], family: str) -> None:
        self._settle([])
        super().run_backward(outputs, family)

    def _settle(self, inputs: Sequence[Any]) -> None:
        """Find who saved the pending tensors: the next operator, which has these inputs, or the one before.

        Autograd saves an operator's inputs before it runs and its results right after.
        """
        now, nodes = len(self.runs), {storage_key(each): each.grad_fn for each in inputs} if self._pending else {}
        results: set[int] = set()
        for number, key in self._pending:
            is_result = key not in nodes or (key not in results and self._is_saved_result(number, nodes[key]))
            results.add(key)
            saver = max(0, now - is_result)
            self.saves.append(Save(number, now, saver))
            if number is not None:
                self.memory.storages[number].savers.append(saver)
        self._pending.clear()

    def _is_saved_result(self, number: int | None, node: Any) -> bool:
        """Whether a storage is the result of the operator before, which keeps its result."""
        is_newest = number is not None and self.memory.storages[number].birth == len(self.runs) - 1
        is_changed = self._changed == number is not None
        return (is_newest or is_changed) and any(hasattr(node, f"_raw_saved_{name}") for name in RESULTS)

    _changed: int | None = None  # the storage that the operator before changed in place

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self._pending and isinstance(func, torch._ops.OpOverload) and overload_of(func).is_ignored:
            self._settle([])  # a view keeps nothing
        return super().__torch_dispatch__(func, types, args, kwargs)

    def _record(self, overload: Overload, args: Any, kwargs: Any, output: Any) -> None:
        inputs = tensors_in([args, kwargs] if kwargs else args)
        if not self._in_backward:
            self._settle(inputs)
        super()._record(overload, args, kwargs, output)
        time = len(self.runs)
        if not self._in_backward:
            for each in inputs:
                if (number := self.memory.number(each)) is not None:
                    self.memory.storages[number].readers.append(time)
        changed = overload.changed(args, kwargs)
        self._changed = self.memory.number(changed[0]) if changed else None
        self.runs.append(OperatorRun(self._in_backward, self._module(), overload.name))
        self.memory.time = time + 1
