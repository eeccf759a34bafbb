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


def _move(network: "nn.Module", device: str) -> None:
    """Gives the network new weights on a kind of device; parameters that modules share stay shared."""
    import torch

    first: dict[int, str] = {}
    parameters = network.named_parameters(remove_duplicate=False)
    shared = [(name, first.setdefault(id(parameter), name)) for name, parameter in parameters]
    network._apply(lambda tensor: torch.empty(tensor.shape, dtype=tensor.dtype, device=device))
    for name, original in shared:
        holder, _, own_name = name.rpartition(".")
        setattr(network.get_submodule(holder), own_name, network.get_parameter(original))


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
        _move(network, autocast)
        yield autocast, torch.float32
