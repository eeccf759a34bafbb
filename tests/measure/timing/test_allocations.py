"""The trace that counted memory is compared with: its arithmetic, and what torch's profiler gives it."""

import pytest

from measure.machine import devices
from measure.timing.allocations import Allocation, peak, peak_byte, traced, without_workspace

torch = pytest.importorskip("torch", reason="traces torch's allocator")


def test_the_peak_is_the_most_that_is_alive_at_once():
    first, second, third = Allocation(5, 0, 20), Allocation(3, 10), Allocation(4, 30, 40)
    # From 10 to 20 there are 5 + 3, from 30 on 3 + 4.
    assert peak([third, second, first]) == (8, [first, second])
    assert peak([second, third]) == (7, [second, third])
    assert peak([]) == (0, [])


def test_memory_that_is_freed_when_other_is_made_is_not_alive_beside_it():
    assert peak([Allocation(5, 0, 10), Allocation(6, 10, 20)])[0] == 6


def test_workspace_is_left_out():
    output, columns = Allocation(5, 0), Allocation(100, 1, 2, "aten::convolution", is_workspace=True)
    assert without_workspace([output, columns]) == [output]


def test_a_step_is_traced_from_allocation_to_release():
    image = torch.zeros(1000)

    def step():
        sine = image.sin()
        cosine = image.cos()
        del sine
        return cosine.mul(image)

    allocations = traced(step, "cpu")
    assert [each.byte for each in sorted(allocations, key=lambda each: each.start_ns)] == [4000, 4000, 4000]
    assert not any(each.is_workspace for each in allocations)
    assert peak(allocations)[0] == 8000  # the product is made when the sine is gone
    assert {each.operator for each in allocations} == {"aten::sin", "aten::cos", "aten::mul"}


def test_what_an_operator_frees_before_it_returns_is_workspace_and_what_it_hands_on_is_not():
    image = torch.zeros(2, 3, 8, 8)
    mean, variance = torch.zeros(3), torch.ones(3)

    def step():
        torch.nn.functional.batch_norm(image, mean, variance, training=True)

    allocations = traced(step, "cpu")
    assert {each.operator for each in allocations} == {"aten::native_batch_norm"}
    workspace = [each.byte for each in allocations if each.is_workspace]
    assert workspace
    assert max(workspace) <= 4 * 3  # sums over the batch, a number a channel
    # The output, and two statistics for the backward pass.
    assert sorted(each.byte for each in without_workspace(allocations)) == [12, 12, 4 * 2 * 3 * 64]


def test_an_operator_that_only_calls_others_has_no_workspace():
    image = torch.zeros(1000)
    allocations = traced(lambda: torch.nn.functional.dropout(image, 0.5), "cpu")
    # The mask is made and dropped within aten::dropout, which has no kernel: it is what a count sees too.
    large = [each for each in allocations if each.byte >= 1000]
    assert len(large) >= 2
    assert not any(each.is_workspace for each in large)
    assert "aten::dropout" not in {each.operator for each in large}


def test_the_peak_of_a_step_holds_what_lay_in_memory_before():
    image = torch.zeros(1000)
    # A sine, a cosine and their sum, each of 1000 numbers of 4 bytes, beside the numbers themselves.
    assert peak_byte(lambda: image.sin() + image.cos(), [image], devices.find("cpu")) == 4 * (1000 + 3000)
    assert peak_byte(lambda: image.sin(), [], devices.find("cpu")) == 4000


def test_an_apple_gpu_has_what_metal_has_given_by_the_end_of_the_step(monkeypatch):
    given, order = [5000], []

    def step():
        order.append("step")
        given.append(7000)  # it is freed again, which torch's allocator keeps to itself

    def empty():
        order.append("empty")
        given[0] = 2000  # weights and inputs; 3000 were left of earlier steps

    monkeypatch.setattr(torch.mps, "empty_cache", empty)
    monkeypatch.setattr(torch.mps, "synchronize", lambda: order.append("synchronize"))
    monkeypatch.setattr(torch.mps, "driver_allocated_memory", lambda: sum(given))
    assert peak_byte(step, [], devices.Mps()) == 9000
    assert order == ["empty", "step", "synchronize"]


@pytest.mark.gpu
def test_the_peak_on_a_gpu_is_the_allocators():
    if "cuda:0" not in devices.available_names():
        pytest.skip("no NVIDIA GPU on this machine")
    device = devices.find("cuda")
    device.prepare(1)
    torch.cuda.empty_cache()
    image = torch.zeros(2**20, device=device.torch_name)
    before = torch.cuda.memory_allocated(device.torch_name)
    assert peak_byte(lambda: image.sin(), [image], device) == before + 2**22
