"""The tables of kernels that others timed on GPUs, one after the other: products, attention, experts, collectives.

A kernel repeats under locked clocks, so its time holds no launch unless the README of ``data/published`` says so. Sizes
are those of one GPU's call, unless a column says that they are a group's.
"""

import re
from dataclasses import dataclass
from typing import Annotated

from measure.domain.schema import NUMBER, Column, Form, duration, one_of, table
from measure.published.records import CHIP_PRECISIONS, Device, Source
from measure.serving.formats import FORMATS

# The bits of a stored number with its share of the scales
FORMAT_BITS = {
    name: FORMATS[name].bit for name in ("fp16", "bf16", "fp8", "fp8_block", "int8", "nvfp4", "mxfp4", "int4")
}

Engine = Annotated[str, "the serving engine, or the library of a collective, in lower case"]
Software = Annotated[str, "the engine's version"]
KernelSource = Annotated[str, "the source's name of the kernel or its library"]
Multiplicands = Annotated[str, Column("the precision of the multiplicands", form=one_of(CHIP_PRECISIONS))]
Weights = Annotated[str, Column("the stored format of the weights", form=one_of(FORMAT_BITS))]
Latency = Annotated[float, duration("mean time of a call")]
Power = Annotated[float | None, Column("the GPU's mean power while the kernel repeats", most=1e5)]
PowerLimit = Annotated[float | None, Column("the board's power limit then", most=1e5)]


@dataclass(frozen=True)
class OfKernel:
    """The columns that say where a kernel is from: who timed it, on what, and in which program."""

    source: Source
    device: Device
    engine: Engine
    software: Software
    kernel: KernelSource


@table(
    "published/kernels/products.csv", by_hand=True,
    key=("source", "device", "engine", "software", "kernel", "precision", "weights", "m", "n", "k"),
)  # fmt: skip
class TimedProduct(OfKernel):
    """A product of a layer's input, m × k, with its weights, k × n, as an engine computes it on a GPU.

    Where multiplicands have 8 bits or fewer, the time includes quantising the input if one call does both.
    """

    precision: Multiplicands
    weights: Weights
    m: Annotated[int, Column("rows of the input: tokens", NUMBER, least=1)]
    n: Annotated[int, Column("outputs", NUMBER, least=1)]
    k: Annotated[int, Column("the summed dimension: inputs", NUMBER, least=1)]
    latency_s: Latency
    power_w: Power = None
    power_limit_w: PowerLimit = None


PHASES = ("prefill", "decode")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "send")

Phase = Annotated[str, Column("reading a prompt, or one token of each sequence", form=one_of(PHASES))]
Cache = Annotated[str, Column("the stored format of keys and values", form=one_of(("fp16", "bf16", "fp8", "int8")))]
Sequences = Annotated[int, Column("sequences of one call", NUMBER, least=1)]
NewTokens = Annotated[int, Column("new tokens of each sequence", NUMBER, least=1)]
CachedTokens = Annotated[int, Column("tokens of each sequence that the cache held before", NUMBER)]
Heads = Annotated[int, Column("query heads on this GPU", NUMBER, least=1)]


@table(
    "published/kernels/attention.csv", by_hand=True,
    key=(
        "source", "device", "engine", "software", "kernel", "phase", "precision", "cache", "batch", "tokens",
        "cached_tokens", "heads", "kv_heads", "head_size", "window",
    ),
)  # fmt: skip
class TimedAttention(OfKernel):
    """Causal attention of a layer on a GPU: all new tokens to the cached ones, themselves and those before them.

    Without the projections. The precision is that of the queries as the source has it; a kernel may multiply in fp8
    where the cache is.
    """

    phase: Phase
    precision: Multiplicands
    cache: Cache
    batch: Sequences
    tokens: NewTokens
    cached_tokens: CachedTokens
    heads: Heads
    kv_heads: Annotated[int, Column("heads of keys and values on this GPU", NUMBER, least=1)]
    head_size: Annotated[int, Column("numbers in a head of queries and keys", NUMBER, least=1)]
    value_size: Annotated[int, Column("numbers in a head of values", NUMBER, least=1)]
    window: Annotated[int | None, Column("a token sees so many; empty: all", NUMBER, least=1)]
    latency_s: Latency
    power_w: Power = None
    power_limit_w: PowerLimit = None


@table(
    "published/kernels/latent_attention.csv", by_hand=True,
    key=(
        "source", "device", "engine", "software", "kernel", "scope", "phase", "precision", "cache", "weights", "batch",
        "tokens", "cached_tokens", "heads",
    ),
)  # fmt: skip
class TimedLatentAttention(OfKernel):
    """Multi-head latent attention with DeepSeek-V3's sizes on a GPU: a latent of 512 numbers and 64 of the position.

    The scope `attention` is the kernel between the projections, `module` has them: of queries through 1,536 numbers, of
    the latent, and of the output, for a hidden size of 7,168 and heads of 128 and 64 numbers.
    """

    scope: Annotated[str, Column("the kernel alone, or with its projections", form=one_of(("attention", "module")))]
    phase: Phase
    precision: Multiplicands
    cache: Cache
    weights: Annotated[
        str | None, Column("the stored format of the projections' weights; empty: none", form=one_of(FORMAT_BITS))
    ]
    batch: Sequences
    tokens: NewTokens
    cached_tokens: CachedTokens
    heads: Heads
    latency_s: Latency
    power_w: Power = None
    power_limit_w: PowerLimit = None


@table(
    "published/kernels/experts.csv", by_hand=True,
    key=(
        "source", "device", "engine", "software", "kernel", "precision", "weights", "tokens", "hidden", "inner",
        "experts", "top_k", "matrices", "tensor_parallel", "expert_parallel", "distribution",
    ),
)  # fmt: skip
class TimedExperts(OfKernel):
    """The routed experts of a layer on one GPU of a group: its experts and its share of them, for the group's tokens.

    Without router and shared experts. Hidden and inner size, experts and tokens are the whole layer's.
    """

    precision: Multiplicands
    weights: Weights
    tokens: Annotated[int, Column("tokens that are routed", NUMBER, least=1)]
    hidden: Annotated[int, Column("numbers of a token", NUMBER, least=1)]
    inner: Annotated[int, Column("numbers within an expert, before the parallel shares", NUMBER, least=1)]
    experts: Annotated[int, Column("routed experts of the layer", NUMBER, least=1)]
    top_k: Annotated[int, Column("experts of each token", NUMBER, least=1)]
    matrices: Annotated[int, Column("weight matrices of an expert: 3 with a gate, else 2", NUMBER, least=2, most=3)]
    tensor_parallel: Annotated[int, Column("GPUs that share each expert", NUMBER, least=1)]
    expert_parallel: Annotated[int, Column("GPUs that share the experts", NUMBER, least=1)]
    distribution: Annotated[
        str,
        Column(
            "tokens of the experts: `balanced`, or `power_law_A`, the chance of so many falling with the power A",
            form=Form(re.compile(r"balanced|power_law_[0-9.]{1,6}").fullmatch, "balanced or power_law_A"),
        ),
    ]
    latency_s: Latency
    power_w: Power = None
    power_limit_w: PowerLimit = None


@table(
    "published/kernels/collectives.csv", by_hand=True,
    key=("source", "device", "engine", "software", "kernel", "collective", "precision", "gpus", "message_byte"),
)  # fmt: skip
class TimedCollective(OfKernel):
    """A collective among the GPUs of one machine.

    The message is what a rank holds in the larger of its two buffers: of an all-gather the result, of a reduce-scatter
    the input. A send goes to one other GPU.
    """

    collective: Annotated[str, Column("the collective", form=one_of(COLLECTIVES))]
    precision: Annotated[str, Column("the precision of the numbers", form=one_of(CHIP_PRECISIONS))]
    gpus: Annotated[int, Column("GPUs that take part", NUMBER, least=2)]
    message_byte: Annotated[int, Column("the message", least=1)]
    latency_s: Latency
    power_w: Power = None
    power_limit_w: PowerLimit = None
