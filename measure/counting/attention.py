"""FLOP of fused attention, and attention as one operator on tensors without memory.

The backward pass is four products of the sizes of the forward pass's two, 2.0 times its FLOP. The recomputation of a
fused operator is counted separately. A causal mask saves nothing, as in published counts.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.nn import functional

from measure.counting.formulas import Work, formula

ATTENTION = (
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
    "_scaled_dot_product_attention_math_for_mps",
)
# They take (batch, length, heads, width), or (tokens, heads, width) with the places where sequences begin, whose values
# their work depends on. The beginnings of names as tables write them.
BY_TOKENS = ("_flash_attention", "_efficient_attention", "_cudnn_attention", "torch_attn._varlen_attn")


def lacks_memory(tensor: torch.Tensor) -> bool:
    return tensor.is_meta or isinstance(tensor, FakeTensor)


class Sizes(NamedTuple):
    """The numbers of scores and of their rows, and the widths of keys and values."""

    scores: int
    rows: int
    width: int
    value_width: int

    @property
    def by_keys_flop(self) -> int:
        return 2 * self.scores * self.width

    @property
    def softmax_flop(self) -> int:
        """Scaling takes n and softmax 5n - 2r (see ``formulas``). Adding a mask is left out."""
        return 6 * self.scores - 2 * self.rows

    def forward(self) -> Work:
        return Work(self.by_keys_flop + 2 * self.scores * self.value_width, self.softmax_flop)

    def backward(self) -> Work:
        """Gradients of values, weights, queries and keys are a product each. Scores and softmax are recomputed.

        Of n scores in r rows, the backward pass of softmax takes 4n - r (see ``formulas``) and scaling n. A fused
        operator may replace the sum over a row of scores by an equal one over its outputs (Dao et al. 2022).
        """
        other_flop = 5 * self.scores - self.rows
        return Work(2 * self.forward().flop, other_flop, self.by_keys_flop + self.softmax_flop)


def _sizes_by_heads(query: Any, key: Any, value: Any) -> Sizes:
    """Read (batch, heads, length, width). Heads of queries may share those of keys."""
    rows = query.numel() // query.shape[-1]
    return Sizes(rows * key.shape[-2], rows, query.shape[-1], value.shape[-1])


def _sizes_by_tokens(
    query: Any, key: Any, value: Any, starts: Any = None, key_starts: Any = None, longest: int | None = None
) -> Sizes:
    """Read (batch, length, heads, width), or sequences that begin at ``starts``, whose last number is the end.

    If the starts have no values, each sequence of keys counts as the ``longest``.
    """
    rows, heads = query.numel() // query.shape[-1], query.shape[-2]
    if starts is None:
        scores = rows * key.shape[1]
    elif lacks_memory(starts):
        tokens = key.numel() // key.shape[-1] // key.shape[-2]
        scores = rows * (tokens if longest is None else min(longest, tokens))
    else:
        with unset_fake_temporarily():
            lengths, key_lengths = (
                [end - start for start, end in pairwise(each.tolist())]
                for each in (starts, starts if key_starts is None else key_starts)
            )
        scores = heads * sum(map(int.__mul__, lengths, key_lengths))
    return Sizes(scores, rows, query.shape[-1], value.shape[-1])


@formula(*ATTENTION)
def attention(query: Any, key: Any, value: Any) -> Work:
    return _sizes_by_heads(query, key, value).forward()


@formula(*(f"{name}_backward" for name in ATTENTION[:-1]))
def attention_backward(query: Any, key: Any, value: Any) -> Work:
    return _sizes_by_heads(query, key, value).backward()


@formula(
    "_flash_attention_forward", "_flash_attention_forward_no_dropout_inplace", "_efficient_attention_forward",
    "torch_attn::_varlen_attn",
)  # fmt: skip
def attention_of_tokens(query: Any, key: Any, value: Any, cum_seq_q: Any, cum_seq_k: Any, max_k: int | None) -> Work:
    return _sizes_by_tokens(query, key, value, cum_seq_q, cum_seq_k, max_k).forward()


@formula("_flash_attention_backward", "_efficient_attention_backward", "torch_attn::_varlen_attn_backward")
def attention_of_tokens_backward(
    query: Any, key: Any, value: Any, cum_seq_q: Any, cum_seq_k: Any, max_k: int | None
) -> Work:
    return _sizes_by_tokens(query, key, value, cum_seq_q, cum_seq_k, max_k).backward()


# The package flash-attn takes (batch, length, heads, width), or sequences behind one another.


@formula("flash_attn::_flash_attn_forward", "flash_attn::_flash_attn_varlen_forward")
def packaged_attention(
    q: Any, k: Any, v: Any, cum_seq_q: Any = None, cum_seq_k: Any = None, max_k: int | None = None
) -> Work:
    return _sizes_by_tokens(q, k, v, cum_seq_q, cum_seq_k, max_k).forward()


@formula("flash_attn::_flash_attn_backward", "flash_attn::_flash_attn_varlen_backward")
def packaged_attention_backward(
    q: Any, k: Any, v: Any, cum_seq_q: Any = None, cum_seq_k: Any = None, max_k: int | None = None
) -> Work:
    return _sizes_by_tokens(q, k, v, cum_seq_q, cum_seq_k, max_k).backward()


def _sizes_of_cudnn(query: Any, key: Any, value: Any, starts: Any, key_starts: Any, longest: int) -> Sizes:
    """Read tensors by heads, or sequences behind one another."""
    if starts is None:
        return _sizes_by_heads(query, key, value)
    return _sizes_by_tokens(query, key, value, starts, key_starts, longest)


@formula("_cudnn_attention_forward")
def cudnn_attention(query: Any, key: Any, value: Any, cum_seq_q: Any, cum_seq_k: Any, max_k: int) -> Work:
    return _sizes_of_cudnn(query, key, value, cum_seq_q, cum_seq_k, max_k).forward()


@formula("_cudnn_attention_backward")
def cudnn_attention_backward(query: Any, key: Any, value: Any, cum_seq_q: Any, cum_seq_k: Any, max_k: int) -> Work:
    return _sizes_of_cudnn(query, key, value, cum_seq_q, cum_seq_k, max_k).backward()


@formula("_transform_bias_rescale_qkv")
def split_projections(qkv: Any) -> Work:
    """Add a bias to queries, keys and values, and scale the queries."""
    return Work(0, qkv.numel() + qkv.numel() // 3)


def _has_fused(tensors: list[Any], mask: Any, shares_keys: bool) -> bool:
    """Return whether torch has a fused operator, by the rules of its own choice (``sdp_utils_cpp.h``)."""
    query, key, value = tensors
    if not query.dim() == key.dim() == value.dim() == 4 or not len(query) == len(key) == len(value):
        return False
    heads, key_heads = query.shape[1], key.shape[1]
    shared = key_heads in (1, heads) or (shares_keys and heads % key_heads == 0)
    if not shared or value.shape[1] != key_heads or not query.shape[-1] == key.shape[-1] == value.shape[-1]:
        return False
    if mask is None:
        return all(each.stride(-1) == 1 for each in (query, key, value))
    scores = (*query.shape[:3], key.shape[2])[-mask.dim() :]
    fits = mask.dim() in (2, 4) and all(map(lambda one, size: one in (1, size), mask.shape, scores))
    return fits and not mask.requires_grad and all(each.stride(-1) == 1 for each in (query, key, value))


@contextmanager
def _whole_flex_attention() -> Iterator[None]:
    """Let ``flex_attention`` run on tensors without memory, as fused attention, which its kernels are.

    Its blocks save nothing here, as a causal mask does not, and what it changes in each score is left out, as adding a
    mask is.
    """
    flex = sys.modules.get("torch.nn.attention.flex_attention")
    if not hasattr(flex, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"):  # not imported, or a version with other names
        yield
        return
    plain = vars(flex)["flex_attention_hop"]

    def whole(query: Any, key: Any, value: Any, score_mod: Any, mask: Any, scale: float, *rest: Any) -> Any:
        if not lacks_memory(query):
            return plain(query, key, value, score_mod, mask, scale, *rest)
        shares = query.shape[1] != key.shape[1]
        mixed = functional.scaled_dot_product_attention(query, key, value, scale=scale, enable_gqa=shares)
        sums = mixed.new_empty(mixed.shape[:-1], dtype=torch.float32)
        return mixed, sums, sums

    def check(*tensors: Any) -> None:
        if not any(map(lacks_memory, tensors)):
            check_device(*tensors)

    check_device = vars(flex)["_validate_device"]
    ours = {"flex_attention_hop": whole, "_validate_device": check, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG": True}
    before = {name: vars(flex)[name] for name in ours}
    vars(flex).update(ours)
    try:
        yield
    finally:
        vars(flex).update(before)


def _nested_attention(query: Any, key: Any, value: Any, is_causal: bool, scale: float | None) -> Any:
    """Return attention within each sequence of nested tensors, by the operator for sequences behind one another."""
    tensors = [each.transpose(1, 2) for each in (query, key, value)]  # (sequence, token, head, width)
    flat, starts = [each.values() for each in tensors], [each.offsets() for each in tensors[:2]]
    longest = [len(each) for each in flat[:2]]  # at most; the lengths decide
    mixed = torch.ops.aten._flash_attention_forward(*flat, *starts, *longest, 0.0, is_causal, False, scale=scale)[0]
    return torch.nested.nested_tensor_from_jagged(mixed, starts[0]).transpose(1, 2)


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
        if query.is_nested and attn_mask is None and dropout_p == 0:
            return _nested_attention(query, key, value, is_causal, rest.get("scale"))
        is_bare = lacks_memory(query) and query.device.type in ("meta", "cpu")
        flat = query.dim() == key.dim() == value.dim() == 3  # heads without a batch, for torch's kernels too
        tensors = [each.unsqueeze(0) for each in (query, key, value)] if flat else [query, key, value]
        mask = attn_mask[None] if flat and attn_mask is not None and attn_mask.dim() == 3 else attn_mask
        if not is_bare or dropout_p > 0 or not _has_fused(tensors, mask, rest.get("enable_gqa", False)):
            return plain(query, key, value, attn_mask, dropout_p, is_causal, **rest)
        if mask is not None and mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(~mask, float("-inf"))
        mixed = fused(*tensors, 0.0, is_causal, attn_mask=mask, scale=rest.get("scale"))[0]
        return mixed.squeeze(0) if flat else mixed

    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    functional.scaled_dot_product_attention = cast(Any, whole)
    try:
        with _whole_flex_attention():
            yield
    finally:
        functional.scaled_dot_product_attention = plain
        torch.backends.mha.set_fastpath_enabled(fast_path)
