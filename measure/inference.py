"""One cell of inference: a model's forward pass at one batch size and precision, timed."""

from collections.abc import Callable

from measure.catalog import Model, build, make_inputs
from measure.ceilings import torch_dtype
from measure.devices import Device
from measure.timing import Sampling, Timing, sample

SAMPLING = Sampling()


def measure(device: Device, model: Model, batch: int, precision: str, beat: Callable[[], None]) -> Timing:
    """Times the forward pass with weights and inputs in the precision, without gradients.

    Raises whatever torch raises where it does not fit or is not supported.
    """
    import torch

    dtype = torch_dtype(precision)
    with torch.inference_mode():
        with torch.device(device.torch_name):
            network = build(model).to(dtype)
        inputs = make_inputs(model, batch, device.torch_name, dtype)
        beat()
        return sample(lambda: network(*inputs), device.synchronize, SAMPLING, beat=beat)
