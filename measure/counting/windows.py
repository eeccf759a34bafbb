"""FLOP of operators that look at a window around each place: pooling, interpolation and sampling.

A window is cut at the border: padding is neither compared nor added.
"""

import math
from typing import Any

from measure.counting.formulas import Args, Kwargs, Work, formula, register_other_flop


def _each(value: Any, dimensions: int) -> list[int]:
    """Return a parameter of a window for each dimension; it is given once for all of them, or for each."""
    values = [value] if isinstance(value, int) else list(value)
    return values * dimensions if len(values) == 1 else values


def window_total(size: int, window: int, stride: int, padding: int, outputs: int, dilation: int = 1) -> int:
    """Elements of the input that all windows along one dimension hold together."""
    total = 0
    for place in range(outputs):
        start = place * stride - padding
        total += sum(0 <= start + tap * dilation < size for tap in range(window))
    return total


def pooled(dimensions: int, inputs: Any, out: Any, window: Any, stride: Any, padding: Any, dilation: Any = 1) -> int:
    """Elements that all windows of a pooling hold together: the product over the dimensions."""
    windows = _each(window, dimensions)
    strides = _each(stride, dimensions) if stride not in (None, [], ()) else windows
    paddings, dilations = _each(padding, dimensions), _each(dilation, dimensions)
    sizes, outputs = inputs.shape[-dimensions:], out.shape[-dimensions:]
    along = map(window_total, sizes, windows, strides, paddings, outputs, dilations)
    return math.prod(out.shape[:-dimensions]) * math.prod(along)


def adaptive_total(size: int, outputs: int) -> int:
    """Elements that all windows of an adaptive pooling along one dimension hold together; they may overlap."""
    return sum(-(-(place + 1) * size // outputs) - place * size // outputs for place in range(outputs))


def adaptively_pooled(dimensions: int, inputs: Any, out: Any) -> int:
    along = map(adaptive_total, inputs.shape[-dimensions:], out.shape[-dimensions:])
    return math.prod(out.shape[:-dimensions]) * math.prod(along)


def _argument(args: Args, kwargs: Kwargs, place: int, name: str, default: Any) -> Any:
    return args[place] if len(args) > place else kwargs.get(name, default)


def _adaptive_average_backward(dimensions: int, args: Args) -> int:
    gradient, inputs = args[:2]
    return int(gradient.numel() + adaptively_pooled(dimensions, inputs, gradient))


def _average_backward(dimensions: int, args: Args) -> int:
    """Count a division for each window and an addition for each element in it."""
    gradient, inputs, window, stride, padding = args[:5]
    return int(gradient.numel() + pooled(dimensions, inputs, gradient, window, stride, padding))


def _pooling(dimensions: int) -> None:
    """Register the poolings over so many dimensions, with or without a batch in front."""

    @formula(f"aten::max_pool{dimensions}d_with_indices")
    def largest(args: Args, kwargs: Kwargs, out: Any) -> Work:
        """Count a comparison less than the window has elements."""
        stride, padding, dilation = (
            _argument(args, kwargs, *which) for which in ((2, "stride", None), (3, "padding", 0), (4, "dilation", 1))
        )
        elements = pooled(dimensions, args[0], out[0], args[1], stride, padding, dilation)
        return Work(0, elements - out[0].numel())

    @formula(f"aten::avg_pool{dimensions}d")
    def average(args: Args, kwargs: Kwargs, out: Any) -> Work:
        """Count the additions and the division: as many as the window has elements."""
        stride, padding = _argument(args, kwargs, 2, "stride", None), _argument(args, kwargs, 3, "padding", 0)
        return Work(0, pooled(dimensions, args[0], out, args[1], stride, padding))

    register_other_flop(
        {
            f"adaptive_max_pool{dimensions}d": lambda args, out: (
                adaptively_pooled(dimensions, args[0], out[0]) - out[0].numel()
            ),
            f"_adaptive_avg_pool{dimensions}d": lambda args, out: adaptively_pooled(dimensions, args[0], out),
            f"avg_pool{dimensions}d_backward": lambda args, _out: _average_backward(dimensions, args),
            f"_adaptive_avg_pool{dimensions}d_backward": lambda args, _out: _adaptive_average_backward(
                dimensions, args
            ),
        }
    )


for _dimensions in (2, 3):  # pooling over one dimension is one over two of which one has size 1
    _pooling(_dimensions)


CHOOSING = ("max_pool{}d_with_indices", "adaptive_max_pool{}d")
REPEATING = ("upsample_nearest{}d", "_upsample_nearest_exact{}d", "reflection_pad{}d", "replication_pad{}d")


@formula(
    "aten::col2im",
    "aten::unfold_backward",
    *(f"aten::{name.format(dimensions)}_backward" for name in CHOOSING for dimensions in (2, 3)),
    *(f"aten::{name.format(dimensions)}_backward" for name in REPEATING for dimensions in (1, 2, 3)),
)
def one_addition_each(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    """Count an addition for each element of the gradient, to the place that it came from."""
    return Work(0, args[0].numel())


def _interpolation_flop(taps: int, dimensions: int) -> int:
    """Weighting dimension by dimension: a line of taps is ``taps`` products and one addition less."""
    lines = sum(taps**dimension for dimension in range(dimensions))
    return lines * (2 * taps - 1)


INTERPOLATIONS = {
    "upsample_linear1d": (2, 1),
    "upsample_bilinear2d": (2, 2),
    "upsample_trilinear3d": (2, 3),
    "upsample_bicubic2d": (4, 2),
}
"""Taps a dimension, and dimensions. Their weights are computed once a row and column and are left out."""


def _interpolation(name: str, taps: int, dimensions: int) -> None:
    """Register an interpolation; backward, a product and an addition for each element that an output weighted."""
    each = _interpolation_flop(taps, dimensions)
    register_other_flop(
        {
            name: lambda _args, out: out.numel() * each,
            f"{name}_backward": lambda args, _out: args[0].numel() * 2 * taps**dimensions,
        }
    )


for _name, _taps in INTERPOLATIONS.items():
    _interpolation(_name, *_taps)


BILINEAR, NEAREST = 0, 1
"""torch's numbers for the ways to sample on a grid; it has bicubic too, whose weights we have no count for."""


def _grid_flop(mode: int, grid: Any) -> int:
    """Count a product and an addition for each of two coordinates, and rounding down; bilinear: the remainders, too."""
    return {BILINEAR: 8, NEAREST: 6}[mode] * (grid.numel() // 2)


@formula("aten::grid_sampler_2d")
def grid_sampler(args: Args, _kwargs: Kwargs, out: Any) -> Work:
    """Count the place on the grid, once for all channels; bilinear: three lines ``a + w (b - a)`` an output."""
    mode = args[2]
    return Work(0, _grid_flop(mode, args[1]) + (9 * out.numel() if mode == BILINEAR else 0))


@formula("aten::grid_sampler_2d_backward")
def grid_sampler_backward(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    """Count the places again. Bilinear, with corners a, b above c, d, p places and n gradients of outputs:

    Input: four corners' weights (6p), each times the gradient, and added (8n). Grid: the slope along the rows
    ``s + v (t - s)`` of s = b - a and t = d - c (5n), between the rows ``c + u t - (a + u s)`` (5n), times the gradient
    and summed over channels (4n - 2p), times half the size (2p).
    """
    gradient, _inputs, grid, mode = args[:4]
    for_input, for_grid = args[6]
    elements, places = gradient.numel(), grid.numel() // 2
    if mode == NEAREST:  # its slope is 0
        return Work(0, _grid_flop(mode, grid) + elements * for_input)
    return Work(0, _grid_flop(mode, grid) + (8 * elements + 6 * places) * for_input + 14 * elements * for_grid)
