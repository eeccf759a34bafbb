"""A recorded training step as arrays: the life of each storage, and who makes, reads and keeps it.

Time is the index of an operator. A storage is alive from its birth to before its death; memory after the last use of
an operator's inputs is called settled.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from torch import nn

from measure.counting.blocks import BlockPart
from measure.counting.recorder import LOSS
from measure.counting.step_recorder import StepRecorder

Ints = NDArray[np.int64]
LOSS_PART = BlockPart("loss", "", is_block=False)  # of no network, so in no row


class StepTrace:
    """The storages of a step, without the resident ones: arrays by storage, with ``gradients`` as storages' numbers.

    ``reads`` and ``saves`` have a row for each operator of the forward pass that reads or keeps a storage: the
    storage's place and the operator's time.
    """

    def __init__(
        self, recorder: StepRecorder, parts: Mapping[nn.Module, BlockPart], gradients: set[int | None]
    ) -> None:
        self.runs = recorder.runs
        self.end = len(self.runs)
        self.forward_end = sum(not run.is_backward for run in self.runs)
        self.part_of_run = [LOSS_PART if run.module is LOSS else parts[run.module] for run in self.runs]
        storages = recorder.memory.storages
        lives = list(storages.values())
        self.byte = _array([each.byte for each in lives])
        self.birth = np.minimum(_array([each.birth for each in lives]), max(0, self.end - 1))
        deaths = [self.end if each.death is None else each.death for each in lives]
        self.death = np.maximum(_array(deaths), self.birth)
        self.is_saved = np.array([bool(each.savers) for each in lives], dtype=bool)
        self.is_gradient = np.array([number in gradients for number in storages], dtype=bool)
        self.reads = _pairs([each.readers for each in lives])
        self.saves = _pairs([each.savers for each in lives])
        self.save_times = _array([each.time for each in recorder.saves])
        self.savers = _array([each.saver for each in recorder.saves])

    def alive(self, chosen: NDArray[np.bool_] | slice = slice(None)) -> Ints:
        """Return the bytes alive at each operator, its outputs included, of all storages or the ``chosen`` ones."""
        return alive_between(self.birth[chosen], self.death[chosen], self.byte[chosen], self.end)

    @cached_property
    def settled(self) -> Ints:
        """The bytes alive before each operator makes its outputs, and last at the end of the step."""
        born = np.bincount(self.birth, self.byte, self.end).astype(np.int64) if self.end else _array([])
        at_end = self.byte[self.death >= self.end].sum()
        return np.append(self.alive() - born, at_end)

    def times_of(self, part: BlockPart, is_backward: bool) -> Ints:
        """Return the times of a part's operators in one pass."""
        return _array(self._times.get((part, is_backward), []))

    @cached_property
    def _times(self) -> dict[tuple[BlockPart, bool], list[int]]:
        times: defaultdict[tuple[BlockPart, bool], list[int]] = defaultdict(list)
        for time, (part, run) in enumerate(zip(self.part_of_run, self.runs, strict=True)):
            times[part, run.is_backward].append(time)
        return times


def alive_between(starts: Ints, stops: Ints, byte: Ints, end: int) -> Ints:
    """Return the sum of the bytes of intervals at each time from 0 to before ``end``."""
    changes = np.zeros(end + 1, dtype=np.int64)
    lasting = stops > starts
    np.add.at(changes, np.minimum(starts[lasting], end), byte[lasting])
    np.subtract.at(changes, np.minimum(stops[lasting], end), byte[lasting])
    return np.cumsum(changes)[:end]


def _array(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _pairs(times: Sequence[Sequence[int]]) -> Ints:
    """Return an array (2, all times): the place in ``times``, and the time."""
    places = np.repeat(np.arange(len(times)), [len(each) for each in times])
    return np.stack([places, _array([time for each in times for time in each])])
