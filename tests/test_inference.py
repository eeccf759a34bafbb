import pytest

from measure import catalog, devices, inference
from measure.timing import Sampling

torch = pytest.importorskip("torch", reason="models are measured with torch")


@pytest.fixture
def hasty(monkeypatch):
    monkeypatch.setattr(inference, "SAMPLING", Sampling(warm_up_s=0.0, least_s=0.0, limit_s=0.0))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_forward_pass_is_timed_in_its_precision_without_gradients(hasty, monkeypatch, precision):
    pytest.importorskip("torchvision", reason="the model is torchvision's")
    seen = []
    build = catalog.build

    def watched(model):
        network = build(model)
        network.register_forward_hook(
            lambda _, inputs, output: seen.append((inputs[0].dtype, output.dtype, output.requires_grad))
        )
        return network

    monkeypatch.setattr(inference, "build", watched)
    model = catalog.find(["squeezenet1_0"])[0]
    timing = inference.measure(devices.find("cpu"), model, 1, precision, lambda: None)
    assert len(timing.latencies_s) == 3  # the fewest, since the limit is 0
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    assert set(seen) == {(dtype, dtype, False)}


@pytest.mark.gpu
def test_a_forward_pass_on_a_gpu(hasty):
    if "cuda:0" not in devices.available_names():
        pytest.skip("no NVIDIA GPU on this machine")
    device = devices.find("cuda")
    device.prepare(1)
    assert not torch.backends.cudnn.allow_tf32
    timing = inference.measure(device, catalog.find(["resnet18"])[0], 4, "fp32", lambda: None)
    assert min(timing.latencies_s) > 0
