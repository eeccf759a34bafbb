"""A GPU and its host: seven networks with one input, and two training steps at two precisions, computed by hand."""

from dataclasses import replace

import pandas as pd
import pytest
from helpers.world import world

from report import host
from report.paper import Paper


def paper() -> Paper:
    """The time of an input is 20 us for each operator; FLOP run the other way, and larger batches do not count."""
    numbers = range(1, 8)
    cells = [
        {"model": f"net{k}", "batch": batch, "precision": precision, "status": "ok", "flags": ""}
        | {"forward_flop": (9 - k) * 1e9, "latency_s": k * 20e-6 * slower * batch}
        | {"latency_low_s": None, "latency_high_s": None}
        for k in numbers for batch in (1, 64) for precision, slower in (("bf16", 10), ("fp32", 30))
    ]  # fmt: skip
    operators = [
        {"model": f"net{k}", "batch": batch, "precision": "fp32", "stage": stage, "calls": 5 * k}
        for k in numbers for batch in (1, 64) for stage in ("inference", "inference", "backward")
    ]  # fmt: skip
    profiles = [
        {"model": model, "batch": 32, "precision": precision, "phase": phase, "status": "ok", "plain_s": plain,
         "busy_s": busy, "load": 0.2 if model == "alexnet" else 0.05}
        for model, phase, precision, plain, busy in (
            ("resnet18", "step", "fp32", 0.030, 0.024), ("resnet18", "step", "bf16", 0.025, 0.006),
            ("vgg16", "step", "fp32", 0.060, 0.060), ("vgg16", "step", "bf16", 0.020, 0.020),
            ("vgg16", "inference", "fp32", 0.060, 0.060), ("vgg16", "inference", "bf16", 0.060, 0.001),
            ("alexnet", "step", "fp32", 0.060, 0.060), ("alexnet", "step", "bf16", 0.060, 0.001),
        )
    ]  # fmt: skip
    gpu = world().machine("gpu")
    gpu = replace(gpu, cells=pd.DataFrame(cells), profiles=pd.DataFrame(profiles))
    return replace(world(), machines=(gpu,), operators=pd.DataFrame(operators))


def test_single_inputs_are_held_against_operators_called():
    found = host.of(paper()).single
    assert (found.precision.text, found.networks.number) == ("bf16", 7)
    assert (found.calls.number, found.flop.number) == pytest.approx((1, -1))
    assert found.per_call.number == pytest.approx(20e-6)  # k * 200 us over 2 * 5 * k operators


def test_the_step_whose_host_hides_most_of_the_gain_is_chosen():
    found = host.of(paper()).lowered
    assert found.network.text == "ResNet-18"
    # 24 over 6 ms, 30 over 25 ms, 6 of 25 ms; the second step gains 3 in both; other programs disturbed the third
    assert (found.kernels.number, found.step.number, found.busy.number) == pytest.approx((4, 1.2, 0.24))


def test_without_a_gpu_there_is_none():
    assert host.of(replace(world(), machines=())).single.device.is_missing
