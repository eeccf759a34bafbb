"""A network on a device, in a precision and a variant, with its inputs; and one round of its forward pass, timed."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from measure.domain import variants
from measure.domain.latency import Cell
from measure.domain.models import Model
from measure.domain.words import FULL_PRECISION, TF32, stored_as
from measure.machine.device import Device
from measure.models import catalog
from measure.models.call import torch_dtype
from measure.timing import stopwatch as first_call
from measure.timing.sampling import Sampling, Timing, sample
from measure.timing.stopwatch import Stopwatch

if TYPE_CHECKING:
    import torch
    from torch import nn


@dataclass(frozen=True)
class Forward:
    """A network and the arguments of one call of it; calling this runs its forward pass.

    ``autocast`` is the type that torch's autocast on the ``kind`` of device has for it, if any; ``keywords`` are the
    arguments that have names.
    """

    network: "nn.Module"
    inputs: tuple[Any, ...]
    kind: str
    autocast: "torch.dtype | None" = None
    keywords: dict[str, Any] = field(default_factory=dict)

    def __call__(self) -> Any:
        with self.casting():  # anew for each call, as programs do: it keeps the cast weights until it ends
            return self.network(*self.inputs, **self.keywords)

    def casting(self) -> "AbstractContextManager[Any]":
        """Return a context in which torch's autocast is on, if this call has one."""
        import torch

        return nullcontext() if self.autocast is None else torch.autocast(self.kind, self.autocast)


def prepare(device: Device, model: Model, cell: Cell) -> Forward:
    """Build a network in eval mode on the device, and random inputs for it.

    Raises NotImplementedError, with a reason, where the device has not this precision or the model not this variant.
    """
    is_autocast = variants.is_autocast(cell.variant)
    joined = variants.joined_in(cell.variant)
    for variant in joined:
        variant.begin(device.kind, cell.precision)
    device.refuse_emulation(cell.precision)
    device.allow_tf32(cell.precision == TF32)
    dtype = torch_dtype(FULL_PRECISION if is_autocast else stored_as(cell.precision))
    call = catalog.prepare(model, cell.batch, device.torch_name, dtype)
    for variant in joined:
        call = variant.change(call, model)
    autocast = torch_dtype(cell.precision) if is_autocast else None
    return Forward(call.network, call.inputs, device.kind, autocast, call.keywords)


def cache_clearer(device: Device, cell: Cell) -> Callable[[], object] | None:
    """Return what empties the caches before each call, in a variant that asks for it."""
    is_cold = any(variant.is_cold for variant in variants.joined_in(cell.variant))
    return device.cache_clearer() if is_cold else None


def measure(device: Device, model: Model, cell: Cell, sampling: Sampling, beat: Callable[[], None]) -> Timing:
    """Time the forward pass without gradients, after ``device.prepare``.

    Raises what ``prepare`` does, and whatever torch raises where it does not fit or is not supported.
    """
    import torch

    with torch.inference_mode():
        call = prepare(device, model, cell)
        beat()
        first_call.make(call, cell.variant, device, beat)
        clear = cache_clearer(device, cell)
        stopwatch = Stopwatch(call, device.synchronize, beat=beat, events=device.events(), clear=clear)
        return sample(stopwatch, sampling, device.sensors())
