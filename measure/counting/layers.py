"""Turn recorded passes into rows: one for each layer of a network, one for each distinct call of an operator."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from torch import nn

from measure.counting.memory import storage_key, stored_byte, stored_shares
from measure.counting.recorder import ModuleTotals, OperatorCall, Pass
from measure.domain.words import BACKWARD, FORWARD, INFERENCE

MODEL_ITSELF = "."  # the path of the model, for operators and parameters outside its submodules

KINDS_BY_CLASS: dict[str, tuple[type[nn.Module], ...]] = {
    "linear": (nn.Linear, nn.Bilinear),
    "attention": (nn.MultiheadAttention,),  # before the activations: their module defines it too
    "normalisation": (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.CrossMapLRN2d),
    "activation": tuple(getattr(nn.modules.activation, name) for name in nn.modules.activation.__all__),
    "recurrent": (nn.RNNBase, nn.RNNCellBase),
    "embedding": (nn.Embedding, nn.EmbeddingBag),
}
# Kinds of other modules by the end of the class's name, without dimensions and version.
KINDS_BY_NAME = {
    "attention": ("Attention",),
    "experts": ("Experts", "NaiveMoe"),
    "normalisation": ("Norm",),
    "pooling": ("Pool",),
    "activation": ("ReLU", "GELU", "GLU", "SiLU", "Swish", "Sigmoid", "Softmax", "Tanh"),
    "embedding": ("Embed",),
}


def kind_of(module: nn.Module) -> str:
    """Return one of ``LAYER_KINDS`` by the module's class, or by its name if the class is not torch's own.

    A convolution is depthwise if each of its several groups has one input channel.
    """
    if isinstance(module, nn.modules.conv._ConvNd):
        return "depthwise convolution" if 1 < module.groups == module.in_channels else "convolution"
    for kind, classes in KINDS_BY_CLASS.items():
        if isinstance(module, classes):
            return kind
    name = re.sub(r"(\d[dD]?|[vV]\d)$", "", type(module).__name__)
    return next((kind for kind, endings in KINDS_BY_NAME.items() if name.endswith(endings)), "other")


def layer_rows(network: nn.Module, passes: Mapping[str, Pass], users: Mapping[int, nn.Module]) -> list[dict[str, Any]]:
    """Make a row for each leaf of the module tree and each module with operators or parameters of its own.

    ``passes`` are by stage. Without the stages of training, their columns are None. A parameter belongs to the first
    module that uses it (``users``, by storage), else to its owner. Rows are in the order of the first run; modules that
    do not run come last.
    """
    modules, shares = dict(network.named_modules()), stored_shares(network)
    owned: defaultdict[nn.Module, list[nn.Parameter]] = defaultdict(list)
    for name, parameter in network.named_parameters():
        owned[users.get(storage_key(parameter), modules[name.rpartition(".")[0]])].append(parameter)
    busy = set(owned)
    for record in passes.values():
        busy |= {module for module, totals in record.modules.items() if totals != ModuleTotals(calls=totals.calls)}
    place = {module: position for position, module in enumerate(passes[INFERENCE].modules)}
    rows: list[dict[str, Any]] = []
    for path, module in sorted(modules.items(), key=lambda pair: place.get(pair[1], len(place))):
        if module not in busy and next(module.children(), None) is not None:
            continue
        totals = passes[INFERENCE].modules[module]
        forward, backward = (passes[each].modules[module] if each in passes else None for each in (FORWARD, BACKWARD))
        rows.append(
            {
                "position": len(rows),
                "path": path or MODEL_ITSELF,
                "type": type(module).__name__,
                "layer_kind": kind_of(module),
                "calls": totals.calls,
                "parameter_count": sum(parameter.numel() for parameter in owned[module]),
                "parameter_byte": stored_byte(owned[module], shares),
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


def call_rows(passes: Mapping[str, Pass]) -> list[dict[str, Any]]:
    """Make the counted columns of each ``Operator``. Equal calls in modules of one kind are one row."""
    rows = []
    for stage, record in passes.items():
        calls: Counter[tuple[str, OperatorCall]] = Counter()
        for (module, call), number in record.calls.items():
            calls[kind_of(module), call] += number
        for (kind, call), number in calls.items():
            row = {"stage": stage, "layer_kind": kind, "operator": call.operator, "byte": call.byte, "calls": number}
            rows.append(row | call.work._asdict())
    return rows
