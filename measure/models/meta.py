"""The meta device, on which a tensor has a shape and no memory, for networks that read numbers while they are built."""

import copy
from typing import TYPE_CHECKING, Any

from measure.cache.call import Call, mapped

if TYPE_CHECKING:
    import torch
    from torch.overrides import TorchFunctionMode


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
