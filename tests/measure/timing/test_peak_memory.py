"""The peak of a step's memory, by the means of each kind of device."""

import pytest

from measure.machine import devices
from measure.timing.calls import measure_peak_byte

torch = pytest.importorskip("torch", reason="traces torch's allocator")


def test_the_peak_of_a_step_holds_what_lay_in_memory_before_and_not_what_it_frees_meanwhile():
    image, earlier = torch.zeros(1000), [torch.zeros(500)]

    def one_after_another():
        sine = image.sin()
        cosine = image.cos()
        del sine
        return cosine.mul(image)

    def free_earlier():
        earlier.clear()
        image.sin()

    cpu = devices.find("cpu")
    # A sine, a cosine and their sum, each of 1000 numbers of 4 bytes, beside the numbers themselves.
    assert measure_peak_byte(lambda: image.sin() + image.cos(), [image], cpu) == 4 * (1000 + 3000)
    assert measure_peak_byte(one_after_another, [], cpu) == 8000
    assert measure_peak_byte(free_earlier, [], cpu) == 4000


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
