"""A network on a device, in a precision and a variant, with its inputs: what is timed, or trained."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from measure.catalog import build, make_inputs
from measure.devices import Device
from measure.models.model import Model
from measure.precisions import torch_dtype
from measure.records import FULL_PRECISION, TF32, stored_as
from measure.variants import AUTOCAST, CHANNELS_LAST, COMPILE, parts

if TYPE_CHECKING:
    import torch
    from torch import nn


@dataclass(frozen=True)
class Forward:
    """A network and the arguments of one call of it; calling this runs its forward pass.

    ``autocast`` is the type that torch's autocast on the ``kind`` of device has for it, if any.
    """

    network: "nn.Module"
    inputs: tuple[Any, ...]
    kind: str
    autocast: "torch.dtype | None" = None

    def __call__(self) -> Any:
        with self.casting():  # anew for each call, as programs do: it keeps the cast weights until it ends
            return self.network(*self.inputs)

    def casting(self) -> "AbstractContextManager[Any]":
        """Within it, torch's autocast is on where this call has one."""
        import torch

        return nullcontext() if self.autocast is None else torch.autocast(self.kind, self.autocast)


def prepare(device: Device, model: Model, batch: int, precision: str, variant: str) -> Forward:
    """Builds a network in eval mode on the device, and random inputs for it.

    Raises NotImplementedError, with a reason, where the device has not this precision or the model not this variant.
    """
    import torch

    how = parts(variant)
    stored = FULL_PRECISION if AUTOCAST in how else stored_as(precision)
    if AUTOCAST in how and precision in (FULL_PRECISION, TF32):
        raise NotImplementedError(f"autocast casts from {FULL_PRECISION} to fp16 or bf16, not to {precision}")
    device.allow_tf32(precision == TF32)
    with torch.device(device.torch_name):
        network = build(model).to(torch_dtype(stored))
    inputs = make_inputs(model, batch, device.torch_name, torch_dtype(stored))
    if CHANNELS_LAST in how:
        images = [isinstance(value, torch.Tensor) and value.ndim == 4 for value in inputs]
        if not all(images):
            raise NotImplementedError(
                f"channels_last is a layout of images, which {model.name} does not take"
            )
        network = network.to(memory_format=torch.channels_last)
        inputs = tuple(value.to(memory_format=torch.channels_last) for value in inputs)
    if COMPILE in how:
        network = torch.compile(network)
    return Forward(network, inputs, device.kind, torch_dtype(precision) if AUTOCAST in how else None)
