"""The tables of a machine's measurements. A field is a column of the CSV; ``schema`` declares the columns they share.

Names end with the unit (``_s``, ``_byte``, ``_flop``). ``None`` is an unknown value and an empty cell, never 0. Derived
numbers (a rate, an intensity, a median of samples) are not stored.
"""

import re
from dataclasses import dataclass
from typing import Annotated

from measure.domain import schema
from measure.domain.cautions import FLAGS
from measure.domain.cell import Cell
from measure.domain.groups import (
    BACKENDS,
    COMMUNICATIONS,
    OVERSUBSCRIBED,
    TIMED_COLLECTIVES,
    CollectiveCell,
    DataParallelCell,
)
from measure.domain.schema import (
    DAY_S,
    DEVICE,
    MACHINE,
    NUMBER,
    Column,
    Form,
    duration,
    one_of,
    several,
    some_of,
    table,
)  # fmt: skip
from measure.domain.words import (
    BURST,
    EIGHT_BITS,
    HUGE_PAGES,
    PEAK_KERNELS,
    PRECISIONS,
    ROOF_KERNELS,
    STREAM_ARRAYS,
    SUSTAINED,
)  # fmt: skip

CELL = ("environment_id", *Cell._fields)
ROUND = (*CELL, "round")
CACHES = several(r"\d+:\d+:\d+", "level:byte:count")
TUNING = several(r"[A-Z_]+=[^;]+", "NAME=value")
NAME_LETTERS = r"\w .,:;()+/@%&'®™†-"
NAME = Form(
    re.compile(f"[{NAME_LETTERS}]{{1,200}}").fullmatch, "a name of 200 letters, digits and .,:;()+/@%&'- at most"
)
CAVEATS = "caveats of an `ok` round: " + "; ".join(f"`{flag}`, {caution.seen}" for flag, caution in FLAGS.items())
GROUP_CAVEATS = f"{CAVEATS}; `{OVERSUBSCRIBED}`, the machine has fewer cores than the group has processes"

Backend = Annotated[str, Column("torch's backend of the group", form=one_of(BACKENDS.values()))]
Processes = Annotated[int, Column("processes of the group, on one machine", NUMBER, least=1, most=10**6)]
ProcessThreads = Annotated[
    int | None, Column("torch's threads of each process: those of the run, divided", NUMBER, least=1, most=10**6)
]
SlowestMedian = Annotated[
    float | None, duration("median over the samples of the slowest process's time, from a barrier on")
]
MedianLow = Annotated[float | None, duration("lower end of its 95 % interval (under 6 samples: the least)")]
MedianHigh = Annotated[float | None, duration("upper end (under 6 samples: the greatest)")]
SampleCount = Annotated[int | None, Column("samples taken", NUMBER, least=1)]
Block = Annotated[int | None, Column("calls of a sample, in a row after one barrier", NUMBER, least=1)]
GroupFlags = Annotated[str | None, Column(GROUP_CAVEATS, form=some_of((*FLAGS, OVERSUBSCRIBED), ";"))]
GroupLoad = Annotated[
    float | None, Column("share of the cores that programs outside the group used meanwhile", NUMBER, most=1)
]


@table(f"{MACHINE}/machine.csv", key=("environment_id",))
class Environment:
    """A machine as it was when it measured: hardware, driver, library versions, threads.

    Imported counters (``import-ncu``) name only the device and its name.
    """

    environment_id: schema.EnvironmentId
    hardware_id: Annotated[str, "hash of the hardware alone"]
    device: Annotated[str, Column("the kind of device", form=DEVICE)]
    name: Annotated[str, Column("the chip's own name", form=NAME)]
    cores: Annotated[int | None, Column("logical cores", NUMBER, least=1, most=10**6)]
    threads: Annotated[int | None, Column("torch's threads", NUMBER, least=1, most=10**6)]
    memory_byte: Annotated[int | None, Column("the device's memory", least=1)]
    vector_extension: Annotated[str | None, "the processor's vector extensions, split by spaces"]
    driver: Annotated[str | None, "version of the GPU's driver"]
    system: Annotated[str | None, "operating system"]
    python: Annotated[str | None, "version of Python"]
    torch: Annotated[str | None, "version of torch; empty if it measured nothing"]
    torchvision: Annotated[str | None, "version of torchvision"]
    torchaudio: Annotated[str | None, "version of torchaudio"]
    recorded_at: Annotated[str, "the UTC time when this environment was first seen"]
    cpu_vendor: Annotated[str | None, "the processor's vendor; on Arm its implementer; `Apple` under macOS"] = None
    cpu_family: Annotated[
        int | None, Column("number of its family; on Arm its architecture; of an Apple M2 under macOS 2", NUMBER)
    ] = None
    cpu_model: Annotated[
        int | None, Column("number of its model; on Arm its part, if all cores have the same", NUMBER)
    ] = None
    physical_cores: Annotated[int | None, Column("physical cores", NUMBER, least=1, most=10**6)] = None
    caches: Annotated[
        str | None, Column("data caches of the processor, or of the GPU, summed by level", form=CACHES)
    ] = None
    tuning: Annotated[str | None, Column("the set variables that change the speed of libraries", form=TUNING)] = None
    c_library: Annotated[str | None, "the C library and its version; it allocates a processor's memory"] = None
    hypervisor: Annotated[str | None, "the hypervisor of a virtual machine, else `none`"] = None
    huge_pages: Annotated[str | None, Column("the system's use of huge pages", form=one_of(HUGE_PAGES))] = None
    capability: schema.Capability = None
    power_limit_w: Annotated[float | None, Column("the power limit of a GPU's board", most=1e5)] = None
    cudnn: Annotated[str | None, "the version of cuDNN that torch uses"] = None
    cpu_stepping: Annotated[int | None, Column("number of the processor's stepping", NUMBER)] = None

    @property
    def label(self) -> str:
        """The machine and its software, as commands print them."""
        software = f", {self.threads} threads, torch {self.torch}" if self.torch else ""
        return f"{self.name} ({self.device}{software})"


@table(f"{MACHINE}/roofs.csv", key=("environment_id", "roof_kernel", "precision", "size", "pace", "round"))
class RoofMeasurement:
    """A roof kernel (a micro-benchmark that gives roofs) at one size and precision: a call's work and time.

    ``roof_kernel`` is ``matmul`` (a library's product of two square matrices of ``size`` rows), ``fma`` (``size``
    multiply-adds in registers, all threads together), ``stream_read``, ``stream_write``, ``stream_copy`` (``a = b``) or
    ``stream_triad`` (``a = b + s * c``), ``chain`` (``size`` dependent additions in each thread, which give the
    clock; work and processor time are per thread), or ``idle`` (``size`` milliseconds without work: its energy gives
    the idle power). A stream passes once over a working set of ``size`` bytes, all arrays and all threads' shares
    together.

    The rate is the work divided by ``latency_s``. Latency and interval are empty unless the status is ``ok``.
    """

    environment_id: schema.EnvironmentId
    roof_kernel: Annotated[str, Column("the kernel", form=one_of(ROOF_KERNELS))]
    precision: Annotated[str, Column("its arithmetic", form=one_of((*PRECISIONS, *EIGHT_BITS, "fp64", "int64")))]
    size: Annotated[int, Column("rows, multiply-adds, additions, milliseconds or bytes", f"{NUMBER}, ms or B", least=1)]
    flop: Annotated[int, "the arithmetic of one call; at int8 its operations, which are not FLOP"]
    byte: Annotated[int, "bytes that a program reads or writes in one call, each array once, without cache traffic"]
    status: schema.Status
    reason: schema.Reason
    latency_s: Annotated[float | None, duration("median time of one call")]
    latency_low_s: Annotated[float | None, duration("lower end of its 95 % interval (under 6 samples: the least)")]
    latency_high_s: Annotated[float | None, duration("upper end (under 6 samples: the greatest)")]
    sample_count: Annotated[int | None, Column("samples taken", least=1)]
    pace: Annotated[str, Column("short blocks with rests, or work without rests", form=one_of((BURST, SUSTAINED)))]
    round: Annotated[int | None, Column("counts the rounds of a stream from 0; empty for other kernels", NUMBER)] = None
    recorded_at: Annotated[str | None, "the UTC time of the record"] = None
    session: schema.Session = None
    seed: schema.Seed = None
    version: schema.Version = None
    load: schema.Load = None
    clock_hz: Annotated[float | None, Column("the device's clock meanwhile", least=1e6, most=1e11)] = None
    power_w: Annotated[float | None, Column("its mean power meanwhile", most=1e5)] = None
    throttle: Annotated[str | None, "its reasons for a lower clock, joined by `;`"] = None
    energy_j: Annotated[float | None, "energy of one call, if the block was long enough"] = None

    def problem(self) -> tuple[str, str]:
        """Return the column and the problem of a roof kernel without work, or two empty texts."""
        column = "flop" if self.roof_kernel in PEAK_KERNELS else "byte" if self.roof_kernel in STREAM_ARRAYS else ""
        is_idle = column and self.status == "ok" and not getattr(self, column)
        return (column, f"the cell is '0', and {self.roof_kernel} gives a roof by it") if is_idle else ("", "")


@dataclass(frozen=True)
class OfCell:
    """The columns that identify a cell of an environment."""

    environment_id: schema.EnvironmentId
    model: schema.Model
    batch: schema.Batch
    precision: schema.Precision
    phase: schema.Phase
    variant: schema.Variant


@dataclass(frozen=True)
class Attempt(OfCell):
    """How a cell ran: status, input shape, session."""

    status: schema.Status
    reason: schema.Reason
    recorded_at: Annotated[str, "the UTC time of the record"]
    session: schema.Session = None
    seed: schema.Seed = None
    version: schema.Version = None
    input_shape: Annotated[str | None, Column("a measured input's shape, without the batch", form=schema.SHAPE)] = None
    code: schema.Code = None


@table(f"{MACHINE}/runs.csv", key=ROUND)
class Run(Attempt):
    """One round of a cell: one model at one batch size, precision, phase and variant.

    Each round of a cell has a fresh process, so that its interval covers differences between processes and over hours.
    Under CUDA the batch sizes of a model share the process of their round. A round that is not ``ok`` has a reason and
    no samples. All rounds of a cell share input shape and code: a round of another shape or code replaces them.
    """

    round: schema.Round = 0
    flags: Annotated[str | None, Column(CAVEATS, form=some_of(tuple(FLAGS), ";"))] = None
    peak_byte: Annotated[int | None, "a training step's peak of allocated memory; on Apple GPUs at its end"] = None
    target: Annotated[
        float | None,
        Column("the half width asked of its interval, a share of the latency; empty: 0.05", NUMBER, most=1),
    ] = None


@table(f"{MACHINE}/samples.csv", key=(*ROUND, "sample"))
class Sample(OfCell):
    """One timed sample of a round: ``block`` calls in a row. An empty cell: not available on this device.

    Load, clock, temperature, power, throttling and energy are those of the whole round; all its samples have the same.
    Rows recorded before 2026-11-29 hold those of a window of half a second, and clock and power after its end.
    """

    sample: Annotated[int, Column("counts the samples of a round from 0", NUMBER)]
    block: Annotated[int, Column("calls in a row that were timed together", NUMBER, least=1)]
    latency_s: Annotated[float, duration("the host's time of one call")]
    round: schema.Round
    event_s: Annotated[float | None, Column("the device's time of one call, from its events", most=DAY_S)] = None
    load: schema.Load = None
    clock_hz: Annotated[float | None, Column("the device's clock at work", least=1e6, most=1e11)] = None
    temperature_c: Annotated[float | None, Column("its temperature at the end", least=-100, most=300)] = None
    power_w: Annotated[float | None, Column("its mean power over the round", most=1e5)] = None
    throttle: Annotated[str | None, "its reasons for a lower clock, joined by `;`"] = None
    energy_j: Annotated[float | None, "mean energy of one call, over 20 steps of the counter or more"] = None


@table(f"{MACHINE}/profiles.csv", key=CELL)
class Profile(Attempt):
    """A cell under torch's profiler, which times its operators. ``phase`` is inference or a step.

    The profiler costs ``profiled_s`` less ``plain_s``. Columns from ``steps`` on are empty unless the status is ``ok``.
    """

    steps: Annotated[int | None, Column("calls under the profiler", NUMBER, least=1)] = None
    plain_s: Annotated[float | None, duration("median host time of one call in this process, not profiled")] = None
    profiled_s: Annotated[float | None, duration("mean host time of one profiled call")] = None
    busy_s: Annotated[float | None, Column("its part with a GPU kernel (CPU: an operator) running", most=DAY_S)] = None
    system_s: Annotated[float | None, Column("all threads' system time of one call, not profiled", most=DAY_S)] = None
    page_faults: Annotated[float | None, Column("page faults of one call, not profiled", NUMBER)] = None
    load: schema.Load = None


@dataclass(frozen=True)
class OfOperator(OfCell):
    """The columns that identify an operator in a module of a profiled cell."""

    stage: schema.Stage
    path: Annotated[str | None, "the calling module, as in `Layer`; for a backward operator its forward one's"]
    operator: schema.OperatorName


@table(f"{MACHINE}/operators.csv", key=(*CELL, "stage", "path", "operator"))
class OperatorTime(OfOperator):
    """The time of one operator in one module of a profiled cell, a mean over the profiled calls.

    Only outermost operators are listed, with everything they call. On a processor the time is the host's; on a GPU it
    is the time of the kernels they launched.
    """

    calls: schema.Calls
    time_s: schema.Seconds


@table(f"{MACHINE}/kernels.csv", key=(*CELL, "stage", "path", "operator", "kernel"))
class KernelTime(OfOperator):
    """The time of one GPU kernel that an operator launches in one module of a profiled cell.

    The kernels of an operator sum to the time in its row of ``OperatorTime``.
    """

    kernel: schema.KernelName
    calls: schema.Calls
    time_s: schema.Seconds


@table(f"{MACHINE}/hardware_counter_profiles.csv", key=CELL)
class HardwareCounterProfile(Attempt):
    """A cell with hardware counters of its kernels. ``phase`` is inference or a step.

    Columns from ``tool`` on are empty unless the status is ``ok``.
    """

    tool: Annotated[str | None, "the program that read the counters, with its version if known"] = None
    capability: schema.Capability = None
    steps: Annotated[int | None, Column("counted calls", NUMBER, least=1)] = None
    tensor_gap: Annotated[str | None, "why the FLOP of tensor cores are unknown, if they are"] = None


@table(f"{MACHINE}/hardware_counters.csv", key=(*CELL, "kernel"))
class KernelCounters(OfCell):
    """The hardware counters of one kernel in a counted cell, for one call of the cell. Empty: not counted.

    Additions and multiplications of the vector units are counted by precision. A fused multiply-add is two.
    """

    kernel: schema.KernelName
    calls: schema.Calls
    time_s: Annotated[float, Column("sum of its `gpu__time_duration`, each run alone, with cold caches", most=DAY_S)]
    dram_read_byte: Annotated[float | None, "read from memory"] = None
    dram_write_byte: Annotated[float | None, "written to memory"] = None
    l2_byte: Annotated[float | None, "through the second-level caches"] = None
    l1_byte: Annotated[float | None, "through the first-level caches"] = None
    fp64_flop: Annotated[float | None, "of the vector units in fp64"] = None
    fp32_flop: Annotated[float | None, "of the vector units in fp32"] = None
    fp16_flop: Annotated[float | None, "of the vector units in fp16"] = None
    tensor_flop: Annotated[float | None, "of the tensor cores at any precision"] = None
    tensor_instruction: Annotated[float | None, Column("instructions of the tensor cores", NUMBER)] = None
    dram_byte: Annotated[float | None, "read from memory and written to it, where only their sum was counted"] = None


@table(f"{MACHINE}/collectives.csv", key=("environment_id", *CollectiveCell._fields, "round"))
class CollectiveMeasurement:
    """One round of a collective of some processes on this machine, at one size of message.

    The message is counted as nccl-tests does: what all-reduce adds up, what all-gather returns, what reduce-scatter
    takes, on each process. Each round has fresh processes. Columns from ``latency_s`` on are empty unless the status is
    ``ok``.
    """

    environment_id: schema.EnvironmentId
    collective: Annotated[str, Column("the collective", form=one_of(TIMED_COLLECTIVES))]
    message_byte: Annotated[int, Column("the whole message, on each process", least=1)]
    precision: Annotated[str, Column("the format of its elements", form=one_of(PRECISIONS))]
    processes: Processes
    backend: Backend
    round: schema.Round
    status: schema.Status
    reason: schema.Reason
    recorded_at: Annotated[str, "the UTC time of the record"]
    session: schema.Session = None
    seed: schema.Seed = None
    version: schema.Version = None
    latency_s: SlowestMedian = None
    latency_low_s: MedianLow = None
    latency_high_s: MedianHigh = None
    sample_count: SampleCount = None
    block: Block = None
    threads: ProcessThreads = None
    load: GroupLoad = None
    flags: GroupFlags = None


@table(f"{MACHINE}/data_parallel_steps.csv", key=("environment_id", *DataParallelCell._fields, "round"))
class DataParallelStep(Attempt):
    """One round of a training step under torch's DistributedDataParallel, on some processes of this machine.

    ``batch`` is that of one process. With ``communication`` ``none`` the same processes take the same step under
    ``no_sync``: gradients, and the statistics of batch normalisation, stay in their process. Columns from ``latency_s``
    on are empty unless the status is ``ok``.
    """

    communication: Annotated[
        str, Column("gradients all-reduced while the backward pass runs, or not at all", form=one_of(COMMUNICATIONS))
    ] = COMMUNICATIONS[0]
    processes: Processes = 1
    backend: Backend = BACKENDS["cpu"]
    round: schema.Round = 0
    latency_s: SlowestMedian = None
    latency_low_s: MedianLow = None
    latency_high_s: MedianHigh = None
    sample_count: SampleCount = None
    block: Block = None
    threads: ProcessThreads = None
    load: GroupLoad = None
    flags: GroupFlags = None
    gradient_byte: Annotated[int | None, "gradients that a process hands to the all-reduce in one step"] = None
