"""Attention alone, without heads, by width and length: ``python -m measure --models 'examples.attention:*'``.

``products_64_1024`` writes the scores of 1,024 tokens of width 64 to memory: a product, a mask, a softmax, a product.
``fused_64_1024`` is torch's own operator, which keeps them on the chip where the device has a kernel for that. Both are
causal. A glob selects ``WIDTHS`` by ``LENGTHS``; any other width and length can be named.
"""

import re
from collections.abc import Callable
from math import inf, sqrt

import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTHS = 16, 32, 64, 128
LENGTHS = 256, 1024, 4096, 8192, 16384
NAME = re.compile(r"(products|fused)_([1-9]\d{0,5})_([1-9]\d{0,6})")


class Attention(nn.Module):
    """Causal attention over queries, keys and values of shape (batch, length, width), as ``attend`` does it.

    They are parameters, so that a training step computes the gradient of all three. The input is added to the queries:
    a network needs one, and a vector for each sequence costs little.
    """

    def __init__(self, batch: int, length: int, width: int) -> None:
        super().__init__()
        query, key, value = torch.randn(3, batch, length, width).unbind()
        self.query, self.key, self.value = nn.Parameter(query), nn.Parameter(key), nn.Parameter(value)

    def forward(self, shift: Tensor) -> Tensor:
        return self.attend(self.query + shift, self.key, self.value)

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        raise NotImplementedError


class Products(Attention):
    def __init__(self, batch: int, length: int, width: int) -> None:
        super().__init__(batch, length, width)
        self.register_buffer("later", torch.ones(length, length, dtype=torch.bool).triu(1), persistent=False)

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        scores = query @ key.transpose(1, 2) / sqrt(query.shape[-1])
        return functional.softmax(scores.masked_fill(self.later, -inf), dim=-1) @ value


class Fused(Attention):
    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(query, key, value, is_causal=True)


KINDS = {"products": Products, "fused": Fused}


def __getattr__(name: str) -> Callable[[int], tuple[nn.Module, Tensor]]:
    """Make the function of a name such as ``products_64_1024``."""
    found = NAME.fullmatch(name)
    if found is None:
        raise AttributeError(f"module {__name__} has no attribute {name!r}")
    kind, width, length = found[1], int(found[2]), int(found[3])

    def attention(batch_size: int) -> tuple[nn.Module, Tensor]:
        return KINDS[kind](batch_size, length, width), torch.zeros(batch_size, 1, width)

    return attention


def __dir__() -> list[str]:
    return [f"{kind}_{width}_{length}" for kind in KINDS for width in WIDTHS for length in LENGTHS]
