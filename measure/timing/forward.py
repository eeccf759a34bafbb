"""A network on a device, in a precision and a variant, with its inputs: what is timed, or trained."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from measure.cache.models import Model
from measure.cache.records import FULL_PRECISION, TF32, stored_as
from measure.cache.variants import AUTOCAST, CHANNELS_LAST, COMPILE, KEPT_MEMORY, parts
from measure.counting.traffic import tensors_in
from measure.machine.devices import Device
from measure.models import catalog
from measure.models.call import mapped
from measure.models.casting import torch_dtype
from measure.timing import allocator

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
    if KEPT_MEMORY in how:
        if device.kind != "cpu":
            raise NotImplementedError(f"torch keeps the memory of {device.kind} in any case")
        allocator.keep_memory()
    call = catalog.prepare(model, batch, device.torch_name, torch_dtype(stored))
    network, inputs, keywords = call.network, call.inputs, call.keywords
    if CHANNELS_LAST in how:
        if all(tensor.ndim != 4 for tensor in tensors_in((inputs, keywords))):
            raise NotImplementedError(
                f"channels_last is a layout of images, which {model.name} does not take"
            )

        def laid_out(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.to(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor

        network = network.to(memory_format=torch.channels_last)
        inputs, keywords = mapped(inputs, laid_out), mapped(keywords, laid_out)
    if COMPILE in how:
        network = torch.compile(network)
    autocast = torch_dtype(precision) if AUTOCAST in how else None
    return Forward(network, inputs, device.kind, autocast, keywords)
