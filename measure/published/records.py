"""The tables that people write of chips: their datasheets, and what others timed on them.

``report/load`` checks the rows against the bibliography, and has the tables that the paper alone reads.
"""

from typing import Annotated

from measure.cache import schema
from measure.cache.schema import DAY_S, NUMBER, Column, one_of, table
from measure.domain.words import INFERENCE, STEP

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


@table("published/measurements/bandwidths.csv", key=(), by_hand=True)
class PublishedBandwidth:
    """The rate at which others saw a device read or write memory: by working set, or from its memory by threads."""

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
