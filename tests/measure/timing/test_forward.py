from types import SimpleNamespace

import pytest
from helpers.small_network import network as small
from helpers.tasks import cell

from measure.domain import variants
from measure.machine import devices
from measure.models import catalog
from measure.models.call import Call
from measure.timing import calls
from measure.timing.sampling import Sampling

torch = pytest.importorskip("torch", reason="models are run with torch")

HASTY = Sampling(warm_up_s=0.0, least_s=0.0, limit_s=0.0)
SMALL, SCORES = catalog.find(["helpers.small_network:network", "helpers.small_network:two_scores"])


class Watched(devices.Cpu):
    """The processor, which notes when its caches are cleared and tf32 is allowed."""

    def __init__(self, kind="cpu"):
        self.kind, self.cleared, self.allowed = kind, 0, []

    def cache_clearer(self):
        def clear():
            self.cleared += 1

        return clear

    def allow_tf32(self, allowed):
        self.allowed.append(allowed)


def prepare(precision="fp32", variant="eager", device=None, model=SMALL):
    return calls.prepare(device or devices.find("cpu"), model, cell(model, 2, precision, variant))


@pytest.mark.parametrize(
    ("precision", "variant", "stored", "computed"),
    [
        ("fp32", "eager", torch.float32, torch.float32),
        ("fp16", "eager", torch.float16, torch.float16),
        ("bf16", "autocast", torch.float32, torch.bfloat16),
    ],
)
def test_a_call_is_the_forward_pass_in_its_precision(precision, variant, stored, computed):
    call = prepare(precision, variant)
    assert {parameter.dtype for parameter in call.network.parameters()} == {stored}
    assert call.inputs[0].dtype == stored
    assert call.inputs[0].shape == (2, 3, 16, 16)
    assert not call.network.training
    assert (call().shape, call().dtype) == ((2, 10), computed)
    assert not torch.is_autocast_enabled("cpu")  # outside the call
    if variant == "eager":
        assert torch.equal(call(), call.network(*call.inputs))


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"precision": "tf32"}, "tf32 is a format of NVIDIA's tensor cores"),
        ({"precision": "tf32", "variant": "autocast"}, "not to tf32"),
        ({"variant": "channels_last", "model": SCORES}, "images, which .*two_scores does not take"),
        ({"variant": "kept_memory", "device": Watched("cuda")}, "torch keeps the memory of cuda in any case"),
    ],
)
def test_what_a_device_or_a_model_cannot_do_is_refused(how, why):
    with pytest.raises(NotImplementedError, match=why):
        prepare(**how)


def test_channels_last_lays_weights_and_images_out_pixel_by_pixel(monkeypatch):
    call = prepare(variant="channels_last")
    assert call.inputs[0].is_contiguous(memory_format=torch.channels_last)
    weight = call.network[0].weight
    assert weight.is_contiguous(memory_format=torch.channels_last)
    assert not weight.is_contiguous()

    class Network(torch.nn.Module):
        def forward(self, image, *, text):
            return image.sum() + text.sum()

    inputs = {"text": torch.ones(2, 5, dtype=torch.int64)}  # among several inputs only the images
    monkeypatch.setattr(catalog, "prepare", lambda *_: Call(Network(), (torch.ones(2, 3, 4, 4),), inputs))
    call = prepare(variant="channels_last")
    assert call.inputs[0].is_contiguous(memory_format=torch.channels_last)
    assert call().item() == 2 * 3 * 4 * 4 + 2 * 5


def test_kept_memory_is_asked_of_the_allocator_before_the_network_is_built(monkeypatch):
    asked = []
    monkeypatch.setattr(variants.platform, "libc_ver", lambda: ("glibc", "2.36"))
    library = SimpleNamespace(mallopt=lambda parameter, value: asked.append(f"keep {parameter} {value}") or 1)
    monkeypatch.setattr(variants.ctypes, "CDLL", lambda name: library)
    original = catalog.prepare
    monkeypatch.setattr(catalog, "prepare", lambda *about: asked.append("build") or original(*about))
    prepare()
    prepare(variant="kept_memory")
    assert asked == ["build", "keep -4 0", "keep -1 -1", "build"]


def test_tf32_is_allowed_for_its_own_cells_only_and_compile_wraps_the_network(monkeypatch):
    device, compiled = Watched(), []
    monkeypatch.setattr(torch, "compile", lambda network: compiled.append(network) or network)
    call = prepare("tf32", "channels_last+compile", device)
    assert call.inputs[0].dtype == torch.float32
    assert call.inputs[0].is_contiguous(memory_format=torch.channels_last)
    prepare("fp32", device=device)
    assert (device.allowed, compiled) == ([True, False], [call.network])


@pytest.mark.parametrize("variant", ["eager", "cold"])
def test_a_forward_pass_is_timed_without_gradients_and_with_caches_as_asked(monkeypatch, variant):
    notes, device = [], Watched()

    def watched(batch_size):
        network, images = small(batch_size)
        network.register_forward_hook(lambda _, inputs, output: notes.append((inputs[0].dtype, output.requires_grad)))
        return network, images

    monkeypatch.setattr("helpers.small_network.network", watched)
    timing = calls.measure(device, SMALL, cell(SMALL, 1, "bf16", variant), HASTY, lambda: None)
    assert len(timing.latencies_s) == 3  # the fewest, since the limit is 0
    assert min(timing.latencies_s) > 0
    assert {each.event_s for each in timing.samples} == {None}  # a processor has no time of its own
    assert set(notes) == {(torch.bfloat16, False)}
    assert device.cleared == (len(notes) if variant == "cold" else 0)  # before each call
    assert timing.block == 1 or variant == "eager"


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
    timing = calls.measure(device, model, cell(model, 4, precision, variant), sampling, lambda: None)
    # The device's marks lie within the host's span.
    assert all(0 < each.event_s <= each.latency_s for each in timing.samples)
