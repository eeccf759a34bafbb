"""The tables of the cache: one frozen dataclass a table, whose field names are the CSV's header.

Here are those of a machine's measurements; ``workload_records`` has those of what models ask for.

Units stand in the names (``_s``, ``_byte``, ``_flop``); ``None`` is an unknown value and an empty cell, never 0.
A number that can be derived (a rate, an intensity, a median of samples) is not stored.
What a column holds is said on its field, or in ``columns`` where several tables have it: see ``schema``.
"""

from dataclasses import dataclass
from typing import Annotated

from measure.cache import schema
from measure.cache.schema import DAY_S, DEVICE, MACHINE, NUMBER, Column, duration, one_of, several, some_of, table
from measure.domain.latency import Cell
from measure.domain.words import BURST, EIGHT_BITS, FLAGS, HUGE_PAGES, PRECISIONS, STREAM_ARRAYS, SUSTAINED

CELL = ("environment_id", *Cell._fields)

ROOF_KERNELS = ("matmul", "numpy_matmul", "fma", "chain", *STREAM_ARRAYS)

ROUND = (*CELL, "round")


@table(f"{MACHINE}/machine.csv", key=("environment_id",))
@dataclass(frozen=True)
class Environment:
    """A machine as it was when it measured: hardware, driver, library versions, threads.

    Of a machine whose counters were imported (``measure/verbs/import_ncu.py``) only the device and its name are known.
    """

    environment_id: schema.EnvironmentId
    hardware_id: Annotated[str, "hash of the hardware alone"]
    device: Annotated[str, Column("what was measured", form=DEVICE)]
    name: Annotated[str, "the name that the chip gives itself"]
    cores: Annotated[int | None, Column("logical cores", NUMBER, least=1, most=10**6)]
    threads: Annotated[int | None, Column("threads that torch computed with", NUMBER, least=1, most=10**6)]
    memory_byte: Annotated[int | None, Column("the device's memory", least=1)]
    vector_extension: Annotated[str | None, "the processor's vector extensions, split by spaces"]
    driver: Annotated[str | None, "version of the GPU's driver"]
    system: Annotated[str | None, "operating system"]
    python: Annotated[str | None, "version of Python"]
    torch: Annotated[str | None, "version of torch; empty where nothing was measured with it"]
    torchvision: Annotated[str | None, "version of torchvision"]
    torchaudio: Annotated[str | None, "version of torchaudio"]
    recorded_at: Annotated[str, "the UTC time at which this environment was first seen"]
    cpu_vendor: Annotated[str | None, "as the processor says it; on Arm its implementer"] = None
    cpu_family: Annotated[int | None, Column("number of its family; on Arm its architecture", NUMBER)] = None
    cpu_model: Annotated[int | None, Column("number of its model; on Arm its part", NUMBER)] = None
    physical_cores: Annotated[int | None, Column("physical cores", NUMBER, least=1, most=10**6)] = None
    caches: Annotated[
        str | None,
        Column(
            "the processor's data caches as the system reports them, the bytes of all caches of a level together",
            form=several(r"\d+:\d+:\d+", "level:byte:count"),
        ),
    ] = None
    tuning: Annotated[
        str | None,
        Column(
            "variables that are set and decide how fast libraries run (`measure/machine/processor.py`)",
            form=several(r"[A-Z_]+=[^;]+", "NAME=value"),
        ),
    ] = None
    c_library: Annotated[str | None, "the C library and its version, which allocates a processor's memory"] = None
    hypervisor: Annotated[str | None, "what the machine runs on, where it is a virtual one; `none` where it is not"] = (
        None
    )
    huge_pages: Annotated[
        str | None, Column("whether the system backs memory by huge pages by itself", form=one_of(HUGE_PAGES))
    ] = None
    capability: schema.Capability = None

    @property
    def label(self) -> str:
        """The machine and what runs on it, as commands print it."""
        return f"{self.name} ({self.device}, {self.threads} threads, torch {self.torch})"


@table(f"{MACHINE}/roofs.csv", key=("environment_id", "roof_kernel", "precision", "size", "pace", "round"))
@dataclass(frozen=True)
class RoofMeasurement:
    """A roof kernel (a micro-benchmark that roofs are read from) at one size and precision: a call's work and time.

    ``roof_kernel`` is ``matmul`` (a library's product of two square matrices of ``size`` rows), ``fma`` (``size``
    multiply-adds in registers, those of all threads together), ``stream_read``, ``stream_write``, ``stream_copy``
    (``a = b``) or ``stream_triad`` (``a = b + s * c``), or ``chain`` (``size`` additions in each thread, each of which
    waits for the one before: a clock; work and time are one thread's, the time that of the processor, not of the
    wall). A stream passes once over a working set of ``size`` bytes, all its arrays and all threads' shares together.

    The rate is the work divided by ``latency_s``, which is empty with its interval where the status is not ``ok``.
    """

    environment_id: schema.EnvironmentId
    roof_kernel: Annotated[str, Column("what ran", form=one_of(ROOF_KERNELS))]
    precision: Annotated[str, Column("what is computed in", form=one_of((*PRECISIONS, *EIGHT_BITS, "fp64", "int64")))]
    size: Annotated[int, Column("rows, multiply-adds, additions or bytes", f"{NUMBER} or B", least=1)]
    flop: Annotated[int, "the arithmetic of one call; of products at int8 their operations, which are no FLOP"]
    byte: Annotated[int, "what a program reads or writes in one call, each array once, whatever a cache moves besides"]
    status: schema.Status
    reason: schema.Reason
    latency_s: Annotated[float | None, duration("median time of one call")]
    latency_low_s: Annotated[
        float | None, duration("lower end of its 95 % interval; the least of fewer than six samples")
    ]
    latency_high_s: Annotated[float | None, duration("upper end of it; the greatest of fewer than six samples")]
    sample_count: Annotated[int | None, Column("samples taken", least=1)]
    pace: Annotated[
        str,
        Column(
            "blocks of some milliseconds with a rest before each, or without a rest once the chip has worked for "
            "seconds",
            form=one_of((BURST, SUSTAINED)),
        ),
    ]
    round: Annotated[
        int | None,
        Column("counts the rounds from 0 of a stream through memory, whose rate is a roof; empty of all else", NUMBER),
    ] = None
    recorded_at: Annotated[str | None, "the UTC time of the record"] = None
    sitting: schema.Sitting = None
    seed: schema.Seed = None
    version: schema.Version = None
    load: schema.Load = None


@dataclass(frozen=True)
class OfCell:
    """The columns that say which cell of which environment a row is of."""

    environment_id: schema.EnvironmentId
    model: schema.Model
    batch: schema.Batch
    precision: schema.Precision
    phase: schema.Phase
    variant: schema.Variant


@dataclass(frozen=True)
class Attempt(OfCell):
    """The columns that say how it went to run a cell, at which shape of input, and in which sitting."""

    status: schema.Status
    reason: schema.Reason
    recorded_at: schema.RecordedAt
    sitting: schema.Sitting = None
    seed: schema.Seed = None
    version: schema.Version = None
    input_shape: schema.MeasuredShape = None


@table(f"{MACHINE}/runs.csv", key=ROUND)
@dataclass(frozen=True)
class Run(Attempt):
    """One round of a cell: one model at one batch size, precision, phase and variant.

    A cell is measured in several rounds, each in a fresh process, so that what differs between processes and over
    hours is in its interval. Under CUDA the batch sizes of a model share the process of their round. All rounds but
    those with the status ``ok`` have a reason and no samples. All rounds of a cell have inputs of one shape: measured
    at another one, it loses those at the shape before.
    """

    round: schema.Round = 0
    flags: Annotated[
        str | None,
        Column(
            "caveats of an `ok` round: " + "; ".join(f"`{flag}`, {meaning}" for flag, meaning in FLAGS.items()),
            form=some_of(tuple(FLAGS), ";"),
        ),
    ] = None
    peak_byte: Annotated[
        int | None,
        "the most memory allocated at once, weights, inputs and the optimiser's state among it: the allocator's on "
        "a GPU, on an Apple one what Metal has given by the end of the step, by a trace of allocations on a processor; "
        "known of training steps",
    ] = None


@table(f"{MACHINE}/samples.csv", key=(*ROUND, "sample"))
@dataclass(frozen=True)
class Sample(OfCell):
    """One timed sample of a round of a cell: ``block`` calls in a row. Empty: not available here."""

    sample: Annotated[int, Column("counts the samples of a round from 0", NUMBER)]
    block: Annotated[int, Column("calls in a row that were timed together", NUMBER, least=1)]
    latency_s: Annotated[float, duration("the host's time of one call")]
    round: schema.Round
    event_s: Annotated[
        float | None, Column("the device's time of one call (events of CUDA, HIP or Metal)", most=DAY_S)
    ] = None
    load: schema.Load = None
    clock_hz: Annotated[float | None, Column("as the device says at the end", least=1e6, most=1e11)] = None
    temperature_c: Annotated[float | None, Column("likewise", least=-100, most=300)] = None
    power_w: Annotated[float | None, Column("likewise", most=1e5)] = None
    throttle: Annotated[str | None, "the device's reasons for a lower clock, joined by `;`"] = None
    energy_j: Annotated[float | None, "energy of one call, where the block was long enough"] = None


@table(f"{MACHINE}/profiles.csv", key=CELL)
@dataclass(frozen=True)
class Profile(Attempt):
    """A cell that was run under torch's profiler, for the times of its operators; ``phase`` is inference or a step.

    What the profiler costs is the difference between ``profiled_s`` and ``plain_s``. Columns from ``steps`` on are
    empty where the status is not ``ok``.
    """

    steps: Annotated[int | None, Column("calls under the profiler", NUMBER, least=1)] = None
    plain_s: Annotated[
        float | None, duration("median host time of one call in the same process without the profiler")
    ] = None
    profiled_s: Annotated[float | None, duration("mean host time of one call under the profiler")] = None
    busy_s: Annotated[
        float | None, Column("the part of it in which a GPU kernel ran, on a processor an operator", most=DAY_S)
    ] = None
    system_s: Annotated[
        float | None,
        Column(
            "the processors' time, of all threads of the process together, that a call without the profiler takes in "
            "the operating system; a mean of several calls",
            most=DAY_S,
        ),
    ] = None
    page_faults: Annotated[float | None, Column("page faults of such a call, likewise", NUMBER)] = None
    load: schema.Load = None


@dataclass(frozen=True)
class OfOperator(OfCell):
    """The columns that say which operator in which module of a profiled cell a row is of."""

    stage: schema.Stage
    path: Annotated[
        str | None,
        "the module that called it, as in `Layer`; a backward operator belongs to the module of its forward one; "
        "empty where that is unknown, as for the optimiser's",
    ]
    operator: schema.OperatorName


@table(f"{MACHINE}/operators.csv", key=(*CELL, "stage", "path", "operator"))
@dataclass(frozen=True)
class OperatorTime(OfOperator):
    """The time of one operator in one module within a profiled cell, the mean over its calls under the profiler.

    These are outermost operators only, with all that they call. Their time is the device's: on a processor the host's,
    on a GPU that of the kernels that they launched.
    """

    calls: schema.Calls
    time_s: schema.Seconds


@table(f"{MACHINE}/kernels.csv", key=(*CELL, "stage", "path", "operator", "kernel"))
@dataclass(frozen=True)
class KernelTime(OfOperator):
    """The time of one kernel that an operator launches in one module within a profiled cell, on a GPU.

    ``stage``, ``path`` and ``operator`` are those of the row of ``OperatorTime`` whose calls launch it; the kernels of
    an operator sum to its time.
    """

    kernel: schema.KernelName
    calls: schema.Calls
    time_s: schema.Seconds


@table(f"{MACHINE}/hardware_counter_profiles.csv", key=CELL)
@dataclass(frozen=True)
class HardwareCounterProfile(Attempt):
    """A cell whose kernels were counted by the GPU's hardware counters; ``phase`` is inference or a step.

    Columns from ``tool`` on are empty where the status is not ``ok``.
    """

    tool: Annotated[str | None, "what read the counters, and its version where that is known"] = None
    capability: schema.Capability = None
    steps: Annotated[int | None, Column("calls that were counted", NUMBER, least=1)] = None
    tensor_gap: Annotated[str | None, "why the FLOP of tensor cores are not known, where they are not"] = None


@table(f"{MACHINE}/hardware_counters.csv", key=(*CELL, "kernel"))
@dataclass(frozen=True)
class KernelCounters(OfCell):
    """What the hardware counters say of one kernel within a counted cell; all numbers are of one call of the whole.

    Additions and multiplications of the vector units are counted by precision, a fused multiply-add being two. Empty:
    not counted.
    """

    kernel: schema.KernelName
    calls: schema.Calls
    time_s: Annotated[float, Column("sum of its `gpu__time_duration`, each run alone and with cold caches", most=DAY_S)]
    dram_read_byte: Annotated[float | None, "read from memory"] = None
    dram_write_byte: Annotated[float | None, "written to memory"] = None
    l2_byte: Annotated[float | None, "through the caches of second level"] = None
    l1_byte: Annotated[float | None, "through the caches of first level"] = None
    fp64_flop: Annotated[float | None, "of the vector units in fp64"] = None
    fp32_flop: Annotated[float | None, "of the vector units in fp32"] = None
    fp16_flop: Annotated[float | None, "of the vector units in fp16"] = None
    tensor_flop: Annotated[float | None, "of the tensor cores at any precision"] = None
    tensor_instruction: Annotated[float | None, Column("instructions of the tensor cores", NUMBER)] = None
