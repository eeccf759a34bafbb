"""Record the operators of a forward and a backward pass, each under the module that it belongs to.

The recorder is a dispatch mode below autograd, so that it sees backward operators as they run. It works on any device;
on the meta device nothing is computed and nothing allocated.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

from measure.counting import products, recurrent, scalars, windows  # noqa: F401 - each registers its formulas
from measure.counting.formulas import FORMULAS, NOTHING, Formula, Work
from measure.counting.memory import LiveMemory, Signature, storage_key, tensors_in
from measure.counting.products import whole_attention


def formula_of(name: str) -> Formula | None:
    """Return the formula of an operator, or None. An in-place operator has that of its out-of-place twin."""
    return FORMULAS.get(name) or FORMULAS.get(name.removesuffix("_"))


class Overload:
    """An overload such as ``torch.ops.aten.add.Tensor``: its name, formula and use of memory."""

    def __init__(self, operator: Any) -> None:
        name = operator._schema.name
        self.name = name.removeprefix("aten::").replace("::", ".")
        self.signature = Signature(operator)
        self.formula = formula_of(name)
        self.is_pure = not self.signature.aliases
        self.is_ignored = self.signature.is_view or name.startswith("prim::")

    def work(self, args: Any, kwargs: Any, output: Any) -> Work | None:
        """Return the work of one call; None for arithmetic without a formula."""
        if self.formula is not None:
            try:
                return self.formula(args, kwargs, output)
            except LookupError:  # the formula has no rule for complex numbers
                return None
        floating = (tensor.is_floating_point() or tensor.is_complex() for tensor in tensors_in([args, output]))
        return None if any(floating) else NOTHING


overload_of = cache(Overload)


@dataclass
class ModuleTotals:
    """One module's part of a pass, without its submodules."""

    calls: int = 0
    flop: int = 0
    other_flop: int = 0
    recompute_flop: int = 0
    traffic_byte: int = 0
    activation_byte: int = 0
    saved_byte: int = 0


class OperatorCall(NamedTuple):
    """One call of an operator: its name, its work, and the bytes that it reads and writes."""

    operator: str
    work: Work
    byte: int


@dataclass
class Pass:
    """One recorded pass. Modules and calls are in the order of their first run.

    ``modules`` holds each module's totals, ``calls`` the number of equal calls in a module, ``uncounted`` and
    ``uncounted_byte`` the calls and traffic of operators that do arithmetic and have no formula, by their name.
    """

    modules: dict[nn.Module, ModuleTotals] = field(default_factory=dict)
    calls: Counter[tuple[nn.Module, OperatorCall]] = field(default_factory=Counter)
    uncounted: Counter[str] = field(default_factory=Counter)
    uncounted_byte: Counter[str] = field(default_factory=Counter)

    def totals(self, module: nn.Module) -> ModuleTotals:
        if module not in self.modules:
            self.modules[module] = ModuleTotals()
        return self.modules[module]

    def add(self, module: nn.Module, call: OperatorCall) -> None:
        totals = self.totals(module)
        totals.flop += call.work.flop
        totals.other_flop += call.work.other_flop
        totals.recompute_flop += call.work.recompute_flop
        totals.traffic_byte += call.byte
        self.calls[module, call] += 1

    def total(self, column: str) -> int:
        return sum(getattr(totals, column) for totals in self.modules.values())


# A network calls the same operator on the same shapes many times, and torch derives many output shapes in Python (a
# batch normalisation takes about a hundred primitive steps). Only shape, strides and type of an output matter here, so
# each is derived once.
_OUTLINES: dict[Any, Any] = {}
"""Outputs on the meta device by operator and arguments, each tensor as (shape, strides, type)."""


class _NoOutline(Exception):  # noqa: N818 - an answer, not an error
    """The output of a call does not follow from shapes alone."""


def _outline(tensor: torch.Tensor) -> tuple[torch.Size, tuple[int, ...], torch.dtype]:
    if not tensor.is_meta or type(tensor) not in (torch.Tensor, nn.Parameter):
        raise _NoOutline
    return tensor.shape, tensor.stride(), tensor.dtype


def _key(value: Any) -> Any:
    """Return a hashable form of the part of an argument that decides the output."""
    if isinstance(value, torch.Tensor):
        return _outline(value)
    if isinstance(value, (list, tuple)):
        return tuple(map(_key, value))
    return type(value), value  # 1, 1.0 and True are equal, but differ in type


def _outlines(output: Any) -> Any:
    """Return the outline of an output; a list of them if it has several tensors or none."""
    if isinstance(output, torch.Tensor):
        return _outline(output)
    if isinstance(output, (list, tuple)):
        return [None if part is None else _outlines(part) for part in output]
    raise _NoOutline


def _draw(outlines: Any) -> Any:
    """Make empty tensors with these outlines."""
    if isinstance(outlines, list):
        return tuple(None if part is None else _draw(part) for part in outlines)
    shape, strides, dtype = outlines
    return torch.empty_strided(shape, strides, dtype=dtype, device="meta")


def call(operator: Any, args: Any, kwargs: Any) -> Any:
    """Call an operator that neither changes nor aliases its inputs. Equal calls on the meta device run once."""
    try:
        key = (operator, _key(args), tuple((name, _key(value)) for name, value in kwargs.items()))
        outlines = _OUTLINES.get(key)
    except (_NoOutline, TypeError):  # TypeError: an argument without a hash
        return operator(*args, **kwargs)
    if outlines is not None:
        return _draw(outlines)
    output = operator(*args, **kwargs)
    with suppress(_NoOutline):
        _OUTLINES[key] = _outlines(output)
    return output


@dataclass
class Frame:
    """A module whose forward call has begun. It is a leaf until it runs another module."""

    module: nn.Module
    is_leaf: bool = True


class Recorder(TorchDispatchMode):
    """Record a network into the passes ``forward`` and ``backward``.

    ``users`` maps a parameter's storage to the module that uses it first. ``memory`` is the live memory without
    parameters, buffers and inputs.

    ``torch.utils.module_tracker.ModuleTracker`` cannot replace the hooks below. It keeps an unordered set of names, so
    that a module that runs twice loses the backward pass of its first call to its parent, and it stays in a module
    that a checkpoint leaves by an exception. Autograd's sequence numbers attribute each node exactly.
    """

    def __init__(self, network: nn.Module, inputs: Sequence[Any]) -> None:
        super().__init__()
        self._network = network
        self._modules = set(network.modules())
        parameters, buffers = list(network.parameters()), list(network.buffers())
        self._resident = [*parameters, *buffers, *tensors_in(inputs)]  # alive, so that no address is used again
        self.memory = LiveMemory(self._resident)
        self.users: dict[int, nn.Module] = {}
        self._unused = {storage_key(parameter) for parameter in parameters}
        self.forward, self.backward = Pass(), Pass()
        self._in_backward = False
        self._stack: list[Frame] = []
        self._undo = ExitStack()
        self._first_nodes: list[int] = []
        self._node_modules: list[nn.Module] = []
        self._activations: set[int] = set()
        self._saved: set[int] = set()
        self._last = network

    def run_backward(self, outputs: Iterable[torch.Tensor]) -> None:
        """Run the backward pass from these outputs. Their gradients are given and cost nothing."""
        losses = [_GivenGradient.apply(output) for output in outputs]
        self._in_backward = True
        if losses:  # a network without parameters has no backward pass
            with torch._C._DisableAutocast():  # a backward operator has the precision of its forward one
                torch.autograd.backward(losses, [torch.empty_like(loss) for loss in losses])

    def __enter__(self) -> "Recorder":
        torch.clear_autocast_cache()  # this pass casts the weights itself
        self._undo.enter_context(whole_attention())
        self._undo.enter_context(saved_tensors_hooks(self._save, lambda kept: kept))
        self._undo.callback(register_module_forward_pre_hook(self._start).remove)
        self._undo.callback(register_module_forward_hook(self._stop, always_call=True).remove)
        return super().__enter__()

    def __exit__(self, *problem: Any) -> None:
        super().__exit__(*problem)
        self._undo.close()

    def _start(self, module: nn.Module, _inputs: Any) -> None:
        is_own = module in self._modules
        if not is_own:  # made on the fly: its work belongs to the module around it
            module = self._module()
        elif self._stack:
            self._stack[-1].is_leaf = False
        self._stack.append(Frame(module))
        self._mark()
        if is_own and not self._in_backward:
            self.forward.totals(module).calls += 1

    def _stop(self, _module: nn.Module, _inputs: Any, output: Any) -> None:
        """End a module, also if an exception leaves it: a checkpoint stops so when it has recomputed enough."""
        frame = self._stack.pop()
        self._mark()
        if frame.is_leaf and not self._in_backward:
            for tensor in tensors_in(output):
                number = self.memory.number(tensor)
                if number is not None and number not in self._activations:
                    self._activations.add(number)
                    self.forward.totals(frame.module).activation_byte += tensor.untyped_storage().nbytes()

    def _mark(self) -> None:
        """Assign the autograd nodes from here on, which are numbered in order, to the running module."""
        self._first_nodes.append(torch.autograd._get_sequence_nr())
        self._node_modules.append(self._stack[-1].module if self._stack else self._network)

    def _save(self, tensor: torch.Tensor) -> torch.Tensor:
        """Note a tensor that autograd keeps for the backward pass."""
        number = self.memory.number(tensor)
        if number is not None and number not in self._saved and not self._in_backward:
            self._saved.add(number)
            self.forward.totals(self._module()).saved_byte += tensor.untyped_storage().nbytes()
        return tensor

    def _module(self) -> nn.Module:
        """Return the module of the running operator."""
        if self._stack:
            return self._stack[-1].module
        node = torch._C._current_autograd_node() if self._in_backward else None
        if node is None:  # autograd adds gradients between two nodes: they belong to the earlier one
            return self._last
        if hasattr(node, "variable"):  # the gradient of a parameter arrives
            self._last = self.users.get(storage_key(node.variable), self._last)
        else:
            place = bisect_right(self._first_nodes, node._sequence_nr()) - 1
            self._last = self._node_modules[place] if place >= 0 else self._network
        return self._last

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        overload = overload_of(func)
        output = call(func, args, kwargs) if overload.is_pure else func(*args, **kwargs)
        if not overload.is_ignored:
            self._record(overload, args, kwargs, output)
        return output

    def _record(self, overload: Overload, args: Any, kwargs: Any, output: Any) -> None:
        outputs = tensors_in(output)
        for tensor in outputs:
            self.memory.number(tensor)
        if self._is_sum_of_gradients(overload, args):
            self.memory.overwrites(output, args[0])
        if overload.signature.allocates:
            return
        module = self._module()
        inputs = tensors_in(args) + tensors_in(kwargs)
        for key in map(storage_key, inputs):
            if key in self._unused:
                self._unused.discard(key)
                self.users[key] = module
        record = self.backward if self._in_backward else self.forward
        byte = overload.signature.byte(inputs, overload.signature.written(args, kwargs), outputs)
        work = overload.work(args, kwargs, output)
        if work is None:
            record.uncounted[overload.name] += 1
            record.uncounted_byte[overload.name] += byte
            work = NOTHING
        elif self._in_backward and torch.is_grad_enabled():  # a checkpoint runs forward operators again
            work = Work(recompute_flop=work.flop + work.other_flop)
        record.add(module, OperatorCall(overload.name, work, byte))

    def _is_sum_of_gradients(self, overload: Overload, args: Any) -> bool:
        """Return whether autograd adds the gradients of two uses of a tensor.

        Without a dispatch mode it writes the sum over the first if it holds the only reference to it
        (``InputBuffer::accumulate``); under one it makes a new tensor.
        """
        if not self._in_backward or torch.is_grad_enabled() or overload.name != "add":
            return False
        first, second = args[:2]
        return first is not second and getattr(second, "shape", None) == first.shape


class _GivenGradient(torch.autograd.Function):
    """A stand-in for a loss. Its backward gives the output an empty gradient, which lives until it is used."""

    @staticmethod
    def forward(ctx: Any, output: torch.Tensor) -> torch.Tensor:
        ctx.like = (output.shape, output.dtype, output.device)
        return output.new_empty(())

    @staticmethod
    def backward(ctx: Any, *_gradients: torch.Tensor) -> torch.Tensor:
        shape, dtype, device = ctx.like
        return torch.empty(shape, dtype=dtype, device=device)


NO_KEYWORDS: Mapping[str, Any] = MappingProxyType({})


def record_inference(
    network: nn.Module, inputs: Sequence[Any], keywords: Mapping[str, Any] = NO_KEYWORDS
) -> tuple[Recorder, Any]:
    """Run the network in eval mode without gradients; return the recorder and the output."""
    network.eval()
    with torch.no_grad(), Recorder(network, (*inputs, *keywords.values())) as recorder:
        output = network(*inputs, **keywords)
    return recorder, output


def record_training(network: nn.Module, inputs: Sequence[Any], keywords: Mapping[str, Any] = NO_KEYWORDS) -> Recorder:
    """Run the network in train mode forward, then backward to every parameter that needs a gradient."""
    network.train()
    network.zero_grad(set_to_none=True)
    with torch.enable_grad(), Recorder(network, (*inputs, *keywords.values())) as recorder:
        output = network(*inputs, **keywords)
        recorder.run_backward([tensor for tensor in tensors_in(output) if tensor.requires_grad])
    return recorder
