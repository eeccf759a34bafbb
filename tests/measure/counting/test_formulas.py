import inspect
import runpy
from collections import defaultdict

import pytest
from helpers.counting import by_hand, case, meta, registered_anew, torch
from helpers.places import TESTS

from measure.counting import formulas
from measure.counting.formulas import NOTHING, SYNONYMS, Work, formula, formula_of, pointwise, register_other_flop
from measure.counting.memory import no_work, overload_of
from measure.domain.words import COSTS, ELEMENTARY

A, B, ROW = meta(3, 5), meta(3, 5), meta(5)  # 15 elements
COMPLEX, WHOLE = meta(3, 5, dtype=torch.complex64), meta(3, 5, dtype=torch.int64)
PLACES = meta(4, dtype=torch.int64)

# Operations an element: a comparison is an operation, a choice by it is none.
EACH = {
    "leaky_relu": 2, "rrelu_with_noise": 2,  # comparison, product
    "hardtanh": 2, "hardshrink": 2,  # two comparisons
    "softshrink": 3,  # and a sum
    "nan_to_num": 3,
    "hardsigmoid": 4,  # + 3, two comparisons, / 6
    "hardswish": 5,
    "sigmoid": 4, "silu": 4,  # -x, exp, + 1, 1 / or x /
    "log_sigmoid_forward": 5,
    "mish": 5,  # exp, + 1, log, tanh, x
    "elu": 4,  # comparison, exp, - 1, a
    "celu": 5,  # and x / a
    "softplus": 4,  # comparison, exp, + 1, log
    "logit": 3,  # 1 - x, quotient, log
    "gelu": 5,  # x / sqrt 2, erf, 1 +, x / 2, product
    "special_entr": 3,  # -x, log, product
    "sinc": 3,  # product, sine, quotient
    # x / s, + z, rounding, two comparisons; - z and s on the way back; also compared with two bounds
    "quantize_per_tensor": 5, "quantize_per_channel": 5, "dequantize": 2,
    "fake_quantize_per_tensor_affine_cachemask": 7, "fake_quantize_per_channel_affine_cachemask": 7,
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": 7, "_fused_moving_avg_obs_fq_helper": 9,
    "_fused_dropout": 2, "native_dropout": 2,  # by the mask, by a factor
    "leaky_relu_backward": 2, "hardtanh_backward": 2, "hardshrink_backward": 2, "softshrink_backward": 2,
    "rrelu_with_noise_functional": 2, "rrelu_with_noise_backward": 2, "native_dropout_backward": 2, "_masked_scale": 2,
    "hardsigmoid_backward": 3,  # two comparisons, g / 6
    "hardswish_backward": 5,  # two comparisons, x / 3, + 1/2, g
    "sigmoid_backward": 3,  # 1 - y, y, g
    "tanh_backward": 3,  # y y, 1 -, g
    "silu_backward": 4 + 5,  # 1 - s, x, + 1, s, g
    "mish_backward": 11,  # exp, + 1, log, tanh; e / n, x, t t, 1 -, product, t +, g
    "elu_backward": 4,  # comparison, exp, a, g
    "softplus_backward": 5,  # comparison, exp, + 1, quotient, g
    "logit_backward": 3,  # 1 - x, product, quotient
    "log_sigmoid_backward": 3,  # exp, + 1, g /
    "gelu_backward": 11,  # cdf: 4; pdf: x x, - 1/2, exp, factor; x pdf, sum, g
    "_prelu_kernel": 2, "_prelu_kernel_backward": 3, "_add_relu": 2, "ldexp": 2,
    "heaviside": 2, "xlogy": 2, "special_xlog1py": 2,
    "hypot": 4,  # two squares, sum, root
    "polar": 4,  # sine, cosine, two products
    # the larger, the smaller, difference, exponential, logarithm of 1 + it, sum
    "logaddexp": 6, "logaddexp2": 6,
    "linalg_cross": 3,  # two products, a difference
}  # fmt: skip

# Complex numbers: (a + bi)(c + di) = ac - bd + (ad + bc)i; a quotient multiplies by the conjugate, 6, and divides both
# parts by c c + d d, 3 + 2; a modulus is two squares, their sum and its root
ON_COMPLEX = {
    "neg": 2, "abs": 4, "angle": 1,
    "reciprocal": 5,  # the conjugate by two squares and their sum
    "sgn": 6,  # the modulus, and both parts by it
    "exp": 5,  # of the real part; a sine, a cosine, and two products
    "log": 6, "log2": 8, "log10": 8,  # the modulus 4, its logarithm, the angle; both parts by a factor
    "sqrt": 10,  # the modulus 4; half of its sum with, and of its difference from, the real part, and their roots (6)
    "rsqrt": 15,
    "sin": 6, "cos": 6, "sinh": 6, "cosh": 6,  # a sine or cosine, a hyperbolic one for each part, and their product
    "tan": 9, "tanh": 9,  # twice both parts; four of them; a sum; by it
    "sigmoid": 2 + 5 + 1 + 5,
}  # fmt: skip
BY_COMPLEX = {
    "add": 2, "rsub": 2, "mul": 6, "div": 11, "eq": 2, "ne": 2, "pow": 6 + 6 + 5,
    "tanh_backward": 6 + 2 + 6, "sigmoid_backward": 2 + 6 + 6,
}  # fmt: skip
BY_REAL = {"add": 1, "sub": 1, "rsub": 1, "mul": 2, "div": 2, "eq": 2}

TABLE, ROWS, BAGS = meta(7, 5), meta(6, dtype=torch.int64), meta(2, dtype=torch.int64)
INDEX = meta(2, 3, dtype=torch.int64)

CASES = [
    *(case(name, A, ROW, other=15, out=A) for name in ELEMENTARY),  # whatever function of one number or of two
    *(case(name, A, B, other=15 * each, out=A) for name, each in EACH.items()),
    *(case(name, COMPLEX, other=15 * each) for name, each in ON_COMPLEX.items()),
    *(case(name, COMPLEX, COMPLEX, other=15 * each) for name, each in BY_COMPLEX.items()),
    *(case(name, COMPLEX, A, other=15 * each) for name, each in BY_REAL.items()),
    case("mul", COMPLEX, 2.0, other=2 * 15),
    case("pow", COMPLEX, 2, other=6 * 15),
    case("pow", COMPLEX, 0.3, other=(6 + 2 + 5) * 15),
    case("addcmul", COMPLEX, COMPLEX, COMPLEX, other=(6 + 2 + 2) * 15),
    case("lerp", COMPLEX, COMPLEX, 0.5, other=(2 + 2 + 2) * 15),
    case("prod", COMPLEX, 1, other=6 * 12),
    case("cumprod", COMPLEX, 1, other=6 * 12),
    # Means and differences 2 each, squares of both parts and their sum 3, the sum of these and its division 1
    case("var", COMPLEX, [1], correction=1, other=8 * 15),
    case("linalg_vector_norm", COMPLEX, 2, [1], other=3 * 15 + 12 + 3),
    case("norm", COMPLEX, 2, [1], other=3 * 15 + 12 + 3),
    # Both parts are added apart.
    case("sum", COMPLEX, [1], other=2 * 12),
    case("mean", COMPLEX, [1], other=2 * 15),
    case("cumsum", COMPLEX, 1, other=2 * 12),
    case("index_add", COMPLEX, 0, PLACES, meta(4, 5, dtype=torch.complex64), other=2 * 20),
    # with a factor: a + 2 b; a scalar operand; a result that is larger than either operand
    *(case(name, A, B, alpha=2, other=2 * 15) for name in ("add", "sub", "rsub")),
    case("sub", A, 2.0, other=15),
    case("mul", meta(3, 1), ROW, other=15),
    # integers are no floating-point numbers, though their quotient is one
    case("add", WHOLE, WHOLE),
    case("gt", WHOLE, 2),
    case("div", WHOLE, 2, other=15),
    # a + s b c
    case("addcmul", A, B, ROW, value=2, other=3 * 15),
    case("addcdiv", A, B, ROW, value=2, other=3 * 15),
    case("lerp", A, B, 0.5, other=3 * 15),  # a + s (b - a)
    # x / 2 (1 + tanh(c (x + d x x x)))
    case("gelu", A, approximate="tanh", other=9 * 15),
    # x x, x x x; inner 3, tanh 1; x / 2, 1 + t; half of it 1; 1 - t t 2; inner's 3; three factors 2; sum, g
    case("gelu_backward", A, B, approximate="tanh", other=18 * 15),
    case("log_sigmoid_forward", A, other=5 * 15, out=(A, meta(0))),  # a GPU's second output is empty
    case("glu", meta(3, 10), 1, other=5 * 15),
    case("glu_backward", A, meta(3, 10), 1, other=8 * 15),  # s 4, s g; 1 - s, a, s g
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
    case("sum", meta(0, 5)),
    case("max", A, B, other=15),  # the larger of each pair
    case("trace", meta(4, 5), other=4 - 1),
    *(case(name, A, other=15, out=WHOLE) for name in ("any", "all", "count_nonzero", "nonzero", "nonzero_static")),
    case("equal", A, B, other=15, out=True),
    case("aminmax", A, dim=1, other=2 * 12),
    case("_aminmax", A, 1, other=2 * 12, out=(meta(3), meta(3))),
    case("nansum", A, [1], other=15 + 12),
    case("dist", A, B, other=15 + 2 * 15, out=meta()),
    case("linalg__powsum", A, 2, [1], other=2 * 15 - 3, out=meta(3)),
    # 3 rows of 8 are sorted by 3 comparisons an element; the largest 4 of 8 take 2, the largest at least 1.
    case("sort", meta(3, 8), other=24 * 3),
    case("sort", meta(8, dtype=torch.int64)),
    case("topk", meta(3, 8), 4, other=24 * 2),
    case("topk", meta(3, 8), 1, other=24),
    # in rows of 8, or among all 24, 4.58
    *(case(name, meta(3, 8), 1, other=72) for name in ("kthvalue", "mode", "median", "nanmedian")),
    case("median", meta(3, 8), other=110, out=meta()),
    case("histc", A, 4, other=4 * 15, out=meta(4)),
    case("searchsorted", meta(8), meta(3, 5), other=15 * 3),
    case("bucketize", A, meta(8), other=15 * 3),
    case("mean", A, [1], other=15),  # sums 15 - 3, divisions 3
    *(case(name, A, [1], correction=1, other=4 * 15) for name in ("var", "var_mean")),
    *(case(name, A, [1], correction=1, other=4 * 15 + 3) for name in ("std", "std_mean")),
    case("linalg_vector_norm", A, other=2 * 15),  # squares 15, sums 14, a root
    case("linalg_vector_norm", A, 1, [1], other=15 + 12),
    case("linalg_vector_norm", A, 3, [1], other=3 * 15),  # absolute values, powers, sums 12, roots 3
    case("norm", A, None, [1], other=2 * 15),
    case("logsumexp", A, [1], other=12 + 15 + 15 + 12 + 3 + 3),
    case("cumsum", A, 0, other=2 * 5),
    case("cumprod", A, -1, other=3 * 4),
    case("cummax", A, 1, other=3 * 4),
    case("cummin", A, 0, other=2 * 5),
    *(case(name, A, 1, other=6 * 3 * 4, out=A) for name in ("logcumsumexp", "_logcumsumexp")),
    # 3 rows of 5: maxima 12, differences 15, exponentials 15, sums 12, divisions 15
    case("_softmax", A, 1, False, other=12 + 15 + 15 + 12 + 15),
    case("_softmax", A, 0, False, other=10 + 15 + 15 + 10 + 15),  # 5 columns of 3
    case("_softmax", meta(15, 1), 1, False, other=15 + 15 + 15),  # rows of one have neither maximum nor sum
    case("_safe_softmax", A, -1, other=69),
    case("_masked_softmax", A, WHOLE, 0, other=65, out=B),
    case("_masked_softmax", A, WHOLE, other=69, out=B),
    case("_log_softmax", A, 1, False, other=12 + 15 + 15 + 12 + 3 + 15),  # three logarithms, differences
    case("_softmax_backward_data", A, B, 1, torch.float32, other=15 + 12 + 15 + 15),  # y g, sums, g - sum, y
    case("_log_softmax_backward_data", A, B, 1, torch.float32, other=15 + 12 + 15 + 15),  # exp y, sums, y sum, g -
    case("_masked_softmax_backward", A, B, WHOLE, 0, other=15 + 10 + 15 + 15, out=B),
    case("_masked_softmax_backward", A, B, WHOLE, other=57, out=B),
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
    *(case("renorm", TABLE, order, 0, 1.0, other=7 * (each + 3 + 5)) for order, each in ((2, 10), (1, 9), (3, 15))),
    case("index_add", meta(7, 5), 0, PLACES, meta(4, 5), other=20),
    case("index_add", WHOLE, 0, PLACES, meta(4, 5, dtype=torch.int64)),
    # An operation for each index; a mean divides all results.
    case("scatter", A, 1, INDEX, B, reduce="add", other=6),
    case("scatter", A, 0, INDEX, B),
    case("put", A, PLACES, meta(4), True, other=4),
    case("put", A, PLACES, meta(4)),
    case("scatter_add", A, 1, INDEX, B, other=6),
    case("scatter_reduce", A, 1, INDEX, B, "mean", other=6 + 15),
    case("index_reduce", meta(7, 5), 0, PLACES, meta(4, 5), "prod", other=20),
    case("index_reduce", meta(7, 5), 0, PLACES, meta(4, 5), "mean", other=20 + 35),
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

test_by_hand = by_hand(CASES)


def register_pointwise():
    for name in (*ELEMENTARY, *COSTS):
        formula(name)(pointwise(name))


# Cases of operators that are computed by no other formula
test_pointwise_formulas_made_anew = registered_anew(CASES, register_pointwise)


@pytest.fixture
def formulas_of_none(monkeypatch):
    monkeypatch.setattr(formulas, "FORMULAS", found := {})
    return found


def test_a_formula_has_each_of_its_names_once(formulas_of_none):
    def one(out):
        return Work(out)

    assert formula("mm", "flash_attn::forward")(one) is one
    assert formulas_of_none == {"aten::mm": one, "flash_attn::forward": one}
    with pytest.raises(ValueError, match=r"^two formulas for mm$"):
        formula("mm")(one)
    assert formula_of("aten::mm_") is formula_of("aten::mm") is formula_of("flash_attn::forward") is one
    assert formula_of("aten::bmm") is None
    assert formula_of("aten::special_entr")(A, out=A) == Work(0, 15)


def test_complex_numbers_multiply_a_count_or_have_none(formulas_of_none):
    register_other_flop({"cumsum made_up": lambda input: input.numel(), "acos": lambda input, out: 7})
    assert set(formulas_of_none) == {"aten::cumsum", "aten::made_up", "aten::acos"}
    for name in ("aten::cumsum", "aten::made_up"):
        found = formulas_of_none[name]
        assert (found(input=A), found(input=COMPLEX)) == (Work(0, 15), Work(0, 2 * 15))  # both parts are added
    acos = formulas_of_none["aten::acos"]
    assert acos(input=A, out=A) == acos(input=A, out=(A, COMPLEX)) == Work(0, 7)
    for values in ({"input": COMPLEX, "out": A}, {"input": A, "out": COMPLEX}, {"input": A, "out": (COMPLEX,)}):
        with pytest.raises(LookupError, match=r"^no formula for complex numbers$"):
            acos(**values)


def test_an_operators_arguments_are_found_by_place_name_and_default():
    found = []

    def one(input, other=5, alpha=None, missing=9, *, out):
        found.append((input, other, alpha, missing, out))
        return NOTHING

    schema = torch._C._get_schema("aten::add", "Tensor")  # self, other, alpha=1
    bound = formulas.bind(one, schema)
    assert bound((1, 2), {}, 3) is NOTHING
    bound((1,), {"other": 4, "alpha": 8}, 3)
    bound((), {"self": 6}, 3)
    assert found == [(1, 2, 1, 9, 3), (1, 4, 8, 9, 3), (6, None, 1, 9, 3)]  # torch has no default of ``other``
    found.clear()
    formulas.bind(one)((1, 2, 3), {}, 4)  # without a schema, by their places
    formulas.bind(lambda *args, out, **kwargs: found.append((args, kwargs, out)))((1,), {"alpha": 2, "out": 0}, 5)
    assert found == [(1, 2, 3, 9, 4), ((1,), {"alpha": 2}, 5)]


def test_complex_numbers_without_a_rule_have_no_formula():
    for name, *rest in (("acos",), ("std", [1]), ("logcumsumexp", 1)):
        assert case(name, COMPLEX, *rest).counted() is None


def test_every_formula_has_a_case_by_hand():
    files = [file for file in (TESTS / "measure/counting").glob("test_*.py") if "\nCASES = " in file.read_text()]
    cases = [case for file in files for case in runpy.run_path(str(file))["CASES"]]
    computing = {name for name, each in formulas.FORMULAS.items() if each is not no_work}
    assert {case.operator for case in cases} == computing


def test_every_parameter_of_a_formula_is_an_operators_argument():
    schemas = defaultdict(list)
    for schema in torch._C._jit_get_all_schemas():
        names = (argument.name.lower() for argument in schema.arguments)
        schemas[schema.name].append([SYNONYMS.get(name, name) for name in names])
    for operator, function in formulas.FORMULAS.items():
        names = schemas.get(operator, [])
        assert all(len(each) == len(set(each)) for each in names), operator  # no two become one
        wanted = inspect.signature(function).parameters.values()
        for each in wanted if names else ():
            is_named = each.name == "out" or each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
            has_default = each.default is not each.empty
            assert is_named or has_default or any(each.name in one for one in names), (operator, each.name)


INTEGERS = {
    "__ilshift__", "__irshift__", "__lshift__", "__rshift__", "bitwise_and", "bitwise_left_shift", "bitwise_not",
    "bitwise_or", "bitwise_right_shift", "bitwise_xor", "gcd", "lcm",
}  # fmt: skip
CHOICES = {"_conj_physical", "clone", "conj_physical", "masked_fill", "where"}


def test_torchs_pointwise_and_reductions_have_a_formula():
    tags = {torch.Tag.pointwise, getattr(torch.Tag, "reduction", torch.Tag.pointwise)}
    missing, moving = set(), set()
    for schema in torch._C._jit_get_all_schemas():
        packet = getattr(torch.ops.aten, schema.name.removeprefix("aten::"), None)
        if not schema.name.startswith("aten::") or schema.overload_name not in getattr(packet, "overloads", list)():
            continue
        operator = getattr(packet, schema.overload_name or "default", None)  # none of plain numbers
        if operator is None or not tags.intersection(operator.tags) or overload_of(operator).is_composite:
            continue
        name, found = schema.name.removeprefix("aten::"), formula_of(schema.name)
        missing |= {name if name.startswith("__") else name.rstrip("_")} if found is None else set()
        moving |= {name.rstrip("_")} if found is no_work else set()
    assert missing <= INTEGERS
    assert moving <= CHOICES
