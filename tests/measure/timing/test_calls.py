"""Forward passes and training steps in all precisions and variants: calls, times and memory."""

import math
from types import SimpleNamespace

import pytest
import torch
from helpers.cells import cell
from helpers.gpu import graph_side
from helpers.small_network import network as small

from measure.domain.models import IMAGE, Model
from measure.machine import devices
from measure.models import catalog
from measure.models.call import cast
from measure.run.worker import classify
from measure.timing import calls, variant_setup
from measure.timing.sampling import Sampling

HASTY = Sampling(warm_up_s=0.0, least_s=0.0, limit_s=0.0)
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


def about(model, precision, variant, phase, batch=2):
    """A model of ``helpers.small_network`` and the cell."""
    (model,) = catalog.find([f"helpers.small_network:{model}"])
    return model, cell(model, batch, precision, variant, phase)


def prepare(precision="fp32", variant="eager", device=CPU, model="network"):
    return calls.prepare(device, *about(model, precision, variant, "inference"))


def step_of(precision="fp32", variant="eager", batch=1):
    return calls.prepare(CPU, *about("two_scores", precision, variant, "step", batch))


def measure_step(model="two_scores", precision="fp32", variant="eager", beat=lambda: None):
    return calls.measure(CPU, *about(model, precision, variant, "step", 1), HASTY, beat)


# Forward passes


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
    timing = calls.measure(device, *about("network", "bf16", variant, "inference"), HASTY, lambda: None)
    assert len(timing.latencies_s) == 3  # the fewest, since the limit is 0
    assert min(timing.latencies_s) > 0
    assert {each.event_s for each in timing.samples} == {None}  # a processor has no time of its own
    assert set(notes) == {(torch.bfloat16, False)}
    assert device.cleared == (len(notes) if variant == "cold" else 0)  # before each call
    assert timing.block == 1 or variant == "eager"


# Training steps


def test_sgd_with_momentum():
    step = step_of()
    step()
    (label,) = (int(tensor) for tensor in step.resident() if not tensor.is_floating_point())
    weights = step.network.weight.detach().flatten()
    # Both scores are 0, so the gradient of the label's is 1/2 - 1, of the other 1/2; the rate is 1/1000.
    assert weights[label].item() == pytest.approx(0.0005)
    assert weights[1 - label].item() == pytest.approx(-0.0005)
    step()
    # Now the label's probability is 1 / (1 + e^-0.001), and 0.9 of the first gradient is added.
    gradient = 0.9 * 0.5 + 1 - 1 / (1 + math.exp(-0.001))
    assert step.network.weight[label].item() == pytest.approx(0.0005 + 0.001 * gradient)


def test_what_stays_in_memory_between_steps():
    step, adam = step_of(batch=3), step_of(variant="adam", batch=3)
    step()
    adam()
    # Two weights and their momentum, three inputs and three labels; or two averages, and the number of the step.
    assert sorted(tensor.numel() for tensor in step.resident()) == [2, 2, 3, 3]
    assert sorted(tensor.numel() for tensor in adam.resident()) == [1, 2, 2, 2, 3, 3]
    # Its first step is rate * g / |g| (D. Kingma and J. Ba, Adam, 2015, algorithm 1), but for epsilon.
    assert adam.network.weight.abs().flatten().tolist() == pytest.approx([0.001, 0.001])


@pytest.mark.parametrize(
    ("precision", "variant", "dtype", "scale"),
    [
        ("bf16", "eager", torch.bfloat16, 1),
        ("bf16", "autocast", torch.float32, 1),
        ("fp16", "autocast", torch.float32, 2**16),  # a GradScaler begins so
    ],
)
def test_stages_use_the_weights_precision_and_fp16_a_scale(precision, variant, dtype, scale):
    step = step_of(precision, variant)
    weight = step.network.weight
    assert step.network.training
    step.forward()
    assert weight.grad is None
    step.backward()
    assert weight.dtype == weight.grad.dtype == dtype
    assert weight.grad.abs().flatten().tolist() == [0.5 * scale] * 2
    assert weight.abs().max() == 0
    step.update()
    assert weight.grad is None
    assert weight.abs().flatten().tolist() == pytest.approx([0.0005, 0.0005], rel=2**-8)
    assert not torch.is_autocast_enabled("cpu")


def flagged(timed):
    return [phase for phase, timing in {"step": timed, **timed.stages}.items() if "skipped" in timing.flags]


def test_the_loss_scale_settles_before_steps_are_timed(monkeypatch):
    scales, sample = [], calls.sample

    def noted(stopwatch, *others):
        scales.append(stopwatch.call.scaler.get_scale())
        return sample(stopwatch, *others)

    monkeypatch.setattr(calls, "sample", noted)
    timed = measure_step("scores_of_1000", "fp16", "autocast")
    # A weight's gradient is 1000 * scale / 2 in fp16 (at most 65504): 64000 at a scale of 2^7.
    assert scales == [2**7]
    assert flagged(timed) == []


def test_steps_that_leave_the_optimiser_out_are_flagged():
    # No gradient is finite, at any scale; without a scale no step is left out.
    assert flagged(measure_step("scores_of_infinity", "fp16", "autocast")) == ["step", "update"]
    assert flagged(measure_step("scores_of_infinity")) == []


def test_a_step_and_its_stages_are_timed_sample_by_sample():
    beats = []
    timed = measure_step(beat=lambda: beats.append(None))
    assert list(timed.stages) == ["forward", "backward", "update"]
    step, *stages = (timing.latencies_s for timing in (timed, *timed.stages.values()))
    assert len(step) == 3  # the fewest, since the limit is 0
    for whole, *parts in zip(step, *stages, strict=True):
        assert min(parts) > 0
        assert sum(parts) == pytest.approx(whole)  # on a processor, which is done when an operator returns
    assert len(beats) > 3 * len(timed.samples) * timed.block  # a sign of life comes between stages
    # Weights and momentum are 2 numbers of 4 bytes each, the input one, the label one of 8 bytes. At most there are
    # besides them scores, their gradient and the weights' gradient, 2 numbers each, and a little for the loss.
    assert 8 + 8 + 4 + 8 + 3 * 8 <= timed.peak_byte < 1024


def test_the_peak_of_memory_leaves_out_what_a_step_frees():
    image = torch.zeros(1000)

    def one_after_another():
        sine = image.sin()
        cosine = image.cos()
        del sine
        return cosine.mul(image)

    # A sine, a cosine and their sum, each of 1000 numbers of 4 bytes, and the numbers themselves.
    assert calls.measure_peak_byte(lambda: image.sin() + image.cos(), [image], CPU) == 4 * (1000 + 3000)
    assert calls.measure_peak_byte(one_after_another, [], CPU) == 8000


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
        calls.prepare(Watched("cuda"), *about("two_scores", "fp32", "cuda_graph", "step"))
    assert classify(caught.value).status == "unsupported"


# Losses


def loss_of(family):
    return calls.Loss(Model("net", "torchvision", family, IMAGE))


def scores(*shape):
    """All alike, so that each of the classes has the same probability."""
    return torch.zeros(shape, requires_grad=True)


@pytest.mark.parametrize(
    ("output", "classes", "shapes"),
    [
        (scores(6, 10), [10], [(6,)]),
        # Segmentation has a label for each pixel, and every output counts.
        ({"out": scores(2, 21, 4, 3), "aux": scores(2, 5, 4, 3)}, [21, 5], [(2, 4, 3), (2, 4, 3)]),
        ((scores(1, 2), torch.ones(1, 7)), [2], [(1,)]),  # an output without a gradient is left out
    ],
)
def test_equal_scores_have_the_log_of_their_number_as_loss(output, classes, shapes):
    loss = loss_of("segmentation")
    assert loss(output).item() == pytest.approx(sum(map(math.log, classes)))
    drawn = list(loss.targets)
    assert [tuple(target.shape) for target in drawn] == shapes
    assert all(0 <= target.min() <= target.max() < count for target, count in zip(drawn, classes, strict=True))
    loss(output)  # targets are drawn once
    assert [id(target) for target in loss.targets] == list(map(id, drawn))


def test_a_sequence_has_a_label_for_each_step():
    loss = loss_of("own")
    output = torch.zeros(2, 5, 7)
    output[..., 3] = 1.0
    output.requires_grad_()
    distance = loss({"scores": output, "length": torch.ones(2), "name": None})
    (labels,) = loss.targets
    assert labels.shape == (2, 5)
    # The class 3 has the score 1 and the six others 0: its probability is e / (e + 6), theirs 1 / (e + 6).
    right = (labels == 3).float().mean().item()
    assert distance.item() == pytest.approx(math.log(math.e + 6) - right)


# Features, and other outputs without classes, are fitted to numbers of their shape.
@pytest.mark.parametrize(
    ("family", "shape"), [("audio", (2, 5, 3)), ("own", ()), ("own", (4,)), ("own", (4, 1)), ("own", (4, 3, 1))]
)
def test_outputs_without_classes_are_fitted_to_numbers(family, shape):
    loss, output = loss_of(family), scores(*shape)
    distance = loss((output, None))
    (target,) = loss.targets
    assert target.shape == output.shape
    assert distance.item() == pytest.approx(target.square().mean().item())
    # The mean of (f - t)^2 over n numbers has the gradient 2 (f - t) / n.
    distance.backward()
    assert torch.allclose(output.grad, -2 * target / target.numel())


def test_outputs_without_a_gradient_and_nested_ones_are_refused():
    parts = [torch.ones(2, 4), torch.ones(3, 4)]
    nested = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
    with pytest.raises(NotImplementedError, match="net has no output that a gradient flows back from"):
        loss_of("plain")(torch.ones(1, 7))
    with pytest.raises(NotImplementedError, match=r"net returns a nested tensor; .*pad it"):
        loss_of("plain")(nested)


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


def test_a_step_with_sparse_gradients_is_timed_with_its_memory():
    timing = measure_step("sparse_words")
    assert timing.samples
    # 1000 words of 4 numbers. Momentum holds the 3 words of a step: 3 numbers of 8 B and 3 x 4 of 4 B
    words, momentum = 1000 * 4 * 4, 3 * 8 + 3 * 4 * 4
    assert words + momentum < timing.peak_byte < 2 * words  # a dense gradient alone would double it
