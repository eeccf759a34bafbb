"""GPT-2, BERT and Llama, layer by layer as in their papers, at the sizes of ``measure.domain.models.SIZES``.

Tokens have the shape (batch, tokens), hidden states (batch, tokens, width). Attention is torch's own operator, so that
each device runs its fastest kernel.
"""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from measure.domain.models import LanguageTask, Size


class Attention(nn.Module):
    """Self-attention with several heads, which may share keys and values (Ainslie et al. 2023).

    A ``cache`` has the shape (2, batch, heads of keys, positions, width of a head). The key and value of the one token
    are written to its last position; then all of it is read.
    """

    def __init__(self, size: Size, has_bias: bool, is_causal: bool) -> None:
        super().__init__()
        self._width, self._shared, self._is_causal = size.width // size.heads, size.heads // size.key_heads, is_causal
        self.query = nn.Linear(size.width, size.width, has_bias)
        self.key = nn.Linear(size.width, size.key_heads * self._width, has_bias)
        self.value = nn.Linear(size.width, size.key_heads * self._width, has_bias)
        self.output = nn.Linear(size.width, size.width, has_bias)

    def forward(self, tokens: Tensor, rotation: Tensor | None, cache: Tensor | None) -> Tensor:
        layers = (self.query, self.key, self.value)
        query, key, value = (layer(tokens).unflatten(-1, (-1, self._width)).transpose(1, 2) for layer in layers)
        if rotation is not None:
            query, key = rotate(query, rotation), rotate(key, rotation)
        if cache is not None:
            cache[0, :, :, -1:], cache[1, :, :, -1:] = key, value
            # Heads that share a key are rows of one product: the key is read once for all of them.
            query = query.view(len(query), -1, self._shared, self._width)
            mixed = functional.scaled_dot_product_attention(query, cache[0], cache[1])
            return self.output(mixed.reshape(len(tokens), 1, -1))
        if self._shared > 1:
            key, value = (each.repeat_interleave(self._shared, dim=1) for each in (key, value))
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=self._is_causal)
        return self.output(mixed.transpose(1, 2).flatten(2))


def rotate(heads: Tensor, rotation: Tensor) -> Tensor:
    """Rotate pairs of numbers by angles that grow with the position (Su et al. 2021).

    ``heads`` has the shape (batch, heads, tokens, width); ``rotation`` holds cosines and sines, (2, tokens, width).
    """
    first, second = heads.chunk(2, dim=-1)
    return heads * rotation[0] + torch.cat([-second, first], dim=-1) * rotation[1]


def perceptron(size: Size, approximate: str) -> nn.Module:
    """Return two layers with a GELU between them."""
    wide, narrow = nn.Linear(size.width, size.inner), nn.Linear(size.inner, size.width)
    return nn.Sequential(OrderedDict(wide=wide, unit=nn.GELU(approximate), narrow=narrow))


class GatedPerceptron(nn.Module):
    """A layer gated by another one (SwiGLU, Shazeer 2020)."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.gate = nn.Linear(size.width, size.inner, bias=False)
        self.wide = nn.Linear(size.width, size.inner, bias=False)
        self.unit = nn.SiLU()
        self.narrow = nn.Linear(size.inner, size.width, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.narrow(self.unit(self.gate(tokens)) * self.wide(tokens))


class PreNormBlock(nn.Module):
    """Attention and a perceptron, each with normalised input and a residual connection."""

    def __init__(self, size: Size, norm: Callable[[], nn.Module], perceptron: nn.Module, has_bias: bool) -> None:
        super().__init__()
        self.attention_norm, self.perceptron_norm = norm(), norm()
        self.attention, self.perceptron = Attention(size, has_bias, is_causal=True), perceptron

    def forward(self, tokens: Tensor, rotation: Tensor | None, cache: Tensor | None) -> Tensor:
        tokens = tokens + self.attention(self.attention_norm(tokens), rotation, cache)
        return tokens + self.perceptron(self.perceptron_norm(tokens))


class PostNormBlock(nn.Module):
    """The same with normalisation after each addition, as in BERT and the first transformer."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.attention, self.perceptron = Attention(size, has_bias=True, is_causal=False), perceptron(size, "none")
        self.attention_norm, self.perceptron_norm = nn.LayerNorm(size.width, 1e-12), nn.LayerNorm(size.width, 1e-12)

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = self.attention_norm(tokens + self.attention(tokens, None, None))
        return self.perceptron_norm(tokens + self.perceptron(tokens))


class DecoderNetwork(nn.Module):
    """Score the next token, (batch, vocabulary), from the last position alone, also in training."""

    def __init__(self, task: LanguageTask, norm: Callable[[], nn.Module], blocks: list[PreNormBlock]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(task.size.vocabulary, task.size.width)
        self.blocks, self.norm = nn.ModuleList(blocks), norm()
        self.head = nn.Linear(task.size.width, task.size.vocabulary, bias=False, device="meta")
        self.head.weight = self.embedding.weight
        self.places: nn.Embedding | None = None  # an embedding of positions; a call reads the last ones
        self.register_buffer("rotation", None, persistent=False)

    def forward(self, tokens: Tensor, cache: Tensor | None = None) -> Tensor:
        if self.training and cache is not None:
            raise NotImplementedError("a token is decoded in inference alone; train the prefill")
        hidden = self.embedding(tokens)
        if self.places is not None:
            hidden = hidden + self.places(self._read)
        for number, block in enumerate(self.blocks):
            hidden = block(hidden, self.rotation, None if cache is None else cache[number])
        return self.head(self.norm(hidden[:, -1]))


class Gpt2(DecoderNetwork):
    def __init__(self, task: LanguageTask) -> None:
        size, norm = task.size, partial(nn.LayerNorm, task.size.width)
        blocks = [PreNormBlock(size, norm, perceptron(size, "tanh"), has_bias=True) for _ in range(size.depth)]
        super().__init__(task, norm, blocks)
        self.places = nn.Embedding(size.positions, size.width)
        self.register_buffer("_read", torch.arange(task.positions)[-task.read :], persistent=False)


class Llama(DecoderNetwork):
    def __init__(self, task: LanguageTask) -> None:
        size, norm = task.size, partial(nn.RMSNorm, task.size.width, 1e-5)
        blocks = [PreNormBlock(size, norm, GatedPerceptron(size), has_bias=False) for _ in range(size.depth)]
        super().__init__(task, norm, blocks)
        width = size.width // size.heads
        frequencies = 500_000.0 ** (-torch.arange(0, width, 2) / width)  # Grattafiori et al. 2024, section 3.2
        angles = (torch.arange(task.positions)[-task.read :, None] * frequencies).repeat(1, 2)
        self.rotation = torch.stack([angles.cos(), angles.sin()])


class Bert(nn.Module):
    """Return the hidden states, and the pooled first token, (batch, width), which represents the text."""

    def __init__(self, task: LanguageTask) -> None:
        super().__init__()
        size = task.size
        self.words = nn.Embedding(size.vocabulary, size.width)
        self.places = nn.Embedding(size.positions, size.width)
        self.segments = nn.Embedding(2, size.width)
        self.norm = nn.LayerNorm(size.width, 1e-12)
        self.blocks = nn.ModuleList(PostNormBlock(size) for _ in range(size.depth))
        self.pooler = nn.Linear(size.width, size.width)
        self.unit = nn.Tanh()
        self.register_buffer("_read", torch.arange(task.length), persistent=False)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.norm(self.words(tokens) + self.places(self._read) + self.segments(torch.zeros_like(tokens)))
        for block in self.blocks:
            hidden = block(hidden)
        return hidden, self.unit(self.pooler(hidden[:, 0]))


# Each network by the name of its size.
NETWORKS: dict[str, Callable[[LanguageTask], nn.Module]] = {"gpt2": Gpt2, "bert_base": Bert, "llama_1b": Llama}
