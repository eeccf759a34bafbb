"""The tables of what models ask for that others timed: counted once, on the meta device, at those sizes.

They are apart from the workloads of ``workload_records``, which are those of models measured here: one row a model, at
one input and fp32, without layers.
"""

from dataclasses import dataclass
from typing import Annotated

from measure.cache import columns
from measure.cache.schema import NUMBER, Column, one_of, table
from measure.cache.words import LAYER_KINDS

InputSize = Annotated[
    int | None, Column("pixels on each side of an input; empty: the model's own size", NUMBER, least=1)
]


@table("published/measurements/counts.csv", key=("model", "input_size"))
@dataclass(frozen=True)
class PublishedCount:
    """What one input asks of a model that others timed: a forward pass, and the backward pass of a training step.

    All rows but those with the status ``ok`` have a reason and no counts. An ``ok`` row whose backward columns are
    empty has as reason why the backward pass could not be counted. Columns are those of ``Workload``.
    """

    model: columns.Model
    input_size: InputSize
    status: columns.Status
    reason: columns.Reason
    family: Annotated[str | None, "torchvision's: the family as in `Workload`; timm's: the module that builds it"] = (
        None
    )
    input_shape: Annotated[str | None, "the shape of one input, joined by `x`"] = None
    parameter_count: Annotated[int | None, "the model's parameters"] = None
    parameter_byte: Annotated[int | None, "bytes of the parameters"] = None
    input_byte: Annotated[int | None, "bytes of the inputs"] = None
    output_byte: Annotated[int | None, "bytes of the model's own outputs"] = None
    activation_byte: Annotated[int | None, "outputs of all leaf modules, each storage once"] = None
    traffic_byte: Annotated[int | None, "what every operator reads and writes"] = None
    forward_flop: Annotated[int | None, "convolutions, matrix products and attention, 2 FLOP a multiply-add"] = None
    forward_other_flop: Annotated[int | None, "everything else"] = None
    backward_flop: Annotated[int | None, "`forward_flop` of the backward pass"] = None
    backward_other_flop: Annotated[int | None, "`forward_other_flop` of the backward pass"] = None
    backward_traffic_byte: Annotated[int | None, "`traffic_byte` of the backward pass"] = None
    uncounted: Annotated[str | None, "operators that do arithmetic and have no formula, as in `Workload`"] = None


@table("published/measurements/counted_kinds.csv", key=("model", "input_size", "stage", "layer_kind"))
@dataclass(frozen=True)
class PublishedKind:
    """The operators of one kind of layer in such a model, together: their calls sum to the model's row.

    A batch of ``n`` inputs has ``n`` times the FLOP, and ``byte + (n - 1) * further_byte`` bytes: parameters are read
    once. That is exact for one input and for 64.
    """

    model: columns.Model
    input_size: InputSize
    stage: columns.Stage
    layer_kind: Annotated[str, Column("what the layers are", form=one_of(LAYER_KINDS))]
    calls: Annotated[int, Column("how many operators ran", NUMBER)]
    flop: Annotated[int, "convolutions, matrix products and attention of them all"]
    other_flop: Annotated[int, "everything else that they compute"]
    byte: Annotated[int, "what they all read and write"]
    further_byte: Annotated[int, "what each further input of a batch of 64 adds to `byte`"]
