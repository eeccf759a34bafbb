"""The work of a step that torch's profiler records of the host, against the counter of models."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.profiler import profile
from torch.utils.checkpoint import checkpoint

from measure.counting.count import count_network
from measure.traces import reading
from measure.traces.summary import summarise


class Small(nn.Module):
    """Convolutions, one of them depthwise, normalisations, pooling, attention with a norm before it, linear layers."""

    def __init__(self, repeats=False):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2))
        self.spread = nn.Conv2d(16, 16, 3, groups=16)
        self.norm, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)
        self.head = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 10))
        self.repeats = repeats

    def forward(self, images):
        x = self.spread(self.stem(images)).flatten(2).transpose(1, 2)
        x = x + (checkpoint(self.attend, x, use_reentrant=False) if self.repeats else self.attend(x))
        return self.head(x.mean(1))

    def attend(self, x):
        heads = (each.unflatten(2, (4, 4)).transpose(1, 2) for each in self.qkv(self.norm(x)).chunk(3, dim=2))
        return self.out(functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2))


def total(rows, stage, column):
    return sum(getattr(row, column) or 0 for row in rows if row.stage == stage)


@pytest.mark.parametrize("repeats", [False, True])
def test_a_training_step(tmp_path, repeats):
    with torch.device("meta"):
        counted, _, _ = count_network(Small(), [torch.empty(2, 3, 32, 32)])
    with profile(record_shapes=True) as profiler:
        output = Small(repeats)(torch.randn(2, 3, 32, 32))
        output.backward(torch.ones_like(output))
    profiler.export_chrome_trace(str(tmp_path / "t.json"))
    rows = summarise(*reading.read(tmp_path / "t.json")).operators
    assert total(rows, "forward", "flop") == counted["forward_flop"]
    assert total(rows, "backward", "flop") == counted["backward_flop"]
    assert total(rows, "backward", "other_flop") == counted["backward_other_flop"]
    again = total(rows, "backward", "recompute_flop") - counted["recompute_flop"]
    # 2 images of 32 x 32 become 25 tokens of 16 each: 15 x 15, 7 x 7, 5 x 5. Queries, keys and values, and attention of
    # 4 heads of 4, run again.
    products = 2 * 2 * 25 * 16 * 48 + 2 * (2 * 2 * 4 * 25 * 25 * 4)
    assert (again >= products) if repeats else again == 0
    kinds = {row.layer_kind for row in rows if row.flop}
    assert kinds == {"convolution", "depthwise convolution", "attention", "linear"}
