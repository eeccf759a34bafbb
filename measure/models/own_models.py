"""A user's own models: functions ``package.module:function`` that make a network and its inputs for a batch size.

The function takes the batch size and returns ``(network, inputs)``: a ``torch.nn.Module``, and a tensor, a tuple of
arguments or a dictionary of keyword arguments. Arguments are tensors, numbers, None, or tuples, lists and dictionaries
of them; at least one tensor has the batch as its first dimension. The function is called once per device, with that
device as torch's default: first for the meta device, to describe and count the model.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

from measure.domain.models import OWN, Model
from measure.errors import UserError, in_short, nearest
from measure.models.call import Call, map_tensors, meta_allocation, move_to_meta

if TYPE_CHECKING:
    import torch

PROBE = 2
"""The batch size of the first call. At 1, another dimension of size 1 could pass for the batch."""

CONTRACT = "return a torch.nn.Module and its inputs, (network, inputs)"

Function = Callable[[int], Any]


class RaisedError(Exception):
    """A user's code raised something; the text says what, in short."""


class ContractError(ValueError):
    """A function returned something wrong. The text follows the function's name and says what to do."""


def describe(name: str) -> Model:
    """Return a function's model. Its input shape is that of the first tensor whose first dimension is the batch.

    Raises UserError if the function does not exist, raises, or returns something wrong.
    """
    function = _find(name)
    try:
        call = _probe(function)
    except ContractError as problem:
        raise UserError(f"--models: {name} {problem}") from None
    except (Exception, SystemExit) as problem:  # user code may raise anything, and a script may exit
        why = f"--models: {name}({PROBE}) raised {in_short(problem)}; fix it: its argument is the batch size"
        raise UserError(why) from None
    first = next(tensor for _, tensor in _tensors(call) if _is_batched(tensor, PROBE))
    return Model(name, OWN, OWN, tuple(first.shape[1:]) or (1,))


def prepare(model: Model, batch: int, device: str, dtype: "torch.dtype") -> Call:
    """Build the network in eval mode and its inputs on a device. Floating-point tensors get the type ``dtype``.

    Raises ContractError, and whatever the function raises.
    """
    import torch

    with torch.device(device):
        call = _make_call(_find(model.name), batch)

    def move(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(device, dtype if tensor.is_floating_point() else None)

    network = call.network.to(device).to(dtype)
    return Call(network.eval(), map_tensors(call.inputs, move), map_tensors(call.keywords, move))


def prepare_on_meta(model: Model, batch: int) -> Call:
    """Build the same without memory. Raises NotImplementedError if the function needs values."""
    try:
        return _make_meta_call(_find(model.name), batch)
    except Exception as problem:  # user code may raise anything
        raise NotImplementedError(
            f"{model.name} makes no network on the meta device, on which models are counted: {in_short(problem)}"
        ) from problem


def _find(name: str) -> Function:
    """Import a function. Raises UserError, with the nearest names, if there is none."""
    path, _, attribute = name.partition(":")
    if path.endswith(".py") or "/" in path or "\\" in path:
        dotted = path.removeprefix("./").removesuffix(".py").replace("\\", ".").replace("/", ".").strip(".")
        raise UserError(f"--models: {name} names a file; name its module, {dotted}:{attribute or 'function'}")
    module = _import_module(path, name)
    function: Function | None = getattr(module, attribute, None)
    if callable(function):
        return function
    names = [
        key
        for key, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and key[0] != "_"
    ]
    near = nearest(attribute, names) or names
    hint = f"there is {', '.join(near[:5])}" if near else f"define a function there: {CONTRACT}"
    raise UserError(f"--models: the module {path} has no function {attribute!r}; {hint}")


def _import_module(path: str, name: str) -> ModuleType:
    if not all(part.isidentifier() for part in path.split(".")):
        raise UserError(f"--models: {name} is not of the form package.module:function")
    try:
        return importlib.import_module(path)
    except (Exception, SystemExit) as problem:  # a module may raise anything, and a script may exit
        missing = problem.name if isinstance(problem, ModuleNotFoundError) else None
        if missing is None or not f"{path}.".startswith(f"{missing}."):
            why = f"--models: importing the module {path} raised {in_short(problem)}; fix that first"
            raise UserError(why) from None
    near = nearest(path, _sibling_modules(path))
    hint = f"the nearest are {', '.join(near)}" if near else "run where python can import it"
    raise UserError(f"--models: there is no module {path} for {name}, nor a library of models; {hint}")


def _sibling_modules(path: str) -> Iterator[str]:
    """Yield the modules of the same package, or of the current folder for a top-level module."""
    package, dot, _ = path.rpartition(".")
    try:
        places = list(importlib.import_module(package).__path__) if package else ["."]
    except (ImportError, AttributeError):
        return
    for module in pkgutil.iter_modules(places):
        yield f"{package}{dot}{module.name}"


def _probe(function: Function) -> Call:
    """Return a checked call at a small batch size, without memory unless the function needs values."""
    try:
        call = _make_meta_call(function, PROBE)
    except ContractError:
        raise
    except Exception:  # user code may raise anything
        call = _make_call(function, PROBE)
        _check_placement(call)
    try:
        inspect.signature(call.network.forward).bind(*call.inputs, **call.keywords)
    except ValueError:  # compiled: Python cannot read its signature
        pass
    except TypeError as problem:
        raise ContractError(f"returns inputs that forward does not take: {problem}; {CONTRACT}") from None
    return call


def _make_meta_call(function: Function, batch: int) -> Call:
    with meta_allocation():
        call = _make_call(function, batch)
    _check_placement(call)
    return move_to_meta(Call(call.network.eval(), call.inputs, call.keywords))


def _make_call(function: Function, batch: int) -> Call:
    """Call the function. Raises ContractError unless it returns a network and inputs to measure it with."""
    import torch

    returned = function(batch)
    if not isinstance(returned, tuple) or len(returned) != 2 or not isinstance(returned[0], torch.nn.Module):
        raise ContractError(f"returns {_type_name(returned)}; {CONTRACT}")
    network, inputs = returned
    if isinstance(inputs, dict):
        call = Call(network, (), dict(inputs))
    else:
        call = Call(network, tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,))
    for place, leaf in _leaves(call.keywords or call.inputs, "inputs"):
        if not isinstance(leaf, (torch.Tensor, bool, int, float, type(None))):
            raise ContractError(
                f"returns {_type_name(leaf)} as {place}; make it a torch.Tensor, or plain tuples, lists or dictionaries"
            )
    tensors = _tensors(call)
    if not any(_is_batched(tensor, batch) for _, tensor in tensors):
        shapes = ", ".join(f"{place} {tuple(tensor.shape)}" for place, tensor in tensors) or "no tensors"
        raise ContractError(f"returned {shapes} for batch size {batch}; the first dimension must be the batch")
    for place, tensor in tensors:
        if tensor.requires_grad:
            raise ContractError(f"returns {place} with requires_grad; make inputs that need no gradient")
    return call


def _type_name(value: Any) -> str:
    """Name a value's type; a tuple's by its parts."""
    if type(value) is tuple:
        return f"({', '.join(map(_type_name, value))})"
    return "None" if value is None else f"a {type(value).__name__}"


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the innermost parts of an argument with their places: ``inputs[0]``, ``inputs['mask']``."""
    if type(value) in (tuple, list):
        value = dict(enumerate(value))
    if type(value) is not dict:
        yield path, value
        return
    for key, part in value.items():
        yield from _leaves(part, f"{path}[{key!r}]")


def _tensors(call: Call) -> list[tuple[str, Any]]:
    """Return all tensors among the arguments with their places."""
    import torch

    leaves = _leaves(call.keywords or call.inputs, "inputs")
    return [(place, leaf) for place, leaf in leaves if isinstance(leaf, torch.Tensor)]


def _is_batched(tensor: "torch.Tensor", batch: int) -> bool:
    return tensor.ndim > 0 and tensor.shape[0] == batch


def _check_placement(call: Call) -> None:
    """Raise ContractError for weights without a size, and for tensors on a device that the function chose."""
    from torch.nn.parameter import is_lazy

    weights = [*call.network.named_parameters(), *call.network.named_buffers()]
    for place, tensor in weights:
        if is_lazy(tensor):
            raise ContractError(f"has no size for {place} before a first call; give lazy layers their sizes")
    for place, tensor in [*weights, *_tensors(call)]:
        if tensor.device.type not in ("meta", "cpu"):
            raise ContractError(f"makes {place} on {tensor.device}; name no device: --device sets torch's default")
