"""A user measures networks without the batch in front: packed tokens, graphs, steps before sequences."""

import sys

import pytest

from measure import __main__ as command
from measure.cache.folders import MachineFolder, Workloads, machine_names
from measure.domain.records import Run
from measure.domain.workload_records import Workload

NETWORKS = """
import torch
from torch import nn

import roofwright

class Graphs(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(16, 64, bias=False), nn.Linear(64, 4, bias=False)

    def forward(self, x, edges, batch=None):
        for layer in (self.first, self.last):
            h = layer(x)
            x = torch.zeros_like(h).index_add(0, edges[:, 1], h[edges[:, 0]])
        return x

def unsaid(batch_size):
    nodes = 10 * batch_size
    return Graphs(), (torch.randn(nodes, 16), torch.randint(nodes, (3 * nodes, 2)))

def two_rows(batch_size):
    network, (x, edges) = unsaid(batch_size)
    return network, (x, edges.T)

gcn = roofwright.batch_axis(None)(lambda batch_size: unsaid(batch_size))

def geometric(batch_size):
    network, (x, edges) = unsaid(batch_size)
    return network, {"x": x, "edges": edges, "batch": torch.arange(batch_size).repeat_interleave(10)}

@roofwright.batch_axis(1)
def steps_first(batch_size):
    return nn.Linear(16, 4, bias=False), torch.randn(5, batch_size, 16)
"""
# 20 nodes of 16 to 64 to 4, and 5 steps of 2 sequences of 16 to 4
FLOP = {"packed:gcn": 2 * 20 * (16 * 64 + 64 * 4), "packed:steps_first": 2 * 5 * 2 * 16 * 4}
FLOP["packed:geometric"] = FLOP["packed:gcn"]


@pytest.fixture
def words(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "packed", raising=False)
    (tmp_path / "packed.py").write_text(NETWORKS)
    flags = "--device cpu --threads 1 --batch-sizes 2 --variants eager --max-rounds 1 --sections workload inference"
    return [*flags.split(), "--data", str(tmp_path / "data"), "--models"]


@pytest.mark.usefixtures("forked_workers")
def test_inputs_are_taken_where_the_function_says_so(words, tmp_path):
    assert command.main([*words, *FLOP]) == 0
    rows = Workloads(tmp_path / "data").rows(Workload)
    assert {row.model: row.forward_flop for row in rows} == FLOP
    assert {row.input_shape for row in rows} == {"10x16", "5x16"}
    (name,) = machine_names(tmp_path / "data")
    assert {row.model: row.status for row in MachineFolder(tmp_path / "data", name).rows(Run)} == dict.fromkeys(
        FLOP, "ok"
    )


@pytest.mark.usefixtures("forked_workers")
def test_the_refusal_names_both_ways(words, capsys):
    assert command.main([*words, "packed:unsaid"]) == 2
    output = capsys.readouterr().err
    assert "packed:unsaid returned inputs[0] (20, 16), inputs[1] (60, 2) for batch size 2" in output
    assert "roofwright.batch_axis" in output
    assert command.main([*words, "packed:two_rows"]) == 2  # edges as PyTorch Geometric has them
    output = capsys.readouterr().err
    assert "packed:two_rows returned inputs[0] (40, 16), inputs[1] (2, 120) for batch size 4" in output
    assert "dictionary with `batch`" in output
