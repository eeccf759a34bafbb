"""FLOP of operators that look at a window around each place: pooling, interpolation and sampling.

A window is cut at the border: padding is neither compared nor added. In the tables, a: the operator's arguments, o: its
output.
"""

import math
from collections.abc import Callable
from typing import Any

from measure.counting.formulas import Args, Kwargs, Work, formula, register_other_flop


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


# Sampling computes the places on the grid, once for all channels: a product, an addition and rounding down for each of
# two coordinates (6); bilinear also the remainders (2). The modes are torch's numbers; bicubic has no formula.
BILINEAR, NEAREST = 0, 1
PLACE_FLOP = {BILINEAR: 8, NEAREST: 6}


@formula("grid_sampler_2d")
def grid_sampler(args: Args, _kwargs: Kwargs, out: Any) -> Work:
    """Bilinear sampling adds three lines ``a + w (b - a)`` an output."""
    grid, mode = args[1:3]
    return Work(0, PLACE_FLOP[mode] * (grid.numel() // 2) + (9 * out.numel() if mode == BILINEAR else 0))


@formula("grid_sampler_2d_backward")
def grid_sampler_backward(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    """Count the places again. Bilinear sampling has corners a, b above c, d, p places and n gradients of outputs.

    Input: four corners' weights (6p), each times the gradient, and added (8n). Grid: the slope along the rows
    ``s + v (t - s)`` of s = b - a and t = d - c (5n), between the rows ``c + u t - (a + u s)`` (5n), times the gradient
    and summed over channels (4n - 2p), times half the size (2p).
    """
    gradient, _inputs, grid, mode = args[:4]
    for_input, for_grid = args[6]
    elements, places = gradient.numel(), grid.numel() // 2
    if mode == NEAREST:  # its slope is 0
        return Work(0, PLACE_FLOP[mode] * places + elements * for_input)
    return Work(0, PLACE_FLOP[mode] * places + (8 * elements + 6 * places) * for_input + 14 * elements * for_grid)


# A deformable convolution samples each tap of its window at a place of its own, once for all channels of its group: an
# offset added, rounding down and a remainder for each of two coordinates (6). A channel takes three lines there (9),
# and a mask, if any, a product.


def _sampled(weight: Any, offset: Any, channels: int) -> tuple[int, int]:
    """Return the places that a deformable convolution samples, and the values that its input's channels have there."""
    taps, outputs = math.prod(weight.shape[2:]), len(offset) * math.prod(offset.shape[2:])
    return offset.numel() // 2, outputs * taps * channels


@formula("torchvision::deform_conv2d")
def deformable_convolution(args: Args, _kwargs: Kwargs, out: Any) -> Work:
    """Count the products of a convolution, the sampling, and the bias, which torchvision's function always passes."""
    weight, has_mask = args[1], args[13]
    places, values = _sampled(weight, args[2], args[0].shape[1])
    products = out.numel() * weight.numel() // len(weight)
    return Work(2 * products, 6 * places + (9 + has_mask) * values + out.numel())


@formula("torchvision::_deform_conv2d_backward")
def deformable_convolution_backward(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    """Count all gradients, which the operator computes in any case. The gradient of the weight samples again.

    Input and offsets as ``grid_sampler_backward``, without the mean over a size; the mask's and the masked gradient are
    products, the former summed over channels (3 a value); the bias's gradient is a sum over images and places.
    """
    gradient, inputs, weight, offset = args[:4]
    has_mask = args[14]
    places, values = _sampled(weight, offset, inputs.shape[1])
    products = gradient.numel() * weight.numel() // len(weight)
    for_input, for_offset = 8 * values + 6 * places, 14 * values - 2 * places
    other = for_input + for_offset + 3 * values * has_mask + gradient.numel() - gradient.shape[1]
    return Work(4 * products, other, 6 * places + (9 + has_mask) * values)
