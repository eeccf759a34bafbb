from dataclasses import replace

import pandas as pd
import pytest
from helpers.papers import tiny
from helpers.sentences import check_whole_sentences, plain
from helpers.training_papers import trained

from report.analysis.available import Missing
from report.findings import training_memory

FINDINGS = (training_memory.peaks, training_memory.saved, training_memory.freezing, training_memory.larger_batch)


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
    text = plain(training_memory.peaks(trained()))
    # 66 over 60, 210 over 200 and 306 over 306 MB
    assert (
        "On the Example CPU (4 cores) the measured peak of memory over the counted one is 1.05 in the median of 3 "
        "models, from 1.00 (broad) to 1.10 (lean)." in text
    )
    assert "On the Example GPU the memory of a step was not measured." in text
    assert "--sections workload training" in training_memory.peaks(tiny())


def test_saved():
    text = plain(training_memory.saved(tiny()))
    # broad: 4, 7.2 and 0.8 of 12 MB; deep: 32, 39.2 and 0.8 of 72; lean: 4, 35.2 and 0.8 of 40; tokens: attention 80,
    # normalisation 79.2 and 0.8 of 160
    assert (
        "is kept, on average of 4 models, for layers of the kinds activation 37 %, normalisation 26 %, "
        "convolution 22 % and attention 13 %; activation layers keep most in 2 of them." in text
    )


def test_freezing():
    text = plain(training_memory.freezing(tiny()))
    # The head's weight gradients: 816 of 8032, 800 of 79200, 80 of 1520 and 8000 of 64000 MFLOP
    assert "7.7 % of the backward pass's FLOP remain in the median of 4 models, at most 13 % (tokens)" in text
    # Steps: 4896 of 12112, 40800 of 119200, 880 of 2320 and 40000 of 96000 MFLOP
    assert "a step takes 39 % of its FLOP" in text
    # Inputs of heads, traffic less parameters and output: 23.2 of 12, 11.2 of 72, 15.2 of 40 and 15.2 of 160 MB
    assert "only that layer's input is needed, 27 % of their bytes in the median" in text
    # Parameters of heads: 96 of 100, 2 of 40, 3 of 4 and 48 of 80 MB
    assert "of gradients and momentum 68 %." in text


def test_larger_batch():
    text = plain(training_memory.larger_batch(grown()))
    assert "A batch of 128 in place of 8 takes 12.0 times the memory in the median of 4 models" in text
    # Parameters, gradients and momentum: 300 of 306, 120 of 200, 12 of 60 and 240 of 420 MB
    assert "59 % of the peak at 8 in the median and at most 98 %, do not grow" in text
    # Bytes of an input, update's among them: broad (780 * 12 + 500) / 16 over 780 + 500, deep (660 * 12 + 200) / 16
    # over 660 + 200, lean (396 * 12 + 20) / 16 over 416, tokens (2160 * 12 + 400) / 16 over 2560: 0.481, 0.590, 0.717
    # and 0.643
    assert "a step moves 38 % fewer bytes for it in the median, at most 52 % (broad)." in text


def test_a_larger_batch_that_was_not_counted():
    text = training_memory.larger_batch(tiny())
    assert isinstance(text, Missing)
    assert "batch size above 8 has been counted; python -m measure --sections workload --batch-sizes 32" in text
