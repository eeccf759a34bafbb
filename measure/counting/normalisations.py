"""FLOP of normalisations, forward and backward. The letters of the comments are those of ``formulas``."""

from collections.abc import Sequence
from typing import Any

from measure.counting.formulas import Args, register_other_flop

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
        "native_batch_norm _native_batch_norm_legit cudnn_batch_norm miopen_batch_norm": _batch_norm,
        "_native_batch_norm_legit_functional": _batch_norm,
        "_native_batch_norm_legit_no_training _batch_norm_no_update": lambda a, _o: _batch_norm([*a[:3], False], None),
        "_batch_norm_with_update _batch_norm_with_update_functional": lambda a, _o: batch_norm_flop(
            a[0], True, a[3] is not None
        ),
        "native_batch_norm_backward batch_norm_backward": lambda a, _o: batch_norm_backward_flop(a[1], a[7], a[9]),
        "cudnn_batch_norm_backward miopen_batch_norm_backward": lambda a, _o: batch_norm_backward_flop(
            a[0], True, (True, True, True)
        ),
        # The same in parts, which several devices join: statistics, then scale and shift; sums, then the input.
        "batch_norm_stats": lambda a, _o: 4 * a[0].numel() + 2 * a[0].shape[1],
        "batch_norm_elemt": lambda a, _o: 2 * a[0].numel() + 3 * a[0].shape[1],
        "batch_norm_backward_reduce": lambda a, _o: 5 * a[0].numel() - 2 * a[0].shape[1],
        "batch_norm_backward_elemt": lambda a, _o: 4 * a[0].numel() + 3 * a[0].shape[1],
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
