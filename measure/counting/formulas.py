"""The registry of formulas: the FLOP of one call of an operator; and all formulas but those of products and windows.

A multiply-add is 2 FLOP. Any other scalar operation is 1: an addition, a comparison, a division, a square root, an
exponential or another elementary function, a change of sign. Operations on integers and booleans are not counted: they
are not floating-point arithmetic. An operator takes what its definition asks for if common parts are computed once.
The paper prints ``COSTS``. In the comments n is the number of elements, m that of results, r that of rows or groups
that share statistics, c that of parameters of each kind.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
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


def formula_of(name: str) -> Formula | None:
    """Return the formula of a qualified name, or None. An in-place operator has that of its out-of-place twin."""
    return FORMULAS.get(name) or FORMULAS.get(name.removesuffix("_"))


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


def register_other_flop(counts: Mapping[str, Callable[[Args, Any], int]]) -> None:
    """Register the other FLOP of operators without products, from their arguments and output.

    A key holds the names that share a count, separated by spaces. Complex numbers raise LookupError: they have no
    formula.
    """
    for names, count in counts.items():

        def work(args: Args, _kwargs: Kwargs, out: Any, count: Callable[[Args, Any], int] = count) -> Work:
            if any(map(_is_complex, args)):
                raise LookupError("no formula for complex numbers")
            return Work(0, count(args, out))

        formula(*names.split())(work)


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, (tuple, list)) else value


def _is_complex(value: Any) -> bool:
    return isinstance(value, complex) or (hasattr(value, "untyped_storage") and value.is_complex())


# Real operations in one complex operation, and in one of a complex and a real operand.
COMPLEX = {"abs": 4, "neg": 2, "add": 2, "sub": 2, "mul": 6, "div": 11}
COMPLEX_BY_REAL = {"add": 1, "sub": 1, "mul": 2, "div": 2}


def pointwise(name: str) -> Formula:
    """Return the formula of a pointwise operator. It raises LookupError for complex numbers without a rule."""

    def count(args: Args, kwargs: Kwargs, out: Any) -> Work:
        out = _first(out)
        if any(map(_is_complex, args)):
            cost = (COMPLEX if all(map(_is_complex, args[:2])) else COMPLEX_BY_REAL)[name]
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
    """Squares (n), sum (n - m), roots (m). Order 1 has no roots; other orders add a power and absolute values (n)."""
    order = args[1] if len(args) > 1 and args[1] is not None else 2
    elements, results = args[0].numel(), out.numel()
    if order == 2:
        return 2 * elements
    return 2 * elements - results if order in (0, 1, math.inf, -math.inf) else 3 * elements


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


def _rows(tensor: Any, dim: int) -> int:
    return int(tensor.numel() // max(1, tensor.shape[dim]))


# In the tables, a: the operator's arguments, o: its output.
register_other_flop(
    {
        "sum max amax min amin argmax argmin prod": _reduction,
        # A comparison for each bound.
        "clamp clamp_min clamp_max": lambda a, o: sum(b is not None for b in a[1:]) * o.numel(),
        # The sum (n - m) and a division for each of m results.
        "mean": lambda a, _o: a[0].numel(),
        # Mean (n), differences (n), squares (n), their sum and division (n).
        "var var_mean": lambda a, _o: 4 * a[0].numel(),
        # Also the root of the variance (m).
        "std std_mean": lambda a, o: 4 * a[0].numel() + _first(o).numel(),
        "linalg_vector_norm norm": _norm,
        "cumsum cumprod": lambda a, o: o.numel() - _rows(o, a[1]),
        # Maximum (n - m), differences (n), exponentials (n), sum (n - m), logarithms and the maximum again (2m).
        "logsumexp": lambda a, _o: 4 * a[0].numel(),
        # Of n elements in r rows: maximum (n - r), difference (n), exponential (n), sum (n - r), division (n).
        "_softmax _safe_softmax": lambda a, o: 5 * o.numel() - 2 * _rows(o, a[1]),
        # Maximum (n - r), difference (n), exponential (n), sum (n - r), logarithm (r), difference (n).
        "_log_softmax": lambda a, o: 5 * o.numel() - _rows(o, a[1]),
        # Two products or an exponential and one (2n), a sum (n - r), a difference (n).
        "_softmax_backward_data _log_softmax_backward_data": lambda a, o: 4 * o.numel() - _rows(o, a[2]),
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
    }
)


@formula("_fft_r2c", "_fft_c2r", "_fft_c2c")
def fft(args: Args, _kwargs: Kwargs, out: Any) -> Work:
    """5 n log2 n for n complex points and half of that for n real ones, as FFTW counts (Frigo and Johnson 2005)."""
    spans = out if args[0].is_complex() else args[0]
    points = math.prod(spans.shape[dim] for dim in args[1])
    each = 5 if args[0].is_complex() and out.is_complex() else 2.5
    return Work(0, round(each * spans.numel() * math.log2(max(1, points))))


# Normalisations take the mean (n: a sum, a division), the variance (3n: differences, squares, their mean) and the
# inverse deviation (2r: a small constant added, an inverse square root), and then scale and shift. A mask says which
# gradients are asked for: of the input, of scale and of shift.


def batch_norm_flop(inputs: Any, training: bool, tracked: bool) -> int:
    """Scale and shift (2n) are folded: deviation (2), scale (1), shift (2) a channel. Training adds statistics (4n).

    Both running statistics take two products and an addition a channel.
    """
    elements, channels = inputs.numel(), inputs.shape[1]
    statistics = 4 * elements + (6 * channels if tracked else 0)
    return int(2 * elements + 5 * channels + (statistics if training else 0))


def batch_norm_backward_flop(inputs: Any, training: bool, mask: Sequence[bool]) -> int:
    """Normalised input x (2n), sum of g (n - r), sum of g x (2n - r). Input: g w/s less both means (4n + 3r).

    In inference the statistics are constants: the gradient of the input is g times a folded scale (n + r), and only the
    gradients of scale and shift need the sums.
    """
    elements, channels = inputs.numel(), inputs.shape[1]
    sums = 5 * elements - 2 * channels
    if training:
        return int(sums + (4 * elements + 3 * channels) * mask[0])
    return int((elements + channels) * mask[0] + sums * (mask[1] or mask[2]))


def row_norm_flop(inputs: Any, statistics: Any, *parameters: Any) -> int:
    """Statistics (4n + 2r), a product of the differences (n), scale (n) and shift (n) unless None."""
    return int((5 + sum(each is not None for each in parameters)) * inputs.numel() + 2 * statistics.numel())


def row_norm_backward_flop(
    inputs: Any, statistics: Any, scale: Any, mask: Sequence[bool], channels: int | None = None
) -> int:
    """Normalised input x (2n). Input: h, the gradient by scale (n), sums of h and h x (3n - 2r), their means (2r), and
    s (h - mean - x mean) (4n). Scale: sums of g x (2n - c). Shift: sums of g (n - c). Without ``channels`` there are as
    many parameters of each kind as elements in a row.
    """
    elements = inputs.numel()
    c = channels or elements // max(1, statistics.numel())
    flop = (7 + (scale is not None)) * elements * mask[0] + 2 * elements * (mask[0] or mask[1])
    return int(flop + (2 * elements - c) * mask[1] + (elements - c) * mask[2])


def _rms_norm_backward_flop(inputs: Any, statistics: Any, scale: Any, mask: Sequence[bool]) -> int:
    """As ``row_norm_backward_flop``, without the mean: x (n), scale (n), a sum and its mean (2n), input (3n)."""
    elements = inputs.numel()
    c = elements // max(1, statistics.numel())
    return int(elements + elements * (5 + (scale is not None)) * mask[0] + (2 * elements - c) * mask[1])


def _batch_norm(args: Args, _out: Any) -> int:
    # The overload without running statistics has ``training`` in their place.
    training, running = (args[3], None) if isinstance(args[3], bool) else (args[5], args[3])
    return batch_norm_flop(args[0], training, running is not None)


register_other_flop(
    {
        "native_batch_norm _native_batch_norm_legit cudnn_batch_norm": _batch_norm,
        "_native_batch_norm_legit_no_training _batch_norm_no_update": lambda a, _o: _batch_norm([*a[:3], False], None),
        "_batch_norm_with_update": lambda a, _o: batch_norm_flop(a[0], True, a[3] is not None),
        "native_batch_norm_backward batch_norm_backward": lambda a, _o: batch_norm_backward_flop(a[1], a[7], a[9]),
        "cudnn_batch_norm_backward": lambda a, _o: batch_norm_backward_flop(a[0], True, (True, True, True)),
        "native_layer_norm": lambda a, o: row_norm_flop(a[0], o[1], *a[2:4]),
        "native_layer_norm_backward": lambda a, _o: row_norm_backward_flop(a[1], a[3], a[5], a[7]),
        "native_group_norm": lambda a, o: row_norm_flop(a[0], o[1], *a[1:3]),
        "native_group_norm_backward": lambda a, _o: row_norm_backward_flop(a[1], a[2], a[4], a[9], a[6]),
        # Squares and their mean (2n), deviation (2r), product (n), scale (n).
        "_fused_rms_norm": lambda a, o: a[0].numel() * (3 + (a[2] is not None)) + 2 * o[1].numel(),
        "_fused_rms_norm_backward": lambda a, _o: _rms_norm_backward_flop(a[1], a[3], a[4], a[5]),
        # Rows of weights scaled to given lengths: squares (n), sums (n - r), roots (r), ratios (r), products (n).
        "_weight_norm_interface": lambda a, o: 3 * a[0].numel() + o[1].numel(),
        # Lengths: sums of g v / norm (2n); weights: length / norm (g - v sum / norm) (3n + 2r).
        "_weight_norm_interface_backward": lambda a, _o: 5 * a[1].numel() + 2 * a[3].numel(),
    }
)
