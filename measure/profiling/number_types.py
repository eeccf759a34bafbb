"""The number types of a training step: of parameters, inputs, outputs and gradients of each layer, and of the loss."""

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from measure.domain.cell import Cell
from measure.domain.models import Model
from measure.domain.words import PRECISION_BYTE, STEP
from measure.machine import settings
from measure.machine.device import Device
from measure.models.tensors import held_tensors, torch_dtype
from measure.timing.calls import TrainingStep, prepare

if TYPE_CHECKING:
    import torch
    from torch import nn


@dataclass(frozen=True)
class LayerTypes:
    """The types of one layer's tensors in its last forward call, each once; empty if it has none.

    ``gradients`` are those of its parameters after the backward pass.
    """

    path: str
    type: str
    parameters: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    gradients: tuple[str, ...]


@dataclass(frozen=True)
class StepTypes:
    """The layers that ran, in order, the type of the loss, and the types of all parameters and gradients."""

    layers: tuple[LayerTypes, ...]
    loss: str
    parameters: tuple[str, ...]
    gradients: tuple[str, ...]


def names_of(tensors: Iterable[Any]) -> tuple[str, ...]:
    """Return each type once, by this project's name of it (``bf16``) or torch's (``int64``)."""
    return tuple(dict.fromkeys(_name(each.dtype) for each in tensors if each is not None))


def _name(dtype: "torch.dtype") -> str:
    known = {torch_dtype(name): name for name in PRECISION_BYTE}
    return known.get(dtype) or str(dtype).removeprefix("torch.")


def measure(device: Device, model: Model, cell: Cell) -> StepTypes:
    """Take a forward and a backward pass of a step, and note the types. Call ``device.prepare`` first.

    A layer is a module without submodules, or with parameters of its own. Raises ValueError for a cell of inference,
    and the exceptions of torch and ``prepare``.
    """
    if cell.phase != STEP:
        raise ValueError(f"{cell.phase} has no gradients")
    step = prepare(device, model, cell)
    assert isinstance(step, TrainingStep)
    seen: dict[str, tuple[nn.Module, tuple[str, ...], tuple[str, ...]]] = {}

    def note(path: str, module: "nn.Module", inputs: Any, keywords: Any, output: Any) -> None:
        seen[path] = module, names_of(held_tensors([inputs, keywords])), names_of(held_tensors(output))

    with ExitStack() as hooks:
        for path, module in step.network.named_modules():
            if not [*module.children()] or [*module.parameters(recurse=False)]:
                hook = module.register_forward_hook(partial(note, path or "."), with_kwargs=True)
                hooks.callback(hook.remove)
        step.forward()
        loss = _name(step.distance.dtype)
        step.backward()
    settings.check(step.held, model.name)
    layers = []
    for path, (module, inputs, outputs) in seen.items():
        own = list(module.parameters(recurse=False))
        gradients = names_of(each.grad for each in own)
        layers.append(LayerTypes(path, type(module).__name__, names_of(own), inputs, outputs, gradients))
    whole = list(step.network.parameters())
    return StepTypes(tuple(layers), loss, names_of(whole), names_of(each.grad for each in whole))
