"""FLOP of operators that look at a window around each place: pooling and interpolation.

A window is cut at the border: padding is neither compared nor added. In the tables, a: the operator's arguments, o: its
output.
"""

import math
from collections.abc import Callable
from typing import Any

from measure.counting.formulas import Args, register_other_flop


def _pooled(
    dimensions: int, inputs: Any, out: Any, window: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1
) -> int:
    """Count the elements in all windows over the last ``dimensions``. Without a stride it is the window's size.

    Options are a number, or a list of one for all dimensions or of one for each.
    """
    along = []
    for dimension in range(-dimensions, 0):
        size, step, start, spread = (
            option if isinstance(option, int) else option[0 if len(option) == 1 else dimension]
            for option in (window, stride or window, padding, dilation)
        )
        places = [place * step - start for place in range(out.shape[dimension])]
        limit = inputs.shape[dimension]
        along.append(sum(0 <= place + tap * spread < limit for place in places for tap in range(size)))
    return math.prod(out.shape[:-dimensions]) * math.prod(along)


def _adaptively_pooled(dimensions: int, inputs: Any, out: Any) -> int:
    """Count the same for an adaptive pooling. Window i of m over n elements goes from floor(i n / m) to
    ceil((i + 1) n / m), so windows may overlap.
    """

    def total(size: int, outputs: int) -> int:
        return sum(-(-(place + 1) * size // outputs) - place * size // outputs for place in range(outputs))

    along = map(total, inputs.shape[-dimensions:], out.shape[-dimensions:])
    return math.prod(out.shape[:-dimensions]) * math.prod(along)


def _poolings(d: int) -> dict[str, Callable[[Args, Any], int]]:
    """Return the counts of the poolings over ``d`` dimensions, with or without a batch in front."""
    return {
        # A comparison less than a window has elements.
        f"max_pool{d}d_with_indices": lambda a, o: _pooled(d, a[0], o[0], *a[1:5]) - o[0].numel(),
        f"adaptive_max_pool{d}d": lambda a, o: _adaptively_pooled(d, a[0], o[0]) - o[0].numel(),
        # The additions and the division: as many as a window has elements.
        f"avg_pool{d}d": lambda a, o: _pooled(d, a[0], o, *a[1:4]),
        f"_adaptive_avg_pool{d}d": lambda a, o: _adaptively_pooled(d, a[0], o),
        # Backward, a division for each window and an addition for each of its elements.
        f"avg_pool{d}d_backward": lambda a, _o: a[0].numel() + _pooled(d, a[1], a[0], *a[2:5]),
        f"_adaptive_avg_pool{d}d_backward": lambda a, _o: a[0].numel() + _adaptively_pooled(d, a[1], a[0]),
    }


for _dimensions in (2, 3):  # torch pools over one dimension as over two, one of them of size 1
    register_other_flop(_poolings(_dimensions))

# Backward of operators that choose or repeat: an addition for each element of the gradient, to its place in the input.
CHOOSING = ("max_pool{}d_with_indices_backward", "adaptive_max_pool{}d_backward")
REPEATING = ("upsample_nearest{}d", "_upsample_nearest_exact{}d", "reflection_pad{}d", "replication_pad{}d")
_adding = ["col2im", "unfold_backward", *(name.format(dimensions) for name in CHOOSING for dimensions in (2, 3))]
_adding += [f"{name.format(dimensions)}_backward" for name in REPEATING for dimensions in (1, 2, 3)]
register_other_flop({name: lambda a, _o: a[0].numel() for name in _adding})

# Forward weights dimension by dimension: a line of 2 taps is two products and an addition (3), one of 4 taps 7.
# Bilinear takes two lines and one across, trilinear 4 + 2 + 1, bicubic 4 + 1. Backward is a product and an addition for
# each element that an output weighted. The weights are left out: they are computed once per row and column.
register_other_flop(
    {
        "upsample_linear1d": lambda _a, o: 3 * o.numel(),
        "upsample_bilinear2d": lambda _a, o: (2 + 1) * 3 * o.numel(),
        "upsample_trilinear3d": lambda _a, o: (4 + 2 + 1) * 3 * o.numel(),
        "upsample_bicubic2d": lambda _a, o: (4 + 1) * 7 * o.numel(),
        "upsample_linear1d_backward": lambda a, _o: 2 * 2 * a[0].numel(),
        "upsample_bilinear2d_backward": lambda a, _o: 2 * 2**2 * a[0].numel(),
        "upsample_trilinear3d_backward": lambda a, _o: 2 * 2**3 * a[0].numel(),
        "upsample_bicubic2d_backward": lambda a, _o: 2 * 4**2 * a[0].numel(),
    }
)


def _smoothed_taps(size: int, outputs: int, reach: int, align_corners: bool, scale: float | None) -> int:
    """Count the elements that all outputs along a dimension weigh: ``reach`` to each side, more where it shrinks."""
    if align_corners:
        step = (size - 1) / (outputs - 1) if outputs > 1 else 0.0
    else:
        step = 1 / scale if scale else size / outputs
    support = reach * max(1.0, step)
    centres = [step * (place + 0.5) for place in range(outputs)]
    return sum(min(int(each + support + 0.5), size) - max(int(each - support + 0.5), 0) for each in centres)


def _smoothed(inputs: Any, out_shape: Any, reach: int, options: Args) -> tuple[int, int, int]:
    """Return the images, and the elements weighed along their height and width."""
    align_corners, *scales = options
    scales += [None] * (2 - len(scales))
    images = math.prod(inputs[:-2])
    along = (_smoothed_taps(inputs[place], out_shape[place], reach, align_corners, scales[place]) for place in (-2, -1))
    return images, *along


def _smoothing(reach: int) -> dict[str, Callable[[Args, Any], int]]:
    """Return the counts of an interpolation without aliases: lines along the width, and then along the height."""

    def forward(args: Args, out: Any) -> int:
        images, tall, wide = _smoothed(args[0].shape, out.shape, reach, args[2:5])
        (height, width), rows = out.shape[-2:], args[0].shape[-2]
        return int(images * (rows * (2 * wide - width) + width * (2 * tall - height)))

    def backward(args: Args, _out: Any) -> int:
        """A product and an addition for each element that an output weighed."""
        images, tall, wide = _smoothed(args[2], args[0].shape, reach, args[3:6])
        return int(2 * images * tall * wide)

    return {"": forward, "_backward": backward}


for _kind, _reach in (("bilinear", 1), ("bicubic", 2), ("lanczos", 3)):
    _counts = _smoothing(_reach)
    register_other_flop({f"_upsample_{_kind}2d_aa{end}": count for end, count in _counts.items()})


register_other_flop(
    {
        # Regions at random places, of the given size; a comparison less than their elements.
        "fractional_max_pool2d fractional_max_pool3d": lambda a, o: (math.prod(a[1]) - 1) * o[0].numel(),
        "fractional_max_pool2d_backward fractional_max_pool3d_backward": lambda a, _o: a[0].numel(),
        "mkldnn_max_pool2d": lambda a, o: _pooled(2, a[0], o, *a[1:5]) - o.numel(),
        "mkldnn_max_pool3d": lambda a, o: _pooled(3, a[0], o, *a[1:5]) - o.numel(),
        "mkldnn_max_pool2d_backward mkldnn_max_pool3d_backward": lambda a, _o: a[0].numel(),
        "mkldnn_adaptive_avg_pool2d": lambda a, o: _adaptively_pooled(2, a[0], o),
        "mkldnn_adaptive_avg_pool2d_backward": lambda a, _o: a[0].numel() + _adaptively_pooled(2, a[1], a[0]),
        "adaptive_avg_pool3d_backward": lambda a, _o: a[0].numel() + _adaptively_pooled(3, a[1], a[0]),
    }
)
