"""The meta device, on which a tensor has a shape and no memory, for networks that read numbers while they are built."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
