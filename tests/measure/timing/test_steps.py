"""Training steps: their stages, times and memory."""

import math

import pytest
import torch
from helpers.cells import HASTY, small_cell

from measure.machine import devices
from measure.timing import calls

CPU = devices.find("cpu")


def step_of(precision="fp32", variant="eager", batch=1):
    return calls.prepare(CPU, *small_cell("two_scores", precision, variant, "step", batch))


def measure_step(model="two_scores", precision="fp32", variant="eager", beat=lambda: None):
    return calls.measure(CPU, *small_cell(model, precision, variant, "step", 1), HASTY, beat)


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


def test_a_step_with_sparse_gradients_is_timed_with_its_memory():
    timing = measure_step("sparse_words")
    assert timing.samples
    # 1000 words of 4 numbers. Momentum holds the 3 words of a step: 3 numbers of 8 B and 3 x 4 of 4 B
    words, momentum = 1000 * 4 * 4, 3 * 8 + 3 * 4 * 4
    assert words + momentum < timing.peak_byte < 2 * words  # a dense gradient alone would double it
