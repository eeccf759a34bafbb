"""Find, build and feed models by name: the built-in list, five libraries, a user's own."""

import fnmatch
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from measure.domain.models import BUILT_IN, OWN, Model
from measure.errors import UserError, as_called, by_spaces, nearest
from measure.models import own_models
from measure.models.call import Call, allocating_in, cast, meta_allocation, move_to_meta
from measure.models.draws import same_draws
from measure.models.hugging_face import HuggingFace
from measure.models.libraries import TIMM, Language, Timm, Torchaudio, Torchvision, import_package

if TYPE_CHECKING:
    import torch
    from torch import nn


AnyLibrary = Torchvision | Torchaudio | Timm | Language | HuggingFace
# Each library by its name in ``--models LIBRARY:PATTERN``, which is also the source of its models.
LIBRARIES: dict[str, AnyLibrary] = {
    each.source: each for each in (Torchvision(), Torchaudio(), TIMM, Language(), HuggingFace())
}


def find(
    patterns: Iterable[str], native_size: bool = False, describe: Callable[[str], Model] = own_models.describe
) -> list[Model]:
    """Return the selected models, each once: the built-in ones first, in their order.

    A pattern is a name or a glob among the built-in models, or else the language models, ``LIBRARY:PATTERN`` for all
    models of a library, or ``package.module:function`` for a user's own, which ``describe`` returns. ``native_size``
    selects the input shape of the published weights; otherwise images are 3 x 224 x 224 if the model allows it. Raises
    UserError.
    """
    built_in = {(model.source, model.name): model for model in BUILT_IN}
    chosen: dict[str, Model] = {}
    for pattern in patterns:
        source, colon, name = pattern.partition(":")
        if not colon:
            models = [model for model in BUILT_IN if fnmatch.fnmatchcase(model.name, pattern)]
            language = LIBRARIES["language"]
            models = models or [language.describe(each) for each in language.match(pattern)]
            if not models:
                if others := [each for each in LIBRARIES if _has(each, pattern)]:
                    meant = " or ".join(f"{each}:{pattern}" for each in others)
                    raise UserError(f"--models: {pattern} is not built in; write {meant}")
                raise _unknown("no model is called", pattern, [model.name for model in BUILT_IN], "--list")
        elif source in LIBRARIES:
            library = _library(source)
            names = library.match(name)
            if not names:
                raise _unknown(f"{source} has no model", name, library.names(), f"--models '{source}:*' --plan")
            models = [built_in.get((source, each)) or library.describe(each) for each in names]
        else:
            models = [describe(pattern)]
        chosen |= {model.name: model for model in models}
    order = {model.name: place for place, model in enumerate(BUILT_IN)}
    models = sorted(chosen.values(), key=lambda model: order.get(model.name, len(order)))
    if native_size:
        shapes = [m.input_shape if m.source == OWN else _library(m.source).native_shape(m.name) for m in models]
        models = [replace(model, input_shape=shape) for model, shape in zip(models, shapes, strict=True)]
    return models


def knows(name: str) -> bool:
    """Whether a name is of one model here. A user's own model is not imported to find out."""
    source, colon, _ = name.partition(":")
    try:
        return (not colon or source in LIBRARIES) and [model.name for model in find([name])] == [name]
    except UserError:
        return False


def is_own(name: str) -> bool:
    """Whether a name in ``--models`` is of a user's own function."""
    source, colon, _ = name.partition(":")
    return bool(colon) and source not in LIBRARIES


def _has(source: str, pattern: str) -> bool:
    """Whether a library is installed and has models of this name or glob."""
    try:
        library = _library(source)
    except UserError:
        return False
    is_glob = any(mark in pattern for mark in "*?[")
    return bool(fnmatch.filter(library.names(), pattern) or (not is_glob and library.match(pattern)))


def _unknown(problem: str, name: str, names: list[str], flags: str) -> UserError:
    if several := by_spaces(name):
        return UserError(f"--models: {problem} {name!r}{several}")
    near = nearest(name, names)
    hint = f"the nearest are {', '.join(near)}; " if near else ""
    return UserError(f"--models: {problem} {name!r}; {hint}{as_called('measure')} {flags} shows them all")


def _library(name: str) -> AnyLibrary:
    library = LIBRARIES[name]
    try:
        import_package(library.package)
    except ImportError:
        why = f"need {library.package}; install it with pip install 'roofwright[{library.extra}]'"
        raise UserError(f"--models: the models of {name} {why}") from None
    return library


def imported_by(model: Model) -> tuple[str, ...]:
    """Return the package that building a model imports; none for an own model, because it may import anything."""
    return (LIBRARIES[model.source].package,) if model.source in LIBRARIES else ()


def refuse_quantised(model: Model) -> None:
    """Raise NotImplementedError for a network that a server stores in few bits: built here, it would be another one."""
    library = LIBRARIES.get(model.source)
    if isinstance(library, HuggingFace) and library.is_quantised(model.name):
        why = "its weights are quantised, and torch alone has no kernels for them: its FLOP and bytes are counted"
        raise NotImplementedError(f"{why}; to time it at 16 bits, leave out its quantization_config")


def build(model: Model) -> "nn.Module":
    """Build a library's network in eval mode with random weights, on torch's default device."""
    return LIBRARIES[model.source].build(model).eval()


def _build_in(dtype: "torch.dtype", model: Model) -> "nn.Module":
    """Build a network with its weights in a type, or in fp32 if its constructor cannot compute with such weights.

    RWKV makes orthogonal ones, which LAPACK does in fp32 alone; SSDlite tries its backbone on an image of fp32.
    """
    import torch

    try:
        with allocating_in(dtype):
            return build(model)
    except RuntimeError as problem:
        if isinstance(problem, torch.OutOfMemoryError):
            raise
    return build(model)


def build_on_meta(model: Model, keep_constants: bool = False) -> "nn.Module":
    with meta_allocation(keep_constants):
        network = build(model)
    return move_to_meta(Call(network, ()), keep_constants).network


def make_inputs(
    model: Model, batch: int, device: str, dtype: "torch.dtype | None" = None
) -> tuple[Any, ...] | dict[str, Any]:
    """Return random arguments for one call of a library's network: images, sounds and caches in type ``dtype``."""
    return LIBRARIES[model.source].make_inputs(model, batch, device, dtype)


def prepare(model: Model, batch: int, device: str, dtype: "torch.dtype") -> Call:
    """Build a network in eval mode and its inputs, with random values, on a device and in a type."""
    import torch

    if model.source == OWN:
        return own_models.prepare(model, batch, device, dtype)
    with torch.device(device):
        network = cast(_build_in(dtype, model), dtype)
    return Call.of(network, make_inputs(model, batch, device, dtype))


def prepare_on_meta(model: Model, batches: Sequence[int], keep_constants: bool = False) -> list[Call]:
    """Build a call per batch size on the meta device, with the same random numbers for each.

    Raises NotImplementedError for an own model that needs values.
    """
    if model.source == OWN:
        return [own_models.prepare_on_meta(model, batch, keep_constants) for batch in batches]
    with same_draws():
        network = build_on_meta(model, keep_constants)
        return [Call.of(network, make_inputs(model, batch, "meta")) for batch in batches]
