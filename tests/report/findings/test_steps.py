from dataclasses import replace

import pytest
from helpers.papers import tiny
from helpers.sentences import plain
from helpers.training_papers import trained

from report.analysis.available import Missing
from report.findings import steps

FINDINGS = (steps.ratios, steps.reasons, steps.rates, steps.estimates)


@pytest.mark.parametrize("finding", FINDINGS)
def test_without_steps_the_command_is_named(finding):
    assert "--device cpu --sections workload training" in finding(tiny())


def test_ratios():
    text = plain(steps.ratios(trained(gpu=False)))
    # 24 over 10, 1000 over 400 and 98 over 50 ms; 1.9, 1.98 and 8032 over 4080
    assert text == (
        "On the Example CPU (4 cores) at batch size 8, the time of the backward pass over that of the forward pass is "
        "2.40 in the median of 3 models, from 1.96 (broad) to 2.50 (deep); the same of the FLOP is 1.969 in the "
        "median. The two agree within 5.0 %, or within the interval of the former, in 1 of 3 models; in 2 the time "
        "grows more than the FLOP, in none less."
    )


def test_reasons():
    text = plain(steps.reasons(trained()))
    assert (
        "On the Example CPU (4 cores), where the backward pass takes longer than its FLOP say, most of the gap comes "
        "from " in text
    )
    assert "activation in 1" in text
    assert "convolution in 1" in text
    assert (
        "On the Example GPU, where the backward pass takes less than its FLOP say, most of the gap comes from outside "
        "the layers in 1 of 1 model." in text
    )


def test_reasons_that_are_not_known_or_not_needed():
    gpu = trained().machine("gpu")
    alone = replace(trained(), machines=(replace(gpu, profiles=gpu.profiles.iloc[:0]),))
    assert "are not known; python -m measure --device cuda --sections workload operators" in steps.reasons(alone)
    cpu = trained().machine("cpu")
    broad = replace(trained(), machines=(replace(cpu, steps=cpu.steps[cpu.steps.model == "broad"]),))
    assert steps.reasons(broad).endswith("no model has ratios that differ.")


def test_rates():
    text = plain(steps.rates(trained(gpu=False)))
    # Forward 0.8, 1.0 and 0.816 of 100 GFLOP/s; backward 0.633, 0.792 and 0.8196
    assert (
        "achieve in the median, of the peak, 82 % in the forward pass (at most 100 GFLOP/s, 100 %, deep) and 79 % in "
        "the backward pass (at most 82.0 GFLOP/s, 82 %, broad); the backward pass has the higher rate in 1 of 3 models "
        "(broad)." in text
    )


def test_estimates():
    text = plain(steps.estimates(trained(gpu=False)))
    # Steps of 36, 1420 and 160 ms over 23.2, 1192 and 121.12 ms: 1.552, 1.191 and 1.321
    assert "FLOP over peak times 1.32 in the median of 3 models, from 1.19 (deep) to 1.55 (lean)." in text
    # 41.6 over 23.2 and 1234.2 over 1192: 1.793 and 1.035; 36 over 41.6 and 1420 over 1234.2: 0.865 and 1.151
    assert "is 1.41 times FLOP over peak in the median" in text
    assert "is that times 1.01 in the median of 2 models, from 0.865 (lean) to 1.15 (deep)." in text
    # 2 of 36, 20 of 1420 and 12 of 160 ms
    assert "The update takes 5.6 % of a step in the median, at most 7.5 % (broad)." in text


def test_without_a_roof_the_step_has_no_least_time():
    cpu = trained().machine("cpu")
    without = replace(trained(), machines=(replace(cpu, roofs=cpu.roofs.iloc[:0]),))
    assert "--sections roofs" in steps.estimates(without)
    assert not isinstance(steps.ratios(without), Missing)
