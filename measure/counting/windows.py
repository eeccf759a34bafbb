"""FLOP of operators that look at places of an image: pooling, interpolation, and sampling between its elements.

A window is cut at the border: padding is neither compared nor added. A place that is sampled is computed once for all
channels. The comments count p places and n values: a place's value in one channel. A line ``a + w (b - a)`` takes 3
operations.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from measure.counting.formulas import Work, formula, register_other_flop


def _pooled(
    dimensions: int, input: Any, out: Any, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1
) -> int:
    """Count the elements in all windows over the last ``dimensions``. The stride's default is the window's size.

    An option is a number, or a list of a number for all dimensions or for each.
    """
    along = []
    for dimension in range(-dimensions, 0):
        size, step, start, spread = (
            option if isinstance(option, int) else option[0 if len(option) == 1 else dimension]
            for option in (kernel_size, stride or kernel_size, padding, dilation)
        )
        places = [place * step - start for place in range(out.shape[dimension])]
        limit = input.shape[dimension]
        along.append(sum(0 <= place + tap * spread < limit for place in places for tap in range(size)))
    return math.prod(out.shape[:-dimensions]) * math.prod(along)


def _adaptively_pooled(dimensions: int, input: Any, out: Any) -> int:
    """Count the same for an adaptive pooling: window i of m over n elements is floor(i n/m) to ceil((i + 1) n/m)."""

    def total(size: int, outputs: int) -> int:
        return sum(-(-(place + 1) * size // outputs) - place * size // outputs for place in range(outputs))

    along = map(total, input.shape[-dimensions:], out.shape[-dimensions:])
    return math.prod(out.shape[:-dimensions]) * math.prod(along)


def _poolings(d: int) -> dict[str, Callable[..., int]]:
    """Make the counts of the poolings over ``d`` dimensions, with or without a batch in front."""
    pooled, adaptive = partial(_pooled, d), partial(_adaptively_pooled, d)

    def largest(input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, out: Any) -> int:
        """A comparison less than a window has elements."""
        out = out[0] if isinstance(out, tuple) else out
        return pooled(input, out, kernel_size, stride, padding, dilation) - int(out.numel())

    also = " mkldnn_adaptive_avg_pool2d" if d == 2 else ""
    also_backward = " mkldnn_adaptive_avg_pool2d_backward" if d == 2 else " adaptive_avg_pool3d_backward"
    return {
        f"max_pool{d}d_with_indices mkldnn_max_pool{d}d": largest,
        f"adaptive_max_pool{d}d": lambda input, out: adaptive(input, out[0]) - out[0].numel(),
        # The additions and the division: as many as a window has elements.
        f"avg_pool{d}d": pooled,
        f"_adaptive_avg_pool{d}d{also}": adaptive,
        # Backward, a division for each window and an addition for each of its elements.
        f"avg_pool{d}d_backward": lambda grad_output, input, kernel_size, stride, padding: (
            grad_output.numel() + pooled(input, grad_output, kernel_size, stride, padding)
        ),
        f"_adaptive_avg_pool{d}d_backward{also_backward}": lambda grad_output, input: (
            grad_output.numel() + adaptive(input, grad_output)
        ),
        # Regions at random places, of the given size; a comparison less than their elements.
        f"fractional_max_pool{d}d": lambda kernel_size, out: (math.prod(kernel_size) - 1) * out[0].numel(),
    }


for _dimensions in (2, 3):  # torch pools over one dimension as over two, one of them of size 1
    register_other_flop(_poolings(_dimensions))

# Backward of operators that choose or repeat: an addition for each element of the gradient, to its place in the input.
CHOOSING = (
    "max_pool{}d_with_indices", "adaptive_max_pool{}d", "fractional_max_pool{}d", "mkldnn_max_pool{}d",
)  # fmt: skip
REPEATING = ("upsample_nearest{}d", "_upsample_nearest_exact{}d", "reflection_pad{}d", "replication_pad{}d")
_adding = [f"{name.format(d)}_backward" for name in CHOOSING for d in (2, 3)]
_adding += [f"{name.format(d)}_backward" for name in REPEATING for d in (1, 2, 3)]
register_other_flop(
    {
        " ".join(_adding): lambda grad_output: grad_output.numel(),
        "col2im": lambda input: input.numel(),
        "unfold_backward": lambda grad_in: grad_in.numel(),
    }
)

# Forward weights dimension by dimension: a line of 2 taps is two products and an addition (3), one of 4 taps 7.
# Bilinear takes two lines and one across, trilinear 4 + 2 + 1, bicubic 4 + 1. Backward is a product and an addition for
# each element that an output weighted. The weights are left out: they are computed once per row and column.
register_other_flop(
    {
        "upsample_linear1d": lambda out: 3 * out.numel(),
        "upsample_bilinear2d": lambda out: (2 + 1) * 3 * out.numel(),
        "upsample_trilinear3d": lambda out: (4 + 2 + 1) * 3 * out.numel(),
        "upsample_bicubic2d": lambda out: (4 + 1) * 7 * out.numel(),
        "upsample_linear1d_backward": lambda grad_output: 2 * 2 * grad_output.numel(),
        "upsample_bilinear2d_backward": lambda grad_output: 2 * 2**2 * grad_output.numel(),
        "upsample_trilinear3d_backward": lambda grad_output: 2 * 2**3 * grad_output.numel(),
        "upsample_bicubic2d_backward": lambda grad_output: 2 * 4**2 * grad_output.numel(),
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


def _smoothing(reach: int) -> dict[str, Callable[..., int]]:
    """Make the counts of an interpolation without aliases: lines along the width, and then along the height."""

    def taps(sizes: Any, outputs: Any, align_corners: bool, scales: tuple[float | None, float | None]) -> Any:
        return (_smoothed_taps(sizes[place], outputs[place], reach, align_corners, scales[place]) for place in (-2, -1))

    def forward(input: Any, align_corners: bool, scales_h: float | None, scales_w: float | None, out: Any) -> int:
        tall, wide = taps(input.shape, out.shape, align_corners, (scales_h, scales_w))
        (height, width), rows = out.shape[-2:], input.shape[-2]
        return int(math.prod(input.shape[:-2]) * (rows * (2 * wide - width) + width * (2 * tall - height)))

    def backward(
        grad_output: Any, input_size: Any, align_corners: bool, scales_h: float | None, scales_w: float | None
    ) -> int:
        """A product and an addition for each element that an output weighed."""
        tall, wide = taps(input_size, grad_output.shape, align_corners, (scales_h, scales_w))
        return int(2 * math.prod(input_size[:-2]) * tall * wide)

    return {"": forward, "_backward": backward}


for _kind, _reach in (("bilinear", 1), ("bicubic", 2), ("lanczos", 3)):
    _counts = _smoothing(_reach)
    register_other_flop({f"_upsample_{_kind}2d_aa{end}": count for end, count in _counts.items()})


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


@formula("grid_sampler_2d", "grid_sampler_3d", "_grid_sampler_2d_cpu_fallback", "cudnn_grid_sampler")
def grid_sampler(grid: Any, out: Any, interpolation_mode: int = LINEAR) -> Work:
    cost, places = SAMPLINGS[grid.shape[-1], interpolation_mode], grid.numel() // grid.shape[-1]
    return Work(0, cost.place * places + cost.value * out.numel())


@formula(
    "grid_sampler_2d_backward", "grid_sampler_3d_backward", "_grid_sampler_2d_cpu_fallback_backward",
    "cudnn_grid_sampler_backward",
)  # fmt: skip
def grid_sampler_backward(
    grad_output: Any, grid: Any, interpolation_mode: int = LINEAR, output_mask: Sequence[bool] = (True, True)
) -> Work:
    """Count the places again, and the gradients of input and grid that the mask asks for."""
    cost, places = SAMPLINGS[grid.shape[-1], interpolation_mode], grid.numel() // grid.shape[-1]
    values = grad_output.numel()
    for_input = (cost.input_place * places + cost.input_value * values) * output_mask[0]
    for_grid = (cost.grid_place * places + cost.grid_value * values) * output_mask[1]
    return Work(0, cost.place * places + for_input + for_grid)


@formula("affine_grid_generator", "cudnn_affine_grid_generator")
def affine_grid(out: Any) -> Work:
    """Multiply a matrix of two or three rows, and one column more, by each place. The plain grid is made once."""
    return Work(2 * out.numel() * (out.shape[-1] + 1))


@formula("cudnn_affine_grid_generator_backward")
def affine_grid_backward(grad_output: Any) -> Work:
    return affine_grid(grad_output)


# A bin of a region is the mean of values that are sampled at places on a grid of its own. Without a given number of
# places, or without sampling, a bin's size depends on values: there is no formula.


def _in_bins(regions: Any, height: int, width: int, ratio: int) -> tuple[int, int]:
    """Count the places in a bin, and in all bins of all regions."""
    if ratio <= 0:
        raise LookupError("the number of places depends on values")
    return ratio**2, len(regions) * height * width * ratio**2


def _binned(rois: Any, pooled_height: int, pooled_width: int, sampling_ratio: int, out: Any) -> int:
    each, places = _in_bins(rois, pooled_height, pooled_width, sampling_ratio)
    out = out[0] if isinstance(out, tuple) else out
    return int(SAMPLINGS[2, LINEAR].place * places + (SAMPLINGS[2, LINEAR].value + 1) * each * out.numel())


def _binned_backward(grad_output: Any, rois: Any, pooled_height: int, pooled_width: int, sampling_ratio: int) -> int:
    """Count the places again, a division for each gradient, and the gradient of the input, as ``grid_sampler``."""
    each, places = _in_bins(rois, pooled_height, pooled_width, sampling_ratio)
    cost, values = SAMPLINGS[2, LINEAR], grad_output.numel()
    return int((cost.place + cost.input_place) * places + values + cost.input_value * each * values)


register_other_flop(
    {
        "torchvision::roi_align torchvision::ps_roi_align": _binned,
        "torchvision::_roi_align_backward torchvision::_ps_roi_align_backward": _binned_backward,
        # An addition for each gradient, to the largest element of its bin.
        "torchvision::_roi_pool_backward": lambda grad_output: grad_output.numel(),
    }
)


# A deformable convolution samples each tap of its window at a place of its own, once for all channels of its group: an
# offset added, rounding down and a remainder for each of two coordinates (6). A channel takes three lines there (9),
# and a mask, if any, a product.


def _sampled(weight: Any, offset: Any, channels: int) -> tuple[int, int]:
    """Count the places that a deformable convolution samples, and the values of its input's channels there."""
    taps, outputs = math.prod(weight.shape[2:]), len(offset) * math.prod(offset.shape[2:])
    return offset.numel() // 2, outputs * taps * channels


@formula("torchvision::deform_conv2d")
def deformable_convolution(input: Any, weight: Any, offset: Any, use_mask: bool, out: Any) -> Work:
    """Count the products of a convolution, the sampling, and the bias, which torchvision's function always passes."""
    places, values = _sampled(weight, offset, input.shape[1])
    products = out.numel() * weight.numel() // len(weight)
    return Work(2 * products, 6 * places + (9 + use_mask) * values + out.numel())


@formula("torchvision::_deform_conv2d_backward")
def deformable_convolution_backward(grad_output: Any, input: Any, weight: Any, offset: Any, use_mask: bool) -> Work:
    """Count all gradients, which the operator computes in any case. The gradient of the weight samples again.

    Input and offsets as ``grid_sampler_backward``, without the mean over a size; the mask's and the masked gradient are
    products, the former summed over channels (3 a value); the bias's gradient is a sum over images and places.
    """
    places, values = _sampled(weight, offset, input.shape[1])
    products = grad_output.numel() * weight.numel() // len(weight)
    for_input, for_offset = 8 * values + 6 * places, 14 * values - 2 * places
    other = for_input + for_offset + 3 * values * use_mask + grad_output.numel() - grad_output.shape[1]
    return Work(4 * products, other, 6 * places + (9 + use_mask) * values)
