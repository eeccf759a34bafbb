from dataclasses import replace

from helpers.elsewhere_papers import timed_elsewhere
from helpers.sentences import plain

from report.findings import elsewhere_predictors


def test_predictors():
    text = plain(elsewhere_predictors.predictors(timed_elsewhere()))
    assert "by the time of an input is FLOP on the Bead 2 at fp16 and the Cog 3 at fp16 (" in text


def test_own():
    # The processor orders lean, broad, tokens, deep, Bead 2 swaps the two in the middle
    text = plain(elsewhere_predictors.own(timed_elsewhere()))
    assert "with ours run over 1 device: 0.80 on the Bead 2 for 4 models." in text
    without = replace(timed_elsewhere(), machines=())
    assert "No device was timed with 3 models that were measured here" in elsewhere_predictors.own(without)
