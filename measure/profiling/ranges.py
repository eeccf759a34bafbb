"""Which module, and which stage of a step, runs when: named ranges on the timeline of torch's profiler."""

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import nn

MODULE, STAGE = "module: ", "stage: "
"""What the names of ranges begin with; a module's path or a stage follows."""


def opened(name: str) -> "AbstractContextManager[Any]":
    """Open a range of this name, as torch.profiler.record_function does, in a tenth of the time."""
    from torch._C._profiler import _RecordFunctionFast

    begun = _RecordFunctionFast(name)
    begun.__enter__()
    return begun


class ModuleRanges:
    """Within it, each forward call of a module of the network is a range, and so is each gradient's arrival.

    A range is named after the module's path in the network. Where gradients are on, that of the arrival of a
    parameter's gradient is named after the module that holds the parameter; and autograd numbers the nodes of its graph
    as they are made, so that ``path_of_node`` knows in which module each was.

    The hooks are those for all modules at once: some modules run other operators when they have hooks of their own.
    They and the ranges take some 6 µs of the host's time for each call of a module, between operators and not in them.
    """

    def __init__(self, network: "nn.Module") -> None:
        from measure.counting.layers import MODEL_ITSELF

        self._network = network
        self._paths = {module: path or MODEL_ITSELF for path, module in network.named_modules()}
        self._running: list[tuple[str, AbstractContextManager[Any]]] = []
        self._first_nodes: list[int] = []
        self._node_paths: list[str | None] = []
        self._undo = ExitStack()

    def path_of_node(self, number: int) -> str | None:
        """Return the path of the module in whose forward call autograd made the node; None outside of all."""
        place = bisect_right(self._first_nodes, number) - 1
        return self._node_paths[place] if place >= 0 else None

    def __enter__(self) -> "ModuleRanges":
        import torch
        from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

        self._undo.callback(register_module_forward_pre_hook(self._start).remove)
        self._undo.callback(register_module_forward_hook(self._stop, always_call=True).remove)
        if torch.is_grad_enabled():
            for parameter, path in self._held():
                arrive = partial(self._arrive, path)
                self._undo.callback(parameter.register_post_accumulate_grad_hook(arrive).remove)
        return self

    def __exit__(self, *problem: Any) -> None:
        self._undo.close()

    def _held(self) -> "Iterator[tuple[nn.Parameter, str]]":
        """Yield each parameter that gets a gradient, and the path of the first module that holds it."""
        seen = set()
        for module, path in self._paths.items():
            for parameter in module.parameters(recurse=False):
                if parameter.requires_grad and id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield parameter, path

    def _start(self, module: "nn.Module", _inputs: Any) -> None:
        path = self._paths.get(module)
        if path is not None:  # else made on the fly: its work is that of the module around it
            self._running.append((path, opened(MODULE + path)))
            self._mark()

    def _stop(self, module: "nn.Module", _inputs: Any, _output: Any) -> None:
        if module in self._paths:
            _, begun = self._running.pop()
            begun.__exit__(None, None, None)
            self._mark()

    def _mark(self) -> None:
        """Note that the nodes from here on are made in the module that runs now."""
        import torch

        self._first_nodes.append(torch.autograd._get_sequence_nr())
        self._node_paths.append(self._running[-1][0] if self._running else None)

    def _arrive(self, path: str, _parameter: "torch.Tensor") -> None:
        opened(MODULE + path).__exit__(None, None, None)
