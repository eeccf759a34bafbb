"""What a model asks for, counted on the meta device: no weights, no arithmetic, no memory.

The network runs once forward in eval mode, and once forward and backward in train mode; ``recorder`` sees its
operators, ``flops`` and ``traffic`` say what each takes, ``layers`` whose it is, and which ask for the same.

The registry of formulas: what an operator computes, by its name.

A multiply-add is 2 FLOP; any other scalar operation (an addition, a comparison, an exponential, a square root) is 1.
Integers and booleans are not counted: their arithmetic is not in floating point.

Whether a user's own model is still what was counted under its name: its code may have changed since.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from measure.cache.workload_records import Layer, Operator, Workload
from measure.domain.models import OWN, Model
from measure.domain.words import shape_name
from measure.errors import UserError, in_short
from measure.models.call import Call, empty_inputs
from measure.models.catalog import prepare_on_meta
from measure.models.own_models import RaisedError

if TYPE_CHECKING:
    import torch
    from torch import nn

    from measure.counting.recorder import Recorder


class Count(NamedTuple):
    """A workload, its layers, and the calls of its operators."""

    workload: Workload
    layers: list[Layer]
    operators: list[Operator]


ADAM_STEP_BYTE = 4
"""Adam keeps, besides two averages a gradient, the number of its step for each parameter tensor."""


def identity(model: Model, batch: int, precision: str, autocast: str | None) -> dict[str, Any]:
    """Return the columns that say which workload a row is of."""
    return {
        "model": model.name,
        "input_shape": shape_name(model.input_shape),
        "batch": batch,
        "precision": precision,
        "autocast": autocast,
    }


def not_counted(model: Model, batch: int, precision: str, autocast: str | None, status: str, reason: str) -> Count:
    """Return the row of a workload that could not be counted, without layers and operators."""
    named = identity(model, batch, precision, autocast)
    return Count(Workload(source=model.source, family=model.family, status=status, reason=reason, **named), [], [])


def count(model: Model, batch: int, precision: str = "fp32", autocast: str | None = None) -> Count:
    """Count a model's workload, layers and operators at ``batch`` inputs.

    ``autocast`` names the kind of device whose autocast to ``precision`` decides each operator's precision; without
    it weights and input have the precision. Raises NotImplementedError for a network that looks at values to decide
    what it runs, and whatever else the network raises on the meta device.
    """
    return count_all(model, [batch], precision, autocast)[0]


def count_all(
    model: Model, batches: Sequence[int], precision: str, autocast: str | None, beat: Callable[[], None] = lambda: None
) -> list[Count]:
    """Do the same at several batch sizes, building a library's network once; ``beat`` is called after each."""
    from measure.models.call import casting

    counted = []
    calls = zip(batches, prepare_on_meta(model, batches), strict=True)
    for network, numbered in groupby(calls, key=lambda each: each[1].network):
        with casting(network, precision, autocast) as (device, dtype):
            for batch, call in numbered:
                counted.append(_count(model, batch, precision, autocast, empty_inputs(call, device, dtype)))
                beat()
    return counted


def _count(model: Model, batch: int, precision: str, autocast: str | None, call: Call) -> Count:
    """Count a call that has the precision already."""
    try:
        columns, layers, calls = count_network(call.network, call.inputs, call.keywords)
    except RuntimeError as problem:  # NotImplementedError is one
        why = in_short(problem).partition(": ")[2]
        if not any(word in why.lower() for word in ("meta", "data-independent")):
            raise
        raise NotImplementedError(f"what it runs depends on values, and counting computes none: {why}") from problem
    named = identity(model, batch, precision, autocast)
    return Count(
        Workload(source=model.source, family=model.family, status="ok", **named, **columns),
        [Layer(**named, **layer) for layer in layers],
        [Operator(**named, **call) for call in calls],
    )


def count_network(
    network: "nn.Module", inputs: Sequence[Any], keywords: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the counted columns of ``Workload``, and of each ``Layer`` and ``Operator``, of one call of a network.

    The network may live on any device; on the meta device nothing is computed. Where the training pass fails (a batch
    normalisation of one value, say), its columns are None and ``reason`` says why.
    """
    from measure.counting.layers import call_rows, layer_rows
    from measure.counting.memory import tensors_in
    from measure.counting.recorder import record_inference, record_training

    keywords = keywords or {}
    inference, output = record_inference(network, inputs, keywords)
    output_byte = _byte(tensors_in(output))
    del output
    training, reason = None, None
    try:
        training = record_training(network, inputs, keywords)
    except Exception as problem:  # a model may raise anything
        reason = f"backward not counted: {in_short(problem)}"
    input_byte = _byte(tensors_in((inputs, dict(keywords))))
    columns: dict[str, Any] = {
        "reason": reason,
        "input_byte": input_byte,
        "output_byte": output_byte,
        "uncounted": _uncounted(inference, training),
        **_memory(network, input_byte, inference, training),
    }
    layers = layer_rows(network, inference, training)
    sums = [name for name in layers[0] if name.endswith(("_flop", "_byte")) and name not in columns]
    for name in sums:
        parts = [layer[name] for layer in layers]
        columns[name] = None if None in parts else sum(parts)
    network.zero_grad(set_to_none=True)
    return columns, layers, call_rows(inference, training)


def _byte(tensors: "Sequence[torch.Tensor]") -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _memory(
    network: "nn.Module", input_byte: int, inference: "Recorder", training: "Recorder | None"
) -> dict[str, int]:
    """Return parameters, buffers and the peak of inference.

    With a training pass also gradients, the state of two optimisers, and the peak of a step with SGD with momentum.
    """
    parameters, buffers = list(network.parameters()), list(network.buffers())
    resident_byte = input_byte + _byte([*parameters, *buffers])
    columns = {
        "parameter_count": sum(parameter.numel() for parameter in parameters),
        "parameter_byte": _byte(parameters),
        "buffer_byte": _byte(buffers),
        "inference_peak_byte": resident_byte + inference.memory.peak_byte,
    }
    if training is None:
        return columns
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    gradient_byte = _byte(gradients)
    return columns | {
        "gradient_byte": gradient_byte,
        "momentum_byte": gradient_byte,
        "adam_byte": 2 * gradient_byte + ADAM_STEP_BYTE * len(gradients),
        "training_peak_byte": resident_byte + gradient_byte + training.memory.peak_byte,
    }


def _uncounted(inference: "Recorder", training: "Recorder | None") -> str | None:
    """Return ``name:calls:share`` of the operators without a formula, of inference's forward and training's backward.

    The share is that of the bytes that both passes read and write.
    """
    passes = [inference.forward] + ([training.backward] if training else [])
    traffic = sum(record.total("traffic_byte") for record in passes)
    calls: Counter[str] = Counter()
    byte: Counter[str] = Counter()
    for record in passes:
        for name, operator in record.uncounted.items():
            calls[name] += operator.calls
            byte[name] += operator.byte
    listed = [f"{name}:{calls[name]}:{byte[name] / traffic:.2g}" for name in sorted(calls)]
    return ";".join(listed) or None


class Work(NamedTuple):
    """The FLOP of one call: of convolutions, matrix products and attention; of the rest; and, in neither, those that a
    backward operator computes again because the forward one did not keep the result.
    """

    flop: int = 0
    other_flop: int = 0
    recompute_flop: int = 0


Args = Sequence[Any]
Kwargs = Mapping[str, Any]

Formula = Callable[[Args, Kwargs, Any], Work]
"""From an operator's arguments, keyword arguments and output to its work. Only shapes and types are looked at."""

OtherFlop = Callable[[Args, Any], int]
"""From the arguments and output of an operator without products to its other FLOP."""

NOTHING = Work()

FORMULAS: dict[str, Formula] = {}
"""Every formula by its operator's qualified name."""


def formula(*names: str) -> Callable[[Formula], Formula]:
    """Register a formula for operators by their qualified names, without overload (``aten::add``)."""

    def register(function: Formula) -> Formula:
        for name in names:
            if name in FORMULAS:
                raise ValueError(f"two formulas for {name}")
            FORMULAS[name] = function
        return function

    return register


def register_other_flop(counts: Mapping[str, OtherFlop]) -> None:
    """Register the other FLOP of torch's operators; a key holds the names that share a count, separated by spaces."""
    for names, count in counts.items():
        formula(*(f"aten::{name}" for name in names.split()))(_of_other_flop(count))


def _of_other_flop(count: OtherFlop) -> Formula:
    return lambda args, _kwargs, out: Work(0, count(args, out))


TELLING = {
    "input_shape": "input shape",
    "input_byte": "bytes of inputs",
    "parameter_count": "parameters",
    "forward_flop": "FLOP",
}
"""The columns of a workload that tell one network from another, whatever the version of torch."""


def check(models: Iterable[Model], counted: Iterable[Workload], call: Callable[..., Any]) -> None:
    """Raise UserError for an own model that is not what was counted: its measurements would be of two networks.

    It is counted again for that, in a process apart, at the smallest batch size that it was counted at; one that was
    not passes. A change that leaves parameters, inputs and FLOP as they were is not seen.
    """
    rows = [row for row in counted if row.status == "ok" and row.autocast is None]
    for model in models:
        known = [row for row in rows if row.model == model.name]
        if model.source == OWN and known:
            _check(model, min(known, key=lambda row: row.batch), call)


def _check(model: Model, then: Workload, call: Callable[..., Any]) -> None:
    try:
        now = call(model.name, _counted, model, then.batch, then.precision)
    except RaisedError as problem:
        changed = f"it raises {problem}"
    else:
        differing = [name for name in TELLING if getattr(then, name) != getattr(now, name)]
        if not differing:
            return
        name = differing[0]
        changed = f"{TELLING[name]} {getattr(then, name)} when it was counted, {getattr(now, name)} now"
    raise UserError(
        f"--models: the code of {model.name} has changed ({changed}); give the new one a name of its own, or measure "
        "all of it again with --force"
    )


def _counted(model: Model, batch: int, precision: str) -> Workload:
    return count(model, batch, precision).workload
