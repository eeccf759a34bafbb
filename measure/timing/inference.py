"""One round of a cell of inference: a model's forward pass at one batch size, precision and variant, timed."""

from collections.abc import Callable

from measure.cache import variants
from measure.cache.models import Model
from measure.machine.devices import Device
from measure.timing import forward
from measure.timing.sampling import Sampling, Timing, sample


def measure(
    device: Device,
    model: Model,
    batch: int,
    precision: str,
    variant: str,
    sampling: Sampling,
    beat: Callable[[], None],
) -> Timing:
    """Times the forward pass without gradients, after ``device.prepare``.

    Raises NotImplementedError, with a reason, where the device has not this precision or the model not this variant,
    and whatever torch raises where it does not fit or is not supported.
    """
    import torch

    with torch.inference_mode():
        call = forward.prepare(device, model, batch, precision, variant)
        beat()
        return sample(
            call,
            device.synchronize,
            sampling,
            beat=beat,
            events=device.events(),
            clear=device.cache_clearer() if variants.COLD in variants.parts(variant) else None,
            sensors=device.sensors(),
        )
