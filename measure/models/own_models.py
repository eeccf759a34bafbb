"""A user's own models: functions ``package.module:function`` that make a network and its inputs for a batch size.

The function takes the batch size and returns ``(network, inputs)``: a ``torch.nn.Module``, and a tensor, a tuple of
arguments or a dictionary of keyword arguments. Arguments are tensors, numbers, None, or tuples, lists and dictionaries
of them; at least one tensor has the batch as its first dimension, unless the function says where the batch is
(``roofwright.batch_axis``) or a keyword argument is called ``batch``. The function is called once per device, with that
device as torch's default: first for the meta device, to describe and count the model.
"""

import fnmatch
import importlib
import inspect
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from types import ModuleType
from typing import TYPE_CHECKING, Any

from measure.domain.models import OWN, Model
from measure.errors import UserError, in_short, nearest
from measure.machine import settings
from measure.models.call import Call, cast, copy_to_meta, meta_allocation, move_to_meta, refuse_hidden, refuse_layouts
from measure.models.draws import same_draws
from measure.models.tensors import is_castable

if TYPE_CHECKING:
    import torch

PROBE = 2  # the batch size of the first call; at 1, another dimension of size 1 could pass for the batch
CONTRACT = "return a torch.nn.Module and its inputs, (network, inputs)"


class RaisedError(Exception):
    """A user's code raised an exception; the text is a short form of it."""


class BrokenModelError(UserError):
    """A user's code exists, and fails. A run of several models measures the others."""


class ContractError(ValueError):
    """A function returned something wrong. The text follows the function's name, and ends with a remedy."""


def describe(name: str) -> Model:
    """Return a function's model. Its input shape comes from the first tensor with a batch, without the batch.

    It comes from the first tensor for one input if no dimension is the batch. Raises UserError if the function does not
    exist, raises, or returns something wrong.
    """
    function = _find(name)
    batch = PROBE
    try:
        call = _make_call_without_memory(function, batch)
        axis = _batch_axis(function, call)
        if axis is None:
            call = _make_call_without_memory(function, 1)
            shape = next(tuple(leaf.shape) for leaf in _leaves(call).values() if hasattr(leaf, "shape"))
        else:
            batched = {_is_batched(leaf, batch, axis): leaf for leaf in reversed(_tensors(call).values())}
            first = batched[True]
            if False in batched:  # the edges of a graph are two rows whatever the batch
                _make_call_without_memory(function, batch := 2 * batch)
            rows = first.unbind() if first.is_nested else [first.select(axis, 0)]
            shape = tuple(map(max, zip(*(row.shape for row in rows), strict=True)))  # rows may differ in length
    except ContractError as problem:
        raise BrokenModelError(f"--models: {name} {problem}") from None
    except (Exception, SystemExit) as problem:  # user code may raise anything, and a script may exit
        why = f"--models: {name}({batch}) raised {in_short(problem)}; fix it: its argument is the batch size"
        raise BrokenModelError(why) from None
    return Model(name, OWN, OWN, shape or (1,))


def prepare(model: Model, batch: int, device: str, dtype: "torch.dtype") -> Call:
    """Build the network in eval mode and its inputs on a device. Tensors of 16 and 32 bits get the type ``dtype``."""
    import torch

    with torch.device(device):
        call = _make_call(_find(model.name), batch)
    cast(call.network.to(device), dtype).eval()
    return call.with_inputs(lambda tensor: tensor.to(device, dtype if is_castable(tensor) else None))


def prepare_on_meta(model: Model, batch: int, keep_constants: bool = False) -> Call:
    """Build the same without memory. Raises NotImplementedError if the network cannot be counted."""
    function = _find(model.name)
    try:
        with same_draws(root=function):
            call = _make_call_without_memory(function, batch, keep_constants)
    except Exception as problem:  # user code may raise anything
        raise NotImplementedError(f"{model.name}({batch}) raised {in_short(problem)}") from problem
    refuse_hidden(call.network)
    refuse_layouts(call)
    call.network.eval()
    try:
        return copy_to_meta(call, keep_constants)  # the function may return the same network each time
    except Exception:  # a lock or an open file in an attribute cannot be copied
        return move_to_meta(call, keep_constants)


_dtypes: "dict[str, torch.dtype]" = {}
"""The default type that the import of each module sets, under which its functions run, in whatever process."""


def match(pattern: str) -> list[str]:
    """Return the functions of a module that a glob selects, ``package.module:GLOB``. Raises UserError if there is none.

    A module may list names of functions in ``__dir__`` that its ``__getattr__`` makes (PEP 562).
    """
    path, _, glob = pattern.partition(":")
    names = _function_names(_import(pattern))
    found = [f"{path}:{name}" for name in names if fnmatch.fnmatchcase(name, glob)]
    if not found:
        hint = f"there is {', '.join(names[:5])}" if names else f"define one there: {CONTRACT}"
        raise UserError(f"--models: no function of the module {path} fits {glob!r}; {hint}")
    return found


def _import(name: str) -> ModuleType:
    """Import the module of a function, whose default type holds for its functions. Raises UserError."""
    path = name.partition(":")[0]
    if not all(part.isidentifier() for part in path.split(".")):
        raise UserError(f"--models: {name} is not of the form package.module:function")
    try:
        with settings.preserve():
            module = importlib.import_module(path)
            import torch

            _dtypes.setdefault(path, torch.get_default_dtype())
    except (Exception, SystemExit) as problem:  # a module may raise anything, and a script may exit
        if isinstance(problem, ModuleNotFoundError) and f"{path}.".startswith(f"{problem.name}."):
            why = f"there is no module {path} for {name}, nor a library of models; run where python can import it"
        else:
            why = f"importing the module {path} of {name} raised {in_short(problem)}; fix that first"
            raise BrokenModelError(f"--models: {why}") from None
        raise UserError(f"--models: {why}") from None
    return module


def _function_names(module: ModuleType) -> list[str]:
    functions = inspect.getmembers(module, inspect.isfunction)
    return [key for key, each in functions if each.__module__ == module.__name__ and key[0] != "_"]


def _find(name: str) -> Callable[[int], Any]:
    """Import a function. Raises UserError, with the nearest names, if there is none."""
    path, _, attribute = name.partition(":")
    module = _import(name)
    function: Callable[[int], Any] | None = getattr(module, attribute, None)
    if callable(function):
        return _under(_dtypes[path], function)
    names = _function_names(module)
    near = (nearest(attribute, names) or names)[:5]
    hint = f"there is {', '.join(near)}" if near else f"define a function there: {CONTRACT}"
    raise UserError(f"--models: the module {path} has no function {attribute!r}; {hint}")


def _under(dtype: "torch.dtype", function: Callable[[int], Any]) -> Callable[[int], Any]:
    """Let a function build under a default type, and restore the settings of the process after it."""

    @wraps(function)
    def build(batch: int) -> Any:
        import torch

        with settings.preserve():
            torch.set_default_dtype(dtype)
            return function(batch)

    return build


def _make_call_without_memory(function: Callable[[int], Any], batch: int, keep_constants: bool = False) -> Call:
    """Call the function so that tensors get no memory, or with memory if it needs values, as nested tensors do."""
    with suppress(Exception), meta_allocation(keep_constants):  # user code may raise anything
        call = _make_call(function, batch)
        if not any(getattr(leaf, "is_nested", False) for leaf in _leaves(call).values()):
            return call
    return _make_call(function, batch)


def _make_call(function: Callable[[int], Any], batch: int) -> Call:
    """Call the function. Raises ContractError unless it returns a network and inputs to measure it with."""
    import torch

    returned = function(batch)
    if not isinstance(returned, tuple) or len(returned) != 2 or not isinstance(returned[0], torch.nn.Module):
        types = [type(part).__name__ for part in (returned if isinstance(returned, tuple) else [returned])]
        raise ContractError(f"returns {', '.join(types)}; {CONTRACT}")
    network, inputs = returned
    call = Call.of(network, inputs)
    tensors = _tensors(call)
    axis = _batch_axis(function, call)
    if not tensors or not (axis is None or any(_is_batched(tensor, batch, axis) for tensor in tensors.values())):
        shapes = ", ".join(f"{place} {tuple(tensor.shape)}" for place, tensor in tensors.items()) or "no tensors"
        place = "the first dimension" if axis == 0 else f"dimension {axis}"
        remedy = "say where it is with roofwright.batch_axis, or return a dictionary with `batch`"
        raise ContractError(f"returned {shapes} for batch size {batch}; make the batch {place}, {remedy}")
    for place, tensor in tensors.items():
        if tensor.requires_grad:
            raise ContractError(f"returns {place} with requires_grad; make inputs that need no gradient")
    return call


def _leaves(call: Call) -> dict[str, Any]:
    """Return the innermost parts of the arguments by their places: ``inputs[0]``, ``inputs['mask']``."""
    from torch.utils._pytree import keystr, tree_leaves_with_path

    return {f"inputs{keystr(path)}": leaf for path, leaf in tree_leaves_with_path(call.keywords or call.inputs)}


def _tensors(call: Call) -> dict[str, Any]:
    import torch

    return {place: leaf for place, leaf in _leaves(call).items() if isinstance(leaf, torch.Tensor)}


def _batch_axis(function: Callable[[int], Any], call: Call) -> int | None:
    """Return the dimension of the batch; None if the function says so, or if ``batch`` assigns nodes to graphs."""
    return getattr(function, "batch_axis", None if "batch" in call.keywords else 0)


def _is_batched(leaf: Any, batch: int, axis: int) -> bool:
    shape = getattr(leaf, "shape", ())
    if getattr(leaf, "is_nested", False):
        return axis == 0 and bool(leaf.size(0) == batch)
    return -len(shape) <= axis < len(shape) and shape[axis] == batch
