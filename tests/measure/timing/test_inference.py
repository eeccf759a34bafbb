import pytest
from helpers.tasks import cell

from measure.machine import devices
from measure.models import catalog
from measure.timing import inference
from measure.timing.sampling import Sampling

torch = pytest.importorskip("torch", reason="models are measured with torch")

HASTY = Sampling(warm_up_s=0.0, least_s=0.0, limit_s=0.0)


class Watched(devices.Cpu):
    """The processor, which notes when its caches are cleared."""

    def __init__(self):
        self.cleared = 0

    def cache_clearer(self):
        def clear():
            self.cleared += 1

        return clear


@pytest.fixture
def seen(monkeypatch):
    """What a small model's calls got and gave."""
    pytest.importorskip("torchvision", reason="the model is torchvision's")
    notes = []
    build = catalog.build

    def watched(model):
        network = build(model)
        network.register_forward_hook(
            lambda _, inputs, output: notes.append((inputs[0].dtype, output.dtype, output.requires_grad))
        )
        return network

    monkeypatch.setattr("measure.models.catalog.build", watched)
    return notes


def measure(precision="fp32", variant="eager", device=None):
    model = catalog.find(["squeezenet1_0"])[0]
    return inference.measure(device or Watched(), model, cell(model, 1, precision, variant), HASTY, lambda: None)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_forward_pass_is_timed_in_its_precision_without_gradients(seen, precision):
    timing = measure(precision)
    assert len(timing.latencies_s) == 3  # the fewest, since the limit is 0
    assert min(timing.latencies_s) > 0
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    assert set(seen) == {(dtype, dtype, False)}


def test_caches_are_cleared_in_the_cold_variant_alone(seen):
    warm, cold = Watched(), Watched()
    measure(device=warm)
    seen.clear()
    timing = measure(variant="cold", device=cold)
    assert warm.cleared == 0
    assert timing.block == 1
    assert cold.cleared == len(seen)  # before each call


def test_a_processor_has_no_time_of_its_own_beside_the_hosts(seen):
    assert {each.event_s for each in measure().samples} == {None}


@pytest.mark.gpu
@pytest.mark.parametrize("variant", ["eager", "cold", "channels_last", "autocast"])
def test_a_forward_pass_on_a_gpu(variant):
    if "cuda:0" not in devices.available_names():
        pytest.skip("no NVIDIA GPU on this machine")
    device = devices.find("cuda")
    device.prepare(1)
    assert not torch.backends.cudnn.allow_tf32
    precision = "fp16" if variant == "autocast" else "fp32"
    sampling = Sampling(limit_s=2.0)
    (model,) = catalog.find(["resnet18"])
    timing = inference.measure(device, model, cell(model, 4, precision, variant), sampling, lambda: None)
    # The device's marks lie within the host's span.
    assert all(0 < each.event_s <= each.latency_s for each in timing.samples)
