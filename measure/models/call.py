"""A network and the arguments of one call: in a precision, under autocast, on the meta device.

A tensor on the meta device has a shape, strides and a type, but no memory.
"""

import copy
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from measure.models.tensors import (
    KNOWN_ELEMENTS,
    WHOLE_TYPES,
    has_values,
    held_tensors,
    hollow,
    is_castable,
    replace_tensors,
    torch_dtype,
    walk_tensors,
)

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

    @classmethod
    def of(cls, network: "nn.Module", inputs: Any) -> "Call":
        """Take a dictionary for keywords, a tuple or list for arguments by position, anything else for one of them."""
        if isinstance(inputs, Mapping):
            return cls(network, (), dict(inputs))
        return cls(network, tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,))

    def with_inputs(self, change: "Callable[[torch.Tensor], torch.Tensor]") -> "Call":
        """Apply ``change`` to every tensor of the arguments."""
        inputs, keywords = self._fresh_arguments()
        return Call(self.network, tuple(walk_tensors(list(inputs), change)), walk_tensors(dict(keywords), change))

    def run(self) -> Any:
        """Call the network. An iterator that it returns runs to its end, into a list."""
        inputs, keywords = self._fresh_arguments()
        output = self.network(*inputs, **keywords)
        return list(output) if isinstance(output, Iterator) else output

    @cached_property
    def _is_plain(self) -> bool:
        """Whether no argument is a container or an object that a call may change, such as a cache."""
        import torch

        whole = (torch.Tensor, *WHOLE_TYPES)
        return all(isinstance(value, whole) for value in (*self.inputs, *self.keywords.values()))

    def _fresh_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Copy the containers of the arguments, not the tensors, so that no call changes the next one's."""
        arguments = self.inputs, self.keywords
        if not self._is_plain:
            with suppress(Exception):  # an open file or a lock cannot be copied
                return copy.deepcopy(arguments, {id(tensor): tensor for tensor in held_tensors(arguments)})
        return arguments


def empty_inputs(call: Call, device: str, dtype: "torch.dtype | None") -> Call:
    """Replace inputs by empty ones on a device. Types of 16 and 32 bits become ``dtype`` unless it is None."""
    import torch

    def empty(tensor: torch.Tensor) -> torch.Tensor:
        if device != "meta" and not tensor.is_floating_point() and has_values(tensor):
            return tensor
        kind = dtype if dtype and is_castable(tensor) else tensor.dtype
        return torch.empty(tensor.shape, dtype=kind, device=device)

    return call.with_inputs(empty)


def cast(network: "nn.Module", dtype: "torch.dtype") -> "nn.Module":
    """Cast parameters and buffers of 16 and 32 bits, except quantised weights that refuse, such as torchao's."""
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    def change(tensor: "torch.Tensor") -> "torch.Tensor":
        if not is_castable(tensor):
            return tensor
        try:
            return tensor.to(dtype)
        except Exception:
            if is_traceable_wrapper_subclass(tensor):
                return tensor
            raise

    return network._apply(change)


def allocating_in(dtype: "torch.dtype") -> "TorchFunctionMode":
    """Make ``torch.empty`` allocate in a type unless one is named. Modules make their weights with it.

    A network so built is never held at twice its size, as it is if it is cast from fp32. Under a default type of 16
    bits torch would also compute a network's constants in it: RegNet's widths and rotary angles would be others.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    class Allocating(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if func is torch.empty and kwargs.get("dtype") is None:
                kwargs = {**kwargs, "dtype": dtype}
            return func(*args, **kwargs)

    return Allocating()


@contextmanager
def casting(
    network: "nn.Module", precision: str | None, autocast: str | None, fake: bool = False
) -> Iterator[tuple[str, "torch.dtype | None"]]:
    """Put a network on the meta device into a precision; yield the device and type of its inputs. None keeps all types.

    ``fake``: the tensors name the CPU, still without memory, and mix with tensors that have values. ``autocast``, a
    type of device: they name that device. The network stays at fp32, and torch decides the precision of each operator
    as on that device. Raises NotImplementedError if the machine has no such device.
    """
    import torch

    dtype = precision and torch_dtype(precision)
    os.environ["TRANSFORMERS_DISABLE_TORCH_CHECK"] = "1"  # it checks values, which counting does not have
    if autocast is None:
        if dtype is not None:
            cast(network, dtype)
        if not fake:
            yield "meta", dtype
            return
    elif not torch.amp.is_autocast_available(autocast) or (autocast == "cuda" and not torch.cuda.is_available()):
        raise NotImplementedError(f"autocast of {autocast} can only be counted on a machine with such a device")
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    device = autocast or "cpu"

    def name_device(tensor: torch.Tensor) -> torch.Tensor:
        if has_values(tensor):
            return tensor
        if is_traceable_wrapper_subclass(tensor):  # a quantised weight of torchao
            names, context = tensor.__tensor_flatten__()
            parts = {name: name_device(getattr(tensor, name)) for name in names}
            return type(tensor).__tensor_unflatten__(parts, context, tensor.shape, tensor.stride())
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)

    onednn = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)  # its fused operators hide the steps of recurrent layers
    log = logging.getLogger("torch._subclasses.fake_tensor")
    log.disabled = True  # it prints each exception that is raised below anyway
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), torch.autocast(device, dtype, enabled=autocast is not None):
            replace_tensors(network, name_device)
            yield device, torch.float32 if autocast else dtype
    finally:
        log.disabled = False
        torch._C._set_mkldnn_enabled(onednn)


def meta_allocation(keep_constants: bool = False) -> "TorchFunctionMode":
    """Make torch allocate on the meta device, but compute small tensors where they are.

    ``keep_constants`` gives memory to small tensors of numbers too, also random ones: a network may read them.

    ``torch.device("meta")`` moves everything, also ``torch.arange`` and ``torch.tensor``. It breaks networks that read
    widths or drop rates from small tensors (RegNet, all of timm with stochastic depth). Here those stay on the CPU
    until they meet a meta tensor. Call ``.to("meta")`` on the network afterwards.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    bare = {torch.empty, torch.empty_strided}
    allocating = bare | {torch.zeros, torch.ones, torch.full, torch.eye, torch.rand, torch.randn, torch.randint}
    # They do nothing without memory, and torch takes a millisecond for each on the meta device.
    initialising = {torch.Tensor.normal_, torch.Tensor.uniform_, torch.Tensor.fill_, torch.Tensor.zero_}

    class MetaAllocation(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if func in allocating:
                made = func(*args, **{**kwargs, "device": kwargs.get("device") or "meta"})
                is_constant = keep_constants and func not in bare and made.is_meta and made.numel() <= KNOWN_ELEMENTS
                return func(*args, **kwargs) if is_constant else made
            if func in initialising and args[0].is_meta:
                return args[0]
            if func is torch.Tensor.to and args[0].is_meta:  # to where another tensor is; it has no values to move
                args = ["meta" if isinstance(value, (str, torch.device)) else value for value in args]
                kwargs = {**kwargs, "device": "meta"} if "device" in kwargs else kwargs
            tensors = [value for value in args if isinstance(value, torch.Tensor)]
            if len({tensor.is_meta for tensor in tensors}) == 2:
                args = [value.to("meta") if isinstance(value, torch.Tensor) else value for value in args]
            return func(*args, **kwargs)

    return MetaAllocation()


def move_to_meta(call: Call, keep_constants: bool = False) -> Call:
    """Move a network and its inputs to the meta device. Tensors that modules share stay shared.

    ``keep_constants`` leaves small tensors that a network may read: buffers, attributes, and inputs of integers.
    """

    def change(tensor: "torch.Tensor") -> "torch.Tensor":
        return tensor if keep_constants and has_values(tensor) else hollow(tensor)

    replace_tensors(call.network, change)
    return call.with_inputs(lambda tensor: hollow(tensor) if tensor.is_floating_point() else change(tensor))


# Packages of modules with quantised weights that counting cannot see
HIDING = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized", "bitsandbytes.")
# Packages of classes that a network gets when processes share its weights. DistributedDataParallel is not among them.
SHARING = ("torch.distributed.fsdp", "torch.distributed._composable", "torch.distributed.tensor")


def refuse_hidden(network: "nn.Module") -> None:
    """Raise NotImplementedError for networks that hide their modules or weights.

    They are TorchScript, exported programs, lazy modules, and networks that are quantised or shared among processes.
    """
    import torch

    for part in (*network.modules(), *network.parameters()):
        if any(base.__module__.startswith(SHARING) for base in type(part).__mro__):
            raise NotImplementedError(
                "processes share its weights (torch.distributed); give the network as it was before"
            )
    if any(isinstance(module, torch.jit.ScriptModule) for module in network.modules()):
        raise NotImplementedError("it is TorchScript, which hides its modules; give the plain torch.nn.Module")
    for path, module in network.named_modules():
        if type(module).__module__.startswith(HIDING):
            raise NotImplementedError(
                f"{path or 'it'} hides its weights; give the network as it was before quantisation"
            )
    for name, tensor in (*network.named_parameters(), *network.named_buffers()):
        if torch.nn.parameter.is_lazy(tensor):
            raise NotImplementedError(f"{name} has no shape before the first call; call the network once, then give it")
    if "eval" in vars(network):  # torch.export replaces it on its modules
        raise NotImplementedError("it is an exported program without modes; give the plain torch.nn.Module")


def refuse_layouts(call: Call) -> None:
    """Raise NotImplementedError for sparse, nested and quantised tensors, which have no single block of memory."""
    import torch

    named = [*call.network.named_parameters(), *call.network.named_buffers()]
    named += [("an input", tensor) for tensor in held_tensors([call.inputs, call.keywords])]
    for name, tensor in named:
        if tensor.layout != torch.strided or tensor.is_nested or tensor.is_quantized:
            kind = "nested" if tensor.is_nested else "quantised" if tensor.is_quantized else "sparse"
            raise NotImplementedError(f"{name} is a {kind} tensor; counting takes dense ones: pad or convert it")


def copy_to_meta(call: Call, keep_constants: bool = False) -> Call:
    """Copy a call to the meta device without copying a weight; the original network stays as it is."""
    from torch import Tensor
    from torch.overrides import TorchFunctionMode

    class WithoutMemory(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is not Tensor.__deepcopy__:
                return func(*args, **(kwargs or {}))
            tensor, memo = args
            is_constant = keep_constants and has_values(tensor)
            return memo.setdefault(id(tensor), tensor.detach().clone() if is_constant else hollow(tensor))

    parameters: dict[int, Any] = {id(parameter): hollow(parameter) for parameter in call.network.parameters()}
    with WithoutMemory():
        return move_to_meta(Call(copy.deepcopy(call.network, parameters), call.inputs, call.keywords), keep_constants)


@contextmanager
def preserve_state(network: "nn.Module") -> Iterator[None]:
    """Restore the state of the modules at the end, so that a cache filled by one call is empty in the next.

    Tensors that stay in their place stay the same objects, with their values. Modules that were added go.
    """
    import torch
    from torch import nn
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    of_torch = vars(nn.Module()).keys()
    modules = list(network.modules())
    memo: dict[int, Any] = {id(module): module for module in modules}
    before = []
    for module in modules:
        held = dict(vars(module))
        for name in ("_parameters", "_buffers", "_modules"):
            held[name] = copy.copy(held[name])
        for name in held.keys() - of_torch:
            value = held[name]
            parts = value if type(value) is tuple else (value,)
            if not all(isinstance(part, WHOLE_TYPES) for part in parts):
                if id(value) not in memo:
                    memo.update((id(tensor), tensor) for tensor in held_tensors(value))
                with suppress(Exception):  # an open file or a lock stays as it is
                    held[name] = copy.deepcopy(value, memo)
        hooks = [(each, each.copy()) for each in (module._forward_pre_hooks, module._forward_hooks)]
        before.append((module, held, hooks))
    with unset_fake_temporarily():
        values = [(tensor, tensor.clone()) for tensor in network.buffers() if has_values(tensor)]
    try:
        yield
    finally:
        with unset_fake_temporarily(), torch.no_grad():
            for tensor, value in values:
                tensor.copy_(value)
        for module, held, hooks in before:
            vars(module).clear()
            vars(module).update(held)
            for now, earlier in hooks:  # transformers adds some in a call, and notes in an attribute that it did
                now.clear()
                now.update(earlier)
