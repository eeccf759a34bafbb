"""The tables of workloads: the work and memory of models on any device, and other programs' counts. See ``records``."""

from dataclasses import dataclass
from typing import Annotated

from measure.domain import schema
from measure.domain.schema import NUMBER, Column, one_of, several, table
from measure.domain.words import least_byte

WORKLOAD = ("model", "input_shape", "batch", "precision", "autocast")
OPERATOR = ("stage", "layer_kind", "operator", "flop", "other_flop", "recompute_flop", "byte")
OURS = "roofwright"  # this program, next to the other counting programs
ONE_RUN = "one run"  # values decide which operators run: the counts are from one run with random inputs and weights
UNCOUNTED = several(r"[^;]+:\d+:[\d.e+-]+", "name:calls:share")


@table("workload/models.csv", key=WORKLOAD)
class Workload:
    """The work and memory of a model at one batch size and precision: one forward and one backward pass.

    A row that is not ``ok`` has a reason and no counts. In an ``ok`` row with empty backward columns the reason tells
    why the backward pass could not be counted. A reason next to filled ones means that torch would not train there, or
    that random draws decide the operators. The forward columns count a forward pass in eval mode without gradients.
    Training is a forward pass in train mode, a loss and the backward pass. The backward columns count the backward pass
    of the network alone, without recomputation; the loss counts in the peak memory of a step.
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
    untouched_byte: Annotated[
        int | None, "parameters and inputs that inference cannot touch: table rows beyond its lookups, unused layers"
    ] = None
    output_byte: Annotated[int | None, "bytes of the model's own outputs"] = None
    activation_byte: Annotated[int | None, "outputs of all leaf modules, each storage once"] = None
    traffic_byte: Annotated[int | None, "reads and writes of every operator (`measure/counting/memory.py`)"] = None
    read_byte: Annotated[int | None, "of these, the reads"] = None
    inference_peak_byte: Annotated[int | None, "the most memory alive at once in inference"] = None
    forward_flop: Annotated[int | None, "convolutions, matrix products and attention, 2 FLOP a multiply-add"] = None
    forward_other_flop: Annotated[int | None, "everything else (`measure/counting/formulas.py`)"] = None
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
        str | None, Column("arithmetic operators without a formula, with their share of the traffic", form=UNCOUNTED)
    ] = None
    code: schema.Code = None
    counting: Annotated[int | None, Column("the version of the formulas that counted it", NUMBER)] = None
    path: Annotated[
        str | None,
        Column(
            "`one run`: values decide which operators run; all counts are from one run with random inputs and weights",
            form=one_of([ONE_RUN]),
        ),
    ] = None

    @property
    def footprint_byte(self) -> int:
        """Parameters, inputs and activations that a call can touch, each once."""
        columns = self.parameter_byte, self.input_byte, self.activation_byte, self.untouched_byte
        return int(least_byte(*(byte or 0 for byte in columns)))


@dataclass(frozen=True)
class WorkloadPart:
    """The columns that identify a workload."""

    model: schema.Model
    input_shape: schema.InputShape
    batch: schema.Batch
    precision: schema.Precision
    autocast: schema.Autocast


@table("workload/layers.csv", key=(*WORKLOAD, "position"))
class Layer(WorkloadPart):
    """A module's own part of a workload; the layers of a workload sum to it, column by column.

    Every leaf of the module tree has a row, and so has every other module with operators of its own (the addition of a
    residual block) or parameters of its own. An operator, with its backward, belongs to the innermost running module. A
    parameter belongs to the module that first used it, else to its holder.
    """

    position: Annotated[int, Column("counts layers in the order of their first run; unused ones come last", NUMBER)]
    path: Annotated[str, "the module's name in the model; `.`: the model itself"]
    type: Annotated[str, "the module's class"]
    layer_kind: schema.LayerKind
    calls: Annotated[int, Column("how often the module ran in one forward pass", NUMBER)]
    parameter_count: Annotated[int, "the layer's parameters"]
    parameter_byte: Annotated[int, "bytes of the parameters"]
    activation_byte: Annotated[int, "outputs of leaf modules, each storage once"]
    traffic_byte: Annotated[int, "reads and writes of every operator of the forward pass"]
    forward_flop: Annotated[int, "convolutions, matrix products and attention of the forward pass"]
    forward_other_flop: Annotated[int, "everything else of the forward pass"]
    saved_byte: Annotated[int | None, "kept from the forward pass for the backward pass"]
    backward_traffic_byte: Annotated[int | None, "`traffic_byte` of the backward pass"]
    backward_flop: Annotated[int | None, "`forward_flop` of the backward pass"]
    backward_other_flop: Annotated[int | None, "`forward_other_flop` of the backward pass"]
    recompute_flop: Annotated[int | None, "computed again in the backward pass"]


@table("workload/operators.csv", key=(*WORKLOAD, *OPERATOR))
class Operator(WorkloadPart):
    """Identical calls of one operator within a workload: ``calls`` is their number, other numbers are per call.

    The calls sum to the workload's row: ``inference`` to the forward columns, ``backward`` to the backward columns.
    """

    stage: schema.Stage
    layer_kind: schema.LayerKind
    operator: schema.OperatorName
    flop: Annotated[int, "convolutions, matrix products and attention of one call"]
    other_flop: Annotated[int, "everything else in one call"]
    recompute_flop: Annotated[int, "computed again in one call"]
    byte: Annotated[int, "read and written by one call"]
    calls: Annotated[int, Column("the number of such calls", NUMBER)]


@table("workload/counting_programs.csv", key=("program", "model"))
class ProgramCount:
    """The count of multiply-adds (``_mac``, 2 FLOP each) by a counting program, for one model at batch size 1.

    All rows come from one run of ``scripts/counting_programs.py``. A row that is not ``ok`` has only a reason.
    """

    environment_id: schema.EnvironmentId
    program: Annotated[str, "the program; `roofwright`: this one"]
    version: Annotated[str | None, "the program's version; empty for this one"]
    model: schema.Model
    family: schema.Family
    input_shape: schema.InputShape
    status: schema.Status
    reason: schema.Reason
    published_parameter_count: Annotated[int, "torchvision's published count of parameters"]
    published_mac: Annotated[int, Column("torchvision's published count, rounded to `PUBLISHED_MAC_STEP`", least=1)]
    parameter_count: Annotated[int | None, "the parameters counted; empty if it counts none"] = None
    forward_mac: Annotated[int | None, Column("the multiply-adds counted in a forward pass", least=1)] = None
    build_s: Annotated[float | None, "the time of building the network and its input"] = None
    count_s: Annotated[float | None, "the time of counting alone"] = None
    peak_byte: Annotated[int | None, "the process's peak memory, libraries included"] = None


@table("workload/counting_cases.csv", key=("case", "program"))
class CaseCount:
    """A counting program's result for a small network of `docs/counting.md`, where programs disagree.

    Multiply-adds are doubled here. All rows come from one run of ``scripts/counting_programs.py``. A row that is not
    ``ok`` has only a reason.
    """

    case: Annotated[str, "the network, by its heading"]
    program: Annotated[str, "the program; `roofwright`: this one"]
    version: Annotated[str | None, "the program's version; empty for this one"]
    status: schema.Status
    reason: schema.Reason
    arithmetic: Annotated[str, "how the right count follows by hand"]
    right_flop: Annotated[int, "FLOP of convolutions, matrix products and attention by hand"]
    forward_flop: Annotated[float | None, "the FLOP that the program prints"] = None
