"""A decoder-only transformer of 7 billion parameters from torch.nn, as large as the networks that users count.

Its sizes are those of LLaMA 7B (Touvron et al. 2023, arXiv:2302.13971), without its rotary embedding, which has no
parameters.
"""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from process import peak_byte

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Sizes:
    vocabulary: int = 32000
    width: int = 4096
    hidden: int = 11008
    heads: int = 32
    layers: int = 32
    sequence: int = 2048
    """The tokens of one input that is counted."""


def decoder(sizes: Sizes) -> "nn.Module":
    """Build a network from token ids (batch, length) to scores (batch, length, vocabulary)."""
    import torch
    from torch import nn
    from torch.nn import functional

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.project = nn.Linear(sizes.width, 3 * sizes.width, bias=False)
            self.merge = nn.Linear(sizes.width, sizes.width, bias=False)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            parts = self.project(tokens).unflatten(-1, (3, sizes.heads, -1)).permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(*parts, is_causal=True)
            return self.merge(mixed.transpose(1, 2).flatten(-2))

    class FeedForward(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(sizes.width, sizes.hidden, bias=False)
            self.up = nn.Linear(sizes.width, sizes.hidden, bias=False)
            self.down = nn.Linear(sizes.hidden, sizes.width, bias=False)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.down(functional.silu(self.gate(tokens)) * self.up(tokens))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention_norm, self.attention = nn.RMSNorm(sizes.width), Attention()
            self.feed_forward_norm, self.feed_forward = nn.RMSNorm(sizes.width), FeedForward()

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            tokens = tokens + self.attention(self.attention_norm(tokens))
            return tokens + self.feed_forward(self.feed_forward_norm(tokens))

    return nn.Sequential(
        nn.Embedding(sizes.vocabulary, sizes.width),
        *(Block() for _ in range(sizes.layers)),
        nn.RMSNorm(sizes.width),
        nn.Linear(sizes.width, sizes.vocabulary, bias=False),
    )


@dataclass(frozen=True)
class DecoderCount:
    parameter_count: int
    forward_flop: int
    backward_flop: int
    count_s: float
    peak_byte: int


def count(sizes: Sizes) -> DecoderCount:
    """Count one input, forward and backward; the main function of a process of its own."""
    import torch

    from measure.counting.count import count_network

    with torch.device("meta"):
        network = decoder(sizes)
        tokens = torch.zeros(1, sizes.sequence, dtype=torch.long)
    start = time.perf_counter()
    columns, *_ = count_network(network, (tokens,))
    taken_s = time.perf_counter() - start
    named = {name: columns[name] for name in ("parameter_count", "forward_flop", "backward_flop")}
    return DecoderCount(**named, count_s=taken_s, peak_byte=peak_byte())
