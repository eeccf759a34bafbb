import math

import pytest
from helpers.tasks import cell

from measure.domain.models import Model
from measure.machine import devices
from measure.models import catalog
from measure.timing.sampling import Sampling

torch = pytest.importorskip("torch", reason="networks are trained with torch")
from measure.timing import training  # noqa: E402

NET = Model("net", "torchvision", "plain", (1,))


class Linear(torch.nn.Module):
    """Two scores of one number, at first both 0."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 2, bias=False)
        torch.nn.init.zeros_(self.layer.weight)

    def forward(self, numbers):
        return self.layer(numbers)


@pytest.fixture
def tiny(monkeypatch):
    """A catalog of one tiny network, whose inputs are ones."""
    monkeypatch.setattr("measure.models.catalog.build", lambda model: Linear().eval())
    monkeypatch.setattr(
        "measure.models.catalog.make_inputs",
        lambda model, batch, device, dtype: (torch.ones(batch, 1, device=device, dtype=dtype),),
    )


def prepare(batch=1, precision="fp32", variant="eager"):
    return training.prepare(devices.find("cpu"), NET, cell(NET, batch, precision, variant, "step"))


def label_of(step):
    (label,) = (tensor for tensor in step.resident() if not tensor.is_floating_point())
    return int(label)


def test_sgd_with_momentum(tiny):
    step = prepare()
    step()
    label = label_of(step)
    weights = step.network.layer.weight.detach().flatten()
    # Both scores are 0, so the gradient of the label's is 1/2 - 1, of the other 1/2; the rate is 1/1000.
    assert weights[label].item() == pytest.approx(0.0005)
    assert weights[1 - label].item() == pytest.approx(-0.0005)
    step()
    # Now the label's probability is 1 / (1 + e^-0.001), and 0.9 of the first gradient is added.
    gradient = 0.9 * 0.5 + 1 - 1 / (1 + math.exp(-0.001))
    assert step.network.layer.weight[label].item() == pytest.approx(0.0005 + 0.001 * gradient)


def test_adam_moves_each_weight_by_the_rate_at_first(tiny):
    step = prepare(variant="adam")
    step()
    # Its first step is rate * g / |g| (D. Kingma and J. Ba, Adam, 2015, algorithm 1), but for epsilon.
    assert sorted(step.network.layer.weight.flatten().tolist()) == pytest.approx([-0.001, 0.001])


def test_the_stages_do_each_its_part(tiny):
    step = prepare()
    weight = step.network.layer.weight
    assert step.network.training
    step.forward()
    assert weight.grad is None
    step.backward()
    assert weight.grad.abs().flatten().tolist() == [0.5, 0.5]
    assert weight.abs().max() == 0
    step.update()
    assert weight.grad is None
    assert weight.abs().max() > 0


def test_what_stays_in_memory_between_steps(tiny):
    step = prepare(batch=3)
    step()
    # Two weights and their momentum, three inputs and three labels.
    assert sorted(tensor.numel() for tensor in step.resident()) == [2, 2, 3, 3]
    adam = prepare(batch=3, variant="adam")
    adam()
    # Two averages, and the number of the step.
    assert sorted(tensor.numel() for tensor in adam.resident()) == [1, 2, 2, 2, 3, 3]


@pytest.mark.parametrize(("variant", "dtype"), [("eager", torch.bfloat16), ("autocast", torch.float32)])
def test_precisions(tiny, variant, dtype):
    step = prepare(precision="bf16", variant=variant)
    step.forward()
    step.backward()
    assert step.network.layer.weight.dtype == step.network.layer.weight.grad.dtype == dtype
    step.update()
    assert not torch.is_autocast_enabled("cpu")


def test_autocast_to_fp16_scales_the_loss(tiny):
    step = prepare(precision="fp16", variant="autocast")
    step.forward()
    step.backward()
    # A GradScaler begins at 2^16.
    assert step.network.layer.weight.grad.abs().flatten().tolist() == [2**15, 2**15]
    step.update()
    assert step.network.layer.weight.abs().flatten().tolist() == pytest.approx([0.0005, 0.0005])


def inputs_of(monkeypatch, number):
    monkeypatch.setattr(
        "measure.models.catalog.make_inputs",
        lambda model, batch, device, dtype: (torch.full((batch, 1), number, device=device, dtype=dtype),),
    )


def flagged(timed):
    return [phase for phase, timing in timed.phases.items() if "skipped" in timing.flags]


def test_the_scale_of_the_loss_has_settled_before_steps_are_timed(tiny, monkeypatch):
    inputs_of(monkeypatch, 1000.0)
    scales, sample_stages = [], training.sample_stages

    def noted(stopwatch, *others):
        scales.append(stopwatch.call.scale())
        return sample_stages(stopwatch, *others)

    monkeypatch.setattr(training, "sample_stages", noted)
    timed = measure("autocast", precision="fp16")
    # A weight's gradient is 1000 * scale / 2 in fp16, whose largest number is 65504: 64000 at a scale of 2^7.
    assert scales == [2**7]
    assert flagged(timed) == []


def test_steps_that_leave_the_optimiser_out_are_flagged(tiny, monkeypatch):
    inputs_of(monkeypatch, math.inf)  # no gradient is finite, at any scale
    assert flagged(measure("autocast", precision="fp16")) == ["step", "update"]
    assert flagged(measure()) == []  # without a scale no step is left out


def test_the_scale_of_a_loss_is_waited_for_where_it_has_one_alone(tiny):
    taken = []
    training._settle_scale(prepare(), lambda: taken.append("step"))
    assert taken == []
    endless = prepare(precision="fp16", variant="autocast")
    falling = iter(range(1000, 0, -1))
    endless.scale = lambda: next(falling)
    training._settle_scale(endless, lambda: taken.append("step"))
    assert len(taken) == training.MOST_HALVINGS


def test_a_compiled_network_is_in_train_mode(tiny, monkeypatch):
    compiled = []

    def wrap(network):
        compiled.append(network)
        return network

    monkeypatch.setattr(torch, "compile", wrap)
    step = prepare(variant="compile")
    assert compiled == [step.network]
    assert step.network.training


HASTY = Sampling(warm_up_s=0.0, least_s=0.0, limit_s=0.0)


def measure(variant="eager", device=None, beat=lambda: None, precision="fp32"):
    step = cell(NET, 1, precision, variant, "step")
    return training.measure(device or devices.find("cpu"), NET, step, HASTY, beat)


def test_a_step_and_its_stages_are_timed_sample_by_sample(tiny):
    timed = measure()
    assert list(timed.phases) == ["step", "forward", "backward", "update"]
    step, *stages = (timing.latencies_s for timing in timed.phases.values())
    assert len(step) == 3  # the fewest, since the limit is 0
    for whole, *parts in zip(step, *stages, strict=True):
        assert min(parts) > 0
        assert sum(parts) == pytest.approx(whole)  # on a processor, which is done when an operator returns
    assert timed.executing_s == timed.phases["step"].executing_s > 0


def test_the_memory_of_a_step_is_traced(tiny):
    # Weights and momentum are 2 numbers of 4 bytes each, the input one, the label one of 8 bytes. At most there are
    # besides them scores, their gradient and that of the weights, 2 numbers each, and what the loss makes: little.
    assert 8 + 8 + 4 + 8 + 3 * 8 <= measure().peak_byte < 1024


def test_caches_are_cleared_before_each_step_of_the_cold_variant(tiny):
    class Watched(devices.Cpu):
        cleared = 0

        def cache_clearer(self):
            def clear():
                self.cleared += 1

            return clear

    warm, cold = Watched(), Watched()
    measure(device=warm)
    timed = measure("cold", cold)
    assert warm.cleared == 0
    # The samples, one step each, and at least one of warm-up.
    assert cold.cleared > len(timed.phases["step"].samples)
    assert timed.phases["step"].block == 1


def test_a_sign_of_life_comes_between_stages(tiny):
    beats = []
    timed = measure(beat=lambda: beats.append(None))
    steps = len(timed.phases["step"].samples) * timed.phases["step"].block
    assert len(beats) > 3 * steps


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
    timed = training.measure(device, model, step, Sampling(limit_s=2.0), lambda: None)
    for timing in timed.phases.values():
        assert all(0 < each.event_s <= each.latency_s for each in timing.samples)
    weights = 11_689_512 * (2 if precision == "bf16" else 4)
    assert timed.peak_byte > 3 * weights  # weights, gradients and momentum
