"""FLOP of normalisations: n elements in r groups that share a mean, with c parameters of each kind.

Each takes the mean (n: a sum, a division), the variance (3n: differences, squares, their mean) and the inverse
deviation (2r: the small constant added, inverse square root). What follows differs: where a group has one scale
(batch normalisation), scale and shift are folded into one product and one addition an element.
"""

from collections.abc import Sequence
from typing import Any

from measure.counting.flops import Args, Kwargs, Work, formula, register_other_flop

RUNNING = 6
"""Operations a channel to move both running statistics: two products and an addition each."""


def batch_norm_flop(elements: int, channels: int, training: bool, tracked: bool) -> int:
    """Folding takes 5 a channel: deviation (2), scale (1), shift (2). Then 2n, and in training 4n for statistics."""
    statistics = 4 * elements + (RUNNING * channels if tracked else 0)
    return 2 * elements + 5 * channels + (statistics if training else 0)


def _batch_norm(inputs: Any, training: bool, running: Any) -> int:
    return batch_norm_flop(inputs.numel(), inputs.shape[1], training, running is not None)


@formula("aten::native_batch_norm", "aten::_native_batch_norm_legit", "aten::cudnn_batch_norm")
def batch_norm(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    if isinstance(args[3], bool):  # an overload without running statistics
        return Work(0, _batch_norm(args[0], args[3], None))
    return Work(0, _batch_norm(args[0], args[5], args[3]))


def batch_norm_backward_flop(elements: int, channels: int, training: bool, mask: Sequence[bool]) -> int:
    """Count the normalised input x (2n), sum of g (n - r), sum of g x (2n - r); input: g w/s less both means (4n + 3r).

    In inference the statistics are constants: the input's gradient is g times a folded scale (n + r), and the sums
    are taken for the gradients of scale and shift alone.
    """
    sums = 5 * elements - 2 * channels
    if training:
        return sums + (4 * elements + 3 * channels if mask[0] else 0)
    return (elements + channels if mask[0] else 0) + (sums if mask[1] or mask[2] else 0)


def row_norm_flop(elements: int, rows: int, scaled: bool, shifted: bool) -> int:
    """Statistics (4n + 2r); the difference is at hand, so one product normalises (n); scale (n), shift (n)."""
    return 5 * elements + 2 * rows + elements * (scaled + shifted)


def row_norm_backward_flop(elements: int, rows: int, parameters: int, scaled: bool, mask: Sequence[bool]) -> int:
    """Count the normalised input x (2n); gradient by scale (n) is h; sums of h and h x (3n - 2r) and their means (2r);

    input: s (h - mean - x mean) (4n); scale: sums of g x (2n - c); shift: sums of g (n - c).
    """
    flop = 2 * elements if mask[0] or mask[1] else 0
    if mask[0]:
        flop += 7 * elements + (elements if scaled else 0)
    return flop + (2 * elements - parameters) * mask[1] + (elements - parameters) * mask[2]


def _rms_norm_backward(elements: int, rows: int, scaled: bool, mask: Sequence[bool]) -> int:
    """Count ``row_norm_backward_flop`` without the mean: x (n), scale (n), a sum and its mean (2n), input (3n)."""
    flop = elements + (elements * (5 + scaled) if mask[0] else 0)
    return flop + (2 * elements - elements // max(1, rows)) * mask[1]


register_other_flop(
    {
        "_native_batch_norm_legit_no_training _batch_norm_no_update": lambda args, _out: _batch_norm(
            args[0], False, args[3]
        ),
        "_batch_norm_with_update": lambda args, _out: _batch_norm(args[0], True, args[3]),
        "native_batch_norm_backward batch_norm_backward": lambda args, _out: batch_norm_backward_flop(
            args[1].numel(), args[1].shape[1], args[7], args[9]
        ),
        "cudnn_batch_norm_backward": lambda args, _out: batch_norm_backward_flop(
            args[0].numel(), args[0].shape[1], True, (True, True, True)
        ),
        "native_layer_norm": lambda args, out: row_norm_flop(
            args[0].numel(), out[1].numel(), args[2] is not None, args[3] is not None
        ),
        "native_layer_norm_backward": lambda args, _out: row_norm_backward_flop(
            args[1].numel(), args[3].numel(), args[1].numel() // max(1, args[3].numel()), args[5] is not None, args[7]
        ),
        "native_group_norm": lambda args, out: row_norm_flop(
            args[0].numel(), out[1].numel(), args[1] is not None, args[2] is not None
        ),
        "native_group_norm_backward": lambda args, _out: row_norm_backward_flop(
            args[1].numel(), args[2].numel(), args[6], args[4] is not None, args[9]
        ),
        # Squares and their mean (2n), deviation (2r), product (n), scale (n).
        "_fused_rms_norm": lambda args, out: args[0].numel() * (3 + (args[2] is not None)) + 2 * out[1].numel(),
        "_fused_rms_norm_backward": lambda args, _out: _rms_norm_backward(
            args[1].numel(), args[3].numel(), args[4] is not None, args[5]
        ),
        # Rows of weights scaled to given lengths: squares (n), sums (n - r), roots (r), ratios (r), products (n).
        "_weight_norm_interface": lambda args, out: 3 * args[0].numel() + out[1].numel(),
        # Lengths: sums of g v / norm (2n); weights: length / norm (g - v sum / norm) (3n + 2r).
        "_weight_norm_interface_backward": lambda args, _out: 5 * args[1].numel() + 2 * args[3].numel(),
    }
)
