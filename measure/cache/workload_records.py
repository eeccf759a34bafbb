"""The tables of what models ask for on any device, and of what other programs count: see ``records``."""

from dataclasses import dataclass
from typing import Annotated

from measure.cache.columns import (
    Autocast,
    Batch,
    EnvironmentId,
    Family,
    InputShape,
    LayerKind,
    Model,
    OperatorName,
    Precision,
    Reason,
    Stage,
    Status,
)
from measure.cache.schema import NUMBER, Column, several, table

WORKLOAD = ("model", "input_shape", "batch", "precision", "autocast")


@table("workload/models.csv", key=WORKLOAD)
@dataclass(frozen=True)
class Workload:
    """What a model at one batch size and precision asks for, on any device: one forward and one backward pass.

    All rows but those with the status ``ok`` have a reason and no counts. An ``ok`` row whose backward columns are
    empty has as reason why the backward pass could not be counted.

    Inference is a forward pass in eval mode without gradients. Training is a forward pass in train mode and the
    backward pass from given gradients of the outputs; the ``backward`` columns are of the backward pass alone, without
    what is computed again in it.
    """

    model: Model
    source: Annotated[str, Column("the library that builds the model; `own`: the user's own code")]
    family: Family
    input_shape: InputShape
    batch: Batch
    precision: Precision
    autocast: Autocast
    status: Status
    reason: Reason
    parameter_count: Annotated[int | None, Column("the model's parameters")] = None
    parameter_byte: Annotated[int | None, Column("bytes of the parameters")] = None
    buffer_byte: Annotated[int | None, Column("bytes of the buffers, such as running means")] = None
    input_byte: Annotated[int | None, Column("bytes of the inputs")] = None
    output_byte: Annotated[int | None, Column("bytes of the model's own outputs")] = None
    activation_byte: Annotated[int | None, Column("outputs of all leaf modules, each storage once")] = None
    traffic_byte: Annotated[
        int | None,
        Column("what every operator of the forward pass reads and writes (`measure/counting/traffic.py`)"),
    ] = None
    inference_peak_byte: Annotated[int | None, Column("the most memory alive at once in inference")] = None
    forward_flop: Annotated[
        int | None,
        Column("convolutions, matrix products and attention of the forward pass, 2 FLOP a multiply-add"),
    ] = None
    forward_other_flop: Annotated[
        int | None, Column("everything else of the forward pass (`measure/counting/scalars.py`)")
    ] = None
    saved_byte: Annotated[
        int | None,
        Column("what the forward pass keeps for the backward pass besides parameters, buffers and inputs"),
    ] = None
    gradient_byte: Annotated[int | None, Column("the parameters' gradients")] = None
    momentum_byte: Annotated[int | None, Column("the state of SGD with momentum")] = None
    adam_byte: Annotated[int | None, Column("the state of Adam")] = None
    backward_traffic_byte: Annotated[int | None, Column("`traffic_byte` of the backward pass")] = None
    training_peak_byte: Annotated[
        int | None, Column("the most memory alive at once in a training step under SGD with momentum")
    ] = None
    backward_flop: Annotated[int | None, Column("`forward_flop` of the backward pass")] = None
    backward_other_flop: Annotated[int | None, Column("`forward_other_flop` of the backward pass")] = None
    recompute_flop: Annotated[
        int | None, Column("computed again in the backward pass: fused attention's scores, checkpoints")
    ] = None
    uncounted: Annotated[
        str | None,
        Column(
            "operators, forward and backward, that do arithmetic and have no formula, with their share of the traffic",
            form=several(r"[^;]+:\d+:[\d.e+-]+", "name:calls:share"),
        ),
    ] = None


@dataclass(frozen=True)
class WorkloadPart:
    """The columns that say which workload a row is part of."""

    model: Model
    input_shape: InputShape
    batch: Batch
    precision: Precision
    autocast: Autocast


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
        int,
        Column(
            "counts the layers in the order in which they first run; those that never run are last", NUMBER
        ),
    ]
    path: Annotated[str, Column("the module's name in the model; `.`: the model itself")]
    type: Annotated[str, Column("the module's class")]
    kind: LayerKind
    calls: Annotated[int, Column("how often the module ran in one forward pass", NUMBER)]
    parameter_count: Annotated[int, Column("the layer's parameters")]
    parameter_byte: Annotated[int, Column("bytes of the parameters")]
    activation_byte: Annotated[int, Column("outputs of leaf modules, each storage once")]
    traffic_byte: Annotated[int, Column("what every operator of the forward pass reads and writes")]
    forward_flop: Annotated[int, Column("convolutions, matrix products and attention of the forward pass")]
    forward_other_flop: Annotated[int, Column("everything else of the forward pass")]
    saved_byte: Annotated[int | None, Column("what the forward pass keeps for the backward pass")]
    backward_traffic_byte: Annotated[int | None, Column("`traffic_byte` of the backward pass")]
    backward_flop: Annotated[int | None, Column("`forward_flop` of the backward pass")]
    backward_other_flop: Annotated[int | None, Column("`forward_other_flop` of the backward pass")]
    recompute_flop: Annotated[int | None, Column("computed again in the backward pass")]


@table(
    "workload/operators.csv",
    key=(*WORKLOAD, "stage", "kind", "operator", "flop", "other_flop", "recompute_flop", "byte"),
)
@dataclass(frozen=True)
class Operator(WorkloadPart):
    """Calls of one operator within a workload that ask for the same; ``calls`` of them, the other numbers of one.

    The calls sum, column by column, to the workload's row: ``inference`` to ``forward_flop``, ``forward_other_flop``
    and ``traffic_byte``, ``backward`` to the backward columns.
    """

    stage: Stage
    kind: LayerKind
    operator: OperatorName
    flop: Annotated[int, Column("convolutions, matrix products and attention of one call")]
    other_flop: Annotated[int, Column("everything else that one call computes")]
    recompute_flop: Annotated[int, Column("what one call computes again")]
    byte: Annotated[int, Column("what one call reads and writes")]
    calls: Annotated[int, Column("how many such calls there are", NUMBER)]


@table("workload/counters.csv", key=("counter", "model"))
@dataclass(frozen=True)
class CounterResult:
    """What a counter, a program that counts a network's multiply-adds, says of one model at batch size 1.

    All rows come from one run of ``benchmarks/counters.py``, in which each counter has a process of its own. A
    multiply-add (``_mac``) is 2 FLOP. All rows but those with the status ``ok`` have a reason and no counts.
    """

    environment_id: EnvironmentId
    counter: Annotated[str, Column("the program; `ridgepoint`: this one")]
    version: Annotated[str | None, Column("the program's version; empty of this one")]
    model: Model
    family: Family
    input_shape: InputShape
    status: Status
    reason: Reason
    published_parameter_count: Annotated[int, Column("the parameters that torchvision publishes")]
    published_mac: Annotated[int, Column("what torchvision publishes, rounded to `PUBLISHED_MAC_STEP`")]
    parameter_count: Annotated[
        int | None, Column("the parameters counted; empty of a counter that counts none")
    ] = None
    forward_mac: Annotated[int | None, Column("the multiply-adds counted in a forward pass")] = None
    build_s: Annotated[float | None, Column("the time of building the network and its input")] = None
    count_s: Annotated[float | None, Column("the time of counting alone")] = None
    peak_byte: Annotated[
        int | None, Column("the most memory that the process held until then, its libraries among it")
    ] = None
