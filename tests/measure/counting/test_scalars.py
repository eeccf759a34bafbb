import pytest
from helpers.counting import case, meta, named, torch

A, B, ROW = meta(3, 5), meta(3, 5), meta(5)  # 15 elements
COMPLEX, WHOLE = meta(3, 5, dtype=torch.complex64), meta(3, 5, dtype=torch.int64)
PLACES = meta(4, dtype=torch.int64)

ONE_OPERAND = (
    "abs", "acos", "acosh", "angle", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "deg2rad", "digamma",
    "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "floor", "frac", "frexp", "i0", "isinf", "isnan", "isneginf",
    "isposinf", "lgamma", "log", "log10", "log1p", "log2", "logical_not", "neg", "rad2deg", "reciprocal", "relu",
    "round", "rsqrt", "sgn", "sign", "signbit", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip
TWO_OPERANDS = (
    "add", "atan2", "copysign", "div", "eq", "floor_divide", "fmax", "fmin", "fmod", "ge", "gt", "igamma", "igammac",
    "le", "logical_and", "logical_or", "logical_xor", "lt", "maximum", "minimum", "mul", "ne", "nextafter", "pow",
    "remainder", "rsub", "sub",
)  # fmt: skip

TABLE, ROWS, BAGS = meta(7, 5), meta(6, dtype=torch.int64), meta(2, dtype=torch.int64)

CASES = [
    *(case(name, A, other=15) for name in ONE_OPERAND),
    *(case(name, A, ROW, other=15) for name in TWO_OPERANDS),
    case("threshold", A, 0.0, 0.0, other=15),
    case("threshold_backward", A, B, 0.0, other=15),
    # with a factor: a + 2 b
    case("add", A, B, alpha=2, other=2 * 15),
    case("sub", A, B, alpha=0.5, other=2 * 15),
    # a scalar operand; a result that is larger than either operand
    case("mul", A, 2.0, other=15),
    case("mul", meta(3, 1), ROW, other=15),
    case("polygamma", 1, A, other=15, out=B),
    case("mvlgamma", A, 2, other=15, out=B),
    # integers are no floating-point numbers, though their quotient is one
    case("add", WHOLE, WHOLE),
    case("gt", WHOLE, 2),
    case("div", WHOLE, 2, other=15),
    # complex numbers: (a + bi)(c + di) = ac - bd + (ad + bc)i; a quotient multiplies by the conjugate, 6, and divides
    # both parts by c c + d d, 3 + 2; a modulus is two squares, their sum and its root
    case("mul", COMPLEX, COMPLEX, other=6 * 15),
    case("mul", COMPLEX, A, other=2 * 15),
    case("mul", COMPLEX, 2.0, other=2 * 15),
    case("mul", A, 2j, other=2 * 15),
    case("div", COMPLEX, COMPLEX, other=11 * 15),
    case("div", COMPLEX, A, other=2 * 15),
    case("add", COMPLEX, COMPLEX, other=2 * 15),
    *(case(name, COMPLEX, A, other=15) for name in ("add", "sub", "rsub")),
    case("neg", COMPLEX, other=2 * 15),
    case("abs", COMPLEX, other=4 * 15),
    case("rsub", COMPLEX, COMPLEX, other=2 * 15),
    case("reciprocal", COMPLEX, other=5 * 15),  # the conjugate by two squares and their sum
    case("sgn", COMPLEX, other=6 * 15),  # the modulus, and both parts by it
    case("exp", COMPLEX, other=5 * 15),  # of the real part; a sine, a cosine, and two products
    case("angle", COMPLEX, other=15),
    case("eq", COMPLEX, COMPLEX, other=2 * 15),
    case("eq", COMPLEX, A, other=2 * 15),
    case("ne", COMPLEX, COMPLEX, other=2 * 15),
    case("log", COMPLEX, other=6 * 15),  # the modulus 4, its logarithm, the angle
    *(case(name, COMPLEX, other=8 * 15) for name in ("log2", "log10")),
    # the modulus 4; half of its sum with, and of its difference from, the real part, and their roots (6)
    case("sqrt", COMPLEX, other=10 * 15),
    case("rsqrt", COMPLEX, other=15 * 15),
    # a sine or cosine and a hyperbolic one for each part, and their product
    *(case(name, COMPLEX, other=6 * 15) for name in ("sin", "cos", "sinh", "cosh")),
    *(case(name, COMPLEX, other=9 * 15) for name in ("tan", "tanh")),  # twice both parts; four of them; a sum; by it
    case("tanh_backward", COMPLEX, COMPLEX, other=(6 + 2 + 6) * 15),
    case("sigmoid", COMPLEX, other=(2 + 5 + 1 + 5) * 15),
    case("sigmoid_backward", COMPLEX, COMPLEX, other=(2 + 6 + 6) * 15),
    case("pow", COMPLEX, 2, other=6 * 15),
    case("pow", COMPLEX, 0.3, other=(6 + 2 + 5) * 15),
    case("pow", COMPLEX, COMPLEX, other=(6 + 6 + 5) * 15),
    case("addcmul", COMPLEX, COMPLEX, COMPLEX, other=(6 + 2 + 2) * 15),
    case("lerp", COMPLEX, COMPLEX, 0.5, other=(2 + 2 + 2) * 15),
    case("ne", COMPLEX, 0, other=2 * 15),
    case("prod", COMPLEX, 1, other=6 * 12),
    case("cumprod", COMPLEX, 1, other=6 * 12),
    # Means and differences 2 each, squares of both parts and their sum 3, the sum of these and its division 1
    case("var", COMPLEX, [1], correction=1, other=8 * 15),
    case("linalg_vector_norm", COMPLEX, 2, [1], other=3 * 15 + 12 + 3),
    case("linalg_vector_norm", COMPLEX, 1, [1], other=4 * 15 + 12),
    # Both parts are added apart.
    case("sum", COMPLEX, [1], other=2 * 12),
    case("mean", COMPLEX, [1], other=2 * 15),
    case("cumsum", COMPLEX, 1, other=2 * 12),
    case("index_add", COMPLEX, 0, meta(2, dtype=torch.int64), meta(2, 5, dtype=torch.complex64), other=20),
    # a + s b c
    case("addcmul", A, B, ROW, value=2, other=3 * 15),
    case("addcdiv", A, B, ROW, value=2, other=3 * 15),
    case("lerp", A, B, 0.5, other=3 * 15),  # a + s (b - a)
    # activations and their gradients: a comparison is an operation, a choice by it is none
    case("leaky_relu", A, 0.1, other=2 * 15),
    case("leaky_relu_backward", A, B, 0.1, False, other=2 * 15),
    case("hardtanh", A, 0.0, 6.0, other=2 * 15),
    case("hardtanh_backward", A, B, 0.0, 6.0, other=2 * 15),
    case("hardsigmoid", A, other=4 * 15),  # + 3, two comparisons, / 6
    case("hardsigmoid_backward", A, B, other=3 * 15),  # two comparisons, g / 6
    case("hardswish", A, other=5 * 15),
    case("hardswish_backward", A, B, other=5 * 15),  # two comparisons, x / 3, + 1/2, g
    case("sigmoid", A, other=4 * 15),  # -x, exp, + 1, 1 /
    case("sigmoid_backward", A, B, other=3 * 15),  # 1 - y, y, g
    case("tanh_backward", A, B, other=3 * 15),  # y y, 1 -, g
    case("silu", A, other=4 * 15),
    case("silu_backward", A, B, other=(4 + 5) * 15),  # 1 - s, x, + 1, s, g
    case("mish", A, other=5 * 15),  # exp, + 1, log, tanh, x
    case("mish_backward", A, B, other=11 * 15),  # exp, + 1, log, tanh; e / n, x, t t, 1 -, product, t +, g
    case("elu", A, other=4 * 15),  # comparison, exp, - 1, a
    case("elu_backward", A, 1.0, 1.0, 1.0, False, B, other=4 * 15),  # comparison, exp, a, g
    case("softplus", A, other=4 * 15),  # comparison, exp, + 1, log
    case("softplus_backward", A, B, 1.0, 20.0, other=5 * 15),  # comparison, exp, + 1, quotient, g
    case("logit", A, other=3 * 15),  # 1 - x, quotient, log
    case("log_sigmoid_forward", A, other=5 * 15),
    case("log_sigmoid_backward", A, B, meta(0), other=3 * 15),  # exp, + 1, g /
    case("_prelu_kernel", A, meta(1, 5), other=2 * 15),
    case("_prelu_kernel_backward", A, B, meta(1, 5), other=3 * 15),
    case("gelu", A, other=5 * 15),  # x / sqrt 2, erf, 1 +, x / 2, product
    case("gelu_backward", A, B, other=11 * 15),  # cdf: 4; pdf: x x, - 1/2, exp, factor; x pdf, sum, g
    # x / 2 (1 + tanh(c (x + d x x x)))
    case("gelu", A, approximate="tanh", other=9 * 15),
    # x x, x x x; inner 3, tanh 1; x / 2, 1 + t; half of it 1; 1 - t t 2; inner's 3; three factors 2; sum, g
    case("gelu_backward", A, B, approximate="tanh", other=18 * 15),
    case("glu", meta(3, 10), 1, other=5 * 15),
    case("glu_backward", A, meta(3, 10), 1, other=8 * 15),  # s 4, s g; 1 - s, a, s g
    case("native_dropout", A, 0.5, True, other=2 * 15),
    case("native_dropout_backward", A, meta(3, 5, dtype=torch.bool), 2.0, other=2 * 15),
    case("nan_to_num", A, other=3 * 15),
    case("celu", A, other=5 * 15),  # comparison, x / a, exp, - 1, a
    case("hardshrink", A, other=2 * 15),  # two comparisons
    case("hardshrink_backward", A, B, 0.5, other=2 * 15),
    case("softshrink", A, other=3 * 15),  # and a sum
    case("softshrink_backward", A, B, 0.5, other=2 * 15),
    case("rrelu_with_noise", A, B, other=2 * 15, out=A),  # comparison, product
    case("rrelu_with_noise_functional", A, B, other=2 * 15, out=A),
    case("rrelu_with_noise_backward", A, B, B, 0.1, 0.3, True, False, other=2 * 15, out=A),
    case("logit_backward", A, B, other=3 * 15),  # 1 - x, product, quotient
    case("heaviside", A, B, other=2 * 15),
    case("hypot", A, B, other=4 * 15),  # two squares, sum, root
    case("polar", A, B, other=4 * 15),  # sine, cosine, two products
    case("ldexp", A, B, other=2 * 15, out=A),
    # the larger, the smaller, difference, exponential, logarithm of 1 + it, sum
    case("logaddexp", A, B, other=6 * 15),
    case("logaddexp2", A, B, other=6 * 15),
    case("logcumsumexp", A, 1, other=6 * 3 * 4),
    case("_logcumsumexp", A, 1, other=6 * 3 * 4, out=A),
    case("xlogy", A, B, other=2 * 15),
    case("special_xlog1py", A, B, other=2 * 15),
    case("special_entr", A, other=3 * 15),  # -x, log, product
    case("sinc", A, other=3 * 15),  # product, sine, quotient
    case("_add_relu", A, B, other=2 * 15, out=A),
    case("_masked_scale", A, B, 2.0, other=2 * 15, out=A),
    case("_fused_dropout", A, 0.5, other=2 * 15, out=(A, WHOLE)),
    case("linalg_cross", meta(5, 3), meta(5, 3), other=3 * 15),  # two products, a difference
    # x / s, + z, rounding, two comparisons; - z and s on the way back
    case("quantize_per_tensor", A, 0.1, 0, torch.quint8, other=5 * 15, out=WHOLE),
    case("quantize_per_channel", A, ROW, ROW, 1, torch.quint8, other=5 * 15, out=WHOLE),
    case("dequantize", WHOLE, other=2 * 15, out=A),
    *(
        case(name, A, *rest, other=7 * 15, out=(A, WHOLE))
        for name, *rest in (
            ("fake_quantize_per_tensor_affine_cachemask", 0.1, 0, 0, 255),
            ("fake_quantize_per_channel_affine_cachemask", ROW, ROW, 1, 0, 255),
            ("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", ROW, ROW, ROW, 0, 255),
        )
    ),
    case("_fused_moving_avg_obs_fq_helper", A, other=9 * 15, out=(A, WHOLE)),  # also compared with two bounds
    case("clamp", A, 0.0, 1.0, other=2 * 15),
    case("clamp", A, None, 1.0, other=15),
    case("clamp", WHOLE, 0, 1),
    case("clamp_min", A, 0.0, other=15),
    case("clamp_max", A, B, other=15),
    # 15 elements to 3 results
    *(case(name, A, [1], other=15 - 3) for name in ("sum", "amax", "amin")),
    *(case(name, A, 1, other=15 - 3) for name in ("max", "min", "argmax", "argmin", "prod")),
    case("sum", A, other=15 - 1),
    case("sum", WHOLE),
    case("trace", meta(4, 5), other=4 - 1),
    case("any", A, other=15),
    case("all", A, other=15),
    *(case(name, A, other=15, out=WHOLE) for name in ("count_nonzero", "nonzero", "nonzero_static")),
    case("equal", A, B, other=15, out=True),
    case("aminmax", A, dim=1, other=2 * 12),
    case("_aminmax", A, 1, other=2 * 12, out=(meta(3), meta(3))),
    case("nansum", A, [1], other=15 + 12),
    case("dist", A, B, other=15 + 2 * 15, out=meta()),
    case("linalg__powsum", A, 2, [1], other=2 * 15 - 3, out=meta(3)),
    # 3 rows of 8 are sorted by 3 comparisons an element; the largest 4 of 8 take 2, the largest at least 1.
    case("sort", meta(3, 8), other=24 * 3),
    case("sort", meta(8, 3), dim=0, stable=True, other=24 * 3),
    case("sort", meta(8, dtype=torch.int64)),
    case("topk", meta(3, 8), 4, other=24 * 2),
    case("topk", meta(3, 8), 1, other=24),
    # in rows of 8, or among all 24, 4.58
    *(case(name, meta(3, 8), 1, other=72) for name in ("kthvalue", "mode", "median", "nanmedian")),
    case("median", meta(3, 8), other=110, out=meta()),
    case("histc", A, 4, other=4 * 15, out=meta(4)),
    case("searchsorted", meta(8), meta(3, 5), other=15 * 3),
    case("bucketize", A, meta(8), other=15 * 3),
    case("sum", meta(0, 5)),
    case("max", A, B, other=15),  # the larger of each pair
    case("mean", A, [1], other=15),  # sums 15 - 3, divisions 3
    case("var", A, [1], correction=1, other=4 * 15),
    case("var_mean", A, [1], correction=1, other=4 * 15),
    case("std", A, [1], correction=1, other=4 * 15 + 3),
    case("std_mean", A, [1], correction=1, other=4 * 15 + 3),
    case("linalg_vector_norm", A, 2, [1], other=2 * 15),  # squares 15, sums 12, roots 3
    case("linalg_vector_norm", A, other=2 * 15),
    case("linalg_vector_norm", A, 1, [1], other=15 + 12),
    case("linalg_vector_norm", A, float("inf"), [1], other=15 + 12),
    case("linalg_vector_norm", A, 3, [1], other=3 * 15),  # absolute values, powers, sums 12, roots 3
    case("norm", A, None, [1], other=2 * 15),
    case("logsumexp", A, [1], other=12 + 15 + 15 + 12 + 3 + 3),
    case("cumsum", A, 1, other=3 * 4),
    case("cumsum", A, 0, other=2 * 5),
    case("cumprod", A, -1, other=3 * 4),
    case("cummax", A, 1, other=3 * 4),
    case("cummin", A, 0, other=2 * 5),
    # 3 rows of 5: maxima 12, differences 15, exponentials 15, sums 12, divisions 15
    case("_softmax", A, 1, False, other=12 + 15 + 15 + 12 + 15),
    case("_softmax", A, 0, False, other=10 + 15 + 15 + 10 + 15),  # 5 columns of 3
    case("_safe_softmax", A, -1, other=69),
    case("_masked_softmax", A, WHOLE, 1, other=69, out=B),
    case("_masked_softmax_backward", A, B, WHOLE, 1, other=57, out=B),
    case("_log_softmax", A, 1, False, other=12 + 15 + 15 + 12 + 3 + 15),  # three logarithms, differences
    case("_softmax_backward_data", A, B, 1, torch.float32, other=15 + 12 + 15 + 15),  # y g, sums, g - sum, y
    case("_log_softmax_backward_data", A, B, 1, torch.float32, other=15 + 12 + 15 + 15),  # exp y, sums, y sum, g -
    case("embedding_dense_backward", meta(4, 5), PLACES, 7, -1, False, other=20),
    # 6 rows of 5 in 2 bags: 30 values, 10 results. Sums and maxima 30 - 10; means divide; weights multiply. Backward an
    # addition each, a division for each gradient of a mean, products with weights; of a maximum one for each result.
    *(
        case(name, TABLE, ROWS, BAGS, False, mode, False, *weights, other=other, out=(meta(2, 5),))
        for name in ("_embedding_bag", "_embedding_bag_forward_only")
        for mode, weights, other in ((0, [], 20), (0, [meta(6)], 20 + 30), (1, [], 20 + 10), (2, [], 20))
    ),
    *(
        case(name, meta(2, 5), ROWS, *offsets, BAGS, ROWS, 7, False, mode, *sparse, *weights, other=other, out=TABLE)
        for name, offsets, sparse in (
            ("_embedding_bag_backward", [BAGS, BAGS], [False]),
            ("_embedding_bag_dense_backward", [BAGS], []),
        )
        for mode, weights, other in ((0, [], 30), (0, [meta(6)], 60), (1, [], 30 + 10), (2, [], 10))
    ),
    # 5 products and 4 additions for each of 6 rows
    case("_embedding_bag_per_sample_weights_backward", meta(2, 5), TABLE, ROWS, BAGS, BAGS, 0, other=6 * 9, out=ROWS),
    # 6 rows of 5: squares and their sum (9), a root (1); compared, a small number added, a ratio (3); 5 products
    case("embedding_renorm", TABLE, ROWS, 1.0, 2.0, other=6 * (10 + 3 + 5)),
    case("renorm", TABLE, 2, 0, 1.0, other=7 * (10 + 3 + 5)),
    case("renorm", TABLE, 1, 0, 1.0, other=7 * (9 + 3 + 5)),
    case("renorm", TABLE, 3, 0, 1.0, other=7 * (15 + 3 + 5)),
    case("index_add", meta(7, 5), 0, PLACES, meta(4, 5), other=20),
    case("index_add", WHOLE, 0, PLACES, meta(4, 5, dtype=torch.int64)),
    # An operation for each index; a mean divides all results.
    case("scatter", A, 1, meta(2, 3, dtype=torch.int64), B, reduce="add", other=6),
    case("put", A, meta(4, dtype=torch.int64), meta(4), True, other=4),
    case("scatter_reduce", A, 1, meta(2, 3, dtype=torch.int64), B, "amax", other=6),
    case("scatter_reduce", A, 1, meta(2, 3, dtype=torch.int64), B, "mean", other=6 + 15),
    case("index_reduce", meta(7, 5), 0, PLACES, meta(4, 5), "prod", other=20),
    case("index_reduce", meta(7, 5), 0, PLACES, meta(4, 5), "mean", other=20 + 35),
    case("scatter_add", A, 1, meta(2, 3, dtype=torch.int64), B, other=6),
    *(
        case(name, meta(7, 5), [PLACES], meta(4, 5), True, other=20)
        for name in ("index_put", "_index_put_impl", "_unsafe_index_put")
    ),
    case("index_put", meta(7, 5), [PLACES], meta(4, 5)),  # written, not added
    case("_unsafe_masked_index_put_accumulate", A, WHOLE, [PLACES], meta(4, 5), other=20, out=A),
    # 15 elements into 2 segments
    case("segment_reduce", A, "sum", lengths=meta(2), other=15, out=meta(2, 5)),
    case("segment_reduce", A, "mean", lengths=meta(2), other=15 + 10, out=meta(2, 5)),
    case("_segment_reduce_backward", meta(2, 5), meta(2, 5), A, "mean", lengths=meta(2), other=15 + 10, out=A),
    # 5 n log2 n: 3 transforms of 8 points, 3 operations deep
    case("_fft_c2c", meta(3, 8, dtype=torch.complex64), [1], 0, True, other=5 * 24 * 3),
    case("_fft_c2c", meta(4, 8, dtype=torch.complex64), [0, 1], 0, True, other=5 * 32 * 5),
    # half of it for real points, given or asked for; the other side has 5 complex ones
    case("_fft_r2c", meta(3, 8), [1], 0, True, other=5 * 24 * 3 // 2),
    case("_fft_c2r", meta(3, 5, dtype=torch.complex64), [1], 0, 8, other=5 * 24 * 3 // 2),
    case("_fft_r2c", meta(3, 1), [1], 0, True),
]  # fmt: skip


@pytest.mark.parametrize(**named(CASES))
def test_by_hand(case):
    assert case.counted() == case.work


def test_complex_numbers_without_a_rule_have_no_formula():
    for name, *rest in (("acos",), ("atan",), ("std", [1]), ("logcumsumexp", 1)):
        assert case(name, COMPLEX, *rest).counted() is None
