"""The trace of allocations: its arithmetic, and the events of torch's profiler."""

import pytest

from measure.machine import devices
from measure.timing.allocations import Allocation, measure_peak_byte, peak, trace

torch = pytest.importorskip("torch", reason="traces torch's allocator")


def test_the_peak_is_the_most_that_is_alive_at_once():
    first, second, third = Allocation(5, 0, 20), Allocation(3, 10), Allocation(4, 30, 40)
    # From 10 to 20 there are 5 + 3, from 30 on 3 + 4.
    assert peak([third, second, first]) == (8, [first, second])
    assert peak([second, third]) == (7, [second, third])
    assert peak([]) == (0, [])


def test_memory_that_is_freed_when_other_is_made_is_not_alive_beside_it():
    assert peak([Allocation(5, 0, 10), Allocation(6, 10, 20)])[0] == 6


def test_a_step_is_traced_from_allocation_to_release():
    image = torch.zeros(1000)

    def step():
        sine = image.sin()
        cosine = image.cos()
        del sine
        return cosine.mul(image)

    allocations = trace(step, "cpu")
    assert [each.byte for each in sorted(allocations, key=lambda each: each.start_ns)] == [4000, 4000, 4000]
    assert peak(allocations)[0] == 8000  # the product is made when the sine is gone
    assert {each.operators[0].name for each in allocations} == {"aten::sin", "aten::cos", "aten::mul"}


def test_the_peak_of_a_step_holds_what_lay_in_memory_before():
    image = torch.zeros(1000)
    # A sine, a cosine and their sum, each of 1000 numbers of 4 bytes, beside the numbers themselves.
    assert measure_peak_byte(lambda: image.sin() + image.cos(), [image], devices.find("cpu")) == 4 * (1000 + 3000)
    assert measure_peak_byte(lambda: image.sin(), [], devices.find("cpu")) == 4000


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
    assert measure_peak_byte(step, [], devices.Mps()) == 9000
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
    assert measure_peak_byte(lambda: image.sin(), [image], device) == before + 2**22
