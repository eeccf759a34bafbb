"""torch's operators whatever their arguments: name, formula, and use of memory.

The work and memory of a recorded pass, module by module.

Calls operators on the meta device, each once for inputs of the same shapes.

A network calls the same operator on the same shapes many times over, and torch derives the output's shape in Python
for many operators (for a batch normalisation in about a hundred primitive steps). Only shape, strides and type of an
output matter here, so they are derived once.

Records the operators of a forward and a backward pass, each under the module that it belongs to.

Works on any device; on the meta device nothing is computed and nothing allocated. The recorder stands between torch
and its operators (a dispatch mode), below autograd, so that backward operators are seen as they run.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

from measure.counting import memory, products, recurrent, scalars, windows  # noqa: F401 - each registers its formulas
from measure.counting.count import FORMULAS, NOTHING, Formula, Work
from measure.counting.memory import LiveMemory, Signature, storage_key, tensors_in
from measure.counting.products import kept_whole

if TYPE_CHECKING:
    from torch import nn


def formula_of(name: str) -> Formula | None:
    """Return the formula of an operator, or None. An operation in place has that of its twin."""
    return FORMULAS.get(name) or FORMULAS.get(name.removesuffix("_"))


class Operator:
    def __init__(self, operator: Any) -> None:
        name = operator._schema.name
        self.name = name.removeprefix("aten::").replace("::", ".")
        self.signature = Signature(operator)
        self.formula = formula_of(name)
        self.is_pure = not self.signature.aliases
        self.is_ignored = self.signature.is_view or name.startswith("prim::")

    def work(self, args: Any, kwargs: Any, output: Any) -> Work | None:
        """Return what one call computes; None for arithmetic without a formula."""
        if self.formula is not None:
            try:
                return self.formula(args, kwargs, output)
            except LookupError:  # a formula, but not for complex numbers
                return None
        floating = (tensor.is_floating_point() or tensor.is_complex() for tensor in tensors_in([args, output]))
        return None if any(floating) else NOTHING


@cache
def operator_of(overload: Any) -> Operator:
    """Return the operator of an overload such as ``torch.ops.aten.add.Tensor``."""
    return Operator(overload)


@dataclass
class Part:
    """One module's share of a pass, without its submodules'."""

    calls: int = 0
    flop: int = 0
    other_flop: int = 0
    recompute_flop: int = 0
    traffic_byte: int = 0
    activation_byte: int = 0
    saved_byte: int = 0


class Call(NamedTuple):
    """One call of an operator: its name, what it computes, and the bytes that it reads and writes."""

    operator: str
    work: Work
    byte: int


@dataclass
class Uncounted:
    """Calls and bytes of an operator that does arithmetic and has no formula."""

    calls: int = 0
    byte: int = 0


@dataclass
class Pass:
    """One recorded pass: the parts by module, in the order in which they first ran, and what could not be counted.

    ``calls`` counts those of each module that are alike, in the order of the first; the parts are their sums.
    """

    parts: "dict[nn.Module, Part]" = field(default_factory=dict)
    calls: "Counter[tuple[nn.Module, Call]]" = field(default_factory=Counter)
    uncounted: dict[str, Uncounted] = field(default_factory=dict)

    def part(self, module: "nn.Module") -> Part:
        if module not in self.parts:
            self.parts[module] = Part()
        return self.parts[module]

    def book(self, module: "nn.Module", call: Call) -> None:
        part = self.part(module)
        part.flop += call.work.flop
        part.other_flop += call.work.other_flop
        part.recompute_flop += call.work.recompute_flop
        part.traffic_byte += call.byte
        self.calls[module, call] += 1

    def total(self, column: str) -> int:
        return sum(getattr(part, column) for part in self.parts.values())


Outline = tuple[torch.Size, tuple[int, ...], torch.dtype]
"""A tensor without its memory: shape, strides and type."""

_OUTLINES: dict[Any, Any] = {}


class _NotRemembered(Exception):  # noqa: N818 - an answer, not an error
    """A call whose output does not follow from shapes alone."""


def _outline(tensor: torch.Tensor) -> Outline:
    if not tensor.is_meta or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        raise _NotRemembered
    return tensor.shape, tensor.stride(), tensor.dtype


def _form(value: Any) -> Any:
    """Return, hashable, what of an argument decides the output."""
    if isinstance(value, torch.Tensor):
        return _outline(value)
    if isinstance(value, (list, tuple)):
        return tuple(map(_form, value))
    return type(value), value  # 1, 1.0 and True are equal and not the same


def _outlines(output: Any) -> Any:
    """Return an output's outlines, in a list where it has several tensors or none."""
    if isinstance(output, torch.Tensor):
        return _outline(output)
    if isinstance(output, (list, tuple)):
        return [None if part is None else _outlines(part) for part in output]
    raise _NotRemembered


def _drawn(outlines: Any) -> Any:
    """Make tensors of these outlines."""
    if isinstance(outlines, list):
        return tuple(None if part is None else _drawn(part) for part in outlines)
    shape, strides, dtype = outlines
    return torch.empty_strided(shape, strides, dtype=dtype, device="meta")


def call(operator: Any, args: Any, kwargs: Any) -> Any:
    """Call an operator that changes and aliases none of its inputs; on the meta device its output may be remade."""
    try:
        form = (operator, _form(args), tuple((name, _form(value)) for name, value in kwargs.items()))
        known = _OUTLINES.get(form)
    except (_NotRemembered, TypeError):  # TypeError: an argument that has no hash
        return operator(*args, **kwargs)
    if known is not None:
        return _drawn(known)
    output = operator(*args, **kwargs)
    with suppress(_NotRemembered):
        _OUTLINES[form] = _outlines(output)
    return output


NONE: Mapping[str, Any] = MappingProxyType({})
"""The keyword arguments of a call that has none."""


@dataclass
class Running:
    """A module whose forward call has begun; a leaf as long as it has run no other module."""

    module: nn.Module
    is_leaf: bool = True


class Recorder(TorchDispatchMode):
    """Records ``network`` running forward and then backward into ``forward`` and ``backward``.

    ``users`` maps a parameter's storage to the module that first used it; ``memory`` is what lived at once besides
    parameters, buffers and inputs.
    """

    def __init__(self, network: nn.Module, inputs: Sequence[Any]) -> None:
        super().__init__()
        self._network = network
        self._modules = set(network.modules())
        parameters, buffers = list(network.parameters()), list(network.buffers())
        self._resident = [*parameters, *buffers, *tensors_in(inputs)]
        self.memory = LiveMemory(self._resident)
        self.users: dict[int, nn.Module] = {}
        self._unused = {storage_key(parameter) for parameter in parameters}
        self.forward, self.backward = Pass(), Pass()
        self._in_backward = False
        self._running: list[Running] = []
        self._undo = ExitStack()
        self._first_nodes: list[int] = []
        self._node_modules: list[nn.Module] = []
        self._activations: set[int] = set()
        self._saved: set[int] = set()
        self._last = network

    def run_backward(self, outputs: Iterable[torch.Tensor]) -> None:
        """Run the backward pass from these outputs, whose gradients are given and cost nothing."""
        losses = [_GivenGradient.apply(output) for output in outputs]
        self._in_backward = True
        if losses:  # a network without parameters has no backward pass
            with torch._C._DisableAutocast():  # a backward operator takes the precision of its forward one
                torch.autograd.backward(losses, [torch.empty_like(loss) for loss in losses])

    def __enter__(self) -> "Recorder":
        torch.clear_autocast_cache()  # casts of weights that an earlier pass made are part of this one too
        self._undo.enter_context(kept_whole())
        self._undo.enter_context(saved_tensors_hooks(self._save, lambda kept: kept))
        self._undo.callback(register_module_forward_pre_hook(self._start).remove)
        self._undo.callback(register_module_forward_hook(self._stop, always_call=True).remove)
        return super().__enter__()

    def __exit__(self, *problem: Any) -> None:
        super().__exit__(*problem)
        self._undo.close()

    def _start(self, module: nn.Module, _inputs: Any) -> None:
        is_known = module in self._modules
        if not is_known:  # made on the fly: its work is that of the module around it
            module = self._module()
        elif self._running:
            self._running[-1].is_leaf = False
        self._running.append(Running(module))
        self._mark()
        if is_known and not self._in_backward:
            self.forward.part(module).calls += 1

    def _stop(self, _module: nn.Module, _inputs: Any, output: Any) -> None:
        """End a module, also one left by an exception, as a checkpoint leaves what it has run far enough."""
        ended = self._running.pop()
        self._mark()
        if ended.is_leaf and not self._in_backward:
            for tensor in tensors_in(output):
                number = self.memory.number(tensor)
                if number is not None and number not in self._activations:
                    self._activations.add(number)
                    self.forward.part(ended.module).activation_byte += tensor.untyped_storage().nbytes()

    def _mark(self) -> None:
        """Note that autograd's nodes, numbered as they are made, are made in this module from here on."""
        self._first_nodes.append(torch.autograd._get_sequence_nr())
        self._node_modules.append(self._running[-1].module if self._running else self._network)

    def _save(self, tensor: torch.Tensor) -> torch.Tensor:
        """Note what autograd keeps for the backward pass."""
        number = self.memory.number(tensor)
        if number is not None and number not in self._saved and not self._in_backward:
            self._saved.add(number)
            self.forward.part(self._module()).saved_byte += tensor.untyped_storage().nbytes()
        return tensor

    def _module(self) -> nn.Module:
        """Return the module that the running operator belongs to."""
        if self._running:
            return self._running[-1].module
        node = torch._C._current_autograd_node() if self._in_backward else None
        if node is None:  # autograd adds gradients between two nodes: they belong to the one before
            return self._last
        if hasattr(node, "variable"):  # the gradient of a parameter arrives
            self._last = self.users.get(storage_key(node.variable), self._last)
        else:
            place = bisect_right(self._first_nodes, node._sequence_nr()) - 1
            self._last = self._node_modules[place] if place >= 0 else self._network
        return self._last

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        operator = operator_of(func)
        output = call(func, args, kwargs) if operator.is_pure else func(*args, **kwargs)
        if not operator.is_ignored:
            self._record(operator, args, kwargs, output)
        return output

    def _record(self, operator: Operator, args: Any, kwargs: Any, output: Any) -> None:
        outputs = tensors_in(output)
        for tensor in outputs:
            self.memory.number(tensor)
        if self._is_sum_of_gradients(operator, args):
            self.memory.overwrites(output, args[0])
        if operator.signature.allocates:
            return
        module = self._module()
        inputs = tensors_in(args) + tensors_in(kwargs)
        for tensor in inputs:
            key = storage_key(tensor)
            if key in self._unused:
                self._unused.discard(key)
                self.users[key] = module
        record = self.backward if self._in_backward else self.forward
        byte = operator.signature.byte(inputs, operator.signature.written(args, kwargs), outputs)
        work = operator.work(args, kwargs, output)
        if work is None:
            uncounted = record.uncounted.setdefault(operator.name, Uncounted())
            uncounted.calls += 1
            uncounted.byte += byte
            work = NOTHING
        elif self._in_backward and torch.is_grad_enabled():  # a checkpoint runs forward operators again
            work = Work(recompute_flop=work.flop + work.other_flop)
        record.book(module, Call(operator.name, work, byte))

    def _is_sum_of_gradients(self, operator: Operator, args: Any) -> bool:
        """Return whether autograd adds the gradients of two uses of a tensor.

        Without a dispatch mode it writes the sum over the first, where it holds the only reference to it
        (``InputBuffer::accumulate``); under one it makes a new tensor.
        """
        if not self._in_backward or torch.is_grad_enabled() or operator.name != "add":
            return False
        first, second = args[:2]
        return first is not second and getattr(second, "shape", None) == first.shape


class _GivenGradient(torch.autograd.Function):
    """A stand-in for a loss: from an output to a gradient of its shape that lives until it is used."""

    @staticmethod
    def forward(ctx: Any, output: torch.Tensor) -> torch.Tensor:
        ctx.like = (output.shape, output.dtype, output.device)
        return output.new_empty(())

    @staticmethod
    def backward(ctx: Any, *_gradients: torch.Tensor) -> torch.Tensor:
        shape, dtype, device = ctx.like
        return torch.empty(shape, dtype=dtype, device=device)


def record_inference(
    network: nn.Module, inputs: Sequence[Any], keywords: Mapping[str, Any] = NONE
) -> tuple[Recorder, Any]:
    """Run the network in eval mode without gradients; return the recorder and the output."""
    network.eval()
    with torch.no_grad(), Recorder(network, (*inputs, *keywords.values())) as recorder:
        output = network(*inputs, **keywords)
    return recorder, output


def record_training(network: nn.Module, inputs: Sequence[Any], keywords: Mapping[str, Any] = NONE) -> Recorder:
    """Run the network in train mode forward, and backward to every parameter that needs a gradient."""
    network.train()
    network.zero_grad(set_to_none=True)
    with torch.enable_grad(), Recorder(network, (*inputs, *keywords.values())) as recorder:
        output = network(*inputs, **keywords)
        recorder.run_backward([tensor for tensor in tensors_in(output) if tensor.requires_grad])
    return recorder
