"""A network and its inputs in a precision: cast to it, or left to autocast."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import nn


def torch_dtype(precision: str) -> "torch.dtype":
    """The type in which a precision is stored and computed."""
    import torch

    return {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[precision]


@contextmanager
def casting(
    network: "nn.Module", precision: str, autocast: str | None
) -> Iterator[tuple[str, "torch.dtype"]]:
    """Within it, the network has the precision; the device and type of inputs for it.

    With ``autocast``, the network takes the shape of one on that kind of device, still without memory, and stays at
    fp32, and torch decides for each operator what runs in the precision. Raises NotImplementedError where the kind of
    device is not there.
    """
    import torch

    if autocast is None:
        network.to(torch_dtype(precision))
        yield "meta", torch_dtype(precision)
        return
    if not torch.amp.is_autocast_available(autocast) or (
        autocast == "cuda" and not torch.cuda.is_available()
    ):
        raise NotImplementedError(f"autocast of {autocast} can only be counted on a machine that has one")
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(), torch.autocast(autocast, dtype=torch_dtype(precision)):
        network._apply(lambda tensor: torch.empty(tensor.shape, dtype=tensor.dtype, device=autocast))
        yield autocast, torch.float32
