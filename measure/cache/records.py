"""The tables of the cache: one frozen dataclass a table, whose field names are the CSV's header.

Units stand in the names (``_s``, ``_byte``, ``_flop``); ``None`` is an unknown value and an empty cell, never 0.
A number that can be derived (a rate, an intensity, a median of samples) is not stored.
``KEYS`` names the columns that identify a row of each table.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

PRECISION_BYTE = {"fp32": 4, "fp16": 2, "bf16": 2}
"""The precisions that are counted and measured, and the bytes that one stored element takes in each."""

TF32 = "tf32"
"""The format in which NVIDIA's tensor cores may multiply what is stored as fp32."""

PRECISIONS = ("fp32", TF32, "fp16", "bf16")
"""The precisions that can be asked for."""

FULL_PRECISION = "fp32"
"""The precision that models are published in, from which others are cast."""

PUBLISHED_MAC_STEP = 1_000_000
"""torchvision publishes multiply-adds in units of 10^9 with three decimals (``meta["_ops"]``)."""

INFERENCE, EAGER = "inference", "eager"
"""The phase and the variant of a run: a forward pass, as PyTorch runs it without compiling."""

STEP = "step"
"""The phase of a whole training step."""

FORWARD, BACKWARD, UPDATE = STAGES = ("forward", "backward", "update")
"""The stages of a training step, which are phases of runs too: forward pass and loss, backward pass, optimiser."""

WIDE, DRIFTING, THROTTLED = FLAGS = ("wide", "drifting", "throttled")
"""What may be held against a round that was measured: see ``Run``."""

VECTOR_EXTENSIONS = ("amx_bf16", "avx512_bf16", "avx512f", "avx2", "avx", "sse2", "sve2", "sve", "asimd")
"""What a processor's flags say of its vector units, widest first."""


def shape_name(shape: Iterable[int]) -> str:
    """A shape as tables write it: ``3x224x224``."""
    return "x".join(map(str, shape))


def stored_as(precision: str) -> str:
    """The precision in which weights and inputs lie in memory: it decides the workload."""
    return FULL_PRECISION if precision == TF32 else precision


LAYER_KINDS = (
    "convolution",
    "depthwise convolution",
    "linear",
    "attention",
    "normalisation",
    "activation",
    "pooling",
    "recurrent",
    "embedding",
    "other",
)
"""What a layer is, in the order in which figures show the kinds."""


@dataclass(frozen=True)
class Workload:
    """What a model at one batch size and precision asks for, on any device: one forward and one backward pass.

    ``input_shape`` is one input's without the batch, joined by ``x``. ``precision`` is that of weights and input;
    where ``autocast`` names a kind of device, weights and input are fp32 and torch's autocast to the precision, as
    that kind of device has it, decides each operator's. ``status`` is ``ok``, ``unsupported``, ``oom``, ``timeout``
    or ``error``; all but ``ok`` have a reason and no counts. An ``ok`` row whose backward columns are empty has as
    reason why the backward pass could not be counted.

    Inference is a forward pass in eval mode without gradients: ``forward_flop`` counts convolutions, matrix products
    and attention at 2 FLOP a multiply-add, ``forward_other_flop`` everything else (``measure/counting/scalars.py``),
    ``traffic_byte`` what every operator reads and writes (``measure/counting/traffic.py``), ``inference_peak_byte``
    the most memory that is alive at once. Training is a forward pass in train mode and the backward pass from given
    gradients of the outputs: the ``backward`` columns are of the backward pass alone, without what is computed again
    in it (``recompute_flop``: fused attention's scores, checkpoints), ``saved_byte`` is what the forward pass keeps
    for it besides parameters, buffers and inputs, ``gradient_byte`` the parameters' gradients, ``momentum_byte`` and
    ``adam_byte`` the state of SGD with momentum and of Adam, ``training_peak_byte`` the most memory alive at once in a
    step with the former.
    ``activation_byte`` is the sum of the outputs of all leaf modules, each storage once; ``output_byte`` the model's
    own outputs. ``uncounted`` lists the operators that do arithmetic and have no formula, forward and backward, as
    ``name:calls:share of the traffic`` joined by ``;``.
    """

    model: str
    source: str
    family: str
    input_shape: str
    batch: int
    precision: str
    autocast: str | None
    status: str
    reason: str | None
    parameter_count: int | None = None
    parameter_byte: int | None = None
    buffer_byte: int | None = None
    input_byte: int | None = None
    output_byte: int | None = None
    activation_byte: int | None = None
    traffic_byte: int | None = None
    inference_peak_byte: int | None = None
    forward_flop: int | None = None
    forward_other_flop: int | None = None
    saved_byte: int | None = None
    gradient_byte: int | None = None
    momentum_byte: int | None = None
    adam_byte: int | None = None
    backward_traffic_byte: int | None = None
    training_peak_byte: int | None = None
    backward_flop: int | None = None
    backward_other_flop: int | None = None
    recompute_flop: int | None = None
    uncounted: str | None = None


@dataclass(frozen=True)
class Layer:
    """A module's own part of a workload; the layers of a workload sum to it, column by column.

    There is a row for every leaf of the module tree, and for every other module that runs operators of its own (the
    addition of a residual block) or holds parameters of its own. An operator belongs to the innermost module that
    was running, its backward to the same; a parameter to the module that first used it, else to the one that holds
    it. ``position`` counts the layers in the order in which they first run, those that never run last; ``path`` is
    the module's name in the model (``.``: the model itself), ``type`` its class, ``kind`` one of ``LAYER_KINDS``,
    ``calls`` how often it ran in one forward pass.
    """

    model: str
    input_shape: str
    batch: int
    precision: str
    autocast: str | None
    position: int
    path: str
    type: str
    kind: str
    calls: int
    parameter_count: int
    parameter_byte: int
    activation_byte: int
    traffic_byte: int
    forward_flop: int
    forward_other_flop: int
    saved_byte: int | None
    backward_traffic_byte: int | None
    backward_flop: int | None
    backward_other_flop: int | None
    recompute_flop: int | None


@dataclass(frozen=True)
class Operator:
    """Calls of one operator within a workload that ask for the same; ``calls`` of them, the other numbers of one.

    ``stage`` is ``inference`` (the forward pass in eval mode without gradients), ``forward`` (that of training) or
    ``backward``; ``kind`` is that of the layers which the calls belong to (one of ``LAYER_KINDS``), ``operator`` the
    name that torch gives it, without namespace and overload. ``byte`` is what one call reads and writes,
    ``recompute_flop`` what it computes again. The calls sum, column by column, to the workload's row: ``inference``
    to ``forward_flop``, ``forward_other_flop`` and ``traffic_byte``, ``backward`` to the backward columns.
    """

    model: str
    input_shape: str
    batch: int
    precision: str
    autocast: str | None
    stage: str
    kind: str
    operator: str
    flop: int
    other_flop: int
    recompute_flop: int
    byte: int
    calls: int


@dataclass(frozen=True)
class Environment:
    """A machine as it was when it measured: hardware, driver, library versions, threads.

    ``environment_id`` is a hash of what can change a measurement (``hardware_id``, ``driver``, ``torch``,
    ``threads``, ``tuning``); every measured row carries it. ``hardware_id`` is a hash of the hardware alone.
    ``recorded_at`` is the UTC time at which this environment was first seen. ``cores`` are logical ones.
    ``cpu_vendor``, ``cpu_family`` and ``cpu_model`` are the numbers by which a processor says what it is (on Arm its
    implementer, architecture and part); empty, as ``physical_cores``, where an earlier version did not record them.
    ``caches`` are the data caches of a processor as the system reports them, ``level:byte:count`` joined by ``;``, the
    bytes of all caches of a level together (``measure/cache/memory_levels.py``); empty where it does not. ``tuning``
    are the environment variables that decide how fast libraries run (``measure/machine/tuning.py``), ``NAME=value``
    joined by ``;``; empty where none is set, and where an earlier version did not look. Of a machine whose counters
    were imported (``measure/import_ncu.py``) only the device and its name are known.
    """

    environment_id: str
    hardware_id: str
    device: str
    name: str
    cores: int | None
    threads: int | None
    memory_byte: int | None
    vector_extension: str | None
    driver: str | None
    system: str | None
    python: str | None
    torch: str | None
    torchvision: str | None
    torchaudio: str | None
    recorded_at: str
    cpu_vendor: str | None = None
    cpu_family: int | None = None
    cpu_model: int | None = None
    physical_cores: int | None = None
    caches: str | None = None
    tuning: str | None = None


STREAM_ARRAYS = {"stream_read": 1, "stream_write": 1, "stream_copy": 2, "stream_triad": 3}
"""The kernels that stream through memory, and how many arrays of numbers share the working set of each."""

BURST, SUSTAINED = "burst", "sustained"
"""The paces of a kernel: short blocks after a rest each, and without a rest once the chip has worked for seconds."""


@dataclass(frozen=True)
class Ceiling:
    """A kernel at one size and precision, from which roofs are read: its work a call, its time a call, its status.

    ``kernel`` is ``matmul`` (a library's product of two square matrices of ``size`` rows), ``fma`` (``size``
    multiply-adds in registers, those of all threads together), ``stream_read``, ``stream_write``, ``stream_copy``
    (``a = b``) or ``stream_triad`` (``a = b + s * c``), or ``chain`` (``size`` additions in each thread, each of which
    waits for the one before: a clock; work and time are one thread's, the time that of the processor, not of the
    wall). A stream passes once over a working set of ``size`` bytes, all its arrays and all threads' shares together;
    ``byte`` counts each array once, as STREAM does: what the program reads or writes, whatever a cache moves besides.
    ``pace`` is ``burst`` (blocks of some milliseconds, a rest before each) or ``sustained`` (without a rest, once the
    chip has worked for seconds). Tables of an earlier version have no paces, which is to say sustained, and as their
    stream ``triad``, in torch, on three arrays of ``size`` elements each.
    ``latency_s`` is the median of ``sample_count`` samples with its 95 % interval (their extremes, where fewer than
    six samples were taken); the rate is the work divided by it. All four are empty where the status is not ``ok``.
    """

    environment_id: str
    kernel: str
    precision: str
    size: int
    flop: int
    byte: int
    status: str
    reason: str | None
    latency_s: float | None
    latency_low_s: float | None
    latency_high_s: float | None
    sample_count: int | None
    pace: str | None = None


@dataclass(frozen=True)
class Run:
    """One round of a cell: one model at one batch size, precision, phase and variant, in a process of its own.

    A cell is measured in several rounds (``round`` counts from 0; empty in tables of an earlier version, which had
    one), each in a fresh process, so that what differs between processes and over hours is in its interval.
    ``status`` is ``ok``, ``oom``, ``timeout``, ``unsupported`` or ``error``; all but ``ok`` have a reason and no
    samples. ``flags`` says of an ``ok`` round what to hold against it, joined by ``;``: ``wide`` (the interval stayed
    wider than asked), ``drifting`` (the second half of the samples is slower or faster than the first),
    ``throttled`` (the device lowered its clock for heat or power). ``peak_byte`` is the most memory that was
    allocated at once, weights, inputs and the optimiser's state among it: the allocator's on a GPU, by a trace of
    allocations on a processor; known of training steps.
    """

    environment_id: str
    model: str
    batch: int
    precision: str
    phase: str
    variant: str
    status: str
    reason: str | None
    recorded_at: str
    round: int | None = None
    flags: str | None = None
    peak_byte: int | None = None


@dataclass(frozen=True)
class Sample:
    """One timed sample of a round of a cell: ``block`` calls in a row, ``latency_s`` the host's time of one of them.

    ``event_s`` is the device's own time of one call (CUDA events); ``load`` the part of all cores that other
    processes used during the sample, 0 to 1; ``clock_hz``, ``temperature_c``, ``power_w`` what the device reported at
    its end; ``throttle`` the reasons that it gave for a lower clock, joined by ``;``; ``energy_j`` the energy of one
    call, where the block was long enough for the counter. Empty: not available here.
    """

    environment_id: str
    model: str
    batch: int
    precision: str
    phase: str
    variant: str
    sample: int
    block: int
    latency_s: float
    round: int | None = None
    event_s: float | None = None
    load: float | None = None
    clock_hz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    throttle: str | None = None
    energy_j: float | None = None


@dataclass(frozen=True)
class Profile:
    """A cell that was run under torch's profiler, for the times of its operators; ``phase`` is inference or a step.

    ``plain_s`` is the median host time of one call in the same process without the profiler, ``profiled_s`` the mean
    of the ``steps`` calls under it: the difference is what the profiler costs. ``busy_s`` is the part of such a call in
    which the device worked: in which a kernel ran, on a processor an operator. ``system_s`` is the processors' time,
    of all threads of the process together, that a call without the profiler takes in the host's operating system, and
    ``page_faults`` how many it causes, means of several calls; empty where the system does not say. These three are
    empty also in tables of an earlier version. All are empty where the status is not ``ok``.
    """

    environment_id: str
    model: str
    batch: int
    precision: str
    phase: str
    variant: str
    status: str
    reason: str | None
    recorded_at: str
    steps: int | None = None
    plain_s: float | None = None
    profiled_s: float | None = None
    busy_s: float | None = None
    system_s: float | None = None
    page_faults: float | None = None


@dataclass(frozen=True)
class OperatorTime:
    """The time of one operator in one module within a profiled cell, the mean over its calls under the profiler.

    ``stage`` is ``inference``, or the stage of a training step; ``path`` the module that called it, as in ``Layer``
    (a backward operator belongs to the module of its forward one), empty where that is unknown, as for the
    optimiser's. ``calls`` and ``time_s`` are of one call of the whole: outermost operators only, with all that they
    call; ``time_s`` is the device's time, on a processor the host's, on a GPU that of the kernels that it launched.
    """

    environment_id: str
    model: str
    batch: int
    precision: str
    phase: str
    variant: str
    stage: str
    path: str | None
    operator: str
    calls: int
    time_s: float


@dataclass(frozen=True)
class KernelTime:
    """The time of one kernel that an operator launches in one module within a profiled cell, on a GPU.

    ``stage``, ``path`` and ``operator`` are those of the row of ``OperatorTime`` whose calls launch it, ``kernel`` the
    name that the device's compiler gives it. ``calls`` and ``time_s`` are of one call of the whole; the kernels of an
    operator sum to its time.
    """

    environment_id: str
    model: str
    batch: int
    precision: str
    phase: str
    variant: str
    stage: str
    path: str | None
    operator: str
    kernel: str
    calls: int
    time_s: float


@dataclass(frozen=True)
class CounterProfile:
    """A cell whose kernels were counted by the GPU's hardware counters; ``phase`` is inference or a step.

    ``tool`` is what read the counters, and its version where that is known, ``capability`` the compute capability of
    the GPU, ``steps`` the calls that were counted. ``tensor_gap`` says why the FLOP of tensor cores are not known,
    where they are not. All are empty where the status is not ``ok``.
    """

    environment_id: str
    model: str
    batch: int
    precision: str
    phase: str
    variant: str
    status: str
    reason: str | None
    recorded_at: str
    tool: str | None = None
    capability: str | None = None
    steps: int | None = None
    tensor_gap: str | None = None


@dataclass(frozen=True)
class KernelCounters:
    """What the hardware counters say of one kernel within a counted cell; all numbers are of one call of the whole.

    ``time_s`` is the sum of its ``gpu__time_duration``, with each kernel run alone and with cold caches. Bytes are what
    went to and from memory, and through the caches of second and first level. ``fp64_flop`` and so on are additions
    and multiplications of the vector units at a precision, a fused multiply-add being two; ``tensor_flop`` is the
    tensor cores' work at any precision, ``tensor_instruction`` how many of their instructions it took. Empty: not
    counted.
    """

    environment_id: str
    model: str
    batch: int
    precision: str
    phase: str
    variant: str
    kernel: str
    calls: int
    time_s: float
    dram_read_byte: float | None = None
    dram_write_byte: float | None = None
    l2_byte: float | None = None
    l1_byte: float | None = None
    fp64_flop: float | None = None
    fp32_flop: float | None = None
    fp16_flop: float | None = None
    tensor_flop: float | None = None
    tensor_instruction: float | None = None


@dataclass(frozen=True)
class CounterResult:
    """What a counter, a program that counts a network's multiply-adds, says of one model at batch size 1.

    All rows come from one run of ``benchmarks/counters.py``, in which each counter has a process of its own. A
    multiply-add (``_mac``) is 2 FLOP; the ``published`` counts are torchvision's own, whose multiply-adds are rounded
    to ``PUBLISHED_MAC_STEP``. ``status`` is ``ok``, ``unsupported``, ``oom`` or ``error``; all but ``ok`` have a
    reason and no counts. ``parameter_count`` is empty for a counter that does not count parameters, ``version`` for
    this program. ``build_s`` is the time that building the network and its input took, ``count_s`` that of counting
    alone; ``peak_byte`` is the most memory that the process held until then, its libraries among it.
    """

    environment_id: str
    counter: str
    version: str | None
    model: str
    family: str
    input_shape: str
    status: str
    reason: str | None
    published_parameter_count: int
    published_mac: int
    parameter_count: int | None = None
    forward_mac: int | None = None
    build_s: float | None = None
    count_s: float | None = None
    peak_byte: int | None = None


class Cell(NamedTuple):
    """A model at one batch size, precision, phase and variant: what is measured, on whatever machine."""

    model: str
    batch: int
    precision: str
    phase: str
    variant: str

    @classmethod
    def of(cls, row: Any) -> "Cell":
        """Return the cell that a row belongs to."""
        return cls(*(getattr(row, name) for name in cls._fields))

    def describe(self) -> str:
        """Name the cell in full, for logs and comparisons."""
        return f"{self.model} batch {self.batch} {self.precision} {self.phase} {self.variant}"

    @property
    def label(self) -> str:
        """The cell in a plan: only what is not usual is named beside model, batch size and precision."""
        training = "" if self.phase == INFERENCE else "training "
        variant = "" if self.variant == EAGER else f" {self.variant}"
        return f"{training}{self.model} batch {self.batch} {self.precision}{variant}"


CELL = ("environment_id", *Cell._fields)

WORKLOAD = ("model", "input_shape", "batch", "precision", "autocast")

ROUND = (*CELL, "round")

KEYS: dict[type, tuple[str, ...]] = {
    Workload: WORKLOAD,
    Layer: (*WORKLOAD, "position"),
    Operator: (*WORKLOAD, "stage", "kind", "operator", "flop", "other_flop", "recompute_flop", "byte"),
    Environment: ("environment_id",),
    Ceiling: ("environment_id", "kernel", "precision", "size", "pace"),
    Run: ROUND,
    Sample: (*ROUND, "sample"),
    Profile: CELL,
    OperatorTime: (*CELL, "stage", "path", "operator"),
    KernelTime: (*CELL, "stage", "path", "operator", "kernel"),
    CounterProfile: CELL,
    KernelCounters: (*CELL, "kernel"),
    CounterResult: ("counter", "model"),
}
"""The primary key of each table."""
