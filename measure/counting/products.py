"""FLOP of convolutions, matrix products and factorisations, 2 a multiply-add, and of the biases added to them.

Each gradient of a convolution costs as much as the convolution, also if it is grouped or transposed, because every
multiply-add of the forward pass takes part in both. torch's own formulas leave that out; they serve the tests.
"""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import combinations
from typing import Any
from unittest.mock import patch

import torch
from torch.utils.flop_counter import conv_flop_count

from measure.counting.formulas import NOTHING, Work, formula, register_other_flop
from measure.domain.words import TANH_GELU


def _convolution_flop(input: Any, weight: Any, out: Any, transposed: bool = False) -> int:
    """2 FLOP for each weight and place that it is applied to, padding included, as in published counts."""
    return int(conv_flop_count(list(input.shape), list(weight.shape), list(out.shape), transposed=transposed))


@formula(
    "convolution", "_convolution", "convolution_overrideable", "cudnn_convolution", "miopen_convolution",
    "miopen_depthwise_convolution", "mkldnn_convolution", "_conv_depthwise2d", "conv_depthwise3d",
    "_slow_conv2d_forward", "slow_conv3d_forward", "slow_conv_dilated2d", "slow_conv_dilated3d",
    "_nnpack_spatial_convolution", "_mps_convolution",
)  # fmt: skip
def convolution(input: Any, weight: Any, out: Any, bias: Any = None, transposed: bool = False) -> Work:
    """Count the products, and an addition of the bias for each output. cuDNN's operator adds a bias apart."""
    return Work(_convolution_flop(input, weight, out, transposed), 0 if bias is None else out.numel())


@formula(
    "cudnn_convolution_transpose", "miopen_convolution_transpose", "_mps_convolution_transpose",
    "slow_conv_transpose2d", "slow_conv_transpose3d",
)  # fmt: skip
def transposed_convolution(input: Any, weight: Any, out: Any, bias: Any = None) -> Work:
    return convolution(input, weight, out, bias, transposed=True)


@formula(
    "convolution_backward", "convolution_backward_overrideable", "_slow_conv2d_backward", "mps_convolution_backward"
)
def convolution_backward(
    grad_output: Any, input: Any, weight: Any, output_mask: Sequence[bool], transposed: bool = False
) -> Work:
    """Count the gradients of input, weight and bias that the mask asks for. The bias's is a sum."""
    flop = _convolution_flop(input, weight, grad_output, transposed) * (output_mask[0] + output_mask[1])
    return Work(flop, grad_output.numel() - grad_output.shape[1] if any(output_mask[2:]) else 0)


@formula("cudnn_convolution_relu", "miopen_convolution_relu")
def rectified_convolution(input: Any, weight: Any, bias: Any, out: Any) -> Work:
    flop, other_flop, _ = convolution(input, weight, out, bias)
    return Work(flop, other_flop + out.numel())


@formula("cudnn_convolution_add_relu", "miopen_convolution_add_relu")
def rectified_sum(input: Any, weight: Any, bias: Any, alpha: float | None, out: Any) -> Work:
    """Also add another tensor, by a factor."""
    flop, other_flop, _ = rectified_convolution(input, weight, bias, out)
    return Work(flop, other_flop + out.numel() * (1 + (alpha not in (None, 1))))


@formula("mps_convolution_transpose_backward")
def mps_transposed_backward(input: Any, grad_output: Any, weight: Any, output_mask: Sequence[bool]) -> Work:
    return convolution_backward(grad_output, input, weight, output_mask, transposed=True)


@formula("conv_tbc")
def convolution_by_time(weight: Any, out: Any) -> Work:
    """Weights ``(taps, input channels, output channels)`` slide over ``(time, batch, channels)``."""
    taps, channels, _ = weight.shape
    return Work(2 * taps * channels * out.numel(), out.numel())


def whole_convolution_by_time() -> AbstractContextManager[Any]:
    """Run ``conv_tbc`` as a convolution. Its own gradients fall apart into products that leave padding out."""

    def whole(inputs: Any, weight: Any, bias: Any, pad: int = 0) -> Any:
        convolved = torch.conv1d(inputs.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
        return convolved.permute(2, 0, 1)

    return patch.object(torch, "conv_tbc", whole)


def _real(out: Any) -> int:
    """Count the real multiply-adds in one multiply-add of the output's type."""
    return 4 if out.is_complex() else 1


def _added(beta: float, alpha: float, out: Any) -> int:
    """Count the rest of ``beta * first + alpha * product``."""
    return int(out.numel() * ((beta != 0) + (beta not in (0, 1)) + (alpha != 1)))


@formula("mm", "bmm", "mv", "dot", "vdot")
def product(input: Any, out: Any, mat2: Any = None) -> Work:
    """Each element of the left matrix meets a row of the right one. A vector has one column."""
    columns = 1 if mat2 is None else mat2.shape[-1]
    return Work(2 * input.numel() * columns * _real(out))


@formula("addmm", "baddbmm", "addbmm", "addmv")
def added_product(mat1: Any, beta: float, alpha: float, out: Any, mat2: Any = None) -> Work:
    return Work(product(mat1, out, mat2).flop, _added(beta, alpha, out))


@formula("addr")
def added_outer_product(beta: float, alpha: float, out: Any) -> Work:
    """Add a column by a row: ``addmm`` with sums of one product."""
    return Work(2 * out.numel() * _real(out), _added(beta, alpha, out))


@formula("_addmm_activation")
def activated_product(mat1: Any, mat2: Any, beta: float, alpha: float, use_gelu: bool, out: Any) -> Work:
    flop, other_flop, _ = added_product(mat1, beta, alpha, out, mat2)
    return Work(flop, other_flop + (TANH_GELU["gelu"] if use_gelu else 1) * out.numel())


@formula("_grouped_mm", "_scaled_grouped_mm", "_scaled_grouped_mm_v2")
def grouped_product(input: Any, mat2: Any, bias: Any, out: Any) -> Work:
    """Groups split the rows, columns or summands, and each of these takes part once. Two stacks multiply pairwise."""
    stacked = input.shape[0] if input.dim() == mat2.dim() == 3 else 1
    flop = 2 * stacked * input.shape[-2] * input.shape[-1] * mat2.shape[-1]
    return Work(flop, 0 if bias is None else out.numel())


def grouped_output(
    left: torch.Tensor, right: torch.Tensor, offs: Any = None, bias: Any = None, out_dtype: torch.dtype | None = None
) -> torch.Tensor:
    """Make the output of ``_grouped_mm`` without memory, in any type; torch's own rule allows bf16 alone."""
    groups = [len(left)] if left.dim() == right.dim() == 3 else [len(offs)] if left.dim() == right.dim() else []
    return left.new_empty(*groups, left.shape[-2], right.shape[-1], dtype=out_dtype)


@formula("_trilinear")
def trilinear(
    i1: Any, i2: Any, i3: Any, expand1: Sequence[int], expand2: Sequence[int], expand3: Sequence[int]
) -> Work:
    """Sum products of three tensors that are broadcast to one space: ``nn.Bilinear`` and its gradients.

    The two with the smallest common space are multiplied there; each of their products then meets the third one.
    """
    tensors = [list(tensor.shape) for tensor in (i1, i2, i3)]
    for shape, expanded in zip(tensors, (expand1, expand2, expand3), strict=True):
        for dimension in expanded:
            shape.insert(dimension, 1)
    space = math.prod(map(max, *tensors))
    pairs = [math.prod(map(max, one, other)) for one, other in combinations(tensors, 2)]
    return Work(2 * space, min(pairs))


# Weights of 8 or 4 bits are brought to the inputs' type as they are read; all products are in that type.


@formula("_weight_int8pack_mm")
def product_by_int8(input: Any, out: Any) -> Work:
    """Each element of the result is scaled once."""
    return Work(2 * input.numel() * out.shape[-1], out.numel())


@formula("_weight_int4pack_mm", "_weight_int4pack_mm_for_cpu", "_weight_int4pack_mm_with_scales_and_zeros")
def product_by_int4(input: Any, out: Any) -> Work:
    """Each weight is scaled and shifted, by the two numbers of its group."""
    return Work(2 * input.numel() * out.shape[-1], 2 * input.shape[-1] * out.shape[-1])


@formula("_scaled_mm", "_scaled_mm_v2", "mkldnn_linear", "_mixed_dtypes_linear", "_dyn_quant_matmul_4bit")
def biased_product(input: Any, out: Any, bias: Any = None) -> Work:
    return Work(2 * input.numel() * out.shape[-1], 0 if bias is None else out.numel())


@formula("_int_mm")
def product_of_integers() -> Work:
    """Integers are no floating-point numbers."""
    return NOTHING


@formula("linear_backward", "mkldnn_linear_backward")
def linear_backward(input: Any, grad_output: Any, output_mask: Sequence[bool]) -> Work:
    """Count the gradients of input, weight and bias that the mask asks for."""
    width = grad_output.shape[-1]
    flop = 2 * input.numel() * width * (output_mask[0] + output_mask[1])
    return Work(flop, (grad_output.numel() - width) * output_mask[2])


@formula("mkldnn_linear_backward_input")
def linear_backward_input(grad_output: Any, weight: Any) -> Work:
    return Work(2 * grad_output.numel() * weight.shape[1])


@formula("mkldnn_linear_backward_weights")
def linear_backward_weights(grad_output: Any, input: Any, bias_defined: bool) -> Work:
    return linear_backward(input, grad_output, (False, True, bias_defined))


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
def distances_by_a_product(x1: Any, x2: Any, out: Any) -> Work:
    """``|x|² - 2 x y + |y|²`` as a product of rows with two more columns; then at least 0 and a root (2 an output).

    The squared lengths take 2n - r for n coordinates in r points; x is scaled by -2 (n).
    """
    width = x1.shape[-1]
    lengths = sum(2 * each.numel() - each.numel() // width for each in (x1, x2))
    return Work(2 * out.numel() * (width + 2), lengths + x1.numel() + 2 * out.numel())


# Direct factorisations and solutions as LAPACK counts them (LAPACK Working Note 41), without lower orders, of n rows
# and columns. Eigenvalues, singular values and exponentials of matrices iterate until a result is exact enough, which
# depends on values: they have no formula.


def _cubes(share: float, matrix: Any) -> int:
    return round(share * math.prod(matrix.shape[:-2]) * matrix.shape[-1] ** 3)


def _orthogonal(input: Any) -> int:
    """Count Householder's reflections of m rows and n columns: 2 k² (longer side - k / 3) for the shorter side k."""
    short, long = sorted(input.shape[-2:])
    return round(math.prod(input.shape[:-2]) * 2 * short**2 * (long - short / 3))


def _solved(factor: Any, solution: Any, triangles: int = 1) -> int:
    """Count n² for each of the right-hand sides and triangles."""
    return int(triangles * factor.shape[-1] * solution.numel())


register_other_flop(
    {
        "_cdist_forward": lambda x1, p, out: _distances_flop(out.numel(), x1.shape[-1], p),
        "_cdist_backward": lambda x1, p, cdist, out: _distances_backward_flop(cdist.numel(), x1.shape[-1], p, out),
        "_pdist_forward": lambda input, p, out: _distances_flop(out.numel(), input.shape[-1], p),
        # Both points of a pair get its gradient.
        "_pdist_backward": lambda input, p, pdist, out: (
            _distances_backward_flop(pdist.numel(), input.shape[-1], p, out) + pdist.numel() * input.shape[-1]
        ),
        "linalg_cholesky_ex linalg_ldl_factor_ex": lambda input: _cubes(1 / 3, input),
        "cholesky_inverse": lambda input: _cubes(2 / 3, input),
        "linalg_lu_factor_ex linalg_lu _linalg_det _linalg_slogdet": lambda a: _cubes(2 / 3, a),
        "linalg_inv_ex": lambda a: _cubes(2, a),
        "linalg_solve_triangular": lambda input, out: _solved(input, out),
        "triangular_solve": lambda a, out: _solved(a, out[0]),
        "cholesky_solve": lambda input2, out: _solved(input2, out, 2),
        "_cholesky_solve_helper": lambda a, out: _solved(a, out, 2),
        "linalg_lu_solve linalg_ldl_solve": lambda factor, out: _solved(factor, out, 2),
        "_linalg_solve_ex": lambda a, out: _cubes(2 / 3, a) + _solved(a, out[0], 2),
        "geqrf linalg_householder_product": _orthogonal,
        # As many operations again form the orthogonal factor.
        "linalg_qr": lambda a, mode: _orthogonal(a) * (1 if mode == "r" else 2),
    }
)
