from types import SimpleNamespace

import pytest
from helpers.tasks import cell

from measure.domain import variants
from measure.machine import devices
from measure.models import catalog
from measure.models.call import Call
from measure.timing import calls
from measure.timing.sampling import Sampling

torch = pytest.importorskip("torch", reason="models are run with torch")

HASTY = Sampling(warm_up_s=0.0, least_s=0.0, limit_s=0.0)


def prepare(name, precision="fp32", variant="eager", device=None):
    model = catalog.find([name])[0]
    return calls.prepare(device or devices.find("cpu"), model, cell(model, 2, precision, variant))


@pytest.mark.parametrize(
    ("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)]
)
def test_weights_and_inputs_are_cast_to_the_precision(precision, dtype):
    call = prepare("squeezenet1_0", precision)
    assert {parameter.dtype for parameter in call.network.parameters()} == {dtype}
    assert call.inputs[0].dtype == dtype
    assert call.inputs[0].shape == (2, 3, 224, 224)
    assert not call.network.training


def test_a_call_is_the_forward_pass():
    call = prepare("squeezenet1_0")
    assert call().shape == (2, 1000)
    assert torch.equal(call(), call.network(*call.inputs))


def test_channels_last_lays_weights_and_images_out_pixel_by_pixel():
    call = prepare("squeezenet1_0", variant="channels_last")
    assert call.inputs[0].is_contiguous(memory_format=torch.channels_last)
    first = call.network.features[0].weight
    assert first.is_contiguous(memory_format=torch.channels_last)
    assert not first.is_contiguous()


def test_kept_memory_is_asked_of_the_allocator_before_the_network_is_built(monkeypatch):
    asked = []
    monkeypatch.setattr(variants.platform, "libc_ver", lambda: ("glibc", "2.36"))
    library = SimpleNamespace(mallopt=lambda parameter, value: asked.append(f"keep {parameter} {value}") or 1)
    monkeypatch.setattr(variants.ctypes, "CDLL", lambda name: library)
    original = catalog.prepare
    monkeypatch.setattr(catalog, "prepare", lambda *about: asked.append("build") or original(*about))
    prepare("squeezenet1_0")
    prepare("squeezenet1_0", variant="kept_memory")
    assert asked == ["build", "keep -4 0", "keep -1 -1", "build"]


def test_a_device_whose_memory_torch_keeps_has_no_such_variant():
    class Gpu(devices.Cpu):
        kind = "cuda"

    with pytest.raises(NotImplementedError, match="torch keeps the memory of cuda in any case"):
        prepare("squeezenet1_0", variant="kept_memory", device=Gpu())


def test_channels_last_is_for_images_alone():
    with pytest.raises(NotImplementedError, match="images, which wav2vec2_base does not take"):
        prepare("wav2vec2_base", variant="channels_last")


def test_channels_last_lays_out_the_images_among_several_inputs(monkeypatch):
    class Network(torch.nn.Module):
        def forward(self, image, *, text):
            return image.sum() + text.sum()

    inputs = {"text": torch.ones(2, 5, dtype=torch.int64)}
    monkeypatch.setattr(catalog, "prepare", lambda *_: Call(Network(), (torch.ones(2, 3, 4, 4),), inputs))
    call = prepare("squeezenet1_0", variant="channels_last")
    assert call.inputs[0].is_contiguous(memory_format=torch.channels_last)
    assert call().item() == 2 * 3 * 4 * 4 + 2 * 5


def test_autocast_computes_in_the_precision_and_stores_in_fp32():
    call = prepare("squeezenet1_0", "bf16", "autocast")
    assert {parameter.dtype for parameter in call.network.parameters()} == {torch.float32}
    assert call.inputs[0].dtype == torch.float32
    assert call().dtype == torch.bfloat16
    assert not torch.is_autocast_enabled("cpu")  # outside the call


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
def test_autocast_to_what_is_stored_is_refused(precision):
    with pytest.raises(NotImplementedError, match=f"not to {precision}"):
        prepare("squeezenet1_0", precision, "autocast")


def test_a_device_without_tf32_refuses_it():
    with pytest.raises(NotImplementedError, match="tf32 is a format of NVIDIA's tensor cores"):
        prepare("squeezenet1_0", "tf32")


def test_tf32_is_allowed_for_its_own_cells_only():
    class Watched(devices.Cpu):
        def __init__(self):
            self.allowed = []

        def allow_tf32(self, allowed):
            self.allowed.append(allowed)

    device = Watched()
    assert prepare("squeezenet1_0", "tf32", device=device).inputs[0].dtype == torch.float32
    prepare("squeezenet1_0", "fp32", device=device)
    assert device.allowed == [True, False]


def test_compile_wraps_the_network(monkeypatch):
    compiled = []

    def wrap(network):
        compiled.append(network)
        return network

    monkeypatch.setattr(torch, "compile", wrap)
    call = prepare("squeezenet1_0", variant="channels_last+compile")
    assert compiled == [call.network]
    assert call.inputs[0].is_contiguous(memory_format=torch.channels_last)
    prepare("squeezenet1_0")
    assert len(compiled) == 1


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
    return calls.measure(device or Watched(), model, cell(model, 1, precision, variant), HASTY, lambda: None)


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
    timing = calls.measure(device, model, cell(model, 4, precision, variant), sampling, lambda: None)
    # The device's marks lie within the host's span.
    assert all(0 < each.event_s <= each.latency_s for each in timing.samples)
