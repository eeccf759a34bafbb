"""The models of timm."""

from typing import TYPE_CHECKING, Any

from measure.domain.models import IMAGE, Model

if TYPE_CHECKING:
    import torch
    from torch import nn

PREFIX = "timm:"
"""Part of a model's name here: timm and torchvision have models of the same names that differ."""


def matching(pattern: str) -> list[str]:
    """Return the names that a name, with or without its tag, or a glob selects."""
    import timm

    return [pattern] if timm.is_model(pattern) else timm.list_models(pattern)


def describe(name: str) -> Model:
    """Return the model at the input size of its default weights."""
    return Model(PREFIX + name, "timm", "other", native_shape(name))


def family(name: str) -> str:
    """Return the module of timm that builds the model: networks of one paper, or of a few that are close."""
    import timm

    return timm.models.model_entrypoint(_today(name)).__module__.rpartition(".")[2]


def native_shape(name: str) -> tuple[int, ...]:
    """Return the shape of one image that the default weights take; 3 x 224 x 224 if it has none."""
    import timm

    settings = timm.models.get_pretrained_cfg(_today(name), allow_unregistered=False)
    return tuple(settings.input_size) if settings else IMAGE


def _today(name: str) -> str:
    """Return the name under which timm knows a model of an earlier version's name, which it still builds."""
    import timm

    known = name.removeprefix(PREFIX)
    return timm.models.get_deprecated_models().get(known) or known


def build(model: Model) -> "nn.Module":
    """Build it for its input size: a network that takes one size alone, such as a transformer, is told that size."""
    import timm

    name = model.name.removeprefix(PREFIX)
    if model.input_shape == native_shape(name):
        return timm.create_model(name, pretrained=False)
    try:
        return timm.create_model(name, pretrained=False, img_size=model.input_shape[-2:])
    except TypeError:  # it takes any size
        return timm.create_model(name, pretrained=False)


def make_inputs(model: Model, batch: int, device: str, dtype: "torch.dtype | None") -> tuple[Any, ...]:
    import torch

    return (torch.randn(batch, *model.input_shape, device=device, dtype=dtype),)
