"""Register formulas for the FLOP of one call of an operator; formulas of pointwise operators and reductions.

A multiply-add is 2 FLOP. Any other scalar operation is 1: an addition, a comparison, a division, a square root, an
exponential or another elementary function, a change of sign. Operations on integers and booleans are not counted: they
are not floating-point arithmetic. A formula follows the operator's definition, with common parts computed once. The
paper prints ``COSTS``. The comments count n elements, m results, r rows or groups that share statistics, and c
parameters of each kind.
"""

import inspect
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, wraps
from typing import Any, NamedTuple

from measure.domain.words import COSTS, ELEMENTARY, TANH_GELU


class Work(NamedTuple):
    """The FLOP of one call. The three numbers do not overlap.

    ``flop``: convolutions, matrix products and attention. ``other_flop``: everything else. ``recompute_flop``: results
    of the forward pass that a backward operator computes again because they were not kept.
    """

    flop: int = 0
    other_flop: int = 0
    recompute_flop: int = 0


NOTHING = Work()

Args = Sequence[Any]
Kwargs = Mapping[str, Any]
Formula = Callable[..., Work]  # of an operator's arguments by their names; it reads only shapes and types
Bound = Callable[[Args, Kwargs, Any], Work]  # the same, of one overload's arguments and output

FORMULAS: dict[str, Formula] = {}  # by the operator's qualified name without overload (``aten::add``)


def formula(*names: str) -> Callable[[Formula], Formula]:
    """Register a formula for torch's operators with these names, or another library's (``library::name``).

    Its parameters are the operator's arguments by their names in torch's schema (see ``SYNONYMS``) and ``out``, the
    output. A parameter takes its default if an overload lacks the argument. ``*args`` takes all arguments unchanged.
    """

    def register(function: Formula) -> Formula:
        for name in names:
            qualified = name if "::" in name else f"aten::{name}"
            if qualified in FORMULAS:
                raise ValueError(f"two formulas for {name}")
            FORMULAS[qualified] = function
        return function

    return register


# Names of arguments that mean the same in torch's schemas, in lower case.
SYNONYMS = {
    **dict.fromkeys(("self", "inp"), "input"),
    **dict.fromkeys(("grad", "grad_out", "grad_out_"), "grad_output"),
    **dict.fromkeys(("mat", "batch1"), "mat1"),
    "batch2": "mat2",
    "update": "train",
    **dict.fromkeys(("cu_seq_q", "cu_seqlens_q"), "cum_seq_q"),
    **dict.fromkeys(("cu_seq_k", "cu_seqlens_k"), "cum_seq_k"),
    "max_seqlen_k": "max_k",
    "ord": "p",
    **dict.fromkeys(("lu", "ld"), "factor"),
}


def bind(function: Formula, schema: Any = None) -> Bound:
    """Make a formula a function of the arguments and the output of one overload, or of arguments by their position."""
    parameters = inspect.signature(function).parameters
    if any(each.kind is each.VAR_POSITIONAL for each in parameters.values()):
        return lambda args, kwargs, out: function(*args, **{**kwargs, "out": out})  # also of a call with ``out=``
    arguments = {}
    for place, argument in enumerate(schema.arguments if schema else ()):
        name = argument.name.lower()
        arguments[SYNONYMS.get(name, name)] = place, argument.name, argument.default_value
    wanted: list[tuple[str, int, str, Any]] = []  # a parameter, and the place, name and default of its argument
    for name, parameter in parameters.items():
        default = None if parameter.default is parameter.empty else parameter.default
        if name != "out":
            wanted.append((name, *arguments.get(name, (sys.maxsize if schema else len(wanted), name, default))))

    def bound(args: Args, kwargs: Kwargs, out: Any) -> Work:
        values = {
            name: args[place] if place < len(args) else kwargs.get(original, default)
            for name, place, original, default in wanted
        }
        return function(**values, out=out) if "out" in parameters else function(**values)

    return bound


FOR_EACH = "aten::_foreach_"  # an operator on each tensor of lists


def formula_of(name: str) -> Formula | None:
    """Find the formula of a qualified name. An in-place operator has the formula of its out-of-place twin.

    An operator on lists of tensors applies its twin's formula to each. A special function is one operation. The
    products of a custom operator may have a formula in torch (``torch.utils.flop_counter.register_flop_formula``).
    """
    found = FORMULAS.get(name) or FORMULAS.get(name.removesuffix("_"))
    if found is None and not name.startswith("aten::"):
        return _registered_in_torch(name)
    if found is None and name.startswith("aten::special_"):
        return pointwise("special")
    if found is None and name.startswith(FOR_EACH):
        one = formula_of(name.replace(FOR_EACH, "aten::"))
        return one and partial(_for_each, bind(one))
    return found


def _registered_in_torch(name: str) -> Formula | None:
    from torch.utils.flop_counter import flop_registry

    names = {getattr(packet, "_qualified_op_name", None): each for packet, each in flop_registry.items()}
    registered = names.get(name)
    return registered and (lambda *args, out, **kwargs: Work(int(registered(*args, **kwargs, out_val=out))))


def _for_each(one: Bound, *args: Any, out: Any, **kwargs: Any) -> Work:
    """Sum the work of one call per place of the lists. In place there is no output: the first list is it."""
    length = max(len(each) for each in args if isinstance(each, (list, tuple)))
    out = out or args[0]
    works = []
    for place in range(length):
        parts = [each[place] if isinstance(each, (list, tuple)) else each for each in args]
        works.append(one(parts, kwargs, out[place]))
    return Work(*map(sum, zip(*works, strict=True)))


def work_of(found: Bound | None, args: Args, kwargs: Kwargs, out: Any, tensors: Iterable[Any]) -> Work | None:
    """Count one call with these ``tensors`` in its arguments and output; None for arithmetic without a formula.

    A call without floating-point or complex numbers has no FLOP, whatever its operator.
    """
    if not any(tensor.is_floating_point() or tensor.is_complex() for tensor in tensors):
        return NOTHING
    try:
        return found and found(args, kwargs, out)
    except LookupError:  # the formula has no rule for complex numbers or this mode
        return None


# Real operations in one of an operator that treats all complex numbers alike: parts that are added or divided by a real
# number apart (2), products (6), and the multiply-adds of factorisations (4 for a real one).
BY_PARTS = {
    **dict.fromkeys(
        ("sum", "mean", "cumsum", "trace", "index_add", "scatter_add", "index_put", "embedding_dense_backward", "var"),
        2,
    ),
    "linalg_vector_norm": 1,  # its formula has a rule for them
    **dict.fromkeys(("prod", "cumprod"), 6),
    **dict.fromkeys(
        ("linalg_cholesky_ex", "linalg_lu_factor_ex", "linalg_inv_ex", "linalg_solve_triangular", "linalg_lu_solve",
         "_linalg_solve_ex", "linalg_qr", "geqrf"),
        4,
    ),
}  # fmt: skip


def register_other_flop(counts: Mapping[str, Callable[..., int]]) -> None:
    """Register the other FLOP of operators without products.

    A key holds the names that share a count, separated by spaces, and a factor for complex numbers (``BY_PARTS``).
    Without a factor, a call with complex numbers has no formula.
    """
    for key, count in counts.items():
        names = key.split()
        factor = next((BY_PARTS[name] for name in names if name in BY_PARTS), None)
        formula(*names)(_other(count, factor))


def _other(count: Callable[..., int], factor: int | None) -> Formula:
    @wraps(count)
    def work(**values: Any) -> Work:
        if not any(map(_is_complex, (*values.values(), _first(values.get("out"))))):
            return Work(0, count(**values))
        if factor is None:
            raise LookupError("no formula for complex numbers")
        return Work(0, count(**values) * factor)

    return work


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, (tuple, list)) else value


def _is_complex(value: Any) -> bool:
    return isinstance(value, complex) or (hasattr(value, "untyped_storage") and value.is_complex())


# Real operations in one complex operation, and in one of a complex and a real operand.
COMPLEX = {
    "abs": 4, "neg": 2, "add": 2, "sub": 2, "rsub": 2, "mul": 6, "div": 11, "reciprocal": 5, "angle": 1, "eq": 2,
    "ne": 2,
    "sgn": 6,  # the modulus, two divisions
    "exp": 5,  # of the real part; a sine, a cosine, two products
    "log": 6,  # the modulus and its logarithm, the angle
    **dict.fromkeys(("log2", "log10"), 8),
    "sqrt": 10,  # the modulus r, roots of (r + x) / 2 and (r - x) / 2
    "rsqrt": 15,
    **dict.fromkeys(("sin", "cos", "sinh", "cosh"), 6),  # sin x cosh y, cos x sinh y
    **dict.fromkeys(("tan", "tanh"), 9),  # (sinh 2x, sin 2y) / (cosh 2x + cos 2y)
    "tanh_backward": 14,  # g (1 - y y)
    "sigmoid": 13,  # 1 / (1 + exp(-z))
    "sigmoid_backward": 14,  # g y (1 - y)
    "pow": 17,  # exp(w log z)
    "addcmul": 10,
    "lerp": 6,
}  # fmt: skip
COMPLEX_BY_REAL = {"add": 1, "sub": 1, "rsub": 1, "mul": 2, "div": 2, "eq": 2, "ne": 2, "pow": 13}


def pointwise(name: str) -> Formula:
    """Make the formula of a pointwise operator. It raises LookupError for complex numbers without a rule."""

    def count(*args: Any, out: Any, **kwargs: Any) -> Work:
        if any(map(_is_complex, args)):
            cost = (COMPLEX if all(map(_is_complex, args[:2])) else COMPLEX_BY_REAL)[name]
            if name == "pow" and not hasattr(args[1], "numel") and args[1] == 2:
                cost = COMPLEX["mul"]
        else:
            is_tanh = name in TANH_GELU and kwargs.get("approximate") == "tanh"
            cost = TANH_GELU[name] if is_tanh else COSTS.get(name, 1)
        if name in ("add", "sub", "rsub") and kwargs.get("alpha", 1) != 1:
            cost += 1
        return Work(0, cost * _first(out).numel())

    return count


for _name in (*ELEMENTARY, *COSTS):
    formula(_name)(pointwise(_name))


def _reduction(input: Any, out: Any, other: Any = None) -> int:
    """From n elements to m results, n - m operations. With two tensors (``max`` of both), one an element."""
    results = _first(out).numel()
    return int(results if hasattr(other, "numel") else max(0, input.numel() - results))


def _norm(input: Any, out: Any, p: float | None = None) -> int:
    """Squares (n), sum (n - m), roots (m). Order 1 has no roots; other orders add a power and absolute values (n).

    Of complex numbers, both parts are squared and added (2n more); an absolute value takes 4 (3n more).
    """
    order, elements, is_complex = 2 if p is None else p, input.numel(), _is_complex(input)
    if order == 2:
        return int((2 + 2 * is_complex) * elements)
    if order in (0, 1, math.inf, -math.inf):
        return int((2 + 3 * is_complex) * elements - out.numel())
    return int((3 + 3 * is_complex) * elements)


SUM, MEAN, MAXIMUM = 0, 1, 2  # torch's numbers of how a bag joins its rows


def _bag(weight: Any, indices: Any, mode: int, per_sample_weights: Any, out: Any) -> int:
    """An addition per value of the rows, less the first of each bag; a mean divides; a weight multiplies."""
    values = indices.numel() * weight.shape[1]
    return int(values - out[0].numel() * (mode != MEAN) + values * (per_sample_weights is not None))


def _bag_backward(grad_output: Any, indices: Any, mode: int, per_sample_weights: Any) -> int:
    """An addition per value, to its row of the table; a mean divides; a weight multiplies.

    The largest of a bag gets its whole gradient.
    """
    values = grad_output.numel() if mode == MAXIMUM else indices.numel() * grad_output.shape[1]
    return int(values * (1 + (per_sample_weights is not None)) + grad_output.numel() * (mode == MEAN))


def _renormalised(rows: int, width: int, order: float) -> int:
    """The norm of each row (see ``_norm``); a comparison, an addition and a division (3 a row); and a product.

    How many rows are too long depends on values: all are counted.
    """
    norm = 2 * width if order == 2 else 2 * width - 1 if order in (0, 1, math.inf) else 3 * width
    return rows * (norm + 3 + width)


def _length(tensor: Any, dim: int) -> int:
    return int(tensor.shape[dim]) if tensor.dim() else 1


def _comparisons(elements: int, among: int) -> int:
    return round(elements * max(1.0, math.log2(max(1, among))))


def _rows(tensor: Any, dim: int | None) -> int:
    return int(tensor.numel() // max(1, tensor.shape[-1 if dim is None else dim]))


register_other_flop(
    {
        "sum": _reduction,
        "max amax min amin argmax argmin prod": _reduction,
        "trace": lambda input: max(0, min(input.shape) - 1),
        # A comparison an element with 0, or with an element of another tensor.
        "any all count_nonzero nonzero nonzero_static equal": lambda input: input.numel(),
        "aminmax _aminmax": lambda input, out: 2 * _reduction(input, out),
        # A comparison (n), the sum (n - m).
        "nansum": lambda input, out: 2 * input.numel() - out.numel(),
        # A comparison for each doubling of the k that are wanted.
        "topk": lambda input, k: _comparisons(input.numel(), k),
        # A comparison an element for each doubling of its row: it is sorted, or found in a sorted row.
        "sort": lambda input, dim: _comparisons(input.numel(), _length(input, dim)),
        "kthvalue median nanmedian mode": lambda input, out: _comparisons(
            input.numel(), input.numel() // max(1, _first(out).numel())
        ),
        # The place of each value: a difference, a factor, rounding down; and an addition there.
        "histc": lambda input: 4 * input.numel(),
        # Each value is compared along a binary search.
        "searchsorted": lambda sorted_sequence, out: _comparisons(out.numel(), _length(sorted_sequence, -1)),
        "bucketize": lambda boundaries, out: _comparisons(out.numel(), boundaries.numel()),
        # A comparison for each bound.
        "clamp clamp_min clamp_max": lambda out, min=None, max=None: (
            ((min is not None) + (max is not None)) * out.numel()
        ),
        # The sum (n - m) and a division for each of m results.
        "mean": lambda input: input.numel(),
        # Mean (n), differences (n), squares (n), their sum and division (n).
        "var var_mean": lambda input: 4 * input.numel(),
        # Also the root of the variance (m).
        "std std_mean": lambda input, out: 4 * input.numel() + _first(out).numel(),
        "linalg_vector_norm norm": _norm,
        "linalg__powsum": lambda input, p, out: _norm(input, out, p) - out.numel(),
        # Differences (n), and their norm.
        "dist": lambda input, p, out: input.numel() + _norm(input, out, p),
        "cumsum": lambda dim, out: out.numel() - _rows(out, dim),
        "cumprod cummax cummin": lambda dim, out: _first(out).numel() - _rows(_first(out), dim),
        # Each step: the larger, the difference, exponential, an addition, logarithm, an addition.
        "logcumsumexp _logcumsumexp": lambda dim, out: 6 * (out.numel() - _rows(out, dim)),
        # Maximum (n - m), differences (n), exponentials (n), sum (n - m), logarithms and the maximum again (2m).
        "logsumexp": lambda input: 4 * input.numel(),
        # Of n elements in r rows: maximum (n - r), difference (n), exponential (n), sum (n - r), division (n).
        "_softmax _safe_softmax _masked_softmax": lambda dim, out: 5 * out.numel() - 2 * _rows(out, dim),
        # Maximum (n - r), difference (n), exponential (n), sum (n - r), logarithm (r), difference (n).
        "_log_softmax": lambda dim, out: 5 * out.numel() - _rows(out, dim),
        # Two products or an exponential and one (2n), a sum (n - r), a difference (n).
        "_softmax_backward_data _log_softmax_backward_data _masked_softmax_backward": lambda dim, out: (
            4 * out.numel() - _rows(out, dim)
        ),
        # An addition for each element of the gradient, to its row of the table.
        "embedding_dense_backward": lambda grad_output: grad_output.numel(),
        "_embedding_bag _embedding_bag_forward_only": _bag,
        "_embedding_bag_backward _embedding_bag_dense_backward": _bag_backward,
        # Products of a row's values with their gradient, and their sum.
        "_embedding_bag_per_sample_weights_backward": lambda grad_output, indices: (
            indices.numel() * (2 * grad_output.shape[1] - 1)
        ),
        "renorm": lambda input, p, dim: _renormalised(input.shape[dim], input.numel() // input.shape[dim], p),
        # The rows that the indices name.
        "embedding_renorm": lambda input, indices, norm_type: _renormalised(indices.numel(), input.shape[1], norm_type),
        # An addition for each element of the source.
        "index_add": lambda source: source.numel(),
        # An addition for each index: the source may be larger.
        "scatter_add": lambda input, index: index.numel(),
        # An operation for each index, and a division for each result of a mean.
        "scatter_reduce": lambda index, reduce, out: index.numel() + (reduce == "mean") * out.numel(),
        "index_reduce": lambda source, reduce, out: source.numel() + (reduce == "mean") * out.numel(),
        # An addition for each value if values accumulate, as in the backward pass of reading by an index.
        "index_put _index_put_impl _unsafe_index_put": lambda values, accumulate: accumulate * values.numel(),
        "_unsafe_masked_index_put_accumulate": lambda values: values.numel(),
        # An operation an element of the data or of the gradient, and a division for each result of a mean.
        "segment_reduce": lambda data, reduce, out: data.numel() + (reduce == "mean") * out.numel(),
        "_segment_reduce_backward": lambda grad_output, data, reduce: (
            data.numel() + (reduce == "mean") * grad_output.numel()
        ),
    }
)


@formula("_fft_r2c", "_fft_c2r", "_fft_c2c")
def fft(input: Any, dim: Sequence[int], out: Any) -> Work:
    """5 n log2 n for n complex points and half of that for n real ones, as FFTW counts (Frigo and Johnson 2005)."""
    spans = out if input.is_complex() else input
    points = math.prod(spans.shape[each] for each in dim)
    cost = 5 if input.is_complex() and out.is_complex() else 2.5
    return Work(0, round(cost * spans.numel() * math.log2(max(1, points))))
