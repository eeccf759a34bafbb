from dataclasses import replace

import pytest
from helpers.elsewhere_papers import timed_elsewhere
from helpers.papers import empty, many, tiny, wide
from helpers.profiled_papers import profiled
from helpers.sentences import plain
from helpers.training_papers import trained

from report.analysis.available import Missing
from report.findings import answers

EVERY = [
    answers.chips, answers.workload, answers.benchmarks, answers.roofs, answers.utilisation, answers.training,
    answers.kernels, answers.published,
]  # fmt: skip


def only(paper, kind="cpu"):
    return replace(paper, machines=(paper.machine(kind),))


def test_chips():
    # The median SoC has 30 FLOP/B, the median ASIC 600
    assert plain(answers.chips(wide())) == (
        "Chips promise more arithmetic than their memory can feed: the median SoC needs 30.0 FLOP/B before memory "
        "stops being the limit, the median ASIC 600 FLOP/B."
    )
    assert "too few chips of a kind" in answers.chips(tiny())


def test_workload():
    text = plain(answers.workload(many()))
    # 4 p / (4 p + 1 + k + 1) and 4 p / (4 p + 16 + 16 (k + 1)) of p megabytes of parameters, k from 0 on: the medians
    first = sorted(4 * p / (4 * p + 1 + k + 1) for k, p in enumerate((8, 1, 7, 2, 6, 3, 5, 4)))
    last = sorted(4 * p / (4 * p + 16 + 16 * (k + 1)) for k, p in enumerate((8, 1, 7, 2, 6, 3, 5, 4)))
    medians = [round(100 * (shares[3] + shares[4]) / 2) for shares in (first, last)]
    assert (
        f"parameters are {medians[0]} % of them at batch size 1 in the median model, and {medians[1]} % at 16" in text
    )
    alone = replace(many(), workloads=many().workloads[many().workloads.batch == 1])
    assert plain(answers.workload(alone)) == (
        f"In the median model parameters are {medians[0]} % of the bytes at batch size 1."
    )


def test_flop_that_predict_and_flop_that_do_not():
    # On the CPU 10 ms a GFLOP; on the GPU the root of it, but for two models
    told = plain(answers.benchmarks(many()))
    assert (
        "On the Example CPU (4 cores) FLOP order the models closely (Spearman's ρ is 0.96 at the least), and at batch "
        "size 1 twice the FLOP take twice as long, within the interval." in told
    )
    # 1 3 7 4 5 2 6 8 against 1 to 8: 1 - 6 · 34 / 504
    assert (
        "On the Example GPU FLOP order the models loosely (Spearman's ρ is 0.60 at the least), and at batch size 1 "
        "twice the FLOP take 1.3 times as long." in told
    )


def test_of_too_few_models_the_times_are_told():
    # deep and lean at batch size 1: 2.0 and 63 % of what the roof allows
    text = plain(answers.benchmarks(only(tiny(), "gpu")))
    assert text.startswith("On the Example GPU a batch of 1 takes ")
    assert text.endswith("; 2 models are too few to say what predicts that.")


def test_roofs():
    assert plain(answers.roofs(only(tiny()))) == (
        "The Example CPU (4 cores) delivers 100 GFLOP/s at fp32 and 10.0 GB/s. A kernel that does fewer than 10.0 "
        "FLOP/B waits for memory."
    )


def test_utilisation():
    text = plain(answers.utilisation(only(profiled())))
    # lean does 25 GFLOP/s at 2.5 FLOP/B and so on: broad's 25.5 of 50 GFLOP/s is the median, deep's 125 % the most
    assert "half of 7 cells get less than 51 % of what the roof allows" in text
    assert "The best gets 130 % (deep), the worst 25 % (lean)." in text
    assert text.endswith("The largest part of a latency is most often model bound: in 2 of 3 profiled cells.")
    assert "largest part" not in answers.utilisation(only(tiny()))


def test_training():
    text = plain(answers.training(only(trained())))
    assert (
        "a training step takes 3.6 times as long as its forward pass in the median of 3 models at batch size 8" in text
    )
    assert text.endswith("where its FLOP say 3.0.")  # of three models there is no interval


def test_kernels():
    # Of 2.8, 12.7 and 95.5 ms convolutions take 1.5, 8.3 and 90: 54, 65 and 94 %; linear 21, 19 and 2
    assert plain(answers.kernels(only(profiled()))) == (
        "On the Example CPU (4 cores) convolution takes 65 % of the operators' time in the median of 3 profiled cells, "
        "no other group more than 19 %."
    )


def test_published():
    text = plain(answers.published(timed_elsewhere()))
    assert text.startswith("The Bead 2 gives the median of ")
    # An oak runs three times as fast on Cog 3, but that is no change of software; compiled most run twice as fast
    assert "Of the changes that others timed torch.compile brings most: on the Bead 2 models run" in text


@pytest.mark.parametrize("answer", EVERY)
def test_without_data_a_command_is_named(answer):
    text = answer(empty())
    assert isinstance(text, Missing)
    assert "`python -m measure" in text or "data/chips.csv" in text
