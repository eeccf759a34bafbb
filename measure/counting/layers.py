"""The rows of a network's layers and of their operators: which modules have one, their kinds, whose a parameter is."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from torch import nn

from measure.counting.memory import storage_key
from measure.counting.recorder import Call, Part, Recorder
from measure.domain.words import BACKWARD, FORWARD, INFERENCE

MODEL_ITSELF = "."
"""The path of operators and parameters that stand in no module but the model."""

ACTIVATIONS = tuple(
    getattr(nn.modules.activation, name) for name in nn.modules.activation.__all__ if name != "MultiheadAttention"
)
BATCH_NORMALISATION = nn.modules.batchnorm._NormBase
NORMALISATIONS = (BATCH_NORMALISATION, nn.LayerNorm, nn.GroupNorm, nn.LocalResponseNorm, nn.CrossMapLRN2d)

BY_CLASS = (
    ((nn.Linear, nn.Bilinear), "linear"),
    ((nn.MultiheadAttention,), "attention"),
    (NORMALISATIONS, "normalisation"),
    (ACTIVATIONS, "activation"),
    ((nn.RNNBase, nn.RNNCellBase), "recurrent"),
    ((nn.Embedding, nn.EmbeddingBag), "embedding"),
)

BY_NAME = (
    ("attention", ("Attention",)),
    ("normalisation", ("Norm",)),
    ("pooling", ("Pool",)),
    ("activation", ("ReLU", "GELU", "GLU", "SiLU", "Swish", "Sigmoid", "Softmax", "Tanh")),
    ("embedding", ("Embed",)),
)
"""Kinds of modules that are not torch's own, by the end of their class's name, dimensions and version apart."""


def kind_of(module: nn.Module) -> str:
    """Return one of ``LAYER_KINDS``, by the module's class, or by its name if the class is not torch's own.

    A convolution is depthwise where each of its groups has one input channel, and there are several groups.
    """
    if isinstance(module, nn.modules.conv._ConvNd):
        depthwise = 1 < module.groups == module.in_channels
        return "depthwise convolution" if depthwise else "convolution"
    for classes, kind in BY_CLASS:
        if isinstance(module, classes):
            return kind
    name = re.sub(r"(\d[dD]?|[vV]\d)$", "", type(module).__name__)
    return next((kind for kind, endings in BY_NAME if name.endswith(endings)), "other")


def owners(network: nn.Module, users: Mapping[int, nn.Module]) -> dict[nn.Module, list[nn.Parameter]]:
    """Return each parameter once, under the module that first used it, else under the one that holds it."""
    owned: dict[nn.Module, list[nn.Parameter]] = {}
    seen: set[int] = set()
    for module in network.modules():
        for parameter in module.parameters(recurse=False):
            if id(parameter) not in seen:
                seen.add(id(parameter))
                owned.setdefault(users.get(storage_key(parameter), module), []).append(parameter)
    return owned


def layer_rows(network: nn.Module, inference: Recorder, training: Recorder | None) -> list[dict[str, Any]]:
    """Return a row for each leaf of the module tree and each module with operators or parameters of its own.

    In the order in which they first run, those that do not run last. Without training, its columns are None.
    """
    owned = owners(network, inference.users)
    forward = inference.forward.parts
    trained = [training.forward.parts, training.backward.parts] if training else []
    busy = set(owned)
    for parts in (forward, *trained):
        busy |= {module for module, part in parts.items() if part != Part(calls=part.calls)}
    rows: list[dict[str, Any]] = []
    place = {module: position for position, module in enumerate(forward)}
    for path, module in sorted(network.named_modules(), key=lambda pair: place.get(pair[1], len(place))):
        if module not in busy and next(module.children(), None) is not None:
            continue
        parameters = owned.get(module, [])
        part = inference.forward.part(module)
        row = {
            "position": len(rows),
            "path": path or MODEL_ITSELF,
            "type": type(module).__name__,
            "layer_kind": kind_of(module),
            "calls": part.calls,
            "parameter_count": sum(parameter.numel() for parameter in parameters),
            "parameter_byte": sum(parameter.numel() * parameter.element_size() for parameter in parameters),
            "activation_byte": part.activation_byte,
            "traffic_byte": part.traffic_byte,
            "forward_flop": part.flop,
            "forward_other_flop": part.other_flop,
        }
        rows.append(row | training_columns(training, module))
    return rows


def training_columns(training: Recorder | None, module: nn.Module) -> dict[str, int | None]:
    """Return a module's part of the backward pass, and of what is kept for it."""
    names = ("saved_byte", "backward_traffic_byte", "backward_flop", "backward_other_flop", "recompute_flop")
    if training is None:
        return dict.fromkeys(names)
    back, saved_byte = training.backward.part(module), training.forward.part(module).saved_byte
    values = (saved_byte, back.traffic_byte, back.flop, back.other_flop, back.recompute_flop)
    return dict(zip(names, values, strict=True))


def call_rows(inference: Recorder, training: Recorder | None) -> list[dict[str, Any]]:
    """Return the counted columns of each ``Operator``, as they first run; without training, inference's alone.

    Equal calls in modules of one kind are one row.
    """
    stages = {INFERENCE: inference.forward}
    if training is not None:
        stages |= {FORWARD: training.forward, BACKWARD: training.backward}
    rows = []
    for stage, record in stages.items():
        kinds = {module: kind_of(module) for module in record.parts}
        calls: Counter[tuple[str, Call]] = Counter()
        for (module, call), number in record.calls.items():
            calls[kinds[module], call] += number
        for (kind, call), number in calls.items():
            row = {"stage": stage, "layer_kind": kind, "operator": call.operator, "byte": call.byte, "calls": number}
            rows.append(row | call.work._asdict())
    return rows
