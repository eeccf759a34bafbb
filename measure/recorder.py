"""Records the operators of a forward and a backward pass, each under the module that it belongs to.

Works on any device; on the meta device nothing is computed and nothing allocated. The recorder stands between torch
and its operators (a dispatch mode), below autograd, so that backward operators are seen as they run.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

from measure.attention import kept_whole
from measure.flops import NOTHING, Work, formula_of
from measure.memory import LiveMemory
from measure.traffic import Signature, storage_key, tensors_in


@dataclass
class Part:
    """What one module asks for of its own in one pass."""

    calls: int = 0
    flop: int = 0
    other_flop: int = 0
    recompute_flop: int = 0
    traffic_byte: int = 0
    activation_byte: int = 0
    saved_byte: int = 0


@dataclass
class Uncounted:
    """Calls and bytes of an operator that does arithmetic and has no formula."""

    calls: int = 0
    byte: int = 0


@dataclass
class Pass:
    """One recorded pass: the parts by module, in the order in which they first ran, and what could not be counted."""

    parts: dict[nn.Module, Part] = field(default_factory=dict)
    uncounted: dict[str, Uncounted] = field(default_factory=dict)

    def part(self, module: nn.Module) -> Part:
        if module not in self.parts:
            self.parts[module] = Part()
        return self.parts[module]

    def total(self, column: str) -> int:
        return sum(getattr(part, column) for part in self.parts.values())


class Operator:
    """What is known of an operator whatever its arguments."""

    known: ClassVar[dict[Any, Any]] = {}

    def __init__(self, operator: Any) -> None:
        name = operator._schema.name
        self.name = name.removeprefix("aten::").replace("::", ".")
        self.signature = Signature(operator)
        self.formula = formula_of(name)
        self.is_ignored = self.signature.is_view or name.startswith("prim::")

    @classmethod
    def of(cls, operator: Any) -> "Operator":
        if operator not in cls.known:
            cls.known[operator] = cls(operator)
        return cls.known[operator]


class Recorder(TorchDispatchMode):
    """Within it, ``network`` runs forward and then backward, and ``forward`` and ``backward`` fill.

    ``users`` maps a parameter's storage to the module that first used it; ``memory`` is what lived at once besides
    parameters, buffers and inputs.
    """

    def __init__(self, network: nn.Module, inputs: Sequence[Any]) -> None:
        super().__init__()
        self._network = network
        parameters, buffers = list(network.parameters()), list(network.buffers())
        self._resident = [*parameters, *buffers, *tensors_in(inputs)]
        self.memory = LiveMemory(self._resident)
        self.users: dict[int, nn.Module] = {}
        self._unused = {storage_key(parameter) for parameter in parameters}
        self.forward, self.backward = Pass(), Pass()
        self._in_backward = False
        self._running: list[tuple[nn.Module, list[bool]]] = []
        self._first_nodes: list[int] = []
        self._node_modules: list[nn.Module] = []
        self._activations: set[int] = set()
        self._saved: set[int] = set()
        self._last = network

    def run_backward(self, outputs: Iterable[torch.Tensor]) -> None:
        """The backward pass from these outputs, whose gradients are given and cost nothing."""
        losses = [_GivenGradient.apply(output) for output in outputs]
        self._in_backward = True
        torch.autograd.backward(losses, [torch.empty_like(loss) for loss in losses])

    def __enter__(self) -> "Recorder":
        self._contexts = [kept_whole(), saved_tensors_hooks(self._save, lambda kept: kept)]
        self._hooks = [
            register_module_forward_pre_hook(self._start),
            register_module_forward_hook(self._stop),
        ]
        for context in self._contexts:
            context.__enter__()
        return super().__enter__()

    def __exit__(self, *problem: Any) -> None:
        super().__exit__(*problem)
        for context in reversed(self._contexts):
            context.__exit__(*problem)
        for hook in self._hooks:
            hook.remove()

    def _start(self, module: nn.Module, _inputs: Any) -> None:
        if self._running:
            self._running[-1][1].append(True)
        self._running.append((module, []))
        if not self._in_backward:
            self.forward.part(module).calls += 1
            self._mark()

    def _stop(self, module: nn.Module, _inputs: Any, output: Any) -> None:
        _, children = self._running.pop()
        if self._in_backward:
            return
        self._mark()
        if not children:  # a leaf: a module that ran no other
            for tensor in tensors_in(output):
                number = self.memory.number(tensor)
                if number is not None and number not in self._activations:
                    self._activations.add(number)
                    self.forward.part(module).activation_byte += tensor.untyped_storage().nbytes()

    def _mark(self) -> None:
        """Autograd numbers its nodes as they are made: those from here on are made in this module."""
        self._first_nodes.append(torch.autograd._get_sequence_nr())
        self._node_modules.append(self._running[-1][0] if self._running else self._network)

    def _save(self, tensor: torch.Tensor) -> torch.Tensor:
        """Notes what autograd keeps for the backward pass."""
        number = self.memory.number(tensor)
        if number is not None and number not in self._saved and not self._in_backward:
            self._saved.add(number)
            self.forward.part(self._module()).saved_byte += tensor.untyped_storage().nbytes()
        return tensor

    def _module(self) -> nn.Module:
        """The module that the operator which runs now belongs to."""
        if self._running:
            return self._running[-1][0]
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
        output = func(*args, **kwargs)
        operator = Operator.of(func)
        if not operator.is_ignored:
            self._record(operator, args, kwargs, output)
        return output

    def _record(self, operator: Operator, args: Any, kwargs: Any, output: Any) -> None:
        outputs = tensors_in(output)
        for tensor in outputs:
            self.memory.number(tensor)
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
        part = record.part(module)
        byte = operator.signature.byte(inputs, operator.signature.written(args, kwargs), outputs)
        part.traffic_byte += byte
        work = self._work(operator, args, kwargs, output)
        if work is None:
            uncounted = record.uncounted.setdefault(operator.name, Uncounted())
            uncounted.calls += 1
            uncounted.byte += byte
            return
        if self._in_backward and self._running:  # a checkpoint runs its part of the forward pass again
            part.recompute_flop += work.flop + work.other_flop
            return
        part.flop += work.flop
        part.other_flop += work.other_flop
        part.recompute_flop += work.recompute_flop

    def _work(self, operator: Operator, args: Any, kwargs: Any, output: Any) -> Work | None:
        if operator.formula is not None:
            try:
                return operator.formula(args, kwargs, output)
            except LookupError:  # a formula, but not for complex numbers
                return None
        floating = (
            tensor.is_floating_point() or tensor.is_complex() for tensor in tensors_in([args, output])
        )
        return None if any(floating) else NOTHING


class _GivenGradient(torch.autograd.Function):
    """Stands for a loss: takes an output, and gives back a gradient of its shape that lives until it is used."""

    @staticmethod
    def forward(ctx: Any, output: torch.Tensor) -> torch.Tensor:
        ctx.like = (output.shape, output.dtype, output.device)
        return output.new_empty(())

    @staticmethod
    def backward(ctx: Any, *_gradients: torch.Tensor) -> torch.Tensor:
        shape, dtype, device = ctx.like
        return torch.empty(shape, dtype=dtype, device=device)


def record_inference(network: nn.Module, inputs: Sequence[Any]) -> tuple[Recorder, Any]:
    """Runs the network in eval mode without gradients; the recorder and the output."""
    network.eval()
    with torch.no_grad(), Recorder(network, inputs) as recorder:
        output = network(*inputs)
    return recorder, output


def record_training(network: nn.Module, inputs: Sequence[Any]) -> Recorder:
    """Runs the network in train mode forward, and backward to every parameter that asks for a gradient."""
    network.train()
    network.zero_grad(set_to_none=True)
    with torch.enable_grad(), Recorder(network, inputs) as recorder:
        output = network(*inputs)
        recorder.run_backward([tensor for tensor in tensors_in(output) if tensor.requires_grad])
    return recorder
