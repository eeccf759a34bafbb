"""The trace of allocations, and the workspace that its peak leaves out."""

from types import SimpleNamespace

import torch
from memory import Allocation, peak, trace, workspace_of


def test_workspace_is_freed_before_its_operator_returns():
    # mm has kernels and runs from 5 to 20; linear only calls it.
    linear, mm = SimpleNamespace(name="aten::linear", end_time_ns=30), SimpleNamespace(name="aten::mm", end_time_ns=20)
    assert workspace_of(Allocation(8, 5, 20, (linear, mm))) == "aten::mm"
    assert workspace_of(Allocation(8, 5, 25, (linear, mm))) is None
    assert workspace_of(Allocation(8, 5, None, (linear, mm))) is None
    assert workspace_of(Allocation(8, 5, 20, (linear,))) is None
    assert workspace_of(Allocation(8, 5, 20)) is None


def test_the_outputs_of_an_operator_are_no_workspace():
    image = torch.zeros(2, 3, 8, 8)
    mean, variance = torch.zeros(3), torch.ones(3)
    allocations = trace(lambda: torch.nn.functional.batch_norm(image, mean, variance, training=True), "cpu")
    workspace = [each.byte for each in allocations if workspace_of(each) == "aten::native_batch_norm"]
    assert workspace
    assert max(workspace) <= 4 * 3  # sums over the batch, a number a channel
    # The output, and two statistics for the backward pass.
    assert sorted(each.byte for each in allocations if workspace_of(each) is None) == [12, 12, 4 * 2 * 3 * 64]


def test_the_peak_is_the_most_that_is_alive_at_once():
    first, second, third = Allocation(5, 0, 20), Allocation(3, 10), Allocation(4, 30, 40)
    # From 10 to 20 there are 5 + 3, from 30 on 3 + 4. What is freed when other memory is made is not alive besides it.
    assert peak([third, second, first]) == (8, [first, second])
    assert peak([second, third]) == (7, [second, third])
    assert peak([Allocation(5, 0, 10), Allocation(6, 10, 20)])[0] == 6
    assert peak([]) == (0, [])
