"""FLOP of fused attention, and attention as one operator on tensors without memory.

The backward pass is four products of the sizes of the forward pass's two, 2.0 times its FLOP. The recomputation of a
fused operator is counted separately. A causal mask saves nothing, as in published counts.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from itertools import pairwise
from typing import Any, NamedTuple
from unittest.mock import patch

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
# The beginnings of names in tables of operators that take (batch, length, heads, width), or (tokens, heads, width) and
# the starts of the sequences. The values of the starts decide their work.
BY_TOKENS = ("_flash_attention", "_efficient_attention", "_cudnn_attention", "torch_attn._varlen_attn")

NO_COMPILER = "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"  # a setting in torch's module of flex_attention


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
        """Count a product for each gradient: of values, weights, queries and keys. Scores and softmax are recomputed.

        Of n scores in r rows, the backward pass of softmax takes 4n - r (see ``formulas``) and scaling n. A fused
        operator may replace the sum over a row of scores by an equal one over its outputs (Dao et al. 2022).
        """
        other_flop = 5 * self.scores - self.rows
        return Work(2 * self.forward().flop, other_flop, self.by_keys_flop + self.softmax_flop)


def _both_passes(
    forward: Iterable[str], backward: Iterable[str]
) -> Callable[[Callable[..., Sizes]], Callable[..., Sizes]]:
    """Register the formulas of two passes by a function that reads sizes from an operator's arguments."""

    def register(read: Callable[..., Sizes]) -> Callable[..., Sizes]:
        formula(*forward)(wraps(read)(lambda **values: read(**values).forward()))
        formula(*backward)(wraps(read)(lambda **values: read(**values).backward()))
        return read

    return register


@_both_passes(ATTENTION, (f"{name}_backward" for name in ATTENTION[:-1]))
def _sizes_by_heads(query: Any, key: Any, value: Any) -> Sizes:
    """Read (batch, heads, length, width). Several heads of queries may share one head of keys."""
    rows = query.numel() // query.shape[-1]
    return Sizes(rows * key.shape[-2], rows, query.shape[-1], value.shape[-1])


@_both_passes(
    ("_flash_attention_forward", "_flash_attention_forward_no_dropout_inplace", "_efficient_attention_forward",
     "torch_attn::_varlen_attn"),
    ("_flash_attention_backward", "_efficient_attention_backward", "torch_attn::_varlen_attn_backward"),
)  # fmt: skip
def _sizes_by_tokens(
    query: Any, key: Any, value: Any, cum_seq_q: Any = None, cum_seq_k: Any = None, max_k: int | None = None
) -> Sizes:
    """Read (batch, length, heads, width), or joined sequences with their starts and the end of the last one.

    If the starts have no values, each sequence of keys counts as the longest, ``max_k``.
    """
    rows, heads = query.numel() // query.shape[-1], query.shape[-2]
    if cum_seq_q is None:
        scores = rows * key.shape[1]
    elif lacks_memory(cum_seq_q):
        tokens = key.numel() // key.shape[-1] // key.shape[-2]
        scores = rows * (tokens if max_k is None else min(max_k, tokens))
    else:
        with unset_fake_temporarily():
            lengths, key_lengths = (
                [end - start for start, end in pairwise(starts.tolist())]
                for starts in (cum_seq_q, cum_seq_q if cum_seq_k is None else cum_seq_k)
            )
        scores = heads * sum(map(int.__mul__, lengths, key_lengths))
    return Sizes(scores, rows, query.shape[-1], value.shape[-1])


@_both_passes(
    ("flash_attn::_flash_attn_forward", "flash_attn::_flash_attn_varlen_forward"),
    ("flash_attn::_flash_attn_backward", "flash_attn::_flash_attn_varlen_backward"),
)
def _sizes_of_flash_attn(
    q: Any, k: Any, v: Any, cum_seq_q: Any = None, cum_seq_k: Any = None, max_k: int | None = None
) -> Sizes:
    return _sizes_by_tokens(q, k, v, cum_seq_q, cum_seq_k, max_k)


@_both_passes(("_cudnn_attention_forward",), ("_cudnn_attention_backward",))
def _sizes_of_cudnn(query: Any, key: Any, value: Any, cum_seq_q: Any, cum_seq_k: Any, max_k: int) -> Sizes:
    """Read tensors by heads, or joined sequences."""
    if cum_seq_q is None:
        return _sizes_by_heads(query, key, value)
    return _sizes_by_tokens(query, key, value, cum_seq_q, cum_seq_k, max_k)


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
    if mask is not None:
        scores = (*query.shape[:3], key.shape[2])[-mask.dim() :]
        fits = mask.dim() in (2, 4) and all(map(lambda one, size: one in (1, size), mask.shape, scores))
        if mask.requires_grad or not fits:
            return False
    return all(each.stride(-1) == 1 for each in tensors)


def _whole_flex_attention() -> AbstractContextManager[Any]:
    """Let ``flex_attention`` run on tensors without memory, as fused attention, which its kernels are.

    Its blocks save nothing here, as a causal mask does not. Changes to each score are left out, as adding a mask is.
    """
    from torch.nn.attention import flex_attention as flexible  # late: it takes a third of a second

    if not hasattr(flexible, NO_COMPILER):  # a version with other names
        return nullcontext()
    plain, check_device = vars(flexible)["flex_attention_hop"], vars(flexible)["_validate_device"]

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

    changes: dict[str, Any] = {"flex_attention_hop": whole, "_validate_device": check, NO_COMPILER: True}
    return patch.multiple(flexible, **changes)


def _nested_attention(query: Any, key: Any, value: Any, is_causal: bool, scale: float | None) -> Any:
    """Compute attention within each sequence of nested tensors, by the operator for joined sequences."""
    tensors = [each.transpose(1, 2) for each in (query, key, value)]  # (sequence, token, head, width)
    flat, starts = [each.values() for each in tensors], [each.offsets() for each in tensors[:2]]
    longest = [len(each) for each in flat[:2]]  # at most; the lengths decide
    mixed = torch.ops.aten._flash_attention_forward(*flat, *starts, *longest, 0.0, is_causal, False, scale=scale)[0]
    return torch.nested.nested_tensor_from_jagged(mixed, starts[0]).transpose(1, 2)


@contextmanager
def whole_attention() -> Iterator[None]:
    """Keep attention one operator on the meta device, as on real devices, which have a fused operator for it.

    Otherwise torch takes it apart into products and a softmax. A fused operator never writes the matrix of weights to
    memory. The fused path of nn.MultiheadAttention is switched off: its operators hide the rest of a layer. Devices
    take it in inference, and then move fewer bytes than are counted (docs/counting.md).

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
    try:
        with patch.object(functional, "scaled_dot_product_attention", whole), _whole_flex_attention():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)
