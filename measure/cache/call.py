"""A network, and the arguments of one call of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import nn


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
