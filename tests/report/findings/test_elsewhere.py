"""What is said of the made measurements of helpers.elsewhere_papers."""

from dataclasses import replace

import pandas as pd
from helpers.elsewhere_papers import timed_elsewhere
from helpers.papers import empty
from helpers.sentences import plain

from report.analysis.available import Missing
from report.findings import elsewhere


def test_extent():
    # 7 timings of each of 24 models, 4 of ours, and one that was not counted
    text = plain(elsewhere.extent(timed_elsewhere()))
    assert "173 timings of 29 models on 2 devices" in text
    assert "Of these 24 are of training steps, and 172 can be held against a roof" in text
    # On Cog 3 as on Bead 2 a roof at 16 bits is known, and on Bead 2 one at fp32


def test_shares():
    text = plain(elsewhere.shares(timed_elsewhere()))
    # Compiled, the last oak reaches 2 x 51 % of the peak, the one before it 100
    assert "Nearest to the peak comes timm:oak11 with 102 %." in text
    highest = "the highest share is 102 % (timm:oak11 on the Bead 2 at fp16)."
    assert f"1 model exceeds the peak of 1 device; {highest}" in text
    assert "A datasheet's peak is that of its boost clock" in text


def test_farthest():
    # Compiled it reaches 1.5 times 10 %; the models of ours take less than that of 100 TFLOP/s, 10 in 4 ms: 2.5 %
    paper = timed_elsewhere()
    assert plain(elsewhere.farthest(paper)) == (
        "Farthest below its roof on the Bead 2 at fp16 is deep, with 2.5 % of what it allows."
    )
    # Without the models of ours it is an elm, at 15 %
    timings = paper.elsewhere.timings
    # The layers that were also counted at another size than the timed one are left out
    kinds = pd.concat([paper.elsewhere.kinds, paper.elsewhere.kinds.assign(input_size=448)])
    elms = replace(paper.elsewhere, timings=timings[timings.model.str.startswith("timm:")], kinds=kinds)
    text = plain(elsewhere.farthest(replace(paper, elsewhere=elms)))
    assert "is timm:elm12, with 15 % of what it allows: 100 operators, 90 % of their traffic in activation." in text


def test_families():
    text = plain(elsewhere.families(timed_elsewhere()))
    assert text == (
        "Of the families on the Bead 2 at fp16 oak comes nearest to its roof, with 91 % in the median of its models, "
        "and elm stays farthest below it, with 22 %."
    )


def test_gaps():
    assert plain(elsewhere.gaps(timed_elsewhere())) == (
        "Of 29 models that others timed 1 could not be counted, most since today's libraries have none of that name; "
        "data/published/measurements/counts.csv lists them with the reason."
    )


def test_without_measurements_of_others_a_command_is_named():
    for told in (elsewhere.extent, elsewhere.shares, elsewhere.families, elsewhere.farthest, elsewhere.gaps):
        text = told(replace(empty()))
        assert isinstance(text, Missing)
        assert "`python -m measure" in text
