"""FLOP of convolutions, matrix products and attention, 2 a multiply-add, and of the biases added to them.

Forward products use torch's own formulas (``torch.utils.flop_counter``). Ours replace those that are wrong or missing.
Each gradient of a convolution costs as much as the convolution, also if it is grouped or transposed, because every
multiply-add of the forward pass takes part in both. The backward pass of attention is four products of the sizes of
the forward pass's two, 2.0 times its FLOP. A fused operator's recomputation is counted separately.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch.nn import functional
from torch.utils.flop_counter import conv_flop_count, flop_registry

from measure.counting.formulas import Args, Formula, Kwargs, Work, formula


def _convolution_flop(inputs: Any, weight: Any, out: Any, transposed: bool) -> int:
    """2 FLOP for each weight and place that it is applied to, padding included, as in published counts."""
    return int(conv_flop_count(list(inputs.shape), list(weight.shape), list(out.shape), transposed=transposed))


@formula("convolution", "_convolution")
def convolution(args: Args, _kwargs: Kwargs, out: Any) -> Work:
    """Count the products, and an addition of the bias for each output."""
    return Work(_convolution_flop(args[0], args[1], out, args[6]), 0 if args[2] is None else out.numel())


@formula("convolution_backward")
def convolution_backward(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    """Count the gradients of input, weight and bias that the mask asks for."""
    gradient, inputs, weight = args[:3]
    transposed, mask = args[7], args[10]
    flop = _convolution_flop(inputs, weight, gradient, transposed) * (mask[0] + mask[1])
    return Work(flop, gradient.numel() - gradient.shape[1] if mask[2] else 0)


def _product(name: str) -> Formula:
    """Return torch's formula of a matrix product, or 2 FLOP an element of a matrix or vector that meets a vector.

    Names with ``add`` compute ``beta * first + alpha * product``.
    """
    torchs, is_added = flop_registry.get(getattr(torch.ops.aten, name)), "add" in name

    def product(args: Args, kwargs: Kwargs, out: Any) -> Work:
        flop = torchs(*args, **kwargs, out_val=out) if torchs else 2 * args[int(is_added)].numel()
        real = 4 if out.is_complex() else int(out.is_floating_point())  # real multiply-adds in one of the output's
        beta, alpha = kwargs.get("beta", 1), kwargs.get("alpha", 1)
        each = (beta != 0) + (beta not in (0, 1)) + (alpha != 1) if is_added else 0
        return Work(int(flop) * real, out.numel() * each)

    return product


for _name in ("mm", "bmm", "_scaled_mm", "addmm", "baddbmm", "mv", "dot", "vdot", "addmv"):
    formula(_name)(_product(_name))


ATTENTION = (
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
    "_scaled_dot_product_attention_math_for_mps",
)


def _attention_sizes(query: Any, key: Any, value: Any) -> tuple[int, int, int, int]:
    """Return the FLOP of queries by keys, those of weights by values, the number of scores, and that of their rows.

    Shapes are (batch, heads, length, width). A causal mask saves nothing here, as in published counts.
    """
    batch, heads, length, width = query.shape
    rows = batch * heads * length
    scores = rows * key.shape[2]
    return 2 * scores * width, 2 * scores * value.shape[3], scores, rows


@formula(*ATTENTION)
def attention(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    """Of n scores in r rows, scaling takes n and softmax 5n - 2r (see ``formulas``). Adding a mask is left out."""
    by_keys, by_values, scores, rows = _attention_sizes(*args[:3])
    return Work(by_keys + by_values, 6 * scores - 2 * rows)


@formula(*(f"{name}_backward" for name in ATTENTION[:-1]))
def attention_backward(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    """Gradients of values, weights, queries and keys are a product each. Scores and their softmax are recomputed.

    Of n scores in r rows, the backward pass of softmax takes 4n - r (see ``formulas``) and scaling n. A fused operator
    may replace the sum over a row of scores by an equal one over its outputs (Dao et al. 2022).
    """
    by_keys, by_values, scores, rows = _attention_sizes(*args[1:4])
    return Work(2 * (by_keys + by_values), 5 * scores - rows, by_keys + 6 * scores - 2 * rows)


@contextmanager
def whole_attention() -> Iterator[None]:
    """Keep attention one operator on the meta device, as on real devices, which have a fused operator for it.

    Otherwise it would fall apart into products and a softmax, whose matrix of weights a fused operator never writes to
    memory. The fused path of nn.MultiheadAttention is switched off: its operators hide the rest of a layer.

    The function is replaced where every caller looks it up, because a mode for torch's functions does not see the
    calls within nn.MultiheadAttention. A library that imported the function by name gets products and a softmax.
    """
    plain = functional.scaled_dot_product_attention
    fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu

    def whole(
        query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: Any = 0, is_causal: Any = False, **rest: Any
    ) -> Any:
        alike = query.dim() == 4 and query.shape[1] == key.shape[1] and query.shape[3] == value.shape[3]
        is_learned = attn_mask is not None and attn_mask.requires_grad
        if not query.is_meta or not alike or dropout_p > 0 or is_learned:  # torch has no fused operator
            return plain(query, key, value, attn_mask, dropout_p, is_causal, **rest)
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill_(~attn_mask, float("-inf"))
        return fused(query, key, value, 0.0, is_causal, attn_mask=attn_mask, scale=rest.get("scale"))[0]

    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    functional.scaled_dot_product_attention = cast(Any, whole)
    try:
        yield
    finally:
        functional.scaled_dot_product_attention = plain
        torch.backends.mha.set_fastpath_enabled(fast_path)
