"""FLOP of convolutions and matrix products, 2 a multiply-add, and of the biases added to them.

Forward products use torch's own formulas (``torch.utils.flop_counter``). Ours replace those that are wrong or missing.
Each gradient of a convolution costs as much as the convolution, also if it is grouped or transposed, because every
multiply-add of the forward pass takes part in both.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from typing import Any

import torch
from torch.utils.flop_counter import conv_flop_count, flop_registry

from measure.counting.formulas import FORMULAS, NOTHING, Args, Formula, Kwargs, Work, formula, register_other_flop
from measure.domain.words import TANH_GELU


def _convolution_flop(inputs: Any, weight: Any, out: Any, transposed: bool) -> int:
    """2 FLOP for each weight and place that it is applied to, padding included, as in published counts."""
    return int(conv_flop_count(list(inputs.shape), list(weight.shape), list(out.shape), transposed=transposed))


@formula("convolution", "_convolution", "convolution_overrideable")
def convolution(args: Args, _kwargs: Kwargs, out: Any) -> Work:
    """Count the products, and an addition of the bias for each output."""
    return Work(_convolution_flop(args[0], args[1], out, args[6]), 0 if args[2] is None else out.numel())


@formula("convolution_backward", "convolution_backward_overrideable")
def convolution_backward(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    """Count the gradients of input, weight and bias that the mask asks for."""
    gradient, inputs, weight, *options, mask = args
    transposed = options[-3]
    flop = _convolution_flop(inputs, weight, gradient, transposed) * (mask[0] + mask[1])
    return Work(flop, gradient.numel() - gradient.shape[1] if mask[2] else 0)


# Convolutions by one library's name, with the place of their bias. cuDNN's is a separate addition.
PLAIN = {
    "cudnn_convolution": None, "miopen_convolution": 2, "miopen_depthwise_convolution": 2, "mkldnn_convolution": 2,
    "_conv_depthwise2d": 3, "conv_depthwise3d": 3, "_slow_conv2d_forward": 3, "slow_conv3d_forward": 3,
    "slow_conv_dilated2d": 3, "slow_conv_dilated3d": 3, "_nnpack_spatial_convolution": 2, "_mps_convolution": 2,
}  # fmt: skip
TRANSPOSED = {
    "cudnn_convolution_transpose": None, "miopen_convolution_transpose": 2, "_mps_convolution_transpose": None,
    "slow_conv_transpose2d": 3, "slow_conv_transpose3d": 3,
}  # fmt: skip
# Also a ReLU (1 an output); and, in its front, an addition of another tensor.
WITH_RELU = {"cudnn_convolution_relu": 2, "miopen_convolution_relu": 2}
WITH_SUM = {"cudnn_convolution_add_relu": 4, "miopen_convolution_add_relu": 4}


def _named_convolution(bias_place: int | None, transposed: bool, is_summed: bool, is_rectified: bool) -> Formula:
    def count(args: Args, _kwargs: Kwargs, out: Any) -> Work:
        has_bias = bias_place is not None and len(args) > bias_place and args[bias_place] is not None
        factor = args[3] if is_summed else None
        added = has_bias + is_rectified + is_summed + (factor not in (None, 1))
        return Work(_convolution_flop(args[0], args[1], out, transposed), added * out.numel())

    return count


for _names in (PLAIN, TRANSPOSED, WITH_RELU, WITH_SUM):
    for _name, _place in _names.items():
        is_summed, is_rectified = _names is WITH_SUM, _names in (WITH_RELU, WITH_SUM)
        formula(_name)(_named_convolution(_place, _names is TRANSPOSED, is_summed, is_rectified))


@formula("_slow_conv2d_backward")
def slow_convolution_backward(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    gradient, inputs, weight, *_, mask = args
    flop = _convolution_flop(inputs, weight, gradient, False) * (mask[0] + mask[1])
    return Work(flop, gradient.numel() - gradient.shape[1] if mask[2] else 0)


@formula("mps_convolution_backward", "mps_convolution_transpose_backward")
def apples_convolution_backward(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    """The name for transposed convolutions has no bias and one option more."""
    inputs, gradient, weight, *options, mask = args
    transposed = len(options) > 4
    flop = _convolution_flop(inputs, weight, gradient, transposed) * (mask[0] + mask[1])
    return Work(flop, gradient.numel() - gradient.shape[1] if any(mask[2:]) else 0)


@formula("conv_tbc")
def convolution_by_time(args: Args, _kwargs: Kwargs, out: Any) -> Work:
    """Weights ``(taps, input channels, output channels)`` slide over ``(time, batch, channels)``."""
    taps, channels, _ = args[1].shape
    return Work(2 * taps * channels * out.numel(), out.numel())


@contextmanager
def whole_convolution_by_time() -> Iterator[None]:
    """Run ``conv_tbc`` as a convolution. Its own gradients fall apart into products that leave padding out."""

    def whole(inputs: Any, weight: Any, bias: Any, pad: int = 0) -> Any:
        convolved = torch.conv1d(inputs.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
        return convolved.permute(2, 0, 1)

    plain, torch.conv_tbc = torch.conv_tbc, whole
    try:
        yield
    finally:
        torch.conv_tbc = plain


def _real(out: Any) -> int:
    """Return the real multiply-adds in one of the output's type."""
    return 4 if out.is_complex() else 1


def _added(kwargs: Kwargs, out: Any) -> int:
    """Count the rest of ``beta * first + alpha * product``."""
    beta, alpha = kwargs.get("beta", 1), kwargs.get("alpha", 1)
    return int(out.numel() * ((beta != 0) + (beta not in (0, 1)) + (alpha != 1)))


def _product(name: str) -> Formula:
    """Return torch's formula of a matrix product, or 2 FLOP an element of a matrix or vector that meets a vector."""
    torchs, is_added = flop_registry.get(getattr(torch.ops.aten, name)), "add" in name

    def product(args: Args, kwargs: Kwargs, out: Any) -> Work:
        flop = torchs(*args, **kwargs, out_val=out) if torchs else 2 * args[int(is_added)].numel()
        return Work(int(flop) * _real(out), _added(kwargs, out) if is_added else 0)

    return product


for _name in ("mm", "bmm", "addmm", "baddbmm", "mv", "dot", "vdot", "addmv"):
    formula(_name)(_product(_name))


@formula("addbmm")
def added_products(args: Args, kwargs: Kwargs, out: Any) -> Work:
    """Add the products of a batch of matrices: each element of the left ones meets a row of the result."""
    return Work(2 * args[1].numel() * out.shape[1] * _real(out), _added(kwargs, out))


@formula("addr")
def added_outer_product(_args: Args, kwargs: Kwargs, out: Any) -> Work:
    """Add a column by a row: ``addmm`` with sums of one product."""
    return Work(2 * out.numel() * _real(out), _added(kwargs, out))


@formula("_addmm_activation")
def activated_product(args: Args, kwargs: Kwargs, out: Any) -> Work:
    kwargs = dict(kwargs)
    activation = TANH_GELU["gelu"] if kwargs.pop("use_gelu", False) else 1
    flop, added, _ = FORMULAS["aten::addmm"](args, kwargs, out)
    return Work(flop, added + activation * out.numel())


@formula("_foreach_mm")
def products(args: Args, _kwargs: Kwargs, out: Any) -> Work:
    return Work(sum(2 * left.numel() * each.shape[1] * _real(each) for left, each in zip(args[0], out, strict=True)))


def _groups_flop(args: Args) -> int:
    """The rows, the columns or the summands are split into groups, each with a matrix of its own.

    Each takes part once, however they are split. Two stacks of matrices are a product each.
    """
    left, right = args[:2]
    stacked = left.shape[0] if left.dim() == right.dim() == 3 else 1
    return int(2 * stacked * left.shape[-2] * left.shape[-1] * right.shape[-1])


@formula("_grouped_mm")
def grouped_product(args: Args, kwargs: Kwargs, out: Any) -> Work:
    bias = kwargs.get("bias", args[3] if len(args) > 3 else None)
    return Work(_groups_flop(args), 0 if bias is None else out.numel())


def grouped_output(
    left: torch.Tensor, right: torch.Tensor, offs: Any = None, bias: Any = None, out_dtype: torch.dtype | None = None
) -> torch.Tensor:
    """Return the output of ``_grouped_mm`` on tensors without memory, of any type; torch's own allows bf16 alone."""
    groups = [len(left)] if left.dim() == right.dim() == 3 else [len(offs)] if left.dim() == right.dim() else []
    return left.new_empty(*groups, left.shape[-2], right.shape[-1], dtype=out_dtype)


@formula("_scaled_grouped_mm", "_scaled_grouped_mm_v2")
def scaled_grouped_product(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    return Work(_groups_flop(args))


@formula("_trilinear")
def trilinear(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    """Sum products of three tensors, which are broadcast to one space: ``nn.Bilinear`` and its gradients.

    The two with the smallest common space are multiplied there; each of their products then meets the third one.
    """
    tensors = [list(tensor.shape) for tensor in args[:3]]
    for shape, expanded in zip(tensors, args[3:6], strict=True):
        for dimension in expanded:
            shape.insert(dimension, 1)
    space = math.prod(map(max, *tensors))
    pairs = [math.prod(map(max, one, other)) for one, other in combinations(tensors, 2)]
    return Work(2 * space, min(pairs))


# Weights of 8 or 4 bits are brought to the inputs' type as they are read; all products are in that type.


@formula("_weight_int8pack_mm")
def product_by_int8(args: Args, _kwargs: Kwargs, out: Any) -> Work:
    """Each column of the result is scaled once."""
    return Work(2 * args[0].numel() * out.shape[-1], out.numel())


@formula("_weight_int4pack_mm", "_weight_int4pack_mm_for_cpu", "_weight_int4pack_mm_with_scales_and_zeros")
def product_by_int4(args: Args, _kwargs: Kwargs, out: Any) -> Work:
    """Each weight is scaled and shifted, by the two numbers of its group."""
    return Work(2 * args[0].numel() * out.shape[-1], 2 * args[0].shape[-1] * out.shape[-1])


def _biased_product(bias_place: int) -> Formula:
    def product(args: Args, kwargs: Kwargs, out: Any) -> Work:
        bias = kwargs.get("bias", args[bias_place] if len(args) > bias_place else None)
        return Work(2 * args[0].numel() * out.shape[-1], 0 if bias is None else out.numel())

    return product


for _name, _place in {"_scaled_mm": 4, "_scaled_mm_v2": 8, "_mixed_dtypes_linear": 3, "mkldnn_linear": 2}.items():
    formula(_name)(_biased_product(_place))


@formula("_dyn_quant_matmul_4bit")
def packed_product(args: Args, _kwargs: Kwargs, out: Any) -> Work:
    return Work(2 * args[0].numel() * out.shape[-1])


@formula("_int_mm")
def product_of_integers(_args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    """Integers are no floating-point numbers."""
    return NOTHING


@formula("linear_backward", "mkldnn_linear_backward")
def linear_backward(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    """Count the gradients of input, weight and bias that the mask asks for."""
    inputs, gradient, _weight, mask = args
    width = gradient.shape[-1]
    return Work(2 * inputs.numel() * width * (mask[0] + mask[1]), (gradient.numel() - width) * mask[2])


@formula("mkldnn_linear_backward_input")
def linear_backward_input(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    return Work(2 * args[1].numel() * args[2].shape[1])


@formula("mkldnn_linear_backward_weights")
def linear_backward_weights(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    gradient, inputs, _weight, has_bias = args
    width = gradient.shape[-1]
    return Work(2 * inputs.numel() * width, (gradient.numel() - width) * has_bias)


# The distance of two points of w coordinates, by the order of the norm. 2: differences (w), squares (w), their sum
# (w - 1), a root (1). 0, 1 and the largest: differences, absolute values or comparisons (w), their sum or maximum
# (w - 1). Others: differences, absolute values, powers, their sum, a root.


def _distances_flop(pairs: int, width: int, order: float) -> int:
    return pairs * (3 * width if order == 2 else 3 * width - 1 if order in (0, 1, math.inf) else 4 * width)


def _distances_backward_flop(pairs: int, width: int, order: float, gradient: Any) -> int:
    """Count for each coordinate of a pair: the difference, its weight by the order, and its sum into the gradient.

    2: gradient over distance (1 a pair); differences, products. 1: differences, signs, products. The largest:
    differences, absolute values, comparisons, signs, products. Others: differences, absolute values, powers and two
    products, and 2 a pair. The sums are an addition less for each coordinate of the gradient.
    """
    if order == 0:
        return 0
    each, a_pair = {2: (2, 1), 1: (3, 0), math.inf: (5, 0)}.get(order, (5, 2))
    return int(pairs * width * (each + 1) - gradient.numel() + pairs * a_pair)


@formula("_euclidean_dist")
def distances_by_a_product(args: Args, _kwargs: Kwargs, out: Any) -> Work:
    """``|x|² - 2 x y + |y|²`` as a product of rows with two more columns; then at least 0 and a root (2 an output).

    The squared lengths take 2n - r for n coordinates in r points; x is scaled by -2 (n).
    """
    one, other = args[:2]
    width = one.shape[-1]
    lengths = sum(2 * each.numel() - each.numel() // width for each in (one, other))
    return Work(2 * out.numel() * (width + 2), lengths + one.numel() + 2 * out.numel())


register_other_flop(
    {
        "_cdist_forward": lambda a, o: _distances_flop(o.numel(), a[0].shape[-1], a[2]),
        "_cdist_backward": lambda a, o: _distances_backward_flop(a[4].numel(), a[1].shape[-1], a[3], o),
        "_pdist_forward": lambda a, o: _distances_flop(o.numel(), a[0].shape[-1], a[1] if len(a) > 1 else 2),
        # Both points of a pair get its gradient.
        "_pdist_backward": lambda a, o: (
            _distances_backward_flop(a[3].numel(), a[1].shape[-1], a[2], o) + a[3].numel() * a[1].shape[-1]
        ),
    }
)
