"""A user's own models: functions ``package.module:function`` that make a network and its inputs for a batch size.

The function takes the batch size and returns ``(network, inputs)``: a ``torch.nn.Module``, and a tensor, a tuple of
arguments or a dictionary of keyword arguments. Arguments are tensors, numbers, None, or tuples, lists and dictionaries
of them; at least one tensor has the batch as its first dimension. It is called for each device, set as torch's default:
first for the meta device, to describe and count the model.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

from measure.domain.models import OWN, Model
from measure.errors import UserError, in_short, nearest
from measure.models import call as meta
from measure.models.call import Call, mapped

if TYPE_CHECKING:
    import torch

PROBE = 2
"""The batch size at which a function is tried; with 1, another dimension could be mistaken for the batch."""

CONTRACT = "return a torch.nn.Module and its inputs, (network, inputs)"

Function = Callable[[int], Any]


class RaisedError(Exception):
    """A user's code raised something; the text says what, in short."""


class ContractError(ValueError):
    """A function returned something else than it must; the text says what is wrong and what to do."""


def describe(name: str) -> Model:
    """Return a function's model; its input is the first whose first dimension is the batch.

    Raises UserError where there is no such function, and where it raises or returns something else.
    """
    function = _find(name)
    try:
        call = _describable(function)
    except ContractError as problem:
        raise UserError(f"--models: {name} {problem}") from None
    except (Exception, SystemExit) as problem:  # a user's function may raise anything, and a script may end
        why = f"--models: {name}({PROBE}) raised {in_short(problem)}; fix it: its argument is the batch size"
        raise UserError(why) from None
    first = next(tensor for _, tensor in _tensors(call) if _is_batched(tensor, PROBE))
    return Model(name, OWN, OWN, tuple(first.shape[1:]) or (1,))


def prepare(model: Model, batch: int, device: str, dtype: "torch.dtype") -> Call:
    """Build the network in eval mode and its inputs on a device, both in a type where they are floating.

    Raises ContractError, and whatever the function raises.
    """
    import torch

    with torch.device(device):
        call = _called(_find(model.name), batch)

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(device, dtype if tensor.is_floating_point() else None)

    network = call.network.to(device).to(dtype)
    return Call(network.eval(), mapped(call.inputs, moved), mapped(call.keywords, moved))


def prepare_on_meta(model: Model, batch: int) -> Call:
    """Build the same without memory. Raises NotImplementedError where the function needs values."""
    try:
        return _on_meta(_find(model.name), batch)
    except Exception as problem:  # a user's function may raise anything
        raise NotImplementedError(
            f"{model.name} makes no network on the meta device, on which models are counted: {in_short(problem)}"
        ) from problem


def _find(name: str) -> Function:
    """Import the function of a name. Raises UserError, with the nearest names, where there is none."""
    path, _, attribute = name.partition(":")
    if path.endswith(".py") or "/" in path or "\\" in path:
        dotted = path.removeprefix("./").removesuffix(".py").replace("\\", ".").replace("/", ".").strip(".")
        raise UserError(f"--models: {name} names a file; name its module, {dotted}:{attribute or 'function'}")
    module = _imported(path, name)
    known = [key for key, value in vars(module).items() if _is_function_of(module, value)]
    if attribute not in vars(module):
        there = nearest(attribute, known) or known
        hint = f"there is {', '.join(there[:5])}" if there else f"define a function there: {CONTRACT}"
        raise UserError(f"--models: the module {path} has no function {attribute!r}; {hint}")
    function: Function = getattr(module, attribute)
    if not callable(function):
        raise UserError(
            f"--models: {name} is a {type(function).__name__}, not a function of the batch size; {CONTRACT} from one"
        )
    return function


def _is_function_of(module: ModuleType, value: Any) -> bool:
    return inspect.isfunction(value) and value.__module__ == module.__name__ and value.__name__[0] != "_"


def _imported(path: str, name: str) -> ModuleType:
    if not all(part.isidentifier() for part in path.split(".")):
        raise UserError(f"--models: {name} is not of the form package.module:function")
    try:
        return importlib.import_module(path)
    except (Exception, SystemExit) as problem:  # a module may raise anything, and a script may end
        missing = problem.name if isinstance(problem, ModuleNotFoundError) else None
        if missing is None or not f"{path}.".startswith(f"{missing}."):
            why = f"--models: importing the module {path} raised {in_short(problem)}; fix that first"
            raise UserError(why) from None
    near = nearest(path, _modules_beside(path))
    hint = f"the nearest are {', '.join(near)}" if near else "run where python can import it"
    raise UserError(f"--models: there is no module {path} for {name}, nor a library of models; {hint}")


def _modules_beside(path: str) -> Iterator[str]:
    """Yield the modules beside a module: in its package, or in the folder that Python runs in."""
    package, _, _ = path.rpartition(".")
    try:
        places = list(importlib.import_module(package).__path__) if package else ["."]
    except (ImportError, AttributeError):
        return
    for found in pkgutil.iter_modules(places):
        yield f"{package}.{found.name}" if package else found.name


def _describable(function: Function) -> Call:
    """Return a checked call at a small batch size, without memory unless the function needs values."""
    try:
        call = _on_meta(function, PROBE)
    except ContractError:
        raise
    except Exception:  # a user's function may raise anything
        call = _called(function, PROBE)
        _check_placement(call)
    _check_arguments(call)
    return call


def _on_meta(function: Function, batch: int) -> Call:
    with meta.allocating_nothing():
        call = _called(function, batch)
    _check_placement(call)

    return meta.moved(Call(call.network.eval(), call.inputs, call.keywords))


def _called(function: Function, batch: int) -> Call:
    """Call the function. Raises ContractError where it does not return a network and its inputs."""
    from torch import nn

    returned = function(batch)
    if not isinstance(returned, tuple) or len(returned) != 2 or not isinstance(returned[0], nn.Module):
        raise ContractError(f"returns {_kind(returned)}; {CONTRACT}")
    network, inputs = returned
    if isinstance(inputs, dict):
        call = Call(network, (), dict(inputs))
    else:
        call = Call(network, tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,))
    _check_inputs(call, batch)
    return call


def _kind(value: Any) -> str:
    """Name a value's type, of a tuple those of its parts."""
    if type(value) is tuple:
        return f"({', '.join(map(_kind, value))})"
    return "None" if value is None else f"a {type(value).__name__}"


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the parts of an argument, each with its place in it."""
    if type(value) in (tuple, list):
        value = dict(enumerate(value))
    if type(value) is not dict:
        yield path, value
        return
    for key, part in value.items():
        yield from _leaves(part, f"{path}[{key!r}]")


def _tensors(call: Call) -> list[tuple[str, Any]]:
    """Return all tensors among the arguments, each with its place: ``inputs[0]``, ``inputs['mask']``."""
    import torch

    leaves = _leaves(call.keywords or call.inputs, "inputs")
    return [(place, leaf) for place, leaf in leaves if isinstance(leaf, torch.Tensor)]


def _is_batched(tensor: "torch.Tensor", batch: int) -> bool:
    return tensor.ndim > 0 and tensor.shape[0] == batch


def _check_inputs(call: Call, batch: int) -> None:
    """Raise ContractError for arguments that a network cannot be measured with."""
    import torch

    for key in call.keywords:
        if not isinstance(key, str):
            raise ContractError(f"names an argument by {key!r}; name keyword arguments by strings")
    for place, leaf in _leaves(call.keywords or call.inputs, "inputs"):
        if not isinstance(leaf, (torch.Tensor, bool, int, float, type(None))):
            raise ContractError(
                f"returns {_kind(leaf)} as {place}; make it a torch.Tensor, or plain tuples, lists or dictionaries"
            )
    tensors = _tensors(call)
    if not any(_is_batched(tensor, batch) for _, tensor in tensors):
        shapes = ", ".join(f"{place} {tuple(tensor.shape)}" for place, tensor in tensors) or "no tensors"
        raise ContractError(
            f"was asked for batch size {batch} and returned {shapes}; the first dimension must be the batch"
        )
    for place, tensor in tensors:
        if tensor.requires_grad:
            raise ContractError(f"returns {place} with requires_grad; make inputs that need no gradient")


def _check_placement(call: Call) -> None:
    """Raise ContractError for weights without a size, and for tensors on a device that was not asked for."""
    from torch.nn.parameter import is_lazy

    named = [*call.network.named_parameters(), *call.network.named_buffers()]
    for place, tensor in named:
        if is_lazy(tensor):
            raise ContractError(f"has no size for {place} before a first call; give lazy layers their sizes")
    for place, tensor in [*named, *_tensors(call)]:
        if tensor.device.type not in ("meta", "cpu"):
            raise ContractError(f"makes {place} on {tensor.device}; name no device: --device sets torch's default")


def _check_arguments(call: Call) -> None:
    """Raise ContractError for arguments that the network's ``forward`` does not take."""
    try:
        signature = inspect.signature(call.network.forward)
    except (TypeError, ValueError):  # compiled to something that Python cannot look into
        return
    try:
        signature.bind(*call.inputs, **call.keywords)
    except TypeError as problem:
        raise ContractError(f"returns inputs that forward does not take: {problem}; {CONTRACT}") from None
