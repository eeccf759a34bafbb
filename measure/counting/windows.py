"""FLOP of operators that look at a window around each place: pooling, interpolation and sampling.

A window is cut at the border: padding is neither compared nor added. ``dimensions`` are the spatial ones, the last.
"""

import math
from typing import Any

from measure.counting.formulas import Args, Kwargs, OtherFlop, Work, formula, register_other_flop


def _per_dimension(value: Any, dimensions: int) -> list[int]:
    """Return a window's parameter for each dimension. It is given once for all of them, or for each."""
    values = [value] if isinstance(value, int) else list(value)
    return values * dimensions if len(values) == 1 else values


def _window_total(size: int, window: int, stride: int, padding: int, outputs: int, dilation: int) -> int:
    """Count the elements of the input in all windows along one dimension."""
    total = 0
    for place in range(outputs):
        start = place * stride - padding
        total += sum(0 <= start + tap * dilation < size for tap in range(window))
    return total


def _pooled(dimensions: int, inputs: Any, out: Any, window: Any, stride: Any, padding: Any, dilation: Any = 1) -> int:
    """Count the elements in all windows of a pooling: the product over the dimensions."""
    windows = _per_dimension(window, dimensions)
    strides = _per_dimension(stride, dimensions) if stride not in (None, [], ()) else windows
    paddings, dilations = _per_dimension(padding, dimensions), _per_dimension(dilation, dimensions)
    sizes, outputs = inputs.shape[-dimensions:], out.shape[-dimensions:]
    along = map(_window_total, sizes, windows, strides, paddings, outputs, dilations)
    return math.prod(out.shape[:-dimensions]) * math.prod(along)


def _adaptively_pooled(dimensions: int, inputs: Any, out: Any) -> int:
    """Count the same for an adaptive pooling. Window i of m over n elements goes from floor(i n / m) to
    ceil((i + 1) n / m), so windows may overlap.
    """

    def total(size: int, outputs: int) -> int:
        return sum(-(-(place + 1) * size // outputs) - place * size // outputs for place in range(outputs))

    along = map(total, inputs.shape[-dimensions:], out.shape[-dimensions:])
    return math.prod(out.shape[:-dimensions]) * math.prod(along)


def _argument(args: Args, kwargs: Kwargs, place: int, name: str, default: Any) -> Any:
    return args[place] if len(args) > place else kwargs.get(name, default)


def _register_pooling(dimensions: int) -> None:
    """Register the poolings over so many dimensions, with or without a batch in front."""

    @formula(f"aten::max_pool{dimensions}d_with_indices")
    def maximum(args: Args, kwargs: Kwargs, out: Any) -> Work:
        """Count one comparison less than a window has elements."""
        stride = _argument(args, kwargs, 2, "stride", None)
        padding, dilation = _argument(args, kwargs, 3, "padding", 0), _argument(args, kwargs, 4, "dilation", 1)
        return Work(0, _pooled(dimensions, args[0], out[0], args[1], stride, padding, dilation) - out[0].numel())

    @formula(f"aten::avg_pool{dimensions}d")
    def average(args: Args, kwargs: Kwargs, out: Any) -> Work:
        """Count the additions and the division: as many as a window has elements."""
        stride, padding = _argument(args, kwargs, 2, "stride", None), _argument(args, kwargs, 3, "padding", 0)
        return Work(0, _pooled(dimensions, args[0], out, args[1], stride, padding))

    register_other_flop(
        {
            f"adaptive_max_pool{dimensions}d": lambda args, out: (
                _adaptively_pooled(dimensions, args[0], out[0]) - out[0].numel()
            ),
            f"_adaptive_avg_pool{dimensions}d": lambda args, out: _adaptively_pooled(dimensions, args[0], out),
            # Backward, a division for each window and an addition for each of its elements. The arguments are the
            # gradient and the input, then window, stride and padding.
            f"avg_pool{dimensions}d_backward": lambda args, _out: (
                args[0].numel() + _pooled(dimensions, args[1], args[0], *args[2:5])
            ),
            f"_adaptive_avg_pool{dimensions}d_backward": lambda args, _out: (
                args[0].numel() + _adaptively_pooled(dimensions, args[1], args[0])
            ),
        }
    )


for _dimensions in (2, 3):  # torch pools over one dimension as over two, one of them of size 1
    _register_pooling(_dimensions)


CHOOSING = ("max_pool{}d_with_indices", "adaptive_max_pool{}d")
REPEATING = ("upsample_nearest{}d", "_upsample_nearest_exact{}d", "reflection_pad{}d", "replication_pad{}d")


@formula(
    "aten::col2im",
    "aten::unfold_backward",
    *(f"aten::{name.format(dimensions)}_backward" for name in CHOOSING for dimensions in (2, 3)),
    *(f"aten::{name.format(dimensions)}_backward" for name in REPEATING for dimensions in (1, 2, 3)),
)
def one_addition_each(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    """Count an addition for each element of the gradient, to its place in the input."""
    return Work(0, args[0].numel())


INTERPOLATIONS = {
    "upsample_linear1d": (2, 1),
    "upsample_bilinear2d": (2, 2),
    "upsample_trilinear3d": (2, 3),
    "upsample_bicubic2d": (4, 2),
}
"""Taps per dimension, and dimensions. The weights are left out: they are computed once per row and column."""


def _interpolation(taps: int, dimensions: int) -> tuple[OtherFlop, OtherFlop]:
    """Return the counts of an interpolation and of its backward pass.

    Forward weights dimension by dimension; each line of taps is ``taps`` products and one addition less. Backward is a
    product and an addition for each element that an output weighted.
    """
    lines = sum(taps**dimension for dimension in range(dimensions))
    each, each_backward = lines * (2 * taps - 1), 2 * taps**dimensions
    return lambda _args, out: out.numel() * each, lambda args, _out: args[0].numel() * each_backward


for _name, _taps in INTERPOLATIONS.items():
    _forward, _backward = _interpolation(*_taps)
    register_other_flop({_name: _forward, f"{_name}_backward": _backward})


BILINEAR, NEAREST = 0, 1
"""torch's numbers for the modes of sampling. Bicubic has no formula here."""


def _grid_flop(mode: int, grid: Any) -> int:
    """Count a product, an addition and rounding down for each of two coordinates; bilinear: also the remainders."""
    return {BILINEAR: 8, NEAREST: 6}[mode] * (grid.numel() // 2)


@formula("aten::grid_sampler_2d")
def grid_sampler(args: Args, _kwargs: Kwargs, out: Any) -> Work:
    """Count the places on the grid, once for all channels. Bilinear: also three lines ``a + w (b - a)`` an output."""
    mode = args[2]
    return Work(0, _grid_flop(mode, args[1]) + (9 * out.numel() if mode == BILINEAR else 0))


@formula("aten::grid_sampler_2d_backward")
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
        return Work(0, _grid_flop(mode, grid) + elements * for_input)
    return Work(0, _grid_flop(mode, grid) + (8 * elements + 6 * places) * for_input + 14 * elements * for_grid)
