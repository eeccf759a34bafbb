"""Record the operators of a forward and a backward pass, each under its module.

The recorder is a dispatch mode below autograd, so that it sees backward operators as they run. It works on any device;
on the meta device nothing is computed and nothing allocated.
"""

import sys
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.graph import saved_tensors_hooks
from torch.distributions import Distribution
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.nn.utils.parametrize import ParametrizationList
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils.checkpoint import _StopRecomputationError

from measure.counting import fused, windows  # noqa: F401 - they register their formulas
from measure.counting.attention import whole_attention
from measure.counting.formulas import NOTHING, Work
from measure.counting.memory import (
    LiveMemory,
    Overload,
    overload_of,
    storage_key,
    stored_byte,
    stored_shares,
    stored_tensors,
    tensors_in,
)
from measure.counting.outputs import FakeCalls, UsualValues, call
from measure.counting.products import whole_convolution_by_time
from measure.models.losses import distance, make_target
from measure.models.tensors import held_tensors

LOSS = nn.Module()  # the module of the loss's operators, which are outside the network


@dataclass
class ModuleTotals:
    """One module's part of a pass, without its submodules."""

    calls: int = 0
    flop: int = 0
    other_flop: int = 0
    recompute_flop: int = 0
    traffic_byte: int = 0
    read_byte: int = 0  # of these
    activation_byte: int = 0
    saved_byte: int = 0


class OperatorCall(NamedTuple):
    """One call of an operator: its name, its work, and the bytes that it reads and writes."""

    operator: str
    work: Work
    byte: int


@dataclass
class Pass:
    """One recorded pass. Modules, and equal calls in a module with their number, are in the order of their first run.

    ``uncounted`` and ``uncounted_byte`` hold calls and traffic of operators that compute and have no formula, by name.
    """

    modules: defaultdict[nn.Module, ModuleTotals] = field(default_factory=lambda: defaultdict(ModuleTotals))
    calls: Counter[tuple[nn.Module, OperatorCall]] = field(default_factory=Counter)
    uncounted: Counter[str] = field(default_factory=Counter)
    uncounted_byte: Counter[str] = field(default_factory=Counter)

    def total(self, column: str) -> int:
        return sum(getattr(totals, column) for totals in self.modules.values())


class Recorder(TorchDispatchMode):
    """Record a network into the passes ``forward`` and ``backward``.

    ``users`` maps a parameter's storage to the module that uses it first. ``memory`` is the live memory without
    parameters, buffers, inputs and ``targets``, which are the loss's. The module of the loss's operators is ``LOSS``.
    They take memory; no other column counts them.

    ``failure`` is the last exception, with its module and operator.

    ``torch.utils.module_tracker.ModuleTracker`` cannot replace the hooks below: it loses the backward pass of a module
    that runs twice, and stays in one that a checkpoint leaves by an exception. Autograd's sequence numbers are exact.
    """

    supports_higher_order_operators = True

    def __init__(self, network: nn.Module, inputs: Any) -> None:
        super().__init__()
        self._network = self._last = network
        self._modules = set(network.modules())
        # Alive as long as the recorder, so that no address is used again.
        self._resident = stored_tensors([*network.parameters(), *network.buffers(), *tensors_in(inputs)])
        self.memory = LiveMemory(self._resident)
        self.users: dict[int, nn.Module] = {}
        self._parameters = set(map(storage_key, stored_tensors(network.parameters())))
        self._arguments = self._parameters.union(map(storage_key, stored_tensors(tensors_in(inputs))))
        self._touched_byte: Counter[int] = Counter()  # by storage
        self.shares = stored_shares(network)
        self.forward, self.backward = Pass(), Pass()
        self._in_backward = False
        self._stack: list[nn.Module] = []
        self._is_leaf: list[bool] = []  # for each module of the stack, that it has not run another one so far
        self._node_modules = [(-1, network)]  # the first autograd node of each stretch in a module
        self._activations: set[int] = set()
        self._saved: set[int] = set()
        self.targets: list[torch.Tensor] = []
        self._device = next((tensor.device for tensor in self._resident), torch.device("cpu"))
        self._call = call
        self.trains_one_value = False  # batch normalisation of one value a channel, which torch refuses
        self.failure: tuple[BaseException, nn.Module, str | None] | None = None

    def untouched_byte(self, tensors: Iterable[torch.Tensor]) -> int:
        """Return the bytes of these parameters or inputs that no operator so far can have touched."""
        touched = self._touched_byte
        stored = ((stored_byte([tensor], self.shares), storage_key(tensor)) for tensor in stored_tensors(tensors))
        return sum(max(0, byte - touched[key]) for byte, key in stored)

    def run_backward(self, outputs: Sequence[torch.Tensor], family: str) -> None:
        """Run the loss of a network of this family, and the backward pass from it.

        The loss takes dense real outputs (``measure/models/losses.py``). The gradients of others are given.
        """
        dense = [each for each in outputs if each.layout is torch.strided and not each.is_nested]
        taken = [each for each in dense if each.is_floating_point()]
        with _disable_current_modes():  # targets are there before the step
            self.targets = [make_target(each, family, is_random=False) for each in taken]
        self.memory.hold(self.targets)
        self._stack.append(LOSS)
        self._mark()
        keys = set(map(id, taken))
        losses = [_GivenGradient.apply(each) for each in outputs if id(each) not in keys]
        if taken:
            losses.append(distance(taken, self.targets))
        self._last = self._stack.pop()
        self._mark()
        self._in_backward = True
        if losses:  # a network without parameters has no backward pass
            with torch._C._DisableAutocast():  # a backward operator has the precision of its forward one
                torch.autograd.backward(losses, [torch.empty_like(loss) for loss in losses])

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record the operators that run inside."""
        torch.clear_autocast_cache()  # this pass casts the weights itself
        with ExitStack() as stack:
            if (mode := torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE)) is not None:
                self._call = FakeCalls(mode, self._device).call
                stack.enter_context(UsualValues())
            stack.enter_context(whole_attention())
            stack.enter_context(whole_convolution_by_time())
            stack.callback(Distribution.set_default_validate_args, Distribution._validate_args)
            Distribution.set_default_validate_args(False)  # their checks read values
            if torch.is_grad_enabled():
                stack.enter_context(saved_tensors_hooks(self._save, _unpack))
                stack.enter_context(_hooks_step_aside())
            stack.callback(register_module_forward_pre_hook(self._start).remove)
            stack.callback(register_module_forward_hook(self._stop, always_call=True).remove)
            stack.enter_context(self)
            yield

    def _start(self, module: nn.Module, _inputs: Any) -> None:
        is_own = module in self._modules
        if is_own and self._stack and not isinstance(module, ParametrizationList):
            self._is_leaf[-1] = False
        self._stack.append(module if is_own else self._module())  # the work of one made on the fly is its parent's
        self._is_leaf.append(True)
        self._mark()
        if is_own and not self._in_backward:
            self.forward.modules[module].calls += 1

    def _stop(self, _module: nn.Module, _inputs: Any, output: Any) -> None:
        """End a module, also if an exception leaves it: a checkpoint stops so when it has recomputed enough."""
        if (problem := sys.exc_info()[1]) is not None:
            self._note(problem)
        module, is_leaf = self._stack.pop(), self._is_leaf.pop()
        self._mark()
        makes_weight = isinstance(module, ParametrizationList) or any(
            isinstance(each, ParametrizationList) for each in self._stack
        )
        is_leaf |= self.forward.modules[module].flop > 0  # its submodules prepare a product of its own
        if is_leaf and not makes_weight and not self._in_backward:
            self.forward.modules[module].activation_byte += self._new_byte(held_tensors(output), self._activations)

    def _mark(self) -> None:
        """Assign the autograd nodes from here on, which are numbered in order, to the running module."""
        module = self._stack[-1] if self._stack else self._network
        self._node_modules.append((torch.autograd._get_sequence_nr(), module))

    def _note(self, problem: BaseException, operator: str | None = None) -> None:
        """Note the module and, if any, the operator that raised an exception first.

        The exception by which a checkpoint stops is no failure, and its traceback would keep tensors alive.
        """
        if isinstance(problem, _StopRecomputationError):
            return
        if self.failure is None or self.failure[0] is not problem:
            self.failure = problem, self._module(), operator

    def _save(self, tensor: torch.Tensor) -> torch.Tensor:
        """Note a tensor that autograd keeps for the backward pass."""
        if self._module() is LOSS:
            return tensor
        byte = self._new_byte([tensor], self._saved)
        if not self._in_backward:
            self.forward.modules[self._module()].saved_byte += byte
        return tensor

    def _new_byte(self, tensors: Iterable[torch.Tensor], seen: set[int]) -> int:
        """Count the bytes of the storages that are not yet among the ``seen`` numbers, and add these numbers."""
        byte = 0
        for tensor in tensors_in([unwrapped(each) for each in tensors]):
            number = self.memory.number(tensor)
            if number is not None and number not in seen:
                seen.add(number)
                byte += tensor.untyped_storage().nbytes()
        return byte

    def _module(self) -> nn.Module:
        """Return the module of the running operator."""
        if self._stack:
            return self._stack[-1]
        node = torch._C._current_autograd_node() if self._in_backward else None
        if node is None:  # autograd adds gradients between two nodes: they belong to the earlier one
            return self._last
        if hasattr(node, "variable"):  # the gradient of a parameter arrives
            self._last = self.users.get(storage_key(node.variable), self._last)
        else:
            place = bisect_right(self._node_modules, node._sequence_nr(), key=itemgetter(0))
            self._last = self._node_modules[place - 1][1]
        return self._last

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if any(map(_is_wrapper, types)):
            return NotImplemented  # it calls operators on the tensors that it is made of
        if not isinstance(func, torch._ops.OpOverload):  # it runs functions: a loop, a branch
            name = func.name().removesuffix("_impl")
            problem = NotImplementedError(f"torch's {name} cannot be counted; write it as a loop or branch of Python")
            self._note(problem, func.name())
            raise problem
        if isinstance(kwargs.get("generator"), torch.Generator):
            kwargs = {**kwargs, "generator": None}  # the global one draws the same numbers in each run
        overload = overload_of(func)
        if overload.is_composite:
            with self:  # the mode is off for the operator itself
                return func.decompose(*args, **kwargs)
        try:
            output = self._call(func, overload, args, kwargs)
            if not overload.is_ignored:
                self._record(overload, args, kwargs, output)
        except Exception as problem:
            self._note(problem, overload.name)
            raise
        return output

    def _record(self, overload: Overload, args: Any, kwargs: Any, output: Any) -> None:
        outputs = tensors_in(output)
        for tensor in outputs:
            self.memory.number(tensor)
        # Autograd adds the gradients of two uses of a tensor. Without a dispatch mode it writes the sum over the first
        # if it holds the only reference (``InputBuffer::accumulate``); under one it makes a new tensor. A view, such as
        # the transposed gradient of a linear layer's weight, shares its storage, so its sum is new in either case.
        is_sum = self._in_backward and not torch.is_grad_enabled() and overload.name == "add"
        is_sum = is_sum and args[0].layout is torch.strided and not args[0]._is_view()
        if is_sum and args[0] is not args[1] and getattr(args[1], "shape", None) == args[0].shape:
            self.memory.overwrites(output, args[0])
        # A constant that moves to the device is there already on a processor; elsewhere it comes from outside.
        is_move = overload.name == "_to_copy" and args[0].device != output.device
        if overload.allocates or is_move:
            return
        module = self._module()
        if module is LOSS:
            return
        byte, read_byte, inputs = 0, 0, tensors_in([args, kwargs] if kwargs else args)
        for tensor, moved_byte, is_read in overload.touches(args, kwargs, inputs, outputs):
            key = storage_key(tensor)
            if key in self.shares:
                moved_byte = round(moved_byte * self.shares[key])
            byte += moved_byte
            read_byte += moved_byte * is_read
            if key in self._arguments:
                self._touched_byte[key] += moved_byte
                if key in self._parameters:
                    self.users.setdefault(key, module)
        record = self.backward if self._in_backward else self.forward
        work = overload.work(args, kwargs, output, inputs + outputs)
        if work is None:
            record.uncounted[overload.name] += 1
            record.uncounted_byte[overload.name] += byte
            work = NOTHING
        elif self._in_backward and torch.is_grad_enabled():  # a checkpoint runs forward operators again
            work = Work(recompute_flop=work.flop + work.other_flop)
        totals = record.modules[module]
        totals.flop += work.flop
        totals.other_flop += work.other_flop
        totals.recompute_flop += work.recompute_flop
        totals.traffic_byte += byte
        totals.read_byte += read_byte
        record.calls[module, OperatorCall(overload.name, work, byte)] += 1


def _is_wrapper(kind: type) -> bool:
    """Tensors of such a class are made of others, as nested ones are of values and lengths."""
    return hasattr(kind, "__tensor_flatten__") and not issubclass(kind, FakeTensor)


def unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor under the wrappers of ``torch.func``, which have no memory of their own."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor


def _unpack(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _hooks_step_aside() -> AbstractContextManager[Any]:
    """Let ``torch.func`` take gradients, refused under hooks. Our hooks are off meanwhile and see no saving."""
    refuse_hooks = torch.autograd.graph.disable_saved_tensors_hooks

    @contextmanager
    def step_aside(message: str) -> Iterator[None]:
        hooks = torch._C._autograd._top_saved_tensors_default_hooks(True)
        if hooks is None or hooks[1] is not _unpack:
            with refuse_hooks(message):
                yield
            return
        torch._C._autograd._pop_saved_tensors_default_hooks()
        try:
            with refuse_hooks(message):
                yield
        finally:
            torch._C._autograd._push_saved_tensors_default_hooks(*hooks)

    return patch.object(torch.autograd.graph, "disable_saved_tensors_hooks", step_aside)


class _GivenGradient(torch.autograd.Function):
    """In place of the loss, of an output that it does not take.

    Its backward gives the output an empty gradient, which lives until it is used.
    """

    @staticmethod
    def forward(ctx: Any, output: torch.Tensor) -> torch.Tensor:
        ctx.like = output.detach() if output.is_nested else (output.shape, output.dtype, output.device)
        return torch.empty((), dtype=output.dtype, device=output.device)

    @staticmethod
    def backward(ctx: Any, *_gradients: torch.Tensor) -> torch.Tensor:
        if isinstance(ctx.like, torch.Tensor):
            return torch.empty_like(ctx.like)
        shape, dtype, device = ctx.like
        return torch.empty(shape, dtype=dtype, device=device)
