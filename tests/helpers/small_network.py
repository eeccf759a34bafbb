"""Own networks of well under a millisecond a call, for tests that measure from end to end."""

import torch
from torch import nn


def network(batch_size):
    layers = nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 10)
    return nn.Sequential(*layers), torch.rand(batch_size, 3, 16, 16)


def two_scores(batch_size, number=1.0):
    """Two scores of one number, at first both 0."""
    layer = nn.Linear(1, 2, bias=False)
    nn.init.zeros_(layer.weight)
    return layer, torch.full((batch_size, 1), number)


def scores_of_1000(batch_size):
    return two_scores(batch_size, 1000.0)


def scores_of_infinity(batch_size):
    return two_scores(batch_size, torch.inf)


def sparse_words(batch):
    """Three words of a thousand, with sparse gradients."""
    words = nn.Embedding(1000, 4, sparse=True)
    return nn.Sequential(words, nn.Flatten(), nn.Linear(12, 3)), torch.arange(3).expand(batch, 3).clone()


class Mixture(nn.Module):
    """Sends each token to two of four experts, by its values."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(16, 4, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(16, 32, bias=False), nn.ReLU(), nn.Linear(32, 16, bias=False)) for _ in range(4)
        )

    def forward(self, x):
        weights, experts = self.gate(x).softmax(-1).topk(2)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            token, place = torch.where(experts == number)
            out.index_add_(0, token, expert(x[token]) * weights[token, place, None])
        return out


def mixture(batch):
    return Mixture(), torch.randn(batch, 16)


def products(batch):
    """Three products of a row with a weight of 2048 x 2048."""
    return nn.Sequential(*(nn.Linear(2048, 2048, bias=False) for _ in range(3))), torch.randn(batch, 2048)


class Weighted(nn.Linear):
    """A layer whose result is weighted by a number that the host reads."""

    def forward(self, x):
        return super().forward(x) * x.sum().item()


def weighted(batch):
    return Weighted(4, 4), torch.randn(batch, 4)
