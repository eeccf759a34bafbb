"""A network and its inputs in a precision: cast to it, or left to autocast."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import nn


def torch_dtype(precision: str) -> "torch.dtype":
    import torch

    return {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[precision]


def _move(network: "nn.Module", device: str) -> None:
    """Give the network new weights on a type of device; parameters that modules share stay shared."""
    import torch

    first: dict[int, str] = {}
    parameters = network.named_parameters(remove_duplicate=False)
    shared = [(name, first.setdefault(id(parameter), name)) for name, parameter in parameters]
    network._apply(lambda tensor: torch.empty(tensor.shape, dtype=tensor.dtype, device=device))
    for name, original in shared:
        holder, _, attribute = name.rpartition(".")
        setattr(network.get_submodule(holder), attribute, network.get_parameter(original))


@contextmanager
def casting(network: "nn.Module", precision: str, autocast: str | None) -> Iterator[tuple[str, "torch.dtype"]]:
    """Yield the device and type of inputs for the network, which has the precision within this context.

    With ``autocast``, the network takes the shape of one on that type of device, still without memory; it stays at
    fp32, and torch decides for each operator whether it runs in the precision. Raises NotImplementedError where there
    is no such device.
    """
    import torch

    if autocast is None:
        network.to(torch_dtype(precision))
        yield "meta", torch_dtype(precision)
        return
    there = torch.amp.is_autocast_available(autocast) and (autocast != "cuda" or torch.cuda.is_available())
    if not there:
        raise NotImplementedError(f"autocast of {autocast} can only be counted on a machine that has one")
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(), torch.autocast(autocast, dtype=torch_dtype(precision)):
        _move(network, autocast)
        yield autocast, torch.float32
