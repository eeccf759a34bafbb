"""The tables of a trace: a recording of ``torch.profiler``, imported from a GPU anywhere or made by ``measure``.

Only these columns of a trace are stored.
"""

import re
from typing import Annotated

from measure.domain import schema
from measure.domain.kernel_names import algorithm_of
from measure.domain.schema import DAY_S, NUMBER, Column, Form, one_of, table
from measure.domain.words import BACKWARD, FORWARD, INFERENCE, LAYER_KINDS, UPDATE

TRACE = "traces/NAME"  # the folder below ``data`` of the tables of each trace
POINTWISE, REDUCTION, COPY, OPTIMISER = "pointwise", "reduction", "copy", "optimiser"
LAYOUT = "layout conversion"  # of kernels inside other operators, mostly convolutions
COMMUNICATION = "communication"  # the kind of layer that waits for other devices, so that a chip's roof says nothing
TRACE_KINDS = (*LAYER_KINDS[:-1], POINTWISE, REDUCTION, COPY, LAYOUT, OPTIMISER, COMMUNICATION, LAYER_KINDS[-1])
CONVOLUTIONS = LAYER_KINDS[:2]
TRACE_PRECISIONS = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8")
RANKS = Form(re.compile(r"\d{1,9}(?: \d{1,9})*").fullmatch, "ranks split by spaces, such as 0 1")
GROUP = Form(re.compile(r"[\w.:-]{1,64}").fullmatch, "a name without spaces")
COLLECTIVES = (
    "all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "barrier", "gather", "scatter", "reduce",
    "send", "recv",
)  # fmt: skip
SHAPES = Form(re.compile(r"\d{1,15}(?:[x ]\d{1,15})*").fullmatch, "shapes such as 8x64 64x64, split by spaces")

Rank = Annotated[int, Column("the process, of several that ran together", NUMBER)]
Device = Annotated[int, Column("the process's device", NUMBER)]


@table(f"{TRACE}/trace.csv", key=("rank", "device"))
class TraceDevice:
    """One device in one recorded process: chip, software, and source of the recording."""

    network: Annotated[str | None, "the network, by the user or the trace"]
    rank: Rank
    device: Device
    chip: Annotated[str | None, "the chip in `data/chips.csv`; empty if it is not there"]
    device_name: Annotated[str | None, "the driver's name of the device"]
    capability: schema.Capability
    memory_byte: Annotated[int | None, "the device's memory"]
    torch: Annotated[str | None, "version of torch"]
    runtime: Annotated[str | None, "version of CUDA or HIP"]
    driver: Annotated[str | None, "the version that the driver is made for"]
    world_size: Annotated[int, Column("processes that ran together", NUMBER, least=1)]
    fingerprint: Annotated[str, "hash of the kernels' names and times"]
    source: Annotated[
        str | None, "where the trace was published, or the folder in `data` of the machine that measured it"
    ]
    licence: Annotated[str | None, "its licence"]
    version: schema.Version


@table(f"{TRACE}/steps.csv", key=("rank", "device", "step"))
class TraceStep:
    """One step of the profiler on one device. Without the profiler's steps, all of the trace is step 0."""

    rank: Rank
    device: Device
    step: Annotated[int, Column("the profiler's number of the step", NUMBER)]
    host_s: Annotated[float | None, Column("the step's time on the host; empty without steps", most=DAY_S)]
    span_s: Annotated[float, Column("from the start of its first kernel to the end of its last", most=DAY_S)]
    busy_s: Annotated[float, Column("its part with a kernel, copy or fill running", most=DAY_S)]


@table(
    f"{TRACE}/operators.csv",
    key=("rank", "device", "step", "stage", "layer_kind", "operator", "shape", "precision", "reason"),
)
class TraceOperator:
    """Equal calls of one operator in one step, with their kernels.

    The outermost operator with a formula carries the counts of all operators inside it. Kernels without an operator or
    a step form groups of their own. On a processor ``time_s`` is the host's. FLOP and bytes cover all calls together,
    as in ``Operator``, and are empty if unknown. ``recompute_flop`` is the FLOP of forward operators that run again in
    a backward pass. Kernels that convert layouts inside an operator form a group of their own, whose ``calls``, FLOP
    and bytes are 0: the operator's other group has them all.
    """

    rank: Rank
    device: Device
    step: Annotated[int | None, Column("the step that launched it; empty: none that was recorded", NUMBER)]
    stage: Annotated[str | None, Column("the stage of the step", form=one_of((INFERENCE, FORWARD, BACKWARD, UPDATE)))]
    layer_kind: Annotated[str, Column("the kind of layer or operator", form=one_of(TRACE_KINDS))]
    operator: Annotated[str | None, "torch's name, without `aten`; empty: no operator launched the kernels"]
    shape: Annotated[str | None, Column("shapes of its first tensors", form=SHAPES)]
    precision: Annotated[str | None, Column("of its first floating-point tensor", form=one_of(TRACE_PRECISIONS))]
    reason: Annotated[str | None, "why the kernels have no operator, or the operator no counts"]
    calls: Annotated[int, Column("calls of the operator", NUMBER)]
    kernels: Annotated[int, Column("kernels that they launched", NUMBER)]
    time_s: Annotated[float, Column("sum of the kernels' times", most=DAY_S)]
    copy_s: Annotated[float, Column("sum of the times of copies and fills", most=DAY_S)]
    gap_s: Annotated[float, Column("time that the device was idle before them", most=DAY_S)]
    flop: Annotated[int | None, "products, convolutions and attention"]
    other_flop: Annotated[int | None, "other arithmetic"]
    recompute_flop: Annotated[int | None, "FLOP that the backward pass computes again"]
    byte: Annotated[int | None, "bytes that the calls read and write, each tensor once"]
    kernel: Annotated[str | None, "the kernel with the most time"]

    @property
    def algorithm(self) -> str | None:
        """The algorithm of a convolution that needs fewer FLOP than are counted, by its longest kernel."""
        return algorithm_of(self.kernel) if self.layer_kind in CONVOLUTIONS else None

    @property
    def kind(self) -> str:
        """The kind of layer with the algorithm: ``convolution by FFT``."""
        return f"{self.layer_kind} by {self.algorithm}" if self.algorithm else self.layer_kind


@table(f"{TRACE}/collectives.csv", key=("rank", "device", "step", "operator", "ranks", "group", "number"))
class TraceCollective:
    """One collective of several processes as one of them ran it. Stored of processes that ran with others only.

    ``time_s`` runs from the process's arrival to the end, so it includes the wait for the last process. ``byte`` is the
    size that nccl-tests names: of the larger of input and output, with the parts of all ranks.
    """

    rank: Rank
    device: Device
    step: Annotated[int, Column("the step that launched it", NUMBER)]
    operator: Annotated[str, "torch's name; of kernels without an operator the name in the kernel's"]
    ranks: Annotated[str | None, Column("the ranks that take part; empty: not recorded", form=RANKS)]
    number: Annotated[int, Column("its place among the equal ones of the step", NUMBER)]
    time_s: Annotated[float, Column("its time on the device, of gloo on the host", most=DAY_S)]
    exposed_s: Annotated[
        float | None, Column("its part with no kernel of another kind running, of gloo no operator", most=DAY_S)
    ] = None
    collective: Annotated[str | None, Column("what it does", form=one_of(COLLECTIVES))] = None
    group: Annotated[str | None, Column("torch's name of the group of ranks; empty: not recorded", form=GROUP)] = None
    group_size: Annotated[int | None, Column("ranks of the group", NUMBER, least=1)] = None
    sequence: Annotated[int | None, Column("its number in the group; empty: not recorded", NUMBER)] = None
    byte: Annotated[int | None, "size of the message"] = None
