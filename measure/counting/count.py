"""Count the work, traffic and memory of a network on the meta device, which computes and allocates nothing.

The network runs forward in eval mode, then forward and backward in train mode. ``recorder`` sees the operators,
``formulas`` gives their FLOP, ``memory`` their bytes, and ``layers`` sums them by module.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from measure.cache.workload_records import Layer, Operator, Workload
from measure.domain.models import OWN, Model
from measure.domain.words import BACKWARD, FORWARD, INFERENCE, shape_name
from measure.errors import UserError, in_short
from measure.models.call import casting, empty_inputs
from measure.models.catalog import prepare_on_meta
from measure.models.own_models import RaisedError

if TYPE_CHECKING:
    import torch
    from torch import nn

# Columns that show that an own model has changed, in words. They do not depend on the version of torch.
COMPARED = {
    "input_shape": "input shape", "input_byte": "bytes of inputs",
    "parameter_count": "parameters", "forward_flop": "FLOP",
}  # fmt: skip


class Count(NamedTuple):
    """The rows of one workload: itself, its layers, and the calls of its operators."""

    workload: Workload
    layers: list[Layer]
    operators: list[Operator]


def identity(model: Model, batch: int, precision: str, autocast: str | None) -> dict[str, Any]:
    """Return the key columns of a workload."""
    shape = shape_name(model.input_shape)
    return {"model": model.name, "input_shape": shape, "batch": batch, "precision": precision, "autocast": autocast}


def not_counted(model: Model, batch: int, precision: str, autocast: str | None, status: str, reason: str) -> Count:
    """Return the row of a workload that could not be counted. It has no layers and no operators."""
    key = identity(model, batch, precision, autocast)
    return Count(Workload(source=model.source, family=model.family, status=status, reason=reason, **key), [], [])


def count(model: Model, batch: int, precision: str = "fp32", autocast: str | None = None) -> Count:
    """Count a model's workload, layers and operators at ``batch`` inputs.

    With ``autocast``, a type of device, torch decides the precision of each operator as on that device. Raises
    NotImplementedError if values decide which operators run, and whatever the network raises on the meta device.
    """
    return count_all(model, [batch], precision, autocast)[0]


def count_all(
    model: Model, batches: Sequence[int], precision: str, autocast: str | None, beat: Callable[[], None] = lambda: None
) -> list[Count]:
    """Count a model at several batch sizes; a library's network is built once. Calls ``beat`` after each."""
    counts = []
    calls = zip(batches, prepare_on_meta(model, batches), strict=True)
    for network, group in groupby(calls, key=lambda pair: pair[1].network):
        with casting(network, precision, autocast) as (device, dtype):
            for batch, prepared in group:
                call = empty_inputs(prepared, device, dtype)
                try:
                    columns, layers, operators = count_network(network, call.inputs, call.keywords)
                except RuntimeError as problem:  # NotImplementedError is one
                    why = in_short(problem).partition(": ")[2]
                    if not any(word in why.lower() for word in ("meta", "data-independent")):
                        raise
                    why = f"its operators depend on values, and counting computes none: {why}"
                    raise NotImplementedError(why) from problem
                key = identity(model, batch, precision, autocast)
                workload = Workload(source=model.source, family=model.family, status="ok", **key, **columns)
                rows = [Layer(**key, **row) for row in layers], [Operator(**key, **row) for row in operators]
                counts.append(Count(workload, *rows))
                beat()
    return counts


def count_network(
    network: "nn.Module", inputs: Sequence[Any], keywords: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the counted columns of ``Workload``, of each ``Layer`` and of each ``Operator`` for one call of a network.

    If the training pass fails (batch normalisation of a single value, for example), its columns are None and ``reason``
    says why.
    """
    from measure.counting.layers import call_rows, layer_rows
    from measure.counting.memory import tensors_in
    from measure.counting.recorder import record_inference, record_training

    keywords = keywords or {}
    inference, output = record_inference(network, inputs, **keywords)
    passes, parameters = {INFERENCE: inference.forward}, list(network.parameters())
    arguments = tensors_in([inputs, dict(keywords)])
    columns: dict[str, Any] = {
        "reason": None,
        "input_byte": _byte(arguments),
        "output_byte": _byte(tensors_in(output)),
        "parameter_count": sum(parameter.numel() for parameter in parameters),
        "parameter_byte": _byte(parameters),
        "buffer_byte": _byte(network.buffers()),
        "untouched_byte": inference.untouched_byte([*parameters, *arguments]),
    }
    resident_byte = sum(columns[name] for name in ("input_byte", "parameter_byte", "buffer_byte"))
    columns["inference_peak_byte"] = resident_byte + inference.memory.peak_byte
    del output  # the training pass would count it as resident memory
    try:
        training = record_training(network, inputs, **keywords)
    except Exception as problem:  # a model may raise anything
        columns["reason"] = f"backward not counted: {in_short(problem)}"
    else:
        passes |= {FORWARD: training.forward, BACKWARD: training.backward}
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        gradient_byte = _byte(gradients)
        columns |= {
            "gradient_byte": gradient_byte,
            "momentum_byte": gradient_byte,
            "adam_byte": 2 * gradient_byte + 4 * len(gradients),  # two averages; per tensor, the number of its step
            "training_peak_byte": resident_byte + gradient_byte + training.memory.peak_byte,
        }

    # Operators without a formula, as name:calls:share of the bytes that inference and the backward pass move.
    once = [record for stage, record in passes.items() if stage != FORWARD]
    traffic_byte = sum(record.total("traffic_byte") for record in once)
    calls = sum((record.uncounted for record in once), Counter[str]())
    byte = sum((record.uncounted_byte for record in once), Counter[str]())
    uncounted = [f"{name}:{calls[name]}:{byte[name] / traffic_byte:.2g}" for name in sorted(calls)]
    columns["uncounted"] = ";".join(uncounted) or None

    layers = layer_rows(network, passes, inference.users)
    for name in [name for name in layers[0] if name.endswith(("_flop", "_byte")) and name not in columns]:
        parts = [layer[name] for layer in layers]
        columns[name] = None if None in parts else sum(parts)
    network.zero_grad(set_to_none=True)
    return columns, layers, call_rows(passes)


def _byte(tensors: "Iterable[torch.Tensor]") -> int:
    return sum(tensor.nbytes for tensor in tensors)


def check(models: Iterable[Model], counted: Iterable[Workload], call: Callable[..., Any]) -> None:
    """Raise UserError if an own model is no longer the network that was counted under its name.

    ``call(name, function, *arguments)`` counts it again in a separate process, at the smallest counted batch size. A
    model that was never counted passes, and so does a change that keeps parameters, inputs and FLOP.
    """
    rows = [row for row in counted if row.status == "ok" and row.autocast is None]
    for model in models:
        earlier = [row for row in rows if row.model == model.name]
        if model.source != OWN or not earlier:
            continue
        then = min(earlier, key=lambda row: row.batch)
        try:
            now = call(model.name, count, model, then.batch, then.precision).workload
            changes = [
                f"{words} {getattr(then, name)} when it was counted, {getattr(now, name)} now"
                for name, words in COMPARED.items()
                if getattr(then, name) != getattr(now, name)
            ]
        except RaisedError as problem:
            changes = [f"it raises {problem}"]
        if changes:
            raise UserError(
                f"--models: the code of {model.name} has changed ({changes[0]}); give the new one a name of its own, "
                "or measure all of it again with --force"
            )
