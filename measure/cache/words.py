"""The words that tables use for what was run and how: formats, phases, flags, kinds of layers, streams, paces."""

from collections.abc import Iterable

PRECISION_BYTE = {"fp32": 4, "fp16": 2, "bf16": 2}
"""The precisions that are counted and measured, and the bytes that one stored element takes in each."""

TF32 = "tf32"
"""The format in which NVIDIA's tensor cores may multiply what is stored as fp32."""

PRECISIONS = ("fp32", TF32, "fp16", "bf16")
"""The precisions that can be asked for."""

FP8, INT8 = EIGHT_BITS = ("fp8", "int8")
"""The precisions of 8 bits: matrix products in them are measured, and no model is run in them."""

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

WIDE, DRIFTING, LOADED, THROTTLED, CAPPED, SKIPPED = FLAGS = (
    "wide", "drifting", "loaded", "throttled", "capped", "skipped",
)  # fmt: skip
"""What may be held against a round that was measured: see ``Run``."""

VECTOR_EXTENSIONS = ("amx_bf16", "avx512_bf16", "avx512f", "avx2", "avx", "sse2", "sve2", "sve", "asimd")
"""What a processor's flags say of its vector units, widest first."""


HUGE_PAGES = ("always", "madvise", "never")
"""Linux's settings of transparent huge pages: for all memory, where a program asks for them, not at all."""


def shape_name(shape: Iterable[int]) -> str:
    """Return a shape as tables write it: ``3x224x224``."""
    return "x".join(map(str, shape))


def same_shape(one: str | None, other: str | None) -> bool:
    """Return whether two shapes of inputs agree; one that is not known is taken to."""
    return one == other or None in (one, other)


def stored_as(precision: str) -> str:
    """Return the precision in which weights and inputs lie in memory: it decides the workload."""
    return FULL_PRECISION if precision == TF32 else precision


def operation(precision: str) -> str:
    """Return the unit of arithmetic in a precision: operations on integers are no floating-point operations."""
    return "OP" if precision.startswith("int") else "FLOP"


LAYER_KINDS = (
    "convolution", "depthwise convolution", "linear", "attention", "normalisation", "activation", "pooling",
    "recurrent", "embedding", "other",
)  # fmt: skip
"""What a layer is, in the order in which figures show the kinds."""

STREAM_ARRAYS = {"stream_read": 1, "stream_write": 1, "stream_copy": 2, "stream_triad": 3}
"""The kernels that stream through memory, and how many arrays of numbers share the working set of each."""

BURST, SUSTAINED = "burst", "sustained"
"""The paces of a kernel: short blocks after a rest each, and without a rest once the chip has worked for seconds."""
