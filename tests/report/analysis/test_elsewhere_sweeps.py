"""Sweeps of batch sizes that others timed, by hand."""

from dataclasses import replace

import pytest
from helpers.papers import empty
from helpers.sweep_papers import SIZES, T4, V100, frame, sweep, swept, timing, with_timings

from report.analysis.available import DataMissingError
from report.analysis.elsewhere_sweeps import printed_steps, saturations, sweeps
from report.analysis.elsewhere_sweeps import swept as swept_of


def test_a_sweep_is_of_one_model_under_one_set_of_conditions():
    rows = [
        *sweep("net", (5, 4, 3, 2, 1))[::-1],
        *sweep("short", (1, 2), (1, 4)),
        *sweep("gap", (1, 2, 3), (1, 4, 64)),  # from 4 to 64 is more than a factor of 4
        *sweep("trained", (1, 2, 3, 4, 5), phase="step"),
        # three batch sizes, each under another condition
        timing("mixed", 1), timing("mixed", 2, autocast="fp16"), timing("mixed", 4, torch="2.4"),
    ]  # fmt: skip
    found = sweeps(frame(rows))
    assert found.model.unique().tolist() == ["net"]
    assert found.batch.tolist() == list(SIZES)
    assert found.throughput_per_s.tolist() == pytest.approx([5, 4, 3, 2, 1])


def test_a_batch_size_that_is_printed_twice_counts_once():
    found = sweeps(frame([*sweep("net", (1, 2, 3), (1, 4, 16)), timing("net", 4, 9.0, file="later.md")]))
    assert found.throughput_per_s.tolist() == pytest.approx([1, 2, 3])


def test_saturation_of_each_model_on_each_device_and_precision():
    found = saturations(swept_of(swept()))
    assert {(row.device, row.computed, row.model): row.batch for row in found.itertuples()} == {
        (T4, "fp32", "timm:ash"): 16,  # 95 of 100
        (T4, "fp16", "timm:ash"): 256,
        (T4, "fp32", "resnet50"): 64,  # 380 of 400
        (T4, "fp16", "resnet50"): 256,
        (V100, "fp32", "resnet50"): 64,  # 988 of 1040
    }
    gains = found[found.computed == "fp32"].set_index(["device", "model"]).gain
    assert gains[T4, "timm:ash"] == pytest.approx(10)
    assert gains[V100, "resnet50"] == pytest.approx(20.8)


def test_printed_steps_beside_the_forward_passes_of_their_device():
    # 64 images in 0.7590 s are 84.32 a second, in 0.1867 s 342.8
    steps = printed_steps(swept(), swept_of(swept())).set_index(["device", "model"])
    assert len(steps) == 6  # three models; nobody swept the L4
    assert steps.throughput_per_s[T4, "resnet50"] == pytest.approx(84.32, rel=1e-4)
    assert steps.inference_per_s[T4, "resnet50"] == pytest.approx(390)  # at fp32, not the 700 at fp16
    assert steps.inference_per_s[V100, "resnet50"] == pytest.approx(1000)
    assert steps.flop_ratio[V100, "resnet50"] == 3  # 1 + 2 GFLOP for 1
    assert steps.inference_per_s[[(T4, "vit"), (V100, "mobilenet")]].isna().all()


def test_without_a_sweep_it_says_what_adds_one():
    for paper in (empty(), with_timings([timing()])):
        with pytest.raises(DataMissingError, match="`python -m measure add-published"):
            swept_of(paper)
    assert sweeps(frame([])).empty
    assert saturations(sweeps(frame([]))).empty
    # a study that printed no step
    none = replace(swept(), training_steps=swept().training_steps.head(0))
    assert printed_steps(none, swept_of(none)).empty
