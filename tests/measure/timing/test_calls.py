"""Calls in all precisions and variants, their memory, and graphs of them; ``test_steps.py`` has training steps."""

from types import SimpleNamespace

import pytest
import torch
from helpers.cells import HASTY, cell, small_cell
from helpers.gpu import graph_side
from helpers.small_network import network as small

from measure.machine import devices
from measure.models import catalog
from measure.models.call import cast
from measure.run.worker import classify
from measure.timing import calls, variant_setup
from measure.timing.sampling import Sampling

PIXELS = torch.channels_last


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


CPU = devices.find("cpu")


def prepare(precision="fp32", variant="eager", device=CPU, model="network"):
    return calls.prepare(device, *small_cell(model, precision, variant, "inference"))


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
    assert (call.inputs[0].dtype, call.inputs[0].shape) == (stored, (2, 3, 16, 16))
    assert not call.network.training
    assert (call().shape, call().dtype) == ((2, 10), computed)
    assert not torch.is_autocast_enabled("cpu")  # outside the call


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"precision": "tf32"}, "tf32 is a format of NVIDIA's tensor cores"),
        ({"variant": "channels_last", "model": "two_scores"}, "images, which .*two_scores does not take"),
        ({"variant": "kept_memory", "device": Watched("cuda")}, "torch keeps the memory of cuda in any case"),
    ],
)
def test_a_cell_beyond_its_device_or_model_is_refused(how, why):
    with pytest.raises(NotImplementedError, match=why):
        prepare(**how)


def test_channels_last_lays_weights_and_images_out_by_pixel():
    call = prepare(variant="channels_last")
    weight = call.network[0].weight
    assert call.inputs[0].is_contiguous(memory_format=PIXELS)
    assert (weight.is_contiguous(memory_format=PIXELS), weight.is_contiguous()) == (True, False)


def test_kept_memory_is_requested_before_the_network_is_built(monkeypatch):
    events = []
    monkeypatch.setattr(variant_setup.platform, "libc_ver", lambda: ("glibc", "2.36"))
    keep = SimpleNamespace(mallopt=lambda *values: events.append(values) or 1, malloc=None)
    monkeypatch.setattr(variant_setup.ctypes, "CDLL", lambda name: keep)
    build = catalog.prepare
    monkeypatch.setattr(catalog, "prepare", lambda *about: events.append("build") or build(*about))
    prepare()
    prepare(variant="kept_memory")
    assert events == ["build", (-4, 0), (-1, -1), "build"]


def test_tf32_is_allowed_for_its_own_cells_only(monkeypatch):
    device, compiled = Watched(), []
    monkeypatch.setattr(torch, "compile", lambda network: compiled.append(network) or network)
    call = prepare("tf32", "channels_last+compile", device)
    assert call.inputs[0].dtype == torch.float32
    assert call.inputs[0].is_contiguous(memory_format=PIXELS)
    prepare("fp32", device=device)
    assert (device.allowed, compiled) == ([True, False], [call.network])


@pytest.mark.parametrize("variant", ["eager", "cold"])
def test_a_forward_pass_has_no_gradients_and_cold_caches(monkeypatch, variant):
    notes, device = [], Watched()

    def watched(batch_size):
        network, images = small(batch_size)
        network.register_forward_hook(lambda _, inputs, output: notes.append((inputs[0].dtype, output.requires_grad)))
        return network, images

    monkeypatch.setattr("helpers.small_network.network", watched)
    timing = calls.measure(device, *small_cell("network", "bf16", variant, "inference"), HASTY, lambda: None)
    assert len(timing.latencies_s) == 3  # the fewest, since the limit is 0
    assert min(timing.latencies_s) > 0
    assert {each.event_s for each in timing.samples} == {None}  # a processor has no time of its own
    assert set(notes) == {(torch.bfloat16, False)}
    assert device.cleared == (len(notes) if variant == "cold" else 0)  # before each call
    assert timing.block == 1 or variant == "eager"


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("phase", "precision", "variant"),
    [
        ("inference", "fp32", "eager"), ("inference", "fp32", "cold"), ("inference", "fp32", "channels_last"),
        ("inference", "fp16", "autocast"), ("step", "fp32", "eager"), ("step", "fp16", "autocast+adam"),
        ("step", "bf16", "channels_last"),
    ],
)  # fmt: skip
def test_calls_on_a_gpu(gpu, phase, precision, variant):
    gpu.prepare(1)
    assert not torch.backends.cudnn.allow_tf32
    (model,) = catalog.find(["resnet18"])
    timed = calls.measure(gpu, model, cell(model, 4, precision, variant, phase), Sampling(limit_s=2.0), lambda: None)
    for timing in (timed, *(timed.stages or {}).values()):  # the device's marks lie within the host's span
        assert all(0 < each.event_s <= each.latency_s for each in timing.samples)
    if phase == "step":
        weights = 11_689_512 * (2 if precision == "bf16" else 4)
        assert timed.peak_byte > 3 * weights  # weights, gradients and momentum
    torch.cuda.empty_cache()
    image = torch.zeros(2**20, device=gpu.torch_name)
    before = torch.cuda.memory_allocated(gpu.torch_name)
    assert calls.measure_peak_byte(lambda: image.sin(), [image], gpu) == before + 2**22


@pytest.mark.gpu
def test_the_peak_of_a_cold_step_leaves_out_the_buffer_that_clears_the_caches(gpu):
    gpu.prepare(1)
    (model,) = catalog.find(["squeezenet1_0"])
    warm, cold = (
        calls.measure(gpu, model, cell(model, 2, variant=variant, phase="step"), HASTY, lambda: None).peak_byte
        for variant in ("eager", "cold")
    )
    assert abs(cold - warm) < gpu.cache_clearer()().untyped_storage().nbytes() / 10


# Graphs of calls


@pytest.fixture
def graphs(monkeypatch):
    """The double's launches, which its graphs capture, in torch's place."""
    launches = graph_side.Launches()
    parts = {"Stream": graph_side.Stream, "current_stream": graph_side.Stream, "CUDAGraph": graph_side.Graph}
    for name, part in {**parts, "stream": graph_side.stream, "graph": launches.capture}.items():
        monkeypatch.setattr(torch.cuda, name, part)
    return launches


def test_a_graph_is_captured_once_and_then_replayed(graphs, monkeypatch):
    replayed, done = [], []
    monkeypatch.setattr(graph_side.Graph, "replay", lambda graph: replayed.append(graph))
    call = prepare(device=Watched("cuda"), variant="cuda_graph")
    call.network.register_forward_hook(lambda *_: done.append(graphs.captured is not None))
    outputs = [call() for _ in range(5)]
    assert done == [False, False, False, True]  # three calls to warm up, and the captured one
    assert len(replayed) == 5
    assert all(output is outputs[0] for output in outputs)
    assert outputs[0].shape == (2, 10)
    assert list(call.stages.values()) == [call]


def test_a_graph_holds_what_autocast_casts(graphs, monkeypatch):
    monkeypatch.setattr(graph_side.Graph, "replay", lambda _: None)
    call, casts = calls.Replay(prepare("bf16", "autocast")), []
    call.network.register_forward_hook(lambda *_: casts.append(torch.is_autocast_enabled("cpu")))
    call()
    assert casts == [True] * 4
    assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("problem", ["waits", "reads", "allocates", "fails"])
def test_a_call_that_a_graph_cannot_hold_is_unsupported_and_named(graphs, problem):
    def call():
        if problem == "waits":
            graphs.wait()
        elif graphs.captured is not None and problem == "reads":
            torch.zeros(2).item()
        elif graphs.captured is not None and problem == "fails":
            raise ValueError("a fourth call")
        elif graphs.captured is not None:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    with pytest.raises((RuntimeError, ValueError)) as caught:
        calls.without_gradients(lambda: calls.capture(call))
    failure = classify(caught.value)
    expected = {
        "waits": ("unsupported", "CUDA error: operation not permitted when stream is capturing"),  # not its end's
        "reads": ("unsupported", "a CUDA graph cannot capture 'torch.zeros(2).item()' (test_calls.py, line "),
        "allocates": ("oom", "CUDA out of memory"),
        "fails": ("error", "ValueError: a fourth call"),  # of the network's own
    }
    assert failure.status == expected[problem][0]
    assert expected[problem][1] in failure.reason


def test_a_training_step_is_not_captured():
    with pytest.raises(NotImplementedError, match="of a forward pass, not of a training step") as caught:
        calls.prepare(Watched("cuda"), *small_cell("two_scores", "fp32", "cuda_graph", "step"))
    assert classify(caught.value).status == "unsupported"


class Packed(torch.Tensor):
    """Weights that refuse to be cast, as torchao's quantised ones do."""

    __tensor_flatten__ = __tensor_unflatten__ = None

    def to(self, *_, **__):
        raise NotImplementedError


def test_weights_that_refuse_to_be_cast_are_timed_as_they_are():
    layer = torch.nn.Linear(8, 4, bias=False)
    layer.weight = torch.nn.Parameter(torch.full((4, 8), 0.5).as_subclass(Packed), requires_grad=False)
    cast(layer, torch.float16)
    assert layer.weight.dtype == torch.float32
    assert torch.equal(layer(torch.ones(2, 8)), torch.full((2, 4), 4.0))  # 8 products of 1 and 0.5
