"""The tensors of a value, of a network or of an argument: find them, replace them, tell their kinds apart."""

from collections import deque
from collections.abc import Callable
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import nn

KNOWN_ELEMENTS = 2**20  # larger tensors have no values while a network is counted
# Values without parts, or with parts that are not a network's data.
WHOLE_TYPES = (type(None), bool, int, float, complex, str, bytes, type, ModuleType, FunctionType, MethodType)


def torch_dtype(precision: str) -> "torch.dtype":
    import torch

    return {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[precision]


def is_castable(tensor: "torch.Tensor") -> bool:
    import torch

    return tensor.dtype in (torch.float32, torch.float16, torch.bfloat16)


def has_values(tensor: "torch.Tensor") -> bool:
    """Whether a network may read a tensor while it is counted: it is small, has memory, and is no parameter."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    is_constant = not tensor.is_meta and not isinstance(tensor, (torch.nn.Parameter, FakeTensor))
    return is_constant and tensor.numel() <= KNOWN_ELEMENTS


def hollow(tensor: "torch.Tensor") -> "torch.Tensor":
    """Return a tensor of the same shape and type on the meta device. A parameter stays a parameter."""
    import torch

    new = tensor.detach().to("meta")
    return torch.nn.Parameter(new, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else new


def map_tensors(value: Any, change: "Callable[[torch.Tensor], torch.Tensor]") -> Any:
    """Apply ``change`` to every tensor of a value, also in tuples, lists and dictionaries."""
    from torch import Tensor
    from torch.utils._pytree import tree_map_only

    return change(value) if isinstance(value, Tensor) else tree_map_only(Tensor, change, value)


def walk_tensors(value: Any, change: "Callable[[torch.Tensor], torch.Tensor]", visited: set[int] | None = None) -> Any:
    """Apply ``change`` in place to every tensor in containers and in attributes of objects. Modules are left alone."""
    import torch

    if isinstance(value, torch.Tensor):
        return change(value)
    visited = set() if visited is None else visited
    if isinstance(value, (*WHOLE_TYPES, torch.nn.Module)) or id(value) in visited:
        return value
    visited.add(id(value))
    if isinstance(value, dict):
        for key, part in list(value.items()):
            if (new := walk_tensors(part, change, visited)) is not part:
                value[key] = new
    elif isinstance(value, (list, deque)):
        for place, part in enumerate(value):
            value[place] = walk_tensors(part, change, visited)
    elif isinstance(value, (tuple, set, frozenset)):
        parts = [walk_tensors(part, change, visited) for part in value]
        if any(new is not part for new, part in zip(parts, value, strict=True)):
            return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    else:
        walk_tensors(getattr(value, "__dict__", None), change, visited)
        for name in getattr(type(value), "__slots__", ()):
            walk_tensors(getattr(value, name, None), change, visited)
    return value


def held_tensors(value: Any) -> "list[torch.Tensor]":
    """Return all tensors in a value: in containers of any kind, and in attributes of objects."""
    tensors: list[torch.Tensor] = []

    def note(tensor: "torch.Tensor") -> "torch.Tensor":
        tensors.append(tensor)
        return tensor

    walk_tensors(value, note)
    return tensors


def replace_tensors(network: "nn.Module", change: "Callable[[torch.Tensor], torch.Tensor]") -> None:
    """Replace every tensor that the modules hold, each once: in parameters, buffers, and plain attributes."""
    import torch

    changed: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # with the original, so that no other gets its address

    def once(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in changed:
            new = change(tensor)
            if isinstance(tensor, torch.nn.Parameter) and not isinstance(new, torch.nn.Parameter):
                new = torch.nn.Parameter(new, tensor.requires_grad)
            changed[id(tensor)] = tensor, new
        return changed[id(tensor)][1]

    visited: set[int] = set()
    for module in network.modules():
        walk_tensors(vars(module), once, visited)
