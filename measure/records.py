"""The tables of the cache: one frozen dataclass a table, whose field names are the CSV's header.

Units stand in the names (``_s``, ``_byte``, ``_flop``); ``None`` is an unknown value and an empty cell, never 0.
A number that can be derived (a rate, an intensity, a median of samples) is not stored.
``KEYS`` names the columns that identify a row of each table.
"""

from dataclasses import dataclass

PRECISION_BYTE = {"fp32": 4, "bf16": 2}
"""The precisions that are measured, and the bytes that one stored element takes in each."""

INFERENCE, EAGER = "inference", "eager"
"""The phase and the variant of a run: a forward pass, as PyTorch runs it without compiling."""

VECTOR_EXTENSIONS = ("amx_bf16", "avx512_bf16", "avx512f", "avx2", "avx", "sse2", "sve2", "sve", "asimd")
"""What a processor's flags say of its vector units, widest first."""


@dataclass(frozen=True)
class Workload:
    """What one forward pass of a model at one batch size asks for, on any device, at fp32.

    ``forward_flop`` counts convolutions, matrix products and attention at 2 FLOP a multiply-add.
    ``activation_byte`` is the sum of the outputs of all leaf modules, each storage once;
    ``output_byte`` the model's own outputs. ``input_shape`` is without the batch, joined by ``x``.
    """

    model: str
    source: str
    family: str
    input_shape: str
    batch: int
    parameter_count: int
    parameter_byte: int
    buffer_byte: int
    input_byte: int
    output_byte: int
    activation_byte: int
    forward_flop: int


@dataclass(frozen=True)
class Environment:
    """A machine as it was when it measured: hardware, driver, library versions, threads.

    ``environment_id`` is a hash of what can change a measurement (``hardware_id``, ``driver``, ``torch``,
    ``threads``); every measured row carries it. ``hardware_id`` is a hash of the hardware alone.
    ``recorded_at`` is the UTC time at which this environment was first seen. ``cores`` are logical ones.
    ``cpu_vendor``, ``cpu_family`` and ``cpu_model`` are the numbers by which a processor says what it is (on Arm its
    implementer, architecture and part); empty, as ``physical_cores``, where an earlier version did not record them.
    """

    environment_id: str
    hardware_id: str
    device: str
    name: str
    cores: int
    threads: int
    memory_byte: int
    vector_extension: str | None
    driver: str | None
    system: str
    python: str
    torch: str
    torchvision: str | None
    torchaudio: str | None
    recorded_at: str
    cpu_vendor: str | None = None
    cpu_family: int | None = None
    cpu_model: int | None = None
    physical_cores: int | None = None


@dataclass(frozen=True)
class Ceiling:
    """A roof as measured: one kernel at one size and precision, its work a call, its time a call, its status.

    ``kernel`` is ``matmul`` (a square matrix product of ``size`` rows), ``triad`` (``a = b + s*c`` on vectors of
    ``size`` elements, STREAM's convention: two reads and one write) or ``chain`` (``size`` additions in each thread,
    each of which waits for the one before: a clock; work and time are one thread's, the time that of the processor,
    not of the wall). ``latency_s`` is the median of
    ``sample_count`` samples with its 95 % interval (their extremes, where fewer than six samples were taken); the
    rate is the work divided by it. All four are empty where the status is not ``ok``.
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


@dataclass(frozen=True)
class Run:
    """A cell: one model at one batch size, precision, phase and variant, and what became of it.

    ``status`` is ``ok``, ``oom``, ``timeout``, ``unsupported`` or ``error``; all but ``ok`` have a reason and no
    samples.
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


@dataclass(frozen=True)
class Sample:
    """One timed sample of a cell: ``block`` calls in a row, ``latency_s`` the time of one of them."""

    environment_id: str
    model: str
    batch: int
    precision: str
    phase: str
    variant: str
    sample: int
    block: int
    latency_s: float


CELL = ("environment_id", "model", "batch", "precision", "phase", "variant")

KEYS: dict[type, tuple[str, ...]] = {
    Workload: ("model", "input_shape", "batch"),
    Environment: ("environment_id",),
    Ceiling: ("environment_id", "kernel", "precision", "size"),
    Run: CELL,
    Sample: (*CELL, "sample"),
}
"""The primary key of each table."""
