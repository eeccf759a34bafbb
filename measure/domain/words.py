"""The words of the tables and the conventions behind their numbers: precisions, phases, flags, FLOP."""

from collections.abc import Iterable
from typing import Any, NamedTuple

PRECISION_BYTE = {"fp32": 4, "fp16": 2, "bf16": 2}  # the precisions that are counted, with the bytes of one element
TF32 = "tf32"  # a format of NVIDIA's tensor cores: they may multiply numbers in it that are stored as fp32
PRECISIONS = ("fp32", TF32, "fp16", "bf16")  # the precisions that a user can ask for
FP8, INT8 = EIGHT_BITS = ("fp8", "int8")  # the precisions of 8 bits: only matrix products are measured in them
FULL_PRECISION = "fp32"  # the precision of published models; others are cast from it

INFERENCE, EAGER = "inference", "eager"  # the phase and variant of a plain run: a forward pass, not compiled
STEP = "step"  # the phase of a whole training step
# The stages of a step (forward pass and loss, backward pass, optimiser), which are phases of runs too
FORWARD, BACKWARD, UPDATE = STAGES = ("forward", "backward", "update")

WIDE, DRIFTING, LOADED, THROTTLED, CAPPED, SKIPPED = "wide", "drifting", "loaded", "throttled", "capped", "skipped"


def was_disturbed(flags: str | None) -> bool:
    """Return whether other programs disturbed a round, by its flags as tables write them."""
    return LOADED in (flags or "").split(";")


# The vector and matrix extensions that decide a processor's peak, by Linux's names of its flags, widest first
VECTOR_EXTENSIONS = (
    "amx_fp16", "amx_int8", "amx_bf16", "avx512_fp16", "avx512_bf16", "avx512_vnni", "avx512f", "avx_vnni", "avx2",
    "avx", "sse2", "sve2", "sve", "i8mm", "bf16", "asimddp", "asimdhp", "asimd",
)  # fmt: skip
# Linux's settings of transparent huge pages: for all memory, on a program's request, not at all
HUGE_PAGES = ("always", "madvise", "never")


def shape_name(shape: Iterable[int]) -> str:
    """Return a shape as tables write it: ``3x224x224``."""
    return "x".join(map(str, shape))


def least_byte(parameter_byte: Any, input_byte: Any, made_byte: Any, untouched_byte: Any = 0) -> Any:
    """Return the bytes that a call must move: touched parameters, touched inputs and results, each once.

    This is the footprint if ``made_byte`` counts activations, and the compulsory bytes if it counts outputs. Takes
    numbers or columns. ``untouched_byte``: parameters and inputs that no call can read, such as most rows of a table.
    """
    return parameter_byte + input_byte - untouched_byte + made_byte


def same_shape(one: str | None, other: str | None) -> bool:
    """Return whether two shapes of inputs agree; an unknown shape agrees with any."""
    return one == other or None in (one, other)


def stored_as(precision: str) -> str:
    """Return the precision of weights and inputs in memory. It decides the workload."""
    return FULL_PRECISION if precision == TF32 else precision


def operation(precision: str) -> str:
    """Return the unit of arithmetic in a precision: OP of integers, else FLOP."""
    return "OP" if precision.startswith("int") else "FLOP"


LAYER_KINDS = (  # in the order of the figures
    "convolution", "depthwise convolution", "linear", "attention", "experts", "normalisation", "activation",
    "pooling", "recurrent", "embedding", "other",
)  # fmt: skip
PRODUCT_KINDS = (  # they multiply matrices
    "convolution", "depthwise convolution", "linear", "attention", "experts", "recurrent",
)  # fmt: skip

PEAK, BANDWIDTH, CLOCK, IDLE_POWER = "peak", "bandwidth", "clock", "idle power"


class Kernel(NamedTuple):
    """A roof kernel: its roof, its name in the paper, and the kinds of device that have it.

    A stream has the number of its arrays, and its FLOP for each number that it writes. Quick kernels are enough for a
    roof.
    """

    gives: str
    words: str
    devices: tuple[str, ...] = ("cpu", "cuda", "mps")
    arrays: int = 0
    flop: int = 0
    is_quick: bool = False


ROOF_KERNELS = {
    "matmul": Kernel(PEAK, "matrix product (torch)", is_quick=True),
    "numpy_matmul": Kernel(PEAK, "matrix product (NumPy)", ("cpu",)),
    "fma": Kernel(PEAK, "multiply-add", ("cpu", "cuda"), is_quick=True),
    "chain": Kernel(CLOCK, "chain of additions", ("cpu",), is_quick=True),
    "idle": Kernel(IDLE_POWER, "no work", ("cpu", "cuda")),
    "stream_read": Kernel(BANDWIDTH, "read", arrays=1),
    "stream_write": Kernel(BANDWIDTH, "write", arrays=1),
    "stream_copy": Kernel(BANDWIDTH, "copy", arrays=2),
    "stream_triad": Kernel(BANDWIDTH, "triad", arrays=3, flop=2, is_quick=True),
}
PEAK_KERNELS = {name: kernel.words for name, kernel in ROOF_KERNELS.items() if kernel.gives == PEAK}
STREAM_ARRAYS = {name: kernel.arrays for name, kernel in ROOF_KERNELS.items() if kernel.gives == BANDWIDTH}
# The paces of a kernel: short blocks with a rest before each, and no rest after seconds of work
BURST, SUSTAINED = "burst", "sustained"

ELEMENTARY = (  # one operation an element, the inverse square root too, which hardware has as one
    "abs", "acos", "acosh", "add", "angle", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "copysign", "cos",
    "cosh", "deg2rad", "digamma", "div", "eq", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "floor", "floor_divide",
    "fmax", "fmin", "fmod", "frac", "frexp", "ge", "gt", "i0", "igamma", "igammac", "isinf", "isnan", "isneginf",
    "isposinf", "le", "lgamma", "log", "log10", "log1p", "log2", "logical_and", "logical_not", "logical_or",
    "logical_xor", "lt", "maximum", "minimum", "mul", "mvlgamma", "ne", "neg", "nextafter", "polygamma", "pow",
    "rad2deg", "reciprocal", "relu", "remainder", "round", "rsqrt", "rsub", "sgn", "sign", "signbit", "sin", "sinh",
    "sqrt", "sub", "tan", "tanh", "threshold", "threshold_backward", "trunc",
)  # fmt: skip

# Operations per element of the output, or of the input's gradient for a backward operator; a choice is none
COSTS = {
    "addcmul": 3,  # a + s b c
    "addcdiv": 3,
    "lerp": 3,  # a + s (b - a)
    "leaky_relu": 2,  # comparison, product
    "leaky_relu_backward": 2,
    "hardtanh": 2,  # two comparisons
    "hardtanh_backward": 2,
    "hardsigmoid": 4,  # min(max(x + 3, 0), 6) / 6
    "hardsigmoid_backward": 3,  # two comparisons, g / 6
    "hardswish": 5,  # x times hardsigmoid
    "hardswish_backward": 5,  # two comparisons, g (x / 3 + 1/2)
    "sigmoid": 4,  # 1 / (1 + exp(-x))
    "sigmoid_backward": 3,  # g y (1 - y)
    "tanh_backward": 3,  # g (1 - y y)
    "silu": 4,  # x / (1 + exp(-x))
    "silu_backward": 9,  # sigmoid s, then g s (1 + x (1 - s))
    "mish": 5,  # x tanh(log(1 + exp x))
    "mish_backward": 11,  # e = exp x (1), n = 1 + e (1), t = tanh(log n) (2); g (t + x (e / n) (1 - t t)) (7)
    "elu": 4,  # comparison, a (exp(x) - 1)
    "elu_backward": 4,  # comparison, g a exp x
    "softplus": 4,  # comparison, log(1 + exp x)
    "softplus_backward": 5,  # comparison, g e / (1 + e)
    "logit": 3,  # log(x / (1 - x))
    "log_sigmoid_forward": 5,  # the sigmoid's logarithm
    "log_sigmoid_backward": 3,  # g / (1 + exp x)
    "_prelu_kernel": 2,  # comparison, product
    "_prelu_kernel_backward": 3,  # comparison, w g for the input, x g for the weight
    "gelu": 5,  # x / 2 (1 + erf(x / sqrt 2))
    "gelu_backward": 11,  # g (cdf + x pdf): 4 for the one, 4 for the other, 3
    "glu": 5,  # an output: sigmoid and product
    "glu_backward": 4,  # half of one for both halves of the input: sigmoid s, s g, and a s g (1 - s)
    "native_dropout": 2,  # times mask, times scale
    "native_dropout_backward": 2,
    "nan_to_num": 3,  # three comparisons
    "celu": 5,  # comparison, a (exp(x / a) - 1)
    "hardshrink": 2,  # two comparisons
    "hardshrink_backward": 2,
    "softshrink": 3,  # two comparisons, a sum
    "softshrink_backward": 2,
    "rrelu_with_noise": 2,  # comparison, product
    "rrelu_with_noise_functional": 2,
    "rrelu_with_noise_backward": 2,
    "logit_backward": 3,  # g / (x (1 - x))
    "heaviside": 2,  # two comparisons
    "hypot": 4,  # sqrt(x x + y y)
    "polar": 4,  # r cos t, r sin t
    "ldexp": 2,  # x exp2(y)
    "logaddexp": 6,  # the larger + log(1 + exp(smaller - larger))
    "logaddexp2": 6,
    "xlogy": 2,
    "special_xlog1py": 2,
    "special_entr": 3,  # -x log x
    "sinc": 3,  # sin(pi x) / (pi x)
    "_add_relu": 2,
    "_masked_scale": 2,  # times mask, times scale
    "_fused_dropout": 2,
    "linalg_cross": 3,  # a b - c d
    "quantize_per_tensor": 5,  # x / s + z, rounded, two comparisons
    "quantize_per_channel": 5,
    "dequantize": 2,  # (q - z) s
    "fake_quantize_per_tensor_affine_cachemask": 7,  # the two
    "fake_quantize_per_channel_affine_cachemask": 7,
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": 7,
    "_fused_moving_avg_obs_fq_helper": 9,  # also the least and the largest
}
TANH_GELU = {"gelu": 9, "gelu_backward": 18}  # GELU approximated with tanh

# FLOP of a tensor core's instruction by compute capability, if all have the same (Yang et al. 2020)
FLOP_PER_INSTRUCTION = {"7.0": 512}

TARGET = 0.05  # the default relative half width of the interval between rounds; within a round, half of it
ROUNDS, MOST_ROUNDS = 3, 9  # the fewest rounds of a cell, enough for a spread between processes; the most, by default
CACHE_MULTIPLE, MEMORY_BYTE = 8, 2**29  # a working set in memory: multiple of the last cache, and least size (B)
# STREAM wants each array four times as large as all caches; its copy has two.
LOAD = 0.1  # the share of the cores, or of the time to launch a GPU's kernels, that others take from a loaded round
CALL_LIMIT_S = 60.0  # a longer call is aborted, by default
SUSTAINED_BLOCK_S, BURST_BLOCK_S = 0.02, 0.005  # the least time of a block of calls when a roof is measured
HEAT_S = 3.0  # a chip works this long before a sustained rate is taken
REST_S = 0.05  # the rest before each block of a burst, ten times as long as the block
