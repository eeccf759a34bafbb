"""One round of a cell of inference: a model's forward pass, timed."""

from collections.abc import Callable

from measure.cache.models import Model
from measure.cache.records import Cell
from measure.machine.devices import Device
from measure.timing import forward
from measure.timing.sampling import Sampling, Timing, sample


def measure(device: Device, model: Model, cell: Cell, sampling: Sampling, beat: Callable[[], None]) -> Timing:
    """Time the forward pass without gradients, after ``device.prepare``.

    Raises NotImplementedError, with a reason, where the device has not this precision or the model not this variant,
    and whatever torch raises where it does not fit or is not supported.
    """
    import torch

    with torch.inference_mode():
        call = forward.prepare(device, model, cell)
        beat()
        return sample(
            call,
            device.synchronize,
            sampling,
            beat=beat,
            events=device.events(),
            clear=forward.cache_clearer(device, cell),
            sensors=device.sensors(),
        )
