"""Turn recorded passes into rows: one for each layer of a network, one for each distinct call of an operator."""

import re
from collections import Counter, defaultdict
from typing import Any

from torch import nn

from measure.counting.memory import storage_key
from measure.counting.recorder import ModuleTotals, OperatorCall, Recorder
from measure.domain.words import BACKWARD, FORWARD, INFERENCE

MODEL_ITSELF = "."
"""The path of the model, for operators and parameters outside its submodules."""

ACTIVATIONS = [name for name in nn.modules.activation.__all__ if name != "MultiheadAttention"]

KINDS_BY_CLASS: dict[str, tuple[type[nn.Module], ...]] = {
    "linear": (nn.Linear, nn.Bilinear),
    "attention": (nn.MultiheadAttention,),
    "normalisation": (
        *(nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.LocalResponseNorm, nn.CrossMapLRN2d),
    ),
    "activation": tuple(getattr(nn.modules.activation, name) for name in ACTIVATIONS),
    "recurrent": (nn.RNNBase, nn.RNNCellBase),
    "embedding": (nn.Embedding, nn.EmbeddingBag),
}
KINDS_BY_NAME = {
    "attention": ("Attention",),
    "normalisation": ("Norm",),
    "pooling": ("Pool",),
    "activation": ("ReLU", "GELU", "GLU", "SiLU", "Swish", "Sigmoid", "Softmax", "Tanh"),
    "embedding": ("Embed",),
}
"""Kinds of other modules by the end of the class's name, without dimensions and version."""


def kind_of(module: nn.Module) -> str:
    """Return one of ``LAYER_KINDS`` by the module's class, or by its name if the class is not torch's own.

    A convolution is depthwise if it has several groups of one input channel each.
    """
    if isinstance(module, nn.modules.conv._ConvNd):
        return "depthwise convolution" if 1 < module.groups == module.in_channels else "convolution"
    for kind, classes in KINDS_BY_CLASS.items():
        if isinstance(module, classes):
            return kind
    name = re.sub(r"(\d[dD]?|[vV]\d)$", "", type(module).__name__)
    return next((kind for kind, endings in KINDS_BY_NAME.items() if name.endswith(endings)), "other")


def layer_rows(network: nn.Module, inference: Recorder, training: Recorder | None) -> list[dict[str, Any]]:
    """Return a row for each leaf of the module tree and each module with operators or parameters of its own.

    A parameter belongs to the module that uses it first, or that holds it if none does. Rows are in the order of the
    first run; modules that do not run come last. Without training, its columns are None.
    """
    owned: defaultdict[nn.Module, list[nn.Parameter]] = defaultdict(list)
    seen: set[int] = set()
    for module in network.modules():
        for parameter in module.parameters(recurse=False):
            if id(parameter) not in seen:
                seen.add(id(parameter))
                owned[inference.users.get(storage_key(parameter), module)].append(parameter)
    passes = [inference.forward] + ([training.forward, training.backward] if training else [])
    busy = set(owned)
    for record in passes:
        busy |= {module for module, totals in record.modules.items() if totals != ModuleTotals(calls=totals.calls)}
    place = {module: position for position, module in enumerate(inference.forward.modules)}
    rows: list[dict[str, Any]] = []
    for path, module in sorted(network.named_modules(), key=lambda pair: place.get(pair[1], len(place))):
        if module not in busy and next(module.children(), None) is not None:
            continue
        totals = inference.forward.modules[module]
        forward, backward = (
            (training.forward.modules[module], training.backward.modules[module]) if training else (None, None)
        )
        rows.append(
            {
                "position": len(rows),
                "path": path or MODEL_ITSELF,
                "type": type(module).__name__,
                "layer_kind": kind_of(module),
                "calls": totals.calls,
                "parameter_count": sum(parameter.numel() for parameter in owned[module]),
                "parameter_byte": sum(parameter.numel() * parameter.element_size() for parameter in owned[module]),
                "activation_byte": totals.activation_byte,
                "traffic_byte": totals.traffic_byte,
                "forward_flop": totals.flop,
                "forward_other_flop": totals.other_flop,
                "saved_byte": forward and forward.saved_byte,
                "backward_traffic_byte": backward and backward.traffic_byte,
                "backward_flop": backward and backward.flop,
                "backward_other_flop": backward and backward.other_flop,
                "recompute_flop": backward and backward.recompute_flop,
            }
        )
    return rows


def call_rows(inference: Recorder, training: Recorder | None) -> list[dict[str, Any]]:
    """Return the counted columns of each ``Operator`` in the order of the first run.

    Equal calls in modules of one kind are one row.
    """
    stages = {INFERENCE: inference.forward}
    if training is not None:
        stages |= {FORWARD: training.forward, BACKWARD: training.backward}
    rows = []
    for stage, record in stages.items():
        kinds = {module: kind_of(module) for module in record.modules}
        calls: Counter[tuple[str, OperatorCall]] = Counter()
        for (module, call), number in record.calls.items():
            calls[kinds[module], call] += number
        for (kind, call), number in calls.items():
            row = {"stage": stage, "layer_kind": kind, "operator": call.operator, "byte": call.byte, "calls": number}
            rows.append(row | call.work._asdict())
    return rows
