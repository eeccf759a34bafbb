"""FLOP of convolutions, matrix products and attention, 2 a multiply-add, and of the biases added to them.

The forward products are torch's own formulas (``torch.utils.flop_counter``). Ours stand where those are wrong or
silent: a gradient of a convolution costs what the convolution costs, also where it is grouped or transposed (each
multiply-add of the forward pass takes part in one of either gradient); attention's backward pass is four products of
the forward pass's two sizes, so 2.0 times forward, and what a fused operator recomputes is counted separately.

Keeps attention one operator on the meta device, as on the devices that models run on.

Those have a fused operator for it. On the meta device it would fall apart into products and a softmax, whose matrix of
weights a fused operator never writes to memory.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn import functional

from measure.counting.formulas import Args, Formula, Kwargs, Work, formula

Shape = Sequence[int]


def _bias(tensor: Any, out: Any) -> int:
    """Count an addition for each output."""
    return 0 if tensor is None else out.numel()


def convolution_flop(input_shape: Shape, weight_shape: Shape, output_shape: Shape, transposed: bool) -> int:
    """2 FLOP for each weight and place it is applied to, padding included, as published counts have it.

    The weight's shape is (output channels, input channels of a group, ...), transposed (input channels, output
    channels of a group, ...): its first size is that of the places.
    """
    from torch.utils.flop_counter import conv_flop_count

    return int(conv_flop_count(list(input_shape), list(weight_shape), list(output_shape), transposed=transposed))


@formula("aten::convolution", "aten::_convolution")
def convolution(args: Args, _kwargs: Kwargs, out: Any) -> Work:
    return Work(convolution_flop(args[0].shape, args[1].shape, out.shape, args[6]), _bias(args[2], out))


@formula("aten::convolution_backward")
def convolution_backward(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    gradient, inputs, weight = args[:3]
    transposed, mask = args[7], args[10]
    once = convolution_flop(inputs.shape, weight.shape, gradient.shape, transposed)
    channels = gradient.shape[1]
    return Work(once * (mask[0] + mask[1]), gradient.numel() - channels if mask[2] else 0)


def _real(out: Any) -> int:
    """Multiply-adds of real numbers in one of the output's: 4 of complex ones, none of integers."""
    return 4 if out.is_complex() else int(out.is_floating_point())


def _added(kwargs: Kwargs, out: Any) -> int:
    """``beta * input + alpha * product``: an addition for each output, and a product for each factor but 1."""
    beta, alpha = kwargs.get("beta", 1), kwargs.get("alpha", 1)
    return out.numel() * ((beta != 0) + (beta not in (0, 1)) + (alpha != 1))


def _registered(name: str, is_added: bool) -> Formula:
    """Register the formula that torch has, and what it takes to add the product to the first argument."""

    def product(args: Args, kwargs: Kwargs, out: Any) -> Work:
        import torch
        from torch.utils.flop_counter import flop_registry

        flop = flop_registry[getattr(torch.ops.aten, name)](*args, **kwargs, out_val=out)
        return Work(int(flop) * _real(out), _added(kwargs, out) if is_added else 0)

    return product


for _name, _is_added in {"mm": False, "bmm": False, "_scaled_mm": False, "addmm": True, "baddbmm": True}.items():
    formula(f"aten::{_name}")(_registered(_name, _is_added))


@formula("aten::mv", "aten::dot", "aten::vdot")
def vector_product(args: Args, _kwargs: Kwargs, out: Any) -> Work:
    return Work(2 * args[0].numel() * _real(out))


@formula("aten::addmv")
def vector_product_added(args: Args, kwargs: Kwargs, out: Any) -> Work:
    return Work(2 * args[1].numel() * _real(out), _added(kwargs, out))


def attention_products(query: Any, key: Any, value: Any) -> tuple[int, int]:
    """FLOP of queries by keys, and of weights by values.

    Shapes are (batch, heads, length, width); a causal mask saves nothing here: published counts know no mask.
    """
    batch, heads, length, width = query.shape
    scores = batch * heads * length * key.shape[2]
    return 2 * scores * width, 2 * scores * value.shape[3]


def _softmax_flop(query: Any, key: Any) -> int:
    """Scaling each score, and a row's softmax: see ``scalars.softmax``. The addition of a mask is left out."""
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
def attention(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    query, key, value = args[:3]
    return Work(sum(attention_products(query, key, value)), _softmax_flop(query, key))


@formula(*(f"aten::{name}_backward" for name in ATTENTION[:-1]))
def attention_backward(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    """Gradients of values, weights, queries and keys, a product each; the scores and their softmax again.

    Of n scores in r rows: softmax's backward (4n - r, ``scalars.softmax_backward``) and scaling (n). A fused operator
    may take the sum over a row of scores as one over its outputs, which is equal (Dao et al. 2022).
    """
    _gradient, query, key, value = args[:4]
    scores, mixed = attention_products(query, key, value)
    batch, heads, length, _ = query.shape
    rows = batch * heads * length
    other = rows * key.shape[2] * (4 + 1) - rows
    return Work(2 * (scores + mixed), other, scores + _softmax_flop(query, key))


def _fused(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor | None:
    """Return the fused operator's output, or None where torch has none; the signature is that of torch's function."""
    alike = query.dim() == 4 and query.shape[1] == key.shape[1] and query.shape[3] == value.shape[3]
    masked_for_learning = attn_mask is not None and attn_mask.requires_grad
    if not query.is_meta or not alike or dropout_p > 0 or masked_for_learning:
        return None
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill_(~attn_mask, float("-inf"))
    output: torch.Tensor = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, 0.0, is_causal, attn_mask=attn_mask, scale=scale
    )[0]
    return output


@contextmanager
def whole_attention() -> Iterator[None]:
    """Keep attention on the meta device one operator; switch off nn.MultiheadAttention's fused path, whose operators
    hide the rest of a layer.

    The function is replaced where every caller looks it up: a mode for torch's functions would not see the calls
    within nn.MultiheadAttention. A library that took the function by name before gets products and a softmax.
    """
    plain = functional.scaled_dot_product_attention

    def whole(*args: Any, **kwargs: Any) -> torch.Tensor:
        output = _fused(*args, **kwargs)
        return plain(*args, **kwargs) if output is None else output

    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    functional.scaled_dot_product_attention = whole
    try:
        yield
    finally:
        functional.scaled_dot_product_attention = plain
        torch.backends.mha.set_fastpath_enabled(fast_path)
