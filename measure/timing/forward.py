"""Prepare a cell's network and inputs on a device, and time one round of its forward pass."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from measure.domain import variants
from measure.domain.latency import Cell
from measure.domain.models import Model
from measure.domain.words import FULL_PRECISION, INFERENCE, TF32, stored_as
from measure.machine.device import Device
from measure.models import catalog
from measure.models.call import Call, torch_dtype
from measure.timing.sampling import Sampling, Timing, sample
from measure.timing.stopwatch import Stopwatch, run_first_call

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Forward(Call):
    """A forward pass to be run by calling it, in ``autocast`` on a ``kind`` of device if set."""

    kind: str = "cpu"
    autocast: "torch.dtype | None" = None

    @property
    def stages(self) -> Mapping[str, Callable[[], object]]:
        return {INFERENCE: self}

    def __call__(self) -> Any:
        with self.casting():  # anew for each call, as programs do: it keeps the cast weights until it ends
            return self.network(*self.inputs, **self.keywords)

    def casting(self) -> "AbstractContextManager[Any]":
        import torch

        return nullcontext() if self.autocast is None else torch.autocast(self.kind, self.autocast)


def prepare(device: Device, model: Model, cell: Cell) -> Forward:
    """Build a network in eval mode on the device, with random inputs, in the cell's precision and variant.

    Raises NotImplementedError if the device lacks the precision or the variant does not fit the model.
    """
    is_autocast, parts = variants.is_autocast(cell.variant), variants.parts_of(cell.variant)
    for part in parts:
        part.begin(device.kind, cell.precision)
    device.refuse_emulation(cell.precision)
    device.allow_tf32(cell.precision == TF32)
    dtype = torch_dtype(FULL_PRECISION if is_autocast else stored_as(cell.precision))
    call = catalog.prepare(model, cell.batch, device.torch_name, dtype)
    for part in parts:
        call = part.change(call, model)
    autocast = torch_dtype(cell.precision) if is_autocast else None
    return Forward(call.network, call.inputs, call.keywords, device.kind, autocast)


def cache_clearer(device: Device, cell: Cell) -> Callable[[], object] | None:
    """Return a call that empties the caches if the cell's variant does so before each call."""
    return device.cache_clearer() if any(part.is_cold for part in variants.parts_of(cell.variant)) else None


def measure(device: Device, model: Model, cell: Cell, sampling: Sampling, beat: Callable[[], None]) -> Timing:
    """Time the forward pass without gradients. Call ``device.prepare`` first. Raises what torch and ``prepare`` do."""
    import torch

    with torch.inference_mode():
        call = prepare(device, model, cell)
        beat()
        run_first_call(call, cell.variant, device, beat)
        clear = cache_clearer(device, cell)
        stopwatch = Stopwatch(call, device.synchronize, beat=beat, events=device.events(), clear=clear)
        return sample(stopwatch, sampling, device.sensors())
