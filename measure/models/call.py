"""A network and the arguments of one call: in a precision, under autocast, on the meta device.

On the meta device a tensor has a shape, strides and a type, but no memory.
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
    """A network and its arguments, by position and by keyword."""

    network: "nn.Module"
    inputs: tuple[Any, ...]
    keywords: dict[str, Any] = field(default_factory=dict)

    def with_inputs(self, change: "Callable[[torch.Tensor], torch.Tensor]") -> "Call":
        """Return the call with ``change`` applied to every tensor of its arguments."""
        return Call(self.network, map_tensors(self.inputs, change), map_tensors(self.keywords, change))


def map_tensors(value: Any, change: "Callable[[torch.Tensor], torch.Tensor]") -> Any:
    """Apply ``change`` to every tensor of a value, also in tuples, lists and dictionaries."""
    import torch
    from torch.utils._pytree import tree_map_only

    return tree_map_only(torch.Tensor, change, value)


def empty_inputs(call: Call, device: str, dtype: "torch.dtype") -> Call:
    """Replace the inputs by empty ones of the same shapes on a device; floating ones get the type ``dtype``."""
    import torch

    def empty(tensor: torch.Tensor) -> torch.Tensor:
        kind = dtype if tensor.is_floating_point() else tensor.dtype
        return torch.empty(tensor.shape, dtype=kind, device=device)

    return call.with_inputs(empty)


def torch_dtype(precision: str) -> "torch.dtype":
    import torch

    return {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[precision]


@contextmanager
def casting(network: "nn.Module", precision: str, autocast: str | None) -> Iterator[tuple[str, "torch.dtype"]]:
    """Put a network on the meta device into a precision; yield the device and type of its inputs.

    With ``autocast``, a type of device, the network stays at fp32, and torch decides the precision of each operator as
    it does on that device. Its tensors are fake: they name the device and still have no memory. Raises
    NotImplementedError if the machine has no such device.
    """
    import torch

    if autocast is None:
        network.to(torch_dtype(precision))
        yield "meta", torch_dtype(precision)
        return
    if not torch.amp.is_autocast_available(autocast) or (autocast == "cuda" and not torch.cuda.is_available()):
        raise NotImplementedError(f"autocast of {autocast} can only be counted on a machine with such a device")
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(), torch.autocast(autocast, dtype=torch_dtype(precision)):
        first: dict[int, str] = {}
        parameters = network.named_parameters(remove_duplicate=False)
        shared = [(name, first.setdefault(id(parameter), name)) for name, parameter in parameters]
        network._apply(lambda tensor: torch.empty(tensor.shape, dtype=tensor.dtype, device=autocast))
        for name, original in shared:  # new tensors are separate: share again what modules shared
            holder, _, attribute = name.rpartition(".")
            setattr(network.get_submodule(holder), attribute, network.get_parameter(original))
        yield autocast, torch.float32


def meta_allocation() -> "TorchFunctionMode":
    """Return a context in which torch allocates on the meta device, but computes small tensors where they are.

    ``torch.device("meta")`` moves everything, also ``torch.arange`` and ``torch.tensor``. It breaks networks that read
    widths or drop rates from small tensors (RegNet, all of timm with stochastic depth). Here those stay on the CPU
    until they meet a meta tensor. Call ``.to("meta")`` on the network afterwards.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    allocating = {torch.empty, torch.empty_strided, torch.zeros, torch.ones, torch.full, torch.eye}
    allocating |= {torch.rand, torch.randn, torch.randint}

    class MetaAllocation(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if func in allocating:
                return func(*args, **{**kwargs, "device": kwargs.get("device") or "meta"})
            tensors = [value for value in args if isinstance(value, torch.Tensor)]
            if len({tensor.is_meta for tensor in tensors}) == 2:
                args = [value.to("meta") if isinstance(value, torch.Tensor) else value for value in args]
            return func(*args, **kwargs)

    return MetaAllocation()


def move_to_meta(call: Call) -> Call:
    """Move a network and its inputs to the meta device."""
    for module in call.network.to("meta").modules():  # ``to`` leaves plain attributes behind; numbers fit any device
        plain = {key: value for key, value in vars(module).items() if getattr(value, "ndim", 0) > 0}
        vars(module).update(map_tensors(plain, lambda tensor: tensor.to("meta")))
    return call.with_inputs(lambda tensor: tensor.to("meta"))


def copy_to_meta(call: Call) -> Call:
    """Copy a call to the meta device without copying a weight; the original network stays as it is."""
    from torch import nn

    without_memory: dict[int, Any] = {id(buffer): buffer.to("meta") for buffer in call.network.buffers()}
    for parameter in call.network.parameters():
        without_memory[id(parameter)] = nn.Parameter(parameter.detach().to("meta"), parameter.requires_grad)
    return move_to_meta(Call(copy.deepcopy(call.network, without_memory), call.inputs, call.keywords))
