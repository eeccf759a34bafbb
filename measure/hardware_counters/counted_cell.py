"""A cell under the GPU's hardware counters: what each kernel of a forward pass, or of a training step, did."""

from collections.abc import Callable
from dataclasses import dataclass

from measure.cache.models import Model
from measure.cache.records import Cell
from measure.errors import UserError
from measure.hardware_counters import counted_step, ncu, raw_csv
from measure.hardware_counters.raw_csv import Counted
from measure.machine.device import Device

STEPS = 2
"""The steps that are counted; more would say the same, and take longer by as much."""


@dataclass(frozen=True)
class CountedCell:
    """What the counters said of the kernels of so many steps, and what read them."""

    steps: int
    tool: str
    counted: Counted


def check(device: Device) -> None:
    """Raise UserError where hardware counters cannot be read, before anything is measured."""
    if not device.is_nvidia:
        raise UserError(
            f"--sections hardware-counters: {device.torch_name} is not an NVIDIA GPU, the only kind whose hardware "
            "counters are read; leave the section out or name another --device"
        )
    ncu.find()


def measure(device: Device, model: Model, cell: Cell, beat: Callable[[], None]) -> CountedCell:
    """Count inference or a training step in a process of its own.

    Raises NotImplementedError, with a reason, where counters are forbidden, what ``forward.prepare`` does, and
    RuntimeError where counting fails.
    """
    import torch

    cell = cell._replace(model=model.selector)
    program = counted_step.arguments_of(device.torch_name, torch.get_num_threads(), cell, STEPS)
    try:
        lines, tool = ncu.count(program, beat)
    except PermissionError as problem:
        raise NotImplementedError(str(problem)) from None
    try:
        return CountedCell(STEPS, tool, raw_csv.parse(lines, "what ncu wrote", STEPS))
    except UserError as problem:
        raise RuntimeError(str(problem)) from None
