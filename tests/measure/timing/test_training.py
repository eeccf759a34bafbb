import math

import pytest
from helpers.tasks import cell

torch = pytest.importorskip("torch", reason="networks are trained with torch")

from measure.domain.models import IMAGE, Model  # noqa: E402
from measure.machine import devices  # noqa: E402
from measure.models import catalog  # noqa: E402
from measure.timing import calls  # noqa: E402
from measure.timing.calls import Loss  # noqa: E402
from measure.timing.sampling import Sampling  # noqa: E402

HASTY = Sampling(warm_up_s=0.0, least_s=0.0, limit_s=0.0)


def network(name="two_scores"):
    (model,) = catalog.find([f"helpers.small_network:{name}"])
    return model


def prepare(batch=1, precision="fp32", variant="eager"):
    return calls.prepare(devices.find("cpu"), network(), cell(network(), batch, precision, variant, "step"))


def measure(model="two_scores", precision="fp32", variant="eager", beat=lambda: None):
    step = cell(network(model), 1, precision, variant, "step")
    return calls.measure(devices.find("cpu"), network(model), step, HASTY, beat)


def test_sgd_with_momentum():
    step = prepare()
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


def test_the_stages_do_each_its_part():
    step = prepare()
    weight = step.network.weight
    assert step.network.training
    step.forward()
    assert weight.grad is None
    step.backward()
    assert weight.grad.abs().flatten().tolist() == [0.5, 0.5]
    assert weight.abs().max() == 0
    step.update()
    assert weight.grad is None
    assert weight.abs().max() > 0


def test_what_stays_in_memory_between_steps():
    step = prepare(batch=3)
    step()
    # Two weights and their momentum, three inputs and three labels.
    assert sorted(tensor.numel() for tensor in step.resident()) == [2, 2, 3, 3]
    adam = prepare(batch=3, variant="adam")
    adam()
    # Two averages, and the number of the step.
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
def test_gradients_have_the_precision_of_the_weights_and_fp16_a_scale(precision, variant, dtype, scale):
    step = prepare(precision=precision, variant=variant)
    step.forward()
    step.backward()
    weight = step.network.weight
    assert weight.dtype == weight.grad.dtype == dtype
    assert weight.grad.abs().flatten().tolist() == [0.5 * scale] * 2
    step.update()
    assert weight.abs().flatten().tolist() == pytest.approx([0.0005, 0.0005], rel=2**-8)
    assert not torch.is_autocast_enabled("cpu")


def flagged(timed):
    return [phase for phase, timing in {"step": timed, **timed.stages}.items() if "skipped" in timing.flags]


def test_the_scale_of_the_loss_has_settled_before_steps_are_timed(monkeypatch):
    scales, sample = [], calls.sample

    def noted(stopwatch, *others):
        scales.append(stopwatch.call.scaler.get_scale())
        return sample(stopwatch, *others)

    monkeypatch.setattr(calls, "sample", noted)
    timed = measure("scores_of_1000", "fp16", "autocast")
    # A weight's gradient is 1000 * scale / 2 in fp16, whose largest number is 65504: 64000 at a scale of 2^7.
    assert scales == [2**7]
    assert flagged(timed) == []


def test_steps_that_leave_the_optimiser_out_are_flagged():
    # No gradient is finite, at any scale; without a scale no step is left out.
    assert flagged(measure("scores_of_infinity", "fp16", "autocast")) == ["step", "update"]
    assert flagged(measure("scores_of_infinity")) == []


def test_the_scale_of_a_loss_is_waited_for_where_it_has_one_alone():
    taken = []
    calls._settle_scale(prepare(), lambda: taken.append("step"))
    assert taken == []
    endless = prepare(precision="fp16", variant="autocast")
    falling = iter(range(1000, 0, -1))
    endless.scaler.get_scale = lambda: next(falling)
    calls._settle_scale(endless, lambda: taken.append("step"))
    assert len(taken) == calls.MOST_HALVINGS


def test_a_step_and_its_stages_are_timed_sample_by_sample():
    beats = []
    timed = measure(beat=lambda: beats.append(None))
    assert list(timed.stages) == ["forward", "backward", "update"]
    step, *stages = (timing.latencies_s for timing in (timed, *timed.stages.values()))
    assert len(step) == 3  # the fewest, since the limit is 0
    for whole, *parts in zip(step, *stages, strict=True):
        assert min(parts) > 0
        assert sum(parts) == pytest.approx(whole)  # on a processor, which is done when an operator returns
    assert len(beats) > 3 * len(timed.samples) * timed.block  # a sign of life comes between stages
    # Weights and momentum are 2 numbers of 4 bytes each, the input one, the label one of 8 bytes. At most there are
    # besides them scores, their gradient and that of the weights, 2 numbers each, and what the loss makes: little.
    assert 8 + 8 + 4 + 8 + 3 * 8 <= timed.peak_byte < 1024


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("precision", "variant"), [("fp32", "eager"), ("fp16", "autocast+adam"), ("bf16", "channels_last")]
)
def test_a_training_step_on_a_gpu(precision, variant):
    if "cuda:0" not in devices.available_names():
        pytest.skip("no NVIDIA GPU on this machine")
    device = devices.find("cuda")
    device.prepare(1)
    (model,) = catalog.find(["resnet18"])
    step = cell(model, 4, precision, variant, "step")
    timed = calls.measure(device, model, step, Sampling(limit_s=2.0), lambda: None)
    for timing in (timed, *timed.stages.values()):
        assert all(0 < each.event_s <= each.latency_s for each in timing.samples)
    weights = 11_689_512 * (2 if precision == "bf16" else 4)
    assert timed.peak_byte > 3 * weights  # weights, gradients and momentum


def loss_of(family):
    return Loss(Model("net", "torchvision", family, IMAGE))


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
def test_the_cross_entropy_of_scores_that_are_all_alike_is_the_logarithm_of_their_number(output, classes, shapes):
    loss = loss_of("segmentation")
    assert loss(output).item() == pytest.approx(sum(map(math.log, classes)))
    drawn = list(loss.targets)
    assert [tuple(target.shape) for target in drawn] == shapes
    for target, count in zip(drawn, classes, strict=True):
        assert not target.is_floating_point()
        assert 0 <= target.min() <= target.max() < count
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


# Features, and what has no classes, are fitted to numbers of their shape.
@pytest.mark.parametrize(
    ("family", "shape"), [("audio", (2, 5, 3)), ("own", ()), ("own", (4,)), ("own", (4, 1)), ("own", (4, 3, 1))]
)
def test_what_has_no_classes_is_fitted_to_numbers(family, shape):
    loss, output = loss_of(family), scores(*shape)
    distance = loss((output, None))
    (target,) = loss.targets
    assert target.shape == output.shape
    assert distance.item() == pytest.approx(target.square().mean().item())
    # The mean of (f - t)^2 over n numbers has the gradient 2 (f - t) / n.
    distance.backward()
    assert torch.allclose(output.grad, -2 * target / target.numel())


def test_outputs_without_a_gradient_are_refused():
    with pytest.raises(NotImplementedError, match="net has no output that a gradient flows back from"):
        loss_of("plain")(torch.ones(1, 7))


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
def test_nested_outputs_are_refused(layout):
    output = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)], layout=layout, requires_grad=True)
    with pytest.raises(NotImplementedError, match=r"net returns a nested tensor; .*pad it"):
        loss_of("plain")(output)
