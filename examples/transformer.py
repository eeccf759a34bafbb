"""Three small transformers to measure: ``python -m measure --models examples.transformer:encoder``.

Each function takes a batch size and returns a network and the inputs of one call of it: a dictionary of keyword
arguments, a tuple of arguments, or one tensor. All is made on torch's default device, with random values, as Roofwright
chooses device, precision, and whether the network trains.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTH, HEADS, DEPTH, CLASSES = 256, 4, 4, 12
TOKENS, VOCABULARY = 128, 8192
SAMPLES = 16_000
"""One second of sound at 16 kHz."""
WINDOW, HOP = 400, 160
"""Frames of 25 ms, one each 10 ms."""


class Attention(nn.Module):
    """Self-attention with several heads; positions where the mask is False are ignored."""

    def __init__(self) -> None:
        super().__init__()
        self.query_key_value = nn.Linear(WIDTH, 3 * WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)

    def forward(self, tokens: Tensor, mask: Tensor | None) -> Tensor:
        parts = self.query_key_value(tokens).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.output(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Attention and a perceptron, each with a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.attention_norm, self.attention = nn.LayerNorm(WIDTH), Attention()
        self.perceptron = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, tokens: Tensor, mask: Tensor | None) -> Tensor:
        tokens = tokens + self.attention(self.attention_norm(tokens), mask)
        return tokens + self.perceptron(tokens)


class Trunk(nn.Module):
    """A transformer with learned positions; returns their mean."""

    def __init__(self, positions: int) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.zeros(positions, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        tokens = tokens + self.positions
        for block in self.blocks:
            tokens = block(tokens, mask)
        return self.norm(tokens).mean(dim=1)


class Text(nn.Module):
    """Scores of classes for texts: token ids, and a mask that is False at padding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.trunk = Trunk(TOKENS)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, tokens: Tensor, mask: Tensor) -> dict[str, Tensor]:
        features = self.trunk(self.embedding(tokens), mask[:, None, None, :])
        return {"features": features.detach(), "scores": self.head(features)}


class Pair(nn.Module):
    """Scores for a pair of texts, with one trunk for both (Reimers and Gurevych 2019)."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.trunk = Trunk(TOKENS)
        self.head = nn.Linear(3 * WIDTH, CLASSES)

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        first, second = self.trunk(self.embedding(one)), self.trunk(self.embedding(other))
        return self.head(torch.cat([first, second, (first - second).abs()], dim=1))


class Speech(nn.Module):
    """Scores of spoken words, from the waveform."""

    def __init__(self) -> None:
        super().__init__()
        self.frames = nn.Conv1d(1, WIDTH, WINDOW, stride=HOP)
        self.trunk = Trunk((SAMPLES - WINDOW) // HOP + 1)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, waveform: Tensor) -> Tensor:
        frames = self.frames(waveform[:, None, :]).transpose(1, 2)
        return self.head(self.trunk(frames))


def encoder(batch_size: int) -> tuple[nn.Module, dict[str, Any]]:
    """Return a text encoder; its inputs are keyword arguments."""
    shape = (batch_size, TOKENS)
    return Text(), {"tokens": torch.randint(VOCABULARY, shape), "mask": torch.ones(shape, dtype=torch.bool)}


def pair(batch_size: int) -> tuple[nn.Module, tuple[Any, ...]]:
    """Return a network of two inputs."""
    shape = (batch_size, TOKENS)
    return Pair(), (torch.randint(VOCABULARY, shape), torch.randint(VOCABULARY, shape))


def speech(batch_size: int) -> tuple[nn.Module, Tensor]:
    """Return a network of one input, a second of sound."""
    return Speech(), torch.randn(batch_size, SAMPLES)
