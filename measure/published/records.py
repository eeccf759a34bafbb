"""The tables of published results: datasheets of chips, measurements, and figures that studies print.

People write all of them by hand, except the counts of the models that others timed.
"""

import re
from decimal import Decimal
from typing import Annotated

from measure.domain import schema
from measure.domain.records import Environment
from measure.domain.schema import DAY_S, NUMBER, Column, Form, one_of, table
from measure.domain.words import INFERENCE, STEP, VECTOR_EXTENSIONS
from measure.errors import quote

CHIP_KINDS = {"cpu": "CPU", "gpu": "GPU", "asic": "ASIC", "soc": "SoC", "fpga": "FPGA"}  # as the paper writes them
CHIP_PRECISIONS = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp6", "fp4", "int16", "int8", "int4")
CHIP_UNITS = ("vector", "tensor")  # the second computes on matrices

YES_OR_NO = one_of(("yes", "no"))
Source = Annotated[str, "keys of `bib/references.bib`, joined by `;`"]
Note = Annotated[str, Column("a remark for readers of the row", empty="")]
ChipPrecision = Annotated[str, Column("the precision of the rate", form=one_of(CHIP_PRECISIONS))]


@table("chips.csv", key=("chip", "precision", "unit"), by_hand=True)
class Chip:
    """A chip's datasheet roof at one precision and unit. Rates have no prefix: FLOP/s, B/s and W.

    A CPU's peak is at its base clock, which vendors state for all CPUs and `derivation` names. Other chips have their
    vendors' peaks, GPUs at the boost clock.
    """

    chip: Annotated[str, "the chip's name"]
    alias: Annotated[str, Column("a driver's other names for it, joined by `;`", empty="")]
    vendor: Annotated[str, "the chip's maker"]
    die: Annotated[str, Column("the die that computes, if a source names it; statistics count a die once", empty="")]
    chip_kind: Annotated[str, Column("the kind of chip", form=one_of(CHIP_KINDS))]
    year: Annotated[int, Column("the year of release", NUMBER, least=1970, most=2100)]
    precision: ChipPrecision
    unit: Annotated[str, Column("the unit that computes at this rate", form=one_of(CHIP_UNITS))]
    peak_flop_per_s: Annotated[float, Column("dense rate, a fused multiply-add being two", least=1e9, most=1e18)]
    sparse_peak_flop_per_s: Annotated[float | None, Column("rate with structured sparsity", least=1e9, most=1e18)]
    bandwidth_byte_per_s: Annotated[float, Column("rate of the chip's memory", least=1e8, most=1e15)]
    memory_type: Annotated[str, Column("kind of memory and number of its channels", empty="")]
    power_w: Annotated[float | None, Column("the vendor's limit, unless `note` differs", least=0.1, most=1e5)]
    derivation: Annotated[str, Column("how the numbers follow from the printed ones", empty="")]
    verified: Annotated[str, Column("whether the vendor or two independent sources state them", form=YES_OR_NO)]
    source: Source
    note: Note
    memory_byte: Annotated[float | None, Column("its own memory, the least on sale", least=1e8, most=1e13)] = None
    cache_byte: Annotated[float | None, Column("its largest cache that all cores share", least=1e5, most=1e10)] = None
    price_usd: Annotated[
        float | None, Column("its list price at launch, unless `note` differs", "USD", least=1, most=1e6)
    ] = None
    link: Annotated[
        str, Column("what joins a GPU to all others of its node; bridges that join a few cards are left out", empty="")
    ] = ""
    link_byte_per_s: Annotated[
        float | None,
        Column(
            "rate of `link` each way: half of a datasheet's NVLink, which counts both; of PCIe after its coding",
            least=1e8, most=1e14,
        ),
    ] = None  # fmt: skip
    node_gpus: Annotated[int | None, Column("the most GPUs that `link` joins", NUMBER, least=2, most=10_000)] = None

    def problem(self) -> tuple[str, str]:
        """Return a column and its problem, or two empty texts: a sparse peak below the dense one, or half a link."""
        named, sparse = f"{quote(self.chip)} at {self.precision}", self.sparse_peak_flop_per_s
        if sparse is not None and sparse < self.peak_flop_per_s:
            return "sparse_peak_flop_per_s", f"the sparse peak is below the dense one of {named}"
        if bool(self.link) != (self.link_byte_per_s is not None):
            return "link_byte_per_s", f"{named} has a link without a rate, or a rate without the link's name"
        return "", ""


RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")


def model_numbers(text: str) -> set[int]:
    """Return the numbers in ``1;4-7``. Another text, or a range that runs backwards, has none."""
    numbers: set[int] = set()
    for part in text.split(";"):
        match = RANGE.fullmatch(part)
        if match is None or int(match[1]) > int(match[2] or match[1]):
            return set()
        numbers |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
    return numbers


NUMBERS = Form(model_numbers, "model numbers such as 1;4-7")


def is_among(number: int | None, text: str) -> bool:
    """Return whether a number is in ``1;4-7``. Every number, an unknown one too, is in an empty text."""
    return not text or number in model_numbers(text)


@table(
    "flop_per_cycle.csv", key=("vendor", "family", "models", "steppings", "vector_extension", "precision"), by_hand=True
)  # fmt: skip
class FlopPerCycle:
    """The most FLOP of one core of a microarchitecture in a cycle, by fused multiply-adds if it has them.

    ``/proc/cpuinfo`` has a processor's numbers even where a cloud hides its name.
    """

    vendor: Annotated[str, "the processor's vendor; on Arm the implementer; `Apple` under macOS"]
    family: Annotated[
        int,
        Column(
            "the processor's family; on Arm the architecture; of an Apple M2 under macOS 2", NUMBER, least=1, most=99999
        ),
    ]
    models: Annotated[
        str, Column("numbers and ranges joined by `;`; on Arm the part; empty: all", form=NUMBERS, empty="")
    ]
    steppings: Annotated[str, Column("likewise, where they tell two microarchitectures apart", form=NUMBERS, empty="")]
    microarchitecture: Annotated[str, "the vendor's name of the core"]
    vector_extension: Annotated[str, Column("the extension that this rate needs", form=one_of(VECTOR_EXTENSIONS))]
    precision: ChipPrecision
    flop_per_cycle: Annotated[int | None, Column("FLOP of a core in a cycle", least=1, most=99999)]
    slow_core_flop_per_cycle: Annotated[
        int | None, Column("likewise of its efficiency cores, where they do less", least=1, most=99999)
    ]
    source: Source
    note: Note

    def names(self, environment: Environment) -> bool:
        """Return whether the processor is of this family. An unknown stepping may be any."""
        return (
            (self.vendor, self.family) == (environment.cpu_vendor, environment.cpu_family)
            and is_among(environment.cpu_model, self.models)
            and (environment.cpu_stepping is None or is_among(environment.cpu_stepping, self.steppings))
        )

    def fits(self, environment: Environment) -> bool:
        """Return whether the processor is of this family and has this vector extension."""
        return self.names(environment) and self.vector_extension in (environment.vector_extension or "").split()


Device = Annotated[str, "the measured chip in `data/chips.csv`, or one of its aliases"]
FileInSource = Annotated[str, "the row's file in the source"]
TIMING = ("source", "file", "device", "phase", "model", "batch")
CONDITIONS = ("input_size", "precision", "autocast", "layout", "compiler")


@table("published/measurements/models.csv", key=(*TIMING, *CONDITIONS), by_hand=True)
class PublishedTiming:
    """A model that others timed on a device: a forward pass, or a whole training step.

    Only rows of equal conditions are compared. If a source prints single samples, ``latency_s`` is their median.
    """

    source: Source
    file: FileInSource
    device: Device
    phase: Annotated[str, Column("a forward pass in eval mode, or a training step", form=one_of((INFERENCE, STEP)))]
    model: Annotated[str, "its name for `--models`: torchvision's own, else `timm:NAME`"]
    batch: schema.Batch
    input_size: schema.InputSize
    precision: Annotated[
        str, Column("the precision of weights and inputs", form=one_of(("fp64", "fp32", "fp16", "bf16")))
    ]
    autocast: Annotated[str | None, Column("the precision that torch casts operands to", form=one_of(("fp16", "bf16")))]
    layout: Annotated[str | None, Column("the images' memory layout", form=one_of(("contiguous", "channels_last")))]
    compiler: Annotated[str | None, Column("the compiler; empty: eager", form=one_of(("torch.compile", "TensorRT")))]
    torch: Annotated[str | None, "the version of torch"]
    cuda: Annotated[str | None, "the version of CUDA"]
    latency_s: Annotated[float, Column("time of a call on the whole batch", least=1e-7, most=DAY_S)]
    latency_min_s: Annotated[float | None, Column("the shortest sample", least=1e-7, most=DAY_S)]
    latency_max_s: Annotated[float | None, Column("the longest sample", least=1e-7, most=DAY_S)]
    samples: Annotated[int | None, Column("the number of timed calls or blocks", NUMBER, least=1)]
    throughput_per_s: Annotated[float | None, Column("inputs a second, as printed", "1/s", least=1e-6)]
    input_copied: Annotated[str, Column("whether the time includes the input's copy to the device", form=YES_OR_NO)]
    tuned: Annotated[str | None, Column("whether `cudnn.benchmark` chose the convolutions", form=YES_OR_NO)]
    printed: Annotated[str, Column("the source's statistic", form=one_of(("mean", "median", "samples")))]
    published_parameter_count: Annotated[int | None, "the source's count of the model's parameters, to 10,000"] = None


@table("published/measurements/bandwidths.csv", key=(), by_hand=True)
class PublishedBandwidth:
    """A device's rate of reading or writing memory, by working set, or from its memory by threads."""

    source: Source
    file: FileInSource
    device: Device
    benchmark: Annotated[str, "the program of the source"]
    stream: Annotated[str, "the source's name of its reads and writes"]
    working_set_byte: Annotated[int | None, Column("the reused memory; empty: more than every cache", least=1)]
    threads: Annotated[int | None, Column("threads on the whole device", NUMBER, least=1)]
    byte_per_s: Annotated[float, Column("rate of all units together", least=1e6, most=1e16)]
    spread_percent: Annotated[float | None, Column("the spread that the source prints", "%", most=1e4)]


@table(
    "published/measurements/tokens.csv", key=("source", "device", "gpus", "model", "weights", "phase", "tokens"),
    by_hand=True,
)  # fmt: skip
class PublishedTokens:
    """The tokens a second of a language model that others served on a device, one request at a time."""

    source: Source
    device: Device
    gpus: Annotated[int, Column("the devices that share the layers", NUMBER, least=1)]
    model: Annotated[str, Column("the model", form=one_of(("LLaMA 3 8B", "LLaMA 3 70B")))]
    weights: Annotated[str, Column("the weights' format", form=one_of(("F16", "Q4_K_M")))]
    phase: Annotated[
        str, Column("reading a prompt, or generating one token after the other", form=one_of(("prefill", "decode")))
    ]
    tokens: Annotated[int, Column("the tokens of the prompt, or those generated", NUMBER, least=1)]
    tokens_per_s: Annotated[float, Column("tokens a second, as printed", "1/s", least=1e-3)]


@table("published/measurements/products.csv", key=("source", "device", "precision"), by_hand=True)
class PublishedProduct:
    """The fastest product of matrices that others found on a device: m × k by k × n."""

    source: Source
    device: Device
    precision: ChipPrecision
    m: Annotated[int, Column("rows of the first matrix", NUMBER, least=1)]
    n: Annotated[int, Column("columns of the second matrix", NUMBER, least=1)]
    k: Annotated[int, Column("the summed dimension", NUMBER, least=1)]
    flop_per_s: Annotated[float, Column("the rate", least=1e9, most=1e18)]
    torch: Annotated[str | None, "the version of torch"]
    note: Note


@table("published/measurements/counts.csv", key=("model", "input_size"))
class PublishedCount:
    """The work and memory of one input in a model that others timed, in columns of ``Workload``."""

    model: schema.Model
    input_size: schema.InputSize
    status: schema.Status
    reason: schema.Reason
    family: Annotated[str | None, "of torchvision as in `Workload`; of timm the module that builds the model"] = None
    input_shape: Annotated[str | None, "the shape of one input, joined by `x`"] = None
    parameter_count: Annotated[int | None, "the model's parameters"] = None
    parameter_byte: Annotated[int | None, "bytes of the parameters"] = None
    input_byte: Annotated[int | None, "bytes of the inputs"] = None
    output_byte: Annotated[int | None, "bytes of the model's own outputs"] = None
    activation_byte: Annotated[int | None, "outputs of all leaf modules, each storage once"] = None
    traffic_byte: Annotated[int | None, "reads and writes of every operator"] = None
    forward_flop: Annotated[int | None, "convolutions, matrix products and attention, 2 FLOP a multiply-add"] = None
    forward_other_flop: Annotated[int | None, "everything else"] = None
    backward_flop: Annotated[int | None, "`forward_flop` of the backward pass"] = None
    backward_other_flop: Annotated[int | None, "`forward_other_flop` of the backward pass"] = None
    backward_traffic_byte: Annotated[int | None, "`traffic_byte` of the backward pass"] = None
    uncounted: Annotated[str | None, "operators that do arithmetic and have no formula, as in `Workload`"] = None


# Classes of FLOP per byte at fp32, by their lower ends; the first and the last are open. Between them lie the ridge
# points of chips, in FLOP per byte of fp32.
INTENSITIES = tuple(2**power for power in range(2, 9))


@table(
    "published/measurements/counted_kinds.csv",
    key=("model", "input_size", "stage", "layer_kind", "intensity", "further_intensity"),
)
class PublishedKind:
    """The operators of one kind of layer and of like intensity in such a model; they sum to the model's row.

    A batch of ``n`` inputs has ``n`` times the FLOP, and ``byte + (n - 1) * further_byte`` bytes: parameters are read
    once. That is exact for 1 and 64 inputs, unless a network computes on its parameters alone. Operators of one row lie
    on one side of the ridge, unless it is in their class: the least times of rows sum to that of the operators.
    """

    model: schema.Model
    input_size: schema.InputSize
    stage: schema.Stage
    layer_kind: schema.LayerKind
    intensity: Annotated[int, Column("of one input: the power of two at or below each operator's", "FLOP/B", least=1)]
    further_intensity: Annotated[int, Column("of each further input, alike", "FLOP/B", least=1)]
    calls: Annotated[int, Column("the number of operator calls", NUMBER)]
    flop: Annotated[int, "convolutions, matrix products and attention of all calls"]
    other_flop: Annotated[int, "everything else in all calls"]
    byte: Annotated[int, "read and written by all calls"]
    further_byte: Annotated[int, "added to `byte` by each further input of a batch of 64"]


# The quantities and ratios of ``PrintedTraining``
LATENCY, FLOP = "latency", "flop"
BACKWARD_TO_FORWARD, FORWARD_TO_BACKWARD = "backward/forward", "forward/backward"

Study = Annotated[str, "the letter of a study, which stays unnamed"]
ModelInStudy = Annotated[str, "the study's name of the model"]
ChipInStudy = Annotated[str, "the study's name of the chip"]
ChipKey = Annotated[str, "the chip in `data/chips.csv`"]
ModelKey = Annotated[str, "the built-in model"]
ChipKeyOrNone = Annotated[str, Column("the chip in `data/chips.csv`", empty="")]
ModelKeyOrNone = Annotated[str, Column("the built-in model", empty="")]
PrintedPeak = Annotated[Decimal, Column("the peak rate", least=1e9, most=1e18)]
Intensity = Annotated[Decimal, Column("the arithmetic intensity", least=1e-12)]


@table("published/chips.csv", key=(), by_hand=True)
class PrintedChip:
    """A chip's roof as a study prints it, errors included."""

    study: Study
    chip: ChipInStudy
    precision: Annotated[str, Column("the precision that the study names", empty="")]
    peak_flop_per_s: PrintedPeak
    bandwidth_byte_per_s: Annotated[Decimal, Column("the bandwidth", least=1e8, most=1e15)]
    printed: Annotated[str, "its place in the study, and the product printed there"]
    chip_key: ChipKeyOrNone


@table("published/models.csv", key=("study", "model"), by_hand=True)
class PrintedModel:
    """A model's forward pass of one input as a study prints it."""

    study: Study
    model: ModelInStudy
    flop: Annotated[Decimal, Column("FLOP of the forward pass", least=1)]
    footprint_byte: Annotated[Decimal, Column("the study's count of the model's memory", least=1)]
    intensity_flop_per_byte: Intensity
    model_key: ModelKeyOrNone


@table("published/training.csv", key=("study", "model", "quantity"), by_hand=True)
class PrintedTraining:
    """A model's forward and backward passes as a study prints them."""

    study: Study
    model: ModelInStudy
    batch: Annotated[int | None, Column("inputs of one call", NUMBER, least=1)]
    quantity: Annotated[str, Column("the compared quantity", form=one_of((LATENCY, FLOP)))]
    forward: Annotated[Decimal | None, Column("of the forward pass", "s or FLOP", least=1e-12)]
    backward: Annotated[Decimal | None, Column("of the backward pass", "s or FLOP", least=1e-12)]
    ratio_as_printed: Annotated[Decimal, Column("the ratio of the two", NUMBER, least=1e-12)]
    ratio_means: Annotated[str, Column("the ratio", form=one_of((BACKWARD_TO_FORWARD, FORWARD_TO_BACKWARD)))]


@table("published/training_steps.csv", key=("study", "model", "gpu"), by_hand=True)
class PrintedStep:
    """A training step on a GPU, counted by hardware counters, as a study prints it."""

    study: Study
    model: ModelInStudy
    gpu: ChipInStudy
    batch: Annotated[int, Column("inputs of one step", NUMBER, least=1)]
    dram_byte_per_s: Annotated[Decimal, Column("rate of traffic with memory", least=1)]
    time_s: Annotated[Decimal, Column("time of a step", least=1e-12)]
    flop_per_s: Annotated[Decimal, Column("rate of computing", least=1)]
    intensity_flop_per_byte: Intensity
    chip_key: ChipKey
    model_key: ModelKey


@table("published/step_estimates.csv", key=("study", "model", "gpu"), by_hand=True)
class PrintedEstimate:
    """The theoretical time of a training step as a study prints it: FLOP over peak."""

    study: Study
    model: ModelInStudy
    gpu: ChipInStudy
    flop: Annotated[Decimal, Column("FLOP of a step", least=1)]
    peak_flop_per_s: PrintedPeak
    time_s_as_printed: Annotated[Decimal, Column("the quotient", least=1e-12)]
    chip_key: ChipKey
    model_key: ModelKey


@table("published/counting_suites.csv", key=("suite",), by_hand=True)
class CountedSuite:
    """A set of networks with known counts that nobody here wrote, and how many of them we counted wrongly."""

    suite: Annotated[str, "the origin of the cases"]
    cases: Annotated[int, Column("the number of cases", NUMBER, least=1)]
    wrong: Annotated[int, Column("cases with a wrong count of products", NUMBER, least=0)]
    source: Source
    note: Note
