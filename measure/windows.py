"""FLOP of operators that look at a window around each place: pooling, interpolation and sampling.

A window is cut at the border: padding is neither compared nor added.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from measure.flops import Work, formula


def _each(value: Any, dimensions: int) -> list[int]:
    """A parameter of a window, a dimension: given once for all of them, or for each."""
    values = [value] if isinstance(value, int) else list(value)
    return values * dimensions if len(values) == 1 else values


def window_total(size: int, kernel: int, stride: int, padding: int, outputs: int, dilation: int = 1) -> int:
    """Elements of the input that all windows along one dimension hold together."""
    total = 0
    for place in range(outputs):
        start = place * stride - padding
        total += sum(0 <= start + tap * dilation < size for tap in range(kernel))
    return total


def pooled(inputs: Any, out: Any, kernel: Any, stride: Any, padding: Any, dilation: Any = 1) -> int:
    """Elements that all windows of a pooling hold together: the product over the dimensions."""
    dimensions = len(_each(kernel, 1)) if not isinstance(kernel, int) else out.dim() - 2
    kernels = _each(kernel, dimensions)
    strides = _each(stride, dimensions) if stride not in (None, [], ()) else kernels
    paddings, dilations = _each(padding, dimensions), _each(dilation, dimensions)
    sizes, outputs = inputs.shape[-dimensions:], out.shape[-dimensions:]
    along = map(window_total, sizes, kernels, strides, paddings, outputs, dilations)
    return math.prod(out.shape[:-dimensions]) * math.prod(along)


def adaptive_total(size: int, outputs: int) -> int:
    """Elements that all windows of an adaptive pooling along one dimension hold together; they may overlap."""
    return sum(-(-(place + 1) * size // outputs) - place * size // outputs for place in range(outputs))


def adaptively_pooled(inputs: Any, out: Any, dimensions: int) -> int:
    along = map(adaptive_total, inputs.shape[-dimensions:], out.shape[-dimensions:])
    return math.prod(out.shape[:-dimensions]) * math.prod(along)


def _argument(args: Sequence[Any], kwargs: Mapping[str, Any], place: int, name: str, default: Any) -> Any:
    return args[place] if len(args) > place else kwargs.get(name, default)


@formula("aten::max_pool2d_with_indices", "aten::max_pool3d_with_indices", "aten::max_pool1d_with_indices",
         "aten::max_pool1d", "aten::max_pool2d", "aten::max_pool3d")  # fmt: skip
def max_pool(args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> Work:
    """A comparison less than the window has elements."""
    out = out[0] if isinstance(out, tuple) else out
    stride = _argument(args, kwargs, 2, "stride", None)
    padding, dilation = (_argument(args, kwargs, *which) for which in ((3, "padding", 0), (4, "dilation", 1)))
    return Work(0, pooled(args[0], out, args[1], stride, padding, dilation) - out.numel())


@formula("aten::avg_pool1d", "aten::avg_pool2d", "aten::avg_pool3d")
def average_pool(args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> Work:
    """The additions and the division: as many as the window has elements."""
    stride, padding = _argument(args, kwargs, 2, "stride", None), _argument(args, kwargs, 3, "padding", 0)
    return Work(0, pooled(args[0], out, args[1], stride, padding))


@formula("aten::avg_pool2d_backward", "aten::avg_pool3d_backward")
def average_pool_backward(args: Sequence[Any], _kwargs: Mapping[str, Any], _out: Any) -> Work:
    """A division for each window and an addition for each element in it."""
    gradient, inputs, kernel, stride, padding = args[:5]
    return Work(0, gradient.numel() + pooled(inputs, gradient, kernel, stride, padding))


@formula("aten::adaptive_max_pool2d", "aten::adaptive_max_pool3d")
def adaptive_max_pool(args: Sequence[Any], _kwargs: Mapping[str, Any], out: Any) -> Work:
    dimensions = args[0].dim() - 2
    return Work(0, adaptively_pooled(args[0], out[0], dimensions) - out[0].numel())


@formula("aten::_adaptive_avg_pool2d", "aten::_adaptive_avg_pool3d", "aten::adaptive_avg_pool1d")
def adaptive_average_pool(args: Sequence[Any], _kwargs: Mapping[str, Any], out: Any) -> Work:
    return Work(0, adaptively_pooled(args[0], out, args[0].dim() - 2))


@formula("aten::_adaptive_avg_pool2d_backward", "aten::_adaptive_avg_pool3d_backward")
def adaptive_average_pool_backward(args: Sequence[Any], _kwargs: Mapping[str, Any], _out: Any) -> Work:
    gradient, inputs = args[:2]
    return Work(0, gradient.numel() + adaptively_pooled(inputs, gradient, inputs.dim() - 2))


@formula("aten::max_pool2d_with_indices_backward", "aten::max_pool3d_with_indices_backward",
         "aten::adaptive_max_pool2d_backward", "aten::adaptive_max_pool3d_backward",
         "aten::upsample_nearest1d_backward", "aten::upsample_nearest2d_backward",
         "aten::upsample_nearest3d_backward", "aten::reflection_pad1d_backward", "aten::reflection_pad2d_backward",
         "aten::replication_pad1d_backward", "aten::replication_pad2d_backward",
         "aten::replication_pad3d_backward", "aten::col2im")  # fmt: skip
def one_addition_each(args: Sequence[Any], _kwargs: Mapping[str, Any], _out: Any) -> Work:
    """Each element of the gradient is added to the place that it came from."""
    return Work(0, args[0].numel())


def _interpolation_flop(taps: int, dimensions: int) -> int:
    """Weighting dimension by dimension: a line of taps is ``taps`` products and one addition less."""
    lines = sum(taps**dimension for dimension in range(dimensions))
    return lines * (2 * taps - 1)


INTERPOLATIONS = {
    "upsample_linear1d": (2, 1),
    "upsample_bilinear2d": (2, 2),
    "_upsample_bilinear2d_aa": (2, 2),
    "upsample_trilinear3d": (2, 3),
    "upsample_bicubic2d": (4, 2),
}
"""Taps a dimension, and dimensions. Their weights are computed once a row and column and are left out."""


def _interpolation(name: str) -> None:
    taps, dimensions = INTERPOLATIONS[name]

    @formula(f"aten::{name}")
    def forward(_args: Sequence[Any], _kwargs: Mapping[str, Any], out: Any) -> Work:
        return Work(0, out.numel() * _interpolation_flop(taps, dimensions))

    @formula(f"aten::{name}_backward")
    def backward(args: Sequence[Any], _kwargs: Mapping[str, Any], _out: Any) -> Work:
        """A product and an addition for each element that an output was weighted from."""
        return Work(0, args[0].numel() * 2 * taps**dimensions)


for _name in INTERPOLATIONS:
    _interpolation(_name)


@formula("aten::grid_sampler_2d")
def grid_sampler(args: Sequence[Any], _kwargs: Mapping[str, Any], out: Any) -> Work:
    """Bilinear at given places: 9 an output, and 2 products, 2 additions and 2 roundings down for each place.

    Nearest takes the roundings alone, bicubic what ``upsample_bicubic2d`` does.
    """
    each = {0: _interpolation_flop(2, 2), 1: 0, 2: _interpolation_flop(4, 2)}[args[2]]
    places = args[1].numel() // 2
    return Work(0, out.numel() * each + 6 * places)
