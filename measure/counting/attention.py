"""Keeps attention one operator on the meta device, as on the devices that models run on.

Those have a fused operator for it. On the meta device it would fall apart into products and a softmax, whose matrix of
weights a fused operator never writes to memory.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn import functional


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
def kept_whole() -> Iterator[None]:
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
