"""The models that can be measured, by name: the built-in list, all of torchvision, torchaudio and timm, language
models, a user's own.

Weights are random: the time of these networks does not depend on their values, and nothing is downloaded.
"""

import fnmatch
import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

from measure.domain.models import BUILT_IN, OWN, Model
from measure.errors import UserError, nearest
from measure.models import call, language_models, own_models, timm_models, torchaudio_models, torchvision_models
from measure.models.call import Call

if TYPE_CHECKING:
    import torch
    from torch import nn

LIBRARIES: dict[str, ModuleType] = {
    "torchvision": torchvision_models,
    "torchaudio": torchaudio_models,
    "timm": timm_models,
    "language": language_models,
}
"""The module for each library, by the name in ``--models LIBRARY:NAME`` and in a model's source.

The last are written here. Each has the functions ``matching``, ``describe``, ``native_shape``, ``build`` and
``make_inputs``.
"""


def find(
    patterns: Iterable[str], native_size: bool = False, describe: Callable[[str], Model] = own_models.describe
) -> list[Model]:
    """Return the models that names and globs select: the built-in ones first, in their order, and each once.

    ``LIBRARY:PATTERN`` selects among all models of a library, a pattern alone among the built-in ones;
    ``package.module:function`` is a user's own model (``own_models``). With ``native_size`` a model's input is what its
    published weights take; without, images are 3 x 224 x 224 where the model allows it. ``describe``
    returns an own model by its name: what users give is described in a process apart (``isolated``).

    Raises UserError for an unknown name, with the nearest known ones, for a missing library, and for a function that
    does not make a network and inputs.
    """
    chosen: dict[str, Model] = {}
    for pattern in patterns:
        chosen |= {model.name: model for model in _selected(pattern, describe)}
    order = {model.name: place for place, model in enumerate(BUILT_IN)}
    models = sorted(chosen.values(), key=lambda model: order.get(model.name, len(order)))
    return [_at_native_size(model) for model in models] if native_size else models


def _selected(pattern: str, describe: Callable[[str], Model]) -> list[Model]:
    library, colon, wanted = pattern.partition(":")
    if not colon:
        return _built_in(pattern)
    return _in_library(library, wanted) if library in LIBRARIES else [describe(pattern)]


def _built_in(pattern: str) -> list[Model]:
    models = [model for model in BUILT_IN if fnmatch.fnmatchcase(model.name, pattern)]
    if not models:
        near = _nearest(pattern, [model.name for model in BUILT_IN])
        hint = f"{near} (all: python -m measure --list)" if near else "python -m measure --list shows them all"
        raise UserError(f"--models: no model is called {pattern!r}; {hint}")
    return models


def _in_library(library: str, pattern: str) -> list[Model]:
    _require(library)
    known = LIBRARIES[library]
    names = known.matching(pattern)
    if not names:
        hint = _nearest(pattern, known.matching("*"))
        hint = hint or f"python -m measure --models '{library}:*' --plan shows them all"
        raise UserError(f"--models: {library} has no model {pattern!r}; {hint}")
    built_in = {model.name: model for model in BUILT_IN if model.source == library}
    return [built_in.get(name) or known.describe(name) for name in names]


def _at_native_size(model: Model) -> Model:
    if model.source == OWN:
        return model
    _require(model.source)
    return replace(model, input_shape=LIBRARIES[model.source].native_shape(model.name))


def _imported(library: str) -> str:
    """Return the package that a library's models are made with."""
    return "torch" if library == language_models.SOURCE else library


def _require(library: str) -> None:
    try:
        importlib.import_module(_imported(library))
    except ImportError:
        extra = "timm" if library == "timm" else "measure"
        raise UserError(
            f"--models: the models of {library} need it; install it with pip install 'roofwright[{extra}]'"
        ) from None


def _nearest(name: str, known: list[str]) -> str:
    near = nearest(name, known)
    return f"the nearest are {', '.join(near)}" if near else ""


def imported_by(model: Model) -> tuple[str, ...]:
    """Return the library that making a model imports; none for a user's own, which may import anything."""
    return (_imported(model.source),) if model.source in LIBRARIES else ()


def build(model: Model) -> "nn.Module":
    """Build a library's network in eval mode with random weights, on torch's default device.

    Auxiliary heads are built where the published parameter count has them, and are not executed, in training
    neither; no layer is left out at random (wav2vec 2.0, HuBERT and WavLM are built without layer drop).
    """
    return LIBRARIES[model.source].build(model).eval()


def build_on_meta(model: Model) -> "nn.Module":
    """Build a library's network without memory for its weights, to count on."""
    with call.allocating_nothing():
        return build(model).to("meta")


def make_inputs(model: Model, batch: int, device: str, dtype: "torch.dtype | None" = None) -> tuple[Any, ...]:
    """Return random arguments for one call of a library's network, for ``batch`` inputs.

    For most one tensor of shape (batch, *input_shape). Detection takes one list of ``batch`` images of shape
    input_shape, optical flow two images, and a few audio networks a second sound, a spectrogram, or text and
    lengths. ``dtype`` is that of the images, sounds and spectrograms.
    """
    return LIBRARIES[model.source].make_inputs(model, batch, device, dtype)


def prepare(model: Model, batch: int, device: str, dtype: "torch.dtype") -> Call:
    """Build the network in eval mode on a device and in a type, and its inputs, all random."""
    import torch

    if model.source == OWN:
        return own_models.prepare(model, batch, device, dtype)
    with torch.device(device):
        network = build(model).to(dtype)
    return Call(network, make_inputs(model, batch, device, dtype))


def prepare_on_meta(model: Model, batches: Sequence[int]) -> list[Call]:
    """Build the same without memory, at each of several batch sizes; a library's network is shared by them.

    Raises NotImplementedError where a user's own network cannot be made so.
    """
    if model.source == OWN:
        return [own_models.prepare_on_meta(model, batch) for batch in batches]
    network = build_on_meta(model)
    return [Call(network, make_inputs(model, batch, "meta")) for batch in batches]
