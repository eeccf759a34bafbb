"""The tables of what models ask for on any device, and of what other programs count: see ``records``.

The tables of what models ask for that others timed: counted once, on the meta device, at those sizes.

They are apart from the workloads of ``workload_records``, which are those of models measured here: one row a model, at
one input and fp32, without layers.
"""

from dataclasses import dataclass
from typing import Annotated

from measure.cache import schema
from measure.cache.schema import NUMBER, Column, one_of, several, table
from measure.domain.words import LAYER_KINDS

WORKLOAD = ("model", "input_shape", "batch", "precision", "autocast")


@table("workload/models.csv", key=WORKLOAD)
@dataclass(frozen=True)
class Workload:
    """What a model at one batch size and precision asks for, on any device: one forward and one backward pass.

    All rows but those with the status ``ok`` have a reason and no counts. An ``ok`` row whose backward columns are
    empty has as reason why the backward pass could not be counted.

    Traffic and FLOP are those of inference, a forward pass in eval mode without gradients. Training is a forward pass
    in train mode and the backward pass from given gradients of the outputs; the ``backward`` columns are of the
    backward pass alone, without what is computed again in it.
    """

    model: schema.Model
    source: Annotated[str, "the library that builds the model; `own`: the user's own code"]
    family: schema.Family
    input_shape: schema.InputShape
    batch: schema.Batch
    precision: schema.Precision
    autocast: schema.Autocast
    status: schema.Status
    reason: schema.Reason
    parameter_count: Annotated[int | None, "the model's parameters"] = None
    parameter_byte: Annotated[int | None, "bytes of the parameters"] = None
    buffer_byte: Annotated[int | None, "bytes of the buffers, such as running means"] = None
    input_byte: Annotated[int | None, "bytes of the inputs"] = None
    output_byte: Annotated[int | None, "bytes of the model's own outputs"] = None
    activation_byte: Annotated[int | None, "outputs of all leaf modules, each storage once"] = None
    traffic_byte: Annotated[int | None, "what every operator reads and writes (`measure/counting/memory.py`)"] = None
    inference_peak_byte: Annotated[int | None, "the most memory alive at once in inference"] = None
    forward_flop: Annotated[int | None, "convolutions, matrix products and attention, 2 FLOP a multiply-add"] = None
    forward_other_flop: Annotated[int | None, "everything else (`measure/counting/scalars.py`)"] = None
    saved_byte: Annotated[int | None, "kept for the backward pass besides parameters, buffers, inputs"] = None
    gradient_byte: Annotated[int | None, "the parameters' gradients"] = None
    momentum_byte: Annotated[int | None, "the state of SGD with momentum"] = None
    adam_byte: Annotated[int | None, "the state of Adam"] = None
    backward_traffic_byte: Annotated[int | None, "`traffic_byte` of the backward pass"] = None
    training_peak_byte: Annotated[int | None, "likewise in a training step under SGD with momentum"] = None
    backward_flop: Annotated[int | None, "`forward_flop` of the backward pass"] = None
    backward_other_flop: Annotated[int | None, "`forward_other_flop` of the backward pass"] = None
    recompute_flop: Annotated[int | None, "computed again: fused attention's scores, checkpoints"] = None
    uncounted: Annotated[
        str | None,
        Column(
            "operators, forward and backward, that do arithmetic and have no formula, with their share of the traffic",
            form=several(r"[^;]+:\d+:[\d.e+-]+", "name:calls:share"),
        ),
    ] = None

    @property
    def footprint_byte(self) -> int:
        """Parameters, inputs and activations, each once."""
        return (self.parameter_byte or 0) + (self.input_byte or 0) + (self.activation_byte or 0)


@dataclass(frozen=True)
class WorkloadPart:
    """The columns that say which workload a row is part of."""

    model: schema.Model
    input_shape: schema.InputShape
    batch: schema.Batch
    precision: schema.Precision
    autocast: schema.Autocast


@table("workload/layers.csv", key=(*WORKLOAD, "position"))
@dataclass(frozen=True)
class Layer(WorkloadPart):
    """A module's own part of a workload; the layers of a workload sum to it, column by column.

    There is a row for every leaf of the module tree, and for every other module that runs operators of its own (the
    addition of a residual block) or holds parameters of its own. An operator belongs to the innermost module that
    was running, its backward to the same; a parameter to the module that first used it, else to the one that holds
    it.
    """

    position: Annotated[
        int, Column("counts layers in the order in which they first run, those that never do last", NUMBER)
    ]
    path: Annotated[str, "the module's name in the model; `.`: the model itself"]
    type: Annotated[str, "the module's class"]
    layer_kind: schema.LayerKind
    calls: Annotated[int, Column("how often the module ran in one forward pass", NUMBER)]
    parameter_count: Annotated[int, "the layer's parameters"]
    parameter_byte: Annotated[int, "bytes of the parameters"]
    activation_byte: Annotated[int, "outputs of leaf modules, each storage once"]
    traffic_byte: Annotated[int, "what every operator of the forward pass reads and writes"]
    forward_flop: Annotated[int, "convolutions, matrix products and attention of the forward pass"]
    forward_other_flop: Annotated[int, "everything else of the forward pass"]
    saved_byte: Annotated[int | None, "what the forward pass keeps for the backward pass"]
    backward_traffic_byte: Annotated[int | None, "`traffic_byte` of the backward pass"]
    backward_flop: Annotated[int | None, "`forward_flop` of the backward pass"]
    backward_other_flop: Annotated[int | None, "`forward_other_flop` of the backward pass"]
    recompute_flop: Annotated[int | None, "computed again in the backward pass"]


@table(
    "workload/operators.csv",
    key=(*WORKLOAD, "stage", "layer_kind", "operator", "flop", "other_flop", "recompute_flop", "byte"),
)
@dataclass(frozen=True)
class Operator(WorkloadPart):
    """Identical calls of one operator within a workload: ``calls`` says how many; the other numbers are of one call.

    The calls sum, column by column, to the workload's row: ``inference`` to ``forward_flop``, ``forward_other_flop``
    and ``traffic_byte``, ``backward`` to the backward columns.
    """

    stage: schema.Stage
    layer_kind: schema.LayerKind
    operator: schema.OperatorName
    flop: Annotated[int, "convolutions, matrix products and attention of one call"]
    other_flop: Annotated[int, "everything else that one call computes"]
    recompute_flop: Annotated[int, "what one call computes again"]
    byte: Annotated[int, "what one call reads and writes"]
    calls: Annotated[int, Column("how many such calls there are", NUMBER)]


@table("workload/counting_programs.csv", key=("program", "model"))
@dataclass(frozen=True)
class ProgramCount:
    """What a counting program, one that counts a network's multiply-adds, says of one model at batch size 1.

    All rows come from one run of ``benchmarks/counting_programs.py``, in which each program has a process of its own. A
    multiply-add (``_mac``) is 2 FLOP. All rows but those with the status ``ok`` have a reason and no counts.
    """

    environment_id: schema.EnvironmentId
    program: Annotated[str, "the program; `roofwright`: this one"]
    version: Annotated[str | None, "the program's version; empty of this one"]
    model: schema.Model
    family: schema.Family
    input_shape: schema.InputShape
    status: schema.Status
    reason: schema.Reason
    published_parameter_count: Annotated[int, "the parameters that torchvision publishes"]
    published_mac: Annotated[int, Column("what torchvision publishes, rounded to `PUBLISHED_MAC_STEP`", least=1)]
    parameter_count: Annotated[int | None, "the parameters counted; empty where it counts none"] = None
    forward_mac: Annotated[int | None, Column("the multiply-adds counted in a forward pass", least=1)] = None
    build_s: Annotated[float | None, "the time of building the network and its input"] = None
    count_s: Annotated[float | None, "the time of counting alone"] = None
    peak_byte: Annotated[int | None, "the most memory that the process held, with its libraries"] = None


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

    model: schema.Model
    input_size: InputSize
    status: schema.Status
    reason: schema.Reason
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

    model: schema.Model
    input_size: InputSize
    stage: schema.Stage
    layer_kind: Annotated[str, Column("what the layers are", form=one_of(LAYER_KINDS))]
    calls: Annotated[int, Column("how many operators ran", NUMBER)]
    flop: Annotated[int, "convolutions, matrix products and attention of them all"]
    other_flop: Annotated[int, "everything else that they compute"]
    byte: Annotated[int, "what they all read and write"]
    further_byte: Annotated[int, "what each further input of a batch of 64 adds to `byte`"]
