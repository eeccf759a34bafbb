"""FLOP of convolutions, matrix products and attention, 2 a multiply-add, and of the biases added to them.

The forward products are torch's own formulas (``torch.utils.flop_counter``). Ours stand where those are wrong or
silent: a gradient of a convolution costs what the convolution costs, also where it is grouped or transposed (each
multiply-add of the forward pass takes part in one of either gradient); attention's backward pass is four products of
the forward pass's two sizes, so 2.0 times forward, and what a fused kernel computes again is told apart.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from measure.flops import Formula, Work, formula

Shape = Sequence[int]


def _bias(tensor: Any, out: Any) -> int:
    """An addition for each output."""
    return 0 if tensor is None else out.numel()


def convolution_flop(input_shape: Shape, weight_shape: Shape, output_shape: Shape, transposed: bool) -> int:
    """2 FLOP for each weight and place it is applied to, padding included, as published counts have it.

    The weight's shape is (output channels, input channels of a group, ...), transposed (input channels, output
    channels of a group, ...): its first size is that of the places.
    """
    from torch.utils.flop_counter import conv_flop_count

    return int(
        conv_flop_count(list(input_shape), list(weight_shape), list(output_shape), transposed=transposed)
    )


@formula("aten::convolution", "aten::_convolution", "aten::convolution_overrideable")
def convolution(args: Sequence[Any], _kwargs: Mapping[str, Any], out: Any) -> Work:
    return Work(convolution_flop(args[0].shape, args[1].shape, out.shape, args[6]), _bias(args[2], out))


@formula("aten::cudnn_convolution", "aten::mkldnn_convolution", "aten::_slow_conv2d_forward")
def plain_convolution(args: Sequence[Any], _kwargs: Mapping[str, Any], out: Any) -> Work:
    bias = args[2] if len(args) > 2 and hasattr(args[2], "numel") else None
    return Work(convolution_flop(args[0].shape, args[1].shape, out.shape, False), _bias(bias, out))


@formula("aten::convolution_backward", "aten::convolution_backward_overrideable")
def convolution_backward(args: Sequence[Any], _kwargs: Mapping[str, Any], _out: Any) -> Work:
    gradient, inputs, weight = args[:3]
    transposed, mask = args[7], args[10]
    once = convolution_flop(inputs.shape, weight.shape, gradient.shape, transposed)
    channels = gradient.shape[1]
    return Work(once * (mask[0] + mask[1]), gradient.numel() - channels if mask[2] else 0)


def _registered(name: str, added: int | None) -> Formula:
    """The formula that torch has, and an addition for each output where the argument at ``added`` is one to add to."""

    def product(args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> Work:
        import torch
        from torch.utils.flop_counter import flop_registry

        flop = flop_registry[getattr(torch.ops.aten, name)](*args, **kwargs, out_val=out)
        return Work(int(flop), out.numel() if added is not None else 0)

    return product


for _name, _added in {"mm": None, "bmm": None, "addmm": 0, "baddbmm": 0, "_scaled_mm": None}.items():
    formula(f"aten::{_name}")(_registered(_name, _added))


@formula("aten::mv", "aten::dot", "aten::vdot")
def vector_product(args: Sequence[Any], _kwargs: Mapping[str, Any], _out: Any) -> Work:
    return Work(2 * args[0].numel())


@formula("aten::addmv")
def vector_product_added(args: Sequence[Any], _kwargs: Mapping[str, Any], out: Any) -> Work:
    return Work(2 * args[1].numel(), out.numel())


@formula("mkldnn::_linear_pointwise", "aten::mkldnn_linear")
def linear(args: Sequence[Any], _kwargs: Mapping[str, Any], out: Any) -> Work:
    return Work(2 * out.numel() * args[1].shape[-1], _bias(args[2], out))


def attention_products(query: Any, key: Any, value: Any) -> tuple[int, int]:
    """FLOP of queries by keys, and of weights by values.

    Shapes are (batch, heads, length, width); a causal mask saves nothing here: published counts know no mask.
    """
    batch, heads, length, width = query.shape
    scores = batch * heads * length * key.shape[2]
    return 2 * scores * width, 2 * scores * value.shape[3]


def _softmax_flop(query: Any, key: Any) -> int:
    """Scaling each score, and a row's softmax: see ``scalars.softmax``."""
    batch, heads, length, _ = query.shape
    rows = batch * heads * length
    return rows * key.shape[2] * (1 + 5) - 2 * rows


ATTENTION = (
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
    "_scaled_dot_product_attention_math_for_mps",
)


@formula(*(f"aten::{name}" for name in ATTENTION))
def attention(args: Sequence[Any], _kwargs: Mapping[str, Any], _out: Any) -> Work:
    query, key, value = args[:3]
    return Work(sum(attention_products(query, key, value)), _softmax_flop(query, key))


@formula(*(f"aten::{name}_backward" for name in ATTENTION[:-1]))
def attention_backward(args: Sequence[Any], _kwargs: Mapping[str, Any], _out: Any) -> Work:
    """Gradients of values, weights, queries and keys, a product each; the scores and their softmax again.

    Each score takes 4 operations of softmax's backward (``scalars.softmax_backward``) and one of scaling; the sum
    over a row is taken over the outputs instead, which fused kernels can since both are equal (Dao et al. 2022).
    """
    _gradient, query, key, value = args[:4]
    scores, mixed = attention_products(query, key, value)
    batch, heads, length, _ = query.shape
    rows = batch * heads * length
    other = rows * key.shape[2] * (4 + 1) - rows
    return Work(2 * (scores + mixed), other, scores + _softmax_flop(query, key))
