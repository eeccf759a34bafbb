"""Records the operators of a forward and a backward pass, each under the module that it belongs to.

Works on any device; on the meta device nothing is computed and nothing allocated. The recorder stands between torch
and its operators (a dispatch mode), below autograd, so that backward operators are seen as they run.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

from measure.counting import shapes
from measure.counting.attention import kept_whole
from measure.counting.flops import NOTHING, Work
from measure.counting.memory import LiveMemory
from measure.counting.operators import Operator, operator_of
from measure.counting.passes import Call, Pass, Uncounted
from measure.counting.traffic import storage_key, tensors_in

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
        output = shapes.call(func, args, kwargs) if operator.is_pure else func(*args, **kwargs)
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
