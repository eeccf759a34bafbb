"""The conventions behind the numbers in the tables: what is one FLOP, and how long each thing is timed."""

ELEMENTARY = (
    "abs", "acos", "add", "asin", "atan", "atan2", "ceil", "cos", "cosh", "div", "eq", "erf", "erfc", "erfinv", "exp",
    "exp2", "expm1", "floor", "floor_divide", "fmod", "frac", "ge", "gt", "isinf", "isnan", "le", "log", "log10",
    "log1p", "log2", "lt", "maximum", "minimum", "mul", "ne", "neg", "pow", "reciprocal", "relu", "remainder", "round",
    "rsqrt", "rsub", "sgn", "sign", "sin", "sinh", "sqrt", "sub", "tan", "tanh", "threshold", "threshold_backward",
    "trunc",
)  # fmt: skip
"""One operation an element. (The inverse square root too: hardware has it as one.)"""

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
}
"""Operations for each element of the output (of the input's gradient, for a backward operator). A choice is none."""

TANH_GELU = {"gelu": 9, "gelu_backward": 18}
"""GELU by its approximation with tanh."""

FLOP_PER_INSTRUCTION = {"7.0": 512}
"""By compute capability, the FLOP of an instruction of tensor cores where all have the same (Yang et al. 2020)."""

TARGET = 0.05
"""The relative half width to which the interval between rounds is measured, by default; within a round, half of it."""

ROUNDS, MOST_ROUNDS = 3, 9
"""The fewest rounds of a cell, since of fewer the spread between processes cannot be told; and the most, by default."""

CACHE_MULTIPLE, MEMORY_BYTE = 8, 2**29
"""A working set through memory is so many times as large as the last cache, and no smaller than this (B).

STREAM asks that each array be four times as large as all caches; its copy has two of them."""

LOAD = 0.1
"""Where others used this share of the cores or more, in the median of a round's samples, the round is flagged."""

CALL_LIMIT_S = 60.0
"""A call that takes longer is aborted, by default."""

SUSTAINED_BLOCK_S, BURST_BLOCK_S = 0.02, 0.005
"""How long a block of calls lasts at least where a roof is measured."""

HEAT_S = 3.0
"""So long a chip has worked before a sustained rate is taken."""

REST_S = 0.05
"""Before each block of a burst: ten times as long as the block."""
