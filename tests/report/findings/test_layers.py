import pytest
from helpers.papers import tiny
from helpers.sentences import plain
from helpers.training_papers import trained

from report.findings import layers

FINDINGS = (layers.dominant, layers.remainders, layers.pictured, layers.single)


@pytest.mark.parametrize("finding", FINDINGS)
def test_without_steps_the_command_is_named(finding):
    assert "--device cpu --sections workload training" in finding(tiny())


def test_dominant():
    text = plain(layers.dominant(trained(gpu=False)))
    # lean 6 of 9 and 12 of 21 ms, deep 360 of 392 and 900 of 985 ms
    assert (
        "most of the layers' time goes to convolution forward in 2 of 2 models and backward in 2. Most of "
        "their memory goes to " in text
    )
    # lean's head: 22 % of the time forward for 80 of 880 MFLOP, 24 % backward for 160 of 1680; its activation backward
    # 19 for 10 %
    assert (
        "Time and FLOP differ most in the backward pass of lean, whose linear layers take 24 % of the layers' time for "
        "9.5 % of the FLOP." in text
    )


def test_remainders():
    text = plain(layers.remainders(trained(gpu=False)))
    # 1 of 10 and 8 of 400 ms; 3 of 24 and 15 of 1000 ms
    assert "outside the layers is 6.0 % of the forward pass in the median of 2 models, at the extreme 10 %" in text
    assert "7.0 % of the backward pass in the median of 2 models, at the extreme 1" in text


def test_the_machine_whose_layers_are_pictured_is_named():
    assert plain(layers.pictured(trained(gpu=False))) == (
        "The pies, and the layers one by one, are those of steps on the Example CPU (4 cores) at batch size 8."
    )


def test_single():
    text = plain(layers.single(trained(gpu=False)))
    # deep: 1260 of 1377 ms; lean: 18 of 30 ms
    assert "one layer takes at most 92 % of the time of all layers (features of deep, convolution)" in text
    assert "In the median of 2 models the heaviest layer takes 76 %" in text
    assert text.endswith("Half the time is that of 1 layer out of 3.")
