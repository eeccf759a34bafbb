"""The registry of formulas: the FLOP of one call of an operator; and all formulas but those of products and windows.

A multiply-add is 2 FLOP. Any other scalar operation is 1: an addition, a comparison, a division, a square root, an
exponential or another elementary function, a change of sign. Operations on integers and booleans are not counted: they
are not floating-point arithmetic. An operator takes what its definition asks for if common parts are computed once.
The paper prints ``COSTS``. In the comments n is the number of elements, m that of results, r that of rows or groups
that share statistics, c that of parameters of each kind.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
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
Formula = Callable[[Args, Kwargs, Any], Work]  # of the arguments and the output; it reads only shapes and types

FORMULAS: dict[str, Formula] = {}  # by the operator's qualified name without overload (``aten::add``)


def formula(*names: str) -> Callable[[Formula], Formula]:
    """Register a formula for torch's operators of these names, or for those of another library (``library::name``)."""

    def register(function: Formula) -> Formula:
        for name in names:
            qualified = name if "::" in name else f"aten::{name}"
            if qualified in FORMULAS:
                raise ValueError(f"two formulas for {name}")
            FORMULAS[qualified] = function
        return function

    return register


FOR_EACH = "aten::_foreach_"  # an operator on each tensor of lists


def formula_of(name: str) -> Formula | None:
    """Return the formula of a qualified name, or None. An in-place operator has that of its out-of-place twin.

    An operator on lists of tensors has that of its twin on one, for each. A special function is one operation. A custom
    operator may have one of ``torch.utils.flop_counter.register_flop_formula``, for its products.
    """
    found = FORMULAS.get(name) or FORMULAS.get(name.removesuffix("_"))
    if found is None and not name.startswith("aten::"):
        return _registered_in_torch(name)
    if found is None and name.startswith("aten::special_"):
        return pointwise("special")
    if found is None and name.startswith(FOR_EACH):
        one = formula_of(name.replace(FOR_EACH, "aten::"))
        return one and partial(_for_each, one)
    return found


def _registered_in_torch(name: str) -> Formula | None:
    from torch.utils.flop_counter import flop_registry

    names = {getattr(packet, "_qualified_op_name", None): each for packet, each in flop_registry.items()}
    registered = names.get(name)
    return registered and (lambda args, kwargs, out: Work(int(registered(*args, **kwargs, out_val=out))))


def _for_each(one: Formula, args: Args, kwargs: Kwargs, out: Any) -> Work:
    """Sum the work of one call for each place of the lists. In place there is no output: the first list is it."""
    length = max(len(each) for each in args if isinstance(each, (list, tuple)))
    out = out or args[0]
    works = []
    for place in range(length):
        parts = [each[place] if isinstance(each, (list, tuple)) else each for each in args]
        works.append(one(parts, kwargs, out[place]))
    return Work(*map(sum, zip(*works, strict=True)))


def work_of(name: str, args: Args, kwargs: Kwargs, out: Any, tensors: Iterable[Any]) -> Work | None:
    """Return the work of one call, whose arguments and output hold ``tensors``; None for arithmetic without a formula.

    A call that meets no floating-point or complex number computes none, whatever its operator.
    """
    if not any(tensor.is_floating_point() or tensor.is_complex() for tensor in tensors):
        return NOTHING
    found = formula_of(name)
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
    "linalg_vector_norm": 1,  # it knows them
    **dict.fromkeys(("prod", "cumprod"), 6),
    **dict.fromkeys(
        ("linalg_cholesky_ex", "linalg_lu_factor_ex", "linalg_inv_ex", "linalg_solve_triangular", "linalg_lu_solve",
         "_linalg_solve_ex", "linalg_qr", "geqrf"),
        4,
    ),
}  # fmt: skip


def register_other_flop(counts: Mapping[str, Callable[[Args, Any], int]]) -> None:
    """Register the other FLOP of operators without products, from their arguments and output.

    A key holds the names that share a count, separated by spaces, and their factor for complex numbers (``BY_PARTS``).
    Without one they raise LookupError for these: they have no formula.
    """
    for names, count in counts.items():
        factor = next((BY_PARTS[name] for name in names.split() if name in BY_PARTS), None)

        def work(
            args: Args,
            _kwargs: Kwargs,
            out: Any,
            count: Callable[[Args, Any], int] = count,
            factor: int | None = factor,
        ) -> Work:
            if not any(map(_is_complex, args)):
                return Work(0, count(args, out))
            if factor is None:
                raise LookupError("no formula for complex numbers")
            return Work(0, count(args, out) * factor)

        formula(*names.split())(work)


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
    """Return the formula of a pointwise operator. It raises LookupError for complex numbers without a rule."""

    def count(args: Args, kwargs: Kwargs, out: Any) -> Work:
        out = _first(out)
        if any(map(_is_complex, args)):
            cost = (COMPLEX if all(map(_is_complex, args[:2])) else COMPLEX_BY_REAL)[name]
            if name == "pow" and not hasattr(args[1], "numel") and args[1] == 2:
                cost = COMPLEX["mul"]
        else:
            is_tanh = name in TANH_GELU and kwargs.get("approximate") == "tanh"
            cost = TANH_GELU[name] if is_tanh else COSTS.get(name, 1)
        if name in ("add", "sub", "rsub") and kwargs.get("alpha", 1) != 1:
            cost += 1
        return Work(0, cost * out.numel())

    return count


for _name in (*ELEMENTARY, *COSTS):
    formula(_name)(pointwise(_name))


def _reduction(args: Args, out: Any) -> int:
    """From n elements to m results, n - m operations. With two tensors (``max`` of both), one an element."""
    out = _first(out)
    if len(args) > 1 and hasattr(args[1], "numel"):
        return int(out.numel())
    return max(0, args[0].numel() - out.numel())


def _norm(args: Args, out: Any) -> int:
    """Squares (n), sum (n - m), roots (m). Order 1 has no roots; other orders add a power and absolute values (n).

    Of complex numbers, both parts are squared and added (2n more); an absolute value takes 4 (3n more).
    """
    order = args[1] if len(args) > 1 and args[1] is not None else 2
    elements, results, is_complex = args[0].numel(), out.numel(), _is_complex(args[0])
    if order == 2:
        return (2 + 2 * is_complex) * elements
    return (
        (2 + 3 * is_complex) * elements - results
        if order in (0, 1, math.inf, -math.inf)
        else (3 + 3 * is_complex) * elements
    )


SUM, MEAN, MAXIMUM = 0, 1, 2  # torch's numbers of how a bag joins its rows


def _bag(indices: Any, width: int, out: Any, mode: Args, weights: Args) -> int:
    values = indices.numel() * width
    return int(values - out.numel() * (tuple(mode) != (MEAN,)) + values * any(each is not None for each in weights))


def _bag_backward(indices: Any, gradient: Any, mode: Args, weights: Args) -> int:
    """The largest of a bag gets its whole gradient."""
    values = gradient.numel() if tuple(mode) == (MAXIMUM,) else indices.numel() * gradient.shape[1]
    is_mean, is_weighted = tuple(mode) == (MEAN,), any(each is not None for each in weights)
    return int(values * (1 + is_weighted) + gradient.numel() * is_mean)


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


def _rows(tensor: Any, dim: int) -> int:
    return int(tensor.numel() // max(1, tensor.shape[dim]))


# In the tables, a: the operator's arguments, o: its output.
register_other_flop(
    {
        "sum": _reduction,
        "trace": lambda a, _o: max(0, min(a[0].shape) - 1),
        "max amax min amin argmax argmin prod": _reduction,
        # A comparison an element with 0, or with an element of another tensor.
        "any all count_nonzero nonzero nonzero_static equal": lambda a, _o: a[0].numel(),
        "aminmax _aminmax": lambda a, o: 2 * _reduction(a, o),
        # A comparison (n), the sum (n - m).
        "nansum": lambda a, o: 2 * a[0].numel() - o.numel(),
        # A comparison for each doubling of the k that are wanted.
        "topk": lambda a, _o: _comparisons(a[0].numel(), a[1]),
        # Found in sorted rows.
        "kthvalue median nanmedian mode": lambda a, o: _comparisons(
            a[0].numel(), a[0].numel() // max(1, _first(o).numel())
        ),
        # The place of each value: a difference, a factor, rounding down; and an addition there.
        "histc": lambda a, _o: 4 * a[0].numel(),
        # Each value is compared along a binary search.
        "searchsorted": lambda a, o: _comparisons(o.numel(), _length(a[0], -1)),
        "bucketize": lambda a, o: _comparisons(o.numel(), a[1].numel()),
        # A comparison for each bound.
        "clamp clamp_min clamp_max": lambda a, o: sum(b is not None for b in a[1:]) * o.numel(),
        # The sum (n - m) and a division for each of m results.
        "mean": lambda a, _o: a[0].numel(),
        # Mean (n), differences (n), squares (n), their sum and division (n).
        "var var_mean": lambda a, _o: 4 * a[0].numel(),
        # Also the root of the variance (m).
        "std std_mean": lambda a, o: 4 * a[0].numel() + _first(o).numel(),
        "linalg_vector_norm norm": _norm,
        "linalg__powsum": lambda a, o: _norm(a, o) - o.numel(),
        # Differences (n), and their norm.
        "dist": lambda a, o: a[0].numel() + _norm([a[0], *a[2:]], o),
        "cumsum": lambda a, o: o.numel() - _rows(o, a[1]),
        "cumprod cummax cummin": lambda a, o: _first(o).numel() - _rows(_first(o), a[1]),
        # Each step: the larger, the difference, exponential, an addition, logarithm, an addition.
        "logcumsumexp _logcumsumexp": lambda a, o: 6 * (o.numel() - _rows(o, a[1])),
        # Maximum (n - m), differences (n), exponentials (n), sum (n - m), logarithms and the maximum again (2m).
        "logsumexp": lambda a, _o: 4 * a[0].numel(),
        # Of n elements in r rows: maximum (n - r), difference (n), exponential (n), sum (n - r), division (n).
        "_softmax _safe_softmax": lambda a, o: 5 * o.numel() - 2 * _rows(o, a[1]),
        "_masked_softmax": lambda a, o: 5 * o.numel() - 2 * _rows(o, a[2] if a[2:3] and a[2] is not None else -1),
        # Maximum (n - r), difference (n), exponential (n), sum (n - r), logarithm (r), difference (n).
        "_log_softmax": lambda a, o: 5 * o.numel() - _rows(o, a[1]),
        # Two products or an exponential and one (2n), a sum (n - r), a difference (n).
        "_softmax_backward_data _log_softmax_backward_data": lambda a, o: 4 * o.numel() - _rows(o, a[2]),
        "_masked_softmax_backward": lambda a, o: 4 * o.numel() - _rows(o, a[3] if a[3:4] and a[3] is not None else -1),
        # An addition for each element of the gradient, to its row of the table.
        "embedding_dense_backward": lambda a, _o: a[0].numel(),
        # An addition for each value of the rows, less the first of each bag; a mean divides; a weight multiplies.
        "_embedding_bag _embedding_bag_forward_only": lambda a, o: _bag(a[1], a[0].shape[1], o[0], a[4:5], a[6:7]),
        # An addition for each value, to its row of the table; a mean and a weight as in the forward pass.
        "_embedding_bag_backward": lambda a, _o: _bag_backward(a[1], a[0], a[8:9], a[10:11]),
        "_embedding_bag_dense_backward": lambda a, _o: _bag_backward(a[1], a[0], a[7:8], a[8:9]),
        # Products of a row's values with their gradient, and their sum.
        "_embedding_bag_per_sample_weights_backward": lambda a, _o: a[2].numel() * (2 * a[0].shape[1] - 1),
        # As ``renorm`` below, of the rows that the indices name.
        "embedding_renorm": lambda a, _o: _renormalised(a[1].numel(), a[0].shape[1], a[3]),
        "renorm": lambda a, _o: _renormalised(a[0].shape[a[2]], a[0].numel() // a[0].shape[a[2]], a[1]),
        # An addition for each element of the source.
        "index_add": lambda a, _o: a[3].numel(),
        # An addition for each index: the source may be larger.
        "scatter_add": lambda a, _o: a[2].numel(),
        # An operation for each index, and a division for each result of a mean.
        "scatter_reduce": lambda a, o: a[2].numel() + (a[4] == "mean") * o.numel(),
        "index_reduce": lambda a, o: a[3].numel() + (a[4] == "mean") * o.numel(),
        # An addition for each value if values accumulate, as in the backward pass of reading by an index.
        "index_put _index_put_impl _unsafe_index_put": lambda a, _o: a[2].numel() if any(a[3:4]) else 0,
        "_unsafe_masked_index_put_accumulate": lambda a, _o: a[3].numel(),
        # An operation an element of the data or of the gradient, and a division for each result of a mean.
        "segment_reduce": lambda a, o: a[0].numel() + (a[1] == "mean") * o.numel(),
        "_segment_reduce_backward": lambda a, _o: a[2].numel() + (a[3] == "mean") * a[0].numel(),
    }
)


@formula("sort")
def sort(args: Args, kwargs: Kwargs, _out: Any) -> Work:
    """A comparison an element for each doubling of its row."""
    dim = kwargs.get("dim", args[1] if len(args) > 1 else -1)
    return Work(0, _comparisons(args[0].numel(), _length(args[0], dim)))


@formula("_fft_r2c", "_fft_c2r", "_fft_c2c")
def fft(args: Args, _kwargs: Kwargs, out: Any) -> Work:
    """5 n log2 n for n complex points and half of that for n real ones, as FFTW counts (Frigo and Johnson 2005)."""
    spans = out if args[0].is_complex() else args[0]
    points = math.prod(spans.shape[dim] for dim in args[1])
    each = 5 if args[0].is_complex() and out.is_complex() else 2.5
    return Work(0, round(each * spans.numel() * math.log2(max(1, points))))
