"""FLOP of operators that sample images between their elements: on a grid, in regions, and at the taps of a convolution.

A place is computed once for all channels. In the comments p is the number of places, n that of values: a place's value
in one channel. A line ``a + w (b - a)`` takes 3 operations.
"""

import math
from typing import Any, NamedTuple

from measure.counting.formulas import Args, Kwargs, Work, formula, register_other_flop

LINEAR, NEAREST, CUBIC = 0, 1, 2  # torch's numbers of how elements are joined


class Resampling(NamedTuple):
    """Operations for each place and each value."""

    place: int  # for each coordinate a product, an addition and rounding down; and a remainder, unless for the nearest
    value: int = 0
    # The gradient of the input: the weights of the elements around a place; a product and an addition for each of them.
    input_place: int = 0
    input_value: int = 1
    # The gradient of the grid: a slope along each coordinate.
    grid_place: int = 0
    grid_value: int = 0


SAMPLINGS = {  # by the number of coordinates and the mode
    (2, NEAREST): Resampling(6),
    (3, NEAREST): Resampling(9),
    # Two lines and one across. Input: 1 - u, 1 - v, four products; four elements. Grid, corners a, b above c, d: along
    # the rows s + v (t - s) of s = b - a and t = d - c (5); between them c + u t - (a + u s) (5); each by the gradient
    # and summed over channels (4n - 2p), by half the size (2p).
    (2, LINEAR): Resampling(8, 9, 6, 8, 0, 14),
    # Four lines, two and one. Input: three remainders from 1, four products and eight; eight elements. Grid: along the
    # rows four differences and three lines of them (13); between them four products and sums, two differences and a
    # line (13); between the planes two products and sums, and a difference (5); by the gradient and so on (6).
    (3, LINEAR): Resampling(12, 21, 15, 16, 0, 37),
    # Weights of four taps along each coordinate, polynomials of 5, 5, 6 and 6 operations and 3 for their arguments. A
    # line of four is 7: four and one across. Input: 16 products; 16 elements. Grid: weights of the slopes, of 3, 3, 4
    # and 4 operations for each coordinate; five lines along each; by the gradient and so on (4).
    (2, CUBIC): Resampling(8 + 50, 35, 16, 32, 28, 74),
}


@formula("grid_sampler_2d", "grid_sampler_3d", "_grid_sampler_2d_cpu_fallback")
def grid_sampler(args: Args, _kwargs: Kwargs, out: Any) -> Work:
    grid, mode = args[1:3]
    dimensions = grid.shape[-1]
    cost = SAMPLINGS[dimensions, mode]
    return Work(0, cost.place * (grid.numel() // dimensions) + cost.value * out.numel())


@formula("grid_sampler_2d_backward", "grid_sampler_3d_backward", "_grid_sampler_2d_cpu_fallback_backward")
def grid_sampler_backward(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    """Count the places again, and the gradients that the mask asks for."""
    gradient, _inputs, grid, mode = args[:4]
    return _sampled_backward(gradient, grid, mode, *args[6])


def _sampled_backward(gradient: Any, grid: Any, mode: int, for_input: bool, for_grid: bool) -> Work:
    dimensions = grid.shape[-1]
    cost, places, values = SAMPLINGS[dimensions, mode], grid.numel() // dimensions, gradient.numel()
    into_input = (cost.input_place * places + cost.input_value * values) * for_input
    return Work(0, cost.place * places + into_input + (cost.grid_place * places + cost.grid_value * values) * for_grid)


@formula("cudnn_grid_sampler")
def cudnn_sampler(args: Args, _kwargs: Kwargs, out: Any) -> Work:
    return grid_sampler([*args, LINEAR], {}, out)


@formula("cudnn_grid_sampler_backward")
def cudnn_sampler_backward(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    return _sampled_backward(args[2], args[1], LINEAR, True, True)


@formula("affine_grid_generator", "cudnn_affine_grid_generator")
def affine_grid(args: Args, _kwargs: Kwargs, out: Any) -> Work:
    """Multiply a matrix of two or three rows, and one column more, by each place. The plain grid is made once."""
    return Work(2 * out.numel() * (out.shape[-1] + 1))


@formula("cudnn_affine_grid_generator_backward")
def affine_grid_backward(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    return Work(2 * args[0].numel() * (args[0].shape[-1] + 1))


# A bin of a region is the mean of values that are sampled at places on a grid of its own. Without a given number of
# places, or without sampling, a bin's size depends on values: there is no formula.


def _in_bins(regions: Any, height: int, width: int, ratio: int) -> tuple[int, int]:
    """Return the places in a bin, and in all bins of all regions."""
    if ratio <= 0:
        raise LookupError("the number of places depends on values")
    return ratio**2, len(regions) * height * width * ratio**2


def _binned_flop(args: Args, out: Any) -> int:
    each, places = _in_bins(args[1], *args[3:6])
    return int(SAMPLINGS[2, LINEAR].place * places + (SAMPLINGS[2, LINEAR].value + 1) * each * out.numel())


def _binned_backward_flop(gradient: Any, regions: Any, height: int, width: int, ratio: int) -> int:
    """Count the places again, a division for each gradient, and the gradient of the input, as ``grid_sampler``."""
    each, places = _in_bins(regions, height, width, ratio)
    cost, values = SAMPLINGS[2, LINEAR], gradient.numel()
    return int((cost.place + cost.input_place) * places + values + cost.input_value * each * values)


register_other_flop(
    {
        "torchvision::roi_align": _binned_flop,
        "torchvision::ps_roi_align": lambda a, o: _binned_flop(a, o[0]),
        "torchvision::_roi_align_backward": lambda a, _o: _binned_backward_flop(a[0], a[1], a[3], a[4], a[9]),
        "torchvision::_ps_roi_align_backward": lambda a, _o: _binned_backward_flop(a[0], a[1], a[4], a[5], a[6]),
        "torchvision::_roi_pool_backward": lambda a, _o: a[0].numel(),  # an addition each, to the largest of its bin
    }
)


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
