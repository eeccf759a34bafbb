"""A network, and the arguments of one call of it.

A network and its inputs in a precision: cast to it, or left to autocast.

The meta device, on which a tensor has a shape and no memory, for networks that read numbers while they are built.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.overrides import TorchFunctionMode


@dataclass(frozen=True)
class Call:
    """A network and its inputs: arguments by position, and by keyword."""

    network: "nn.Module"
    inputs: tuple[Any, ...]
    keywords: dict[str, Any] = field(default_factory=dict)


def without_values(call: Call, device: str, dtype: "torch.dtype") -> Call:
    """Return the call with empty inputs of the same shapes, on a device; floating ones in a type."""
    import torch

    def hollow(tensor: torch.Tensor) -> torch.Tensor:
        kind = dtype if tensor.is_floating_point() else tensor.dtype
        return torch.empty(tensor.shape, dtype=kind, device=device)

    return Call(call.network, mapped(call.inputs, hollow), mapped(call.keywords, hollow))


def mapped(value: Any, change: "Callable[[torch.Tensor], torch.Tensor]") -> Any:
    """Return a value with all tensors in it changed, in tuples, lists and dictionaries too."""
    import torch

    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: mapped(part, change) for key, part in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(mapped(part, change) for part in value)
    return value


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


def allocating_nothing() -> "TorchFunctionMode":
    """Return a context in which torch allocates on the meta device, but keeps what it computes from where it is.

    ``torch.device("meta")`` moves everything there, ``torch.arange`` and ``torch.tensor`` too, and so breaks
    networks that read widths or drop rates out of small tensors (RegNet, all of timm's with stochastic depth).
    Here these stay on the CPU, until they meet a tensor on meta: then they go there as well. What a network made
    of them alone is still on the CPU at the end: ``.to("meta")`` it.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    allocating = {torch.empty, torch.empty_strided, torch.zeros, torch.ones, torch.full, torch.eye}
    allocating |= {torch.rand, torch.randn, torch.randint}

    class AllocatingNothing(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if func in allocating:
                return func(*args, **{**kwargs, "device": kwargs.get("device") or "meta"})
            tensors = [value for value in args if isinstance(value, torch.Tensor)]
            if len({tensor.is_meta for tensor in tensors}) == 2:
                args = [value.to("meta") if isinstance(value, torch.Tensor) else value for value in args]
            return func(*args, **kwargs)

    return AllocatingNothing()


def _on_meta(tensor: "torch.Tensor") -> "torch.Tensor":
    return tensor.to("meta")


def moved(call: Call) -> Call:
    """Move a network to the meta device, and its inputs."""
    network = call.network.to("meta")
    for module in network.modules():  # tensors outside buffers would stay behind; a number fits any device
        plain = {key: value for key, value in vars(module).items() if getattr(value, "ndim", 0) > 0}
        vars(module).update(mapped(plain, _on_meta))
    return Call(network, mapped(call.inputs, _on_meta), mapped(call.keywords, _on_meta))


def copied(call: Call) -> Call:
    """Return a copy on the meta device, which takes no memory for weights; the network stays as it is."""
    from torch import nn

    hollow: dict[int, torch.Tensor] = {}
    for parameter in call.network.parameters():
        hollow[id(parameter)] = nn.Parameter(_on_meta(parameter.detach()), parameter.requires_grad)
    for buffer in call.network.buffers():
        hollow[id(buffer)] = _on_meta(buffer)
    network: nn.Module = copy.deepcopy(call.network, dict(hollow))
    return moved(Call(network, call.inputs, call.keywords))
