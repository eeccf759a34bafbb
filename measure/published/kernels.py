"""The tables of kernels that others timed on GPUs, one after the other: products, attention, experts, collectives.

A kernel repeats under locked clocks, so its time holds no launch unless the README of ``data/published`` says so. Sizes
are those of one GPU's call, unless a column says that they are a group's.
"""

from typing import Annotated

from measure.domain.schema import NUMBER, Column, duration, one_of, table
from measure.published.records import CHIP_PRECISIONS, Device, Source

# The bits of a stored number with its share of the scales: one scale of 32 bits for 128 x 128 numbers of fp8_block, of
# 8 bits for 16 of nvfp4 and for 32 of mxfp4, of 16 bits for 128 of int4
FORMAT_BITS = {
    "fp16": 16, "bf16": 16, "fp8": 8, "fp8_block": 8 + 32 / 128**2, "int8": 8, "nvfp4": 4 + 8 / 16, "mxfp4": 4 + 8 / 32,
    "int4": 4 + 16 / 128,
}  # fmt: skip

Engine = Annotated[str, "the serving engine, or the library of a collective, in lower case"]
Software = Annotated[str, "the engine's version"]
KernelSource = Annotated[str, "the source's name of the kernel or its library"]
Multiplicands = Annotated[str, Column("the precision of the multiplicands", form=one_of(CHIP_PRECISIONS))]
Weights = Annotated[str, Column("the stored format of the weights", form=one_of(FORMAT_BITS))]
Latency = Annotated[float, duration("mean time of a call")]
Power = Annotated[float | None, Column("the GPU's mean power while the kernel repeats", most=1e5)]
PowerLimit = Annotated[float | None, Column("the board's power limit then", most=1e5)]


@table(
    "published/kernels/products.csv", by_hand=True,
    key=("source", "device", "engine", "software", "kernel", "precision", "weights", "m", "n", "k"),
)  # fmt: skip
class TimedProduct:
    """A product of a layer's input, m × k, with its weights, k × n, as an engine computes it on a GPU.

    Where multiplicands have 8 bits or fewer, the time includes quantising the input if one call does both.
    """

    source: Source
    device: Device
    engine: Engine
    software: Software
    kernel: KernelSource
    precision: Multiplicands
    weights: Weights
    m: Annotated[int, Column("rows of the input: tokens", NUMBER, least=1)]
    n: Annotated[int, Column("outputs", NUMBER, least=1)]
    k: Annotated[int, Column("the summed dimension: inputs", NUMBER, least=1)]
    latency_s: Latency
    power_w: Power = None
    power_limit_w: PowerLimit = None
