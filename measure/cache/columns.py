"""The columns that several tables share, each declared once."""

import re
from typing import Annotated

from measure.cache.schema import NUMBER, Column, Form, one_of, some_of
from measure.cache.variants import NAMES, OPTIMIZERS
from measure.cache.words import EAGER, INFERENCE, LAYER_KINDS, PRECISIONS, STAGES, STEP

DAY_S = 86_400.0


def duration(meaning: str) -> Column:
    """Return a column of seconds that something took which did take time."""
    return Column(meaning, least=1e-12, most=DAY_S)


DEVICE = one_of(("cpu", "cuda", "mps"))
STATUSES = one_of(("ok", "oom", "timeout", "unsupported", "killed", "error"))

EnvironmentId = Annotated[
    str,
    "hash of what can change a measurement: `hardware_id`, `driver`, `torch`, `c_library`, `huge_pages`, `threads`, "
    "`tuning`",
]
Model = Annotated[str, "the model's name"]
Family = Annotated[str, "the family of networks that the model belongs to"]
SHAPE = Form(re.compile(r"[0-9]{1,18}(x[0-9]{1,18})*").fullmatch, "whole numbers joined by 'x'")
InputShape = Annotated[str, Column("the shape of one input, without the batch", form=SHAPE)]
MeasuredShape = Annotated[
    str | None,
    Column("the shape of one input that was measured, without the batch; empty where it is not known", form=SHAPE),
]
Batch = Annotated[int, Column("inputs of one call", NUMBER, least=1)]
Precision = Annotated[str, Column("the precision of weights and input", form=one_of(PRECISIONS))]
Capability = Annotated[str | None, "the compute capability of the GPU"]
Autocast = Annotated[
    str | None, Column("whose autocast decides each operator's precision; weights and input are fp32 then", form=DEVICE)
]
Phase = Annotated[
    str, Column("a forward pass, a whole training step or a stage of it", form=one_of((INFERENCE, STEP, *STAGES)))
]
Variant = Annotated[
    str,
    Column("how the network is run, besides its precision", form=some_of((*NAMES, *OPTIMIZERS), "+", alone=(EAGER,))),
]
Round = Annotated[int, Column("counts the rounds of a cell from 0", NUMBER)]
Status = Annotated[
    str,
    Column(
        "how it ended; `oom`: the memory did not suffice; `killed`: from outside, which the next run tries again",
        form=STATUSES,
    ),
]
Reason = Annotated[str | None, "why it is not `ok`"]
RecordedAt = Annotated[str, "the UTC time of the record"]
Sitting = Annotated[
    str | None,
    "the UTC time at which the command began that measured it: cells of one sitting were measured in one random order",
]
Seed = Annotated[int | None, Column("the seed of that order", NUMBER)]
Version = Annotated[str | None, "the version of Roofwright that measured it, with the commit where it is a clone"]

Load = Annotated[
    float | None,
    Column("share of the cores that other programs used meanwhile; empty where it was not looked at", NUMBER, most=1),
]

LayerKind = Annotated[str, Column("what the layer is", form=one_of(LAYER_KINDS))]
Stage = Annotated[
    str,
    Column(
        "`inference` (the forward pass in eval mode without gradients), or the stage of a training step",
        form=one_of((INFERENCE, *STAGES)),
    ),
]
OperatorName = Annotated[str, "the name that torch gives the operator, without namespace and overload"]
KernelName = Annotated[str, "the name that the device's compiler gives the GPU kernel"]
Calls = Annotated[int, Column("how often it ran in one call of the whole", NUMBER, least=1)]
Seconds = Annotated[float, Column("the device's time, of all its calls in one call of the whole", most=DAY_S)]
