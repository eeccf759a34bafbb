from dataclasses import replace

import pandas as pd
import pytest
from helpers.papers import tiny
from helpers.sentences import check_whole_sentences, plain
from helpers.training_papers import trained

from report.analysis.available import Missing
from report.findings import training

FINDINGS = (training.time_ratios, training.reasons, training.rates, training.estimates)


@pytest.mark.parametrize("finding", FINDINGS)
def test_without_steps_the_command_is_named(finding):
    assert "--device cpu --sections workload training" in finding(tiny())


def test_ratios():
    text = plain(training.time_ratios(trained(gpu=False)))
    # 24 over 10, 1000 over 400 and 98 over 50 ms; 1.9, 1.98 and 8032 over 4080
    assert text == (
        "On the Example CPU (4 cores) at batch size 8, the time of the backward pass over that of the forward pass is "
        "2.40 in the median of 3 models. The ends are 1.96 (broad) and 2.50 (deep). That of the FLOP is 1.969 in "
        "the median. The two agree within 5.0 %, or within the interval of the former, in 1 of 3 models. In 2 the time "
        "grows more than the FLOP, in none less."
    )


def test_reasons():
    text = plain(training.reasons(trained()))
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
    assert "are not known; `python -m measure --device cuda --sections workload operators" in training.reasons(alone)
    cpu = trained().machine("cpu")
    broad = replace(trained(), machines=(replace(cpu, steps=cpu.steps[cpu.steps.model == "broad"]),))
    assert training.reasons(broad).endswith("no model has ratios that differ.")


def test_rates():
    text = plain(training.rates(trained(gpu=False)))
    # Forward 0.8, 1.0 and 0.816 of 100 GFLOP/s; backward 0.633, 0.792 and 0.8196
    assert (
        "achieve in the median, of the peak, 82 % in the forward pass (at most 100 %, deep) and 79 % in the backward "
        "pass (at most 82 %, broad). The backward pass has the higher rate in 1 of 3 models (broad)." in text
    )


def test_estimates():
    text = plain(training.estimates(trained(gpu=False)))
    # Steps of 36, 1420 and 160 ms over 23.2, 1192 and 121.12 ms: 1.552, 1.191 and 1.321
    assert "FLOP over peak times 1.32 in the median of 3 models. The ends are 1.19 (deep) and 1.55 (lean)." in text
    # 41.6 over 23.2 and 1234.2 over 1192: 1.793 and 1.035; 36 over 41.6 and 1420 over 1234.2: 0.865 and 1.151
    assert "is 1.41 times FLOP over peak in the median" in text
    assert "is that times 1.01 in the median of 2 models. The ends are 0.865 (lean) and 1.15 (deep)." in text
    # 2 of 36, 20 of 1420 and 12 of 160 ms
    assert "The update takes 5.6 % of a step in the median, at most 7.5 % (broad)." in text


def test_without_a_roof_the_step_has_no_least_time():
    cpu = trained().machine("cpu")
    without = replace(trained(), machines=(replace(cpu, roofs=cpu.roofs.iloc[:0]),))
    assert "--sections roofs" in training.estimates(without)
    assert not isinstance(training.time_ratios(without), Missing)


FINDINGS = (training.peaks, training.saved, training.freezing, training.larger_batch)


def grown():
    """The tiny paper with the training of batch size 8 again at 128: a peak 12 times as high, 12 times the traffic."""
    small = tiny().workloads[(tiny().workloads.batch == 8) & (tiny().workloads.precision == "fp32")]
    large = small.assign(
        batch=128.0,
        training_peak_byte=small.training_peak_byte * 12,
        traffic_byte=small.traffic_byte * 12,
        backward_traffic_byte=small.backward_traffic_byte * 12,
    )
    return replace(tiny(), workloads=pd.concat([tiny().workloads, large], ignore_index=True))


@pytest.mark.parametrize("finding", FINDINGS)
def test_every_finding_is_whole_sentences(finding):
    paper = replace(trained(), workloads=grown().workloads)
    text = finding(paper)
    check_whole_sentences(text)


def test_peaks():
    text = plain(training.peaks(trained()))
    # 66 over 60, 210 over 200 and 306 over 306 MB
    assert (
        "On the Example CPU (4 cores) the measured peak of memory over the counted one is 1.05 in the median of 3 "
        "models. The ends are 1.00 (broad) and 1.10 (lean)." in text
    )
    assert "On the Example GPU the memory of a step was not measured." in text
    assert "--sections workload training" in training.peaks(tiny())


def test_of_an_apple_gpu_it_is_said_what_its_memory_is():
    paper = trained(gpu=False)
    cpu = paper.machine("cpu")
    apple = replace(cpu, environment=replace(cpu.environment, device="mps"))
    text = plain(training.peaks(replace(paper, machines=(apple,))))
    assert "the memory that Metal has given by the end of a step over the counted peak is 1.05 in the median" in text


def test_saved():
    text = plain(training.saved(tiny()))
    # broad: 4, 7.2 and 0.8 of 12 MB; deep: 32, 39.2 and 0.8 of 72; lean: 4, 35.2 and 0.8 of 40; tokens: attention 80,
    # normalisation 79.2 and 0.8 of 160
    assert (
        "On average of 4 models, most of what is saved for the backward pass is kept for layers of the kinds "
        "activation (37 %) and normalisation (26 %). In 2 of them activation layers keep most." in text
    )


def test_freezing():
    text = plain(training.freezing(tiny()))
    # The head's weight gradients: 816 of 8032, 800 of 79200, 80 of 1520 and 8000 of 64000 MFLOP
    assert "7.7 % of the backward pass's FLOP remain in the median of 4 models, at most 13 % (tokens)" in text
    # Steps: 4896 of 12112, 40800 of 119200, 880 of 2320 and 40000 of 96000 MFLOP
    assert "A step then takes 39 % of its FLOP." in text
    # Inputs of heads, traffic less parameters and output: 23.2 of 12, 11.2 of 72, 15.2 of 40 and 15.2 of 160 MB
    assert "only that layer's input is needed, 27 % of their bytes in the median" in text
    # Parameters of heads: 96 of 100, 2 of 40, 3 of 4 and 48 of 80 MB
    assert "of gradients and momentum 68 %." in text


def test_freezing_of_a_frozen_network():
    def with_flop(names):
        paper = tiny()
        return replace(
            paper,
            workloads=paper.workloads.assign(
                backward_flop=paper.workloads.backward_flop.where(~paper.workloads.model.isin(names), 0)
            ),
        )

    # Without tokens: 816 of 8032, 800 of 79200 and 80 of 1520 MFLOP
    text = plain(training.freezing(with_flop(["tokens"])))
    assert "5.3 % of the backward pass's FLOP remain in the median of 3 models, at most 10 % (broad)" in text
    everyone = set(tiny().workloads.model)
    assert "No model that was counted multiplies in its backward pass." in plain(training.freezing(with_flop(everyone)))


def test_larger_batch():
    text = plain(training.larger_batch(grown()))
    assert "A batch of 128 in place of 8 takes 12.0 times the memory in the median of 4 models" in text
    # Parameters, gradients and momentum: 300 of 306, 120 of 200, 12 of 60 and 240 of 420 MB
    assert "they are 59 % of the peak at 8 in the median, at most 98 %." in text
    # Bytes of an input, update's among them: broad (780 * 12 + 500) / 16 over 780 + 500, deep (660 * 12 + 200) / 16
    # over 660 + 200, lean (396 * 12 + 20) / 16 over 416, tokens (2160 * 12 + 400) / 16 over 2560: 0.481, 0.590, 0.717
    # and 0.643
    assert "a step moves 38 % fewer bytes for it in the median, at most 52 % (broad)." in text


def test_a_larger_batch_that_was_not_counted():
    text = training.larger_batch(tiny())
    assert isinstance(text, Missing)
    assert "batch size above 8 has been counted; `python -m measure --sections workload --batch-sizes 32" in text
