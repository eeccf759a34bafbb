"""A network of one's own that takes well under a millisecond a call, for tests that measure from end to end."""

import torch
from torch import nn


def network(batch_size):
    layers = nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 10)
    return nn.Sequential(*layers), torch.rand(batch_size, 3, 16, 16)
