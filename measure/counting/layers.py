"""The layers of a network: which modules have a row, what kind each is, and which parameters are its own."""

import re
from collections.abc import Mapping
from typing import Any

from torch import nn

from measure.counting.passes import Part
from measure.counting.recorder import Recorder
from measure.counting.traffic import storage_key

MODEL_ITSELF = "."
"""The path of operators and parameters that stand in no module but the model."""

ACTIVATIONS = tuple(
    getattr(nn.modules.activation, name)
    for name in nn.modules.activation.__all__
    if name != "MultiheadAttention"
)
NORMALISATIONS = (
    nn.modules.batchnorm._NormBase,
    nn.LayerNorm,
    nn.GroupNorm,
    nn.LocalResponseNorm,
    nn.CrossMapLRN2d,
)

BY_NAME = (
    ("attention", ("Attention",)),
    ("normalisation", ("Norm",)),
    ("pooling", ("Pool",)),
    ("activation", ("ReLU", "GELU", "GLU", "SiLU", "Swish", "Sigmoid", "Softmax", "Tanh")),
    ("embedding", ("Embed",)),
)
"""Kinds of modules that are not torch's own, by what their class's name ends with, dimensions and version apart."""


def kind_of(module: nn.Module) -> str:
    """One of ``LAYER_KINDS``, by the module's class; a class that is not torch's own goes by its name.

    A convolution is depthwise where each of its groups has one input channel, and there are several groups.
    """
    if isinstance(module, nn.modules.conv._ConvNd):
        depthwise = 1 < module.groups == module.in_channels
        return "depthwise convolution" if depthwise else "convolution"
    if isinstance(module, (nn.Linear, nn.Bilinear)):
        return "linear"
    if isinstance(module, nn.MultiheadAttention):
        return "attention"
    if isinstance(module, NORMALISATIONS):
        return "normalisation"
    if isinstance(module, ACTIVATIONS):
        return "activation"
    if isinstance(module, (nn.RNNBase, nn.RNNCellBase)):
        return "recurrent"
    if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        return "embedding"
    name = re.sub(r"(\d[dD]?|[vV]\d)$", "", type(module).__name__)
    return next((kind for kind, endings in BY_NAME if name.endswith(endings)), "other")


def owners(network: nn.Module, users: Mapping[int, nn.Module]) -> dict[nn.Module, list[nn.Parameter]]:
    """Each parameter once, under the module that first used it, else under the one that holds it."""
    owned: dict[nn.Module, list[nn.Parameter]] = {}
    seen: set[int] = set()
    for module in network.modules():
        for parameter in module.parameters(recurse=False):
            if id(parameter) not in seen:
                seen.add(id(parameter))
                owned.setdefault(users.get(storage_key(parameter), module), []).append(parameter)
    return owned


def layer_rows(network: nn.Module, inference: Recorder, training: Recorder | None) -> list[dict[str, Any]]:
    """A row for each leaf of the module tree and each module that has operators or parameters of its own.

    In the order in which they first run, those that do not run last. Without training, its columns are None.
    """
    owned = owners(network, inference.users)
    forward = inference.forward.parts
    trained = [training.forward.parts, training.backward.parts] if training else []
    own = set(owned)
    for parts in (forward, *trained):
        own |= {module for module, part in parts.items() if part != Part(calls=part.calls)}
    rows: list[dict[str, Any]] = []
    place = {module: position for position, module in enumerate(forward)}
    named = sorted(
        ((path, module) for path, module in network.named_modules()),
        key=lambda pair: place.get(pair[1], len(place)),
    )
    for path, module in named:
        if module not in own and next(module.children(), None) is not None:
            continue
        parameters = owned.get(module, [])
        part = inference.forward.part(module)
        row = {
            "position": len(rows),
            "path": path or MODEL_ITSELF,
            "type": type(module).__name__,
            "kind": kind_of(module),
            "calls": part.calls,
            "parameter_count": sum(parameter.numel() for parameter in parameters),
            "parameter_byte": sum(parameter.numel() * parameter.element_size() for parameter in parameters),
            "activation_byte": part.activation_byte,
            "traffic_byte": part.traffic_byte,
            "forward_flop": part.flop,
            "forward_other_flop": part.other_flop,
        }
        row |= training_columns(training, module)
        rows.append(row)
    return rows


def training_columns(training: Recorder | None, module: nn.Module) -> dict[str, int | None]:
    """A module's part of the backward pass, and of what is kept for it."""
    names = ("saved_byte", "backward_traffic_byte", "backward_flop", "backward_other_flop", "recompute_flop")
    if training is None:
        return dict.fromkeys(names)
    back = training.backward.part(module)
    values = (
        training.forward.part(module).saved_byte,
        back.traffic_byte,
        back.flop,
        back.other_flop,
        back.recompute_flop,
    )
    return dict(zip(names, values, strict=True))
