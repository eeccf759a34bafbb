from dataclasses import replace

import pytest
from helpers.published_papers import printed

from report.published import estimates
from report.published.verdict import DIFFERS, OPEN


def of(paper, name, quantity):
    (found,) = (row for row in estimates.comparisons(paper) if row.subject == name and row.quantity == quantity)
    return found


def test_times_are_milliseconds_printed_as_seconds():
    row = of(printed(), "resnet50, NVIDIA T4", "theoretical time")
    assert row.ours == pytest.approx(0.03333, rel=1e-3)  # 270e9 / 8.1e12
    assert estimates.MILLISECONDS in row.verdict.reason
    times = [row for row in estimates.comparisons(printed()) if row.unit == "s"]
    assert len(times) == 9
    assert all(estimates.MILLISECONDS in row.verdict.reason for row in times)


def test_flop_are_the_multiply_adds_of_the_forward_pass():
    # 64 x 4.089 G = 262, 3 % from 270; 64 x 4.409 G = 282, 0.8 % from 280
    resnet, vit = (of(printed(), f"{model}, NVIDIA L4", "FLOP, estimate") for model in ("resnet50", "vit"))
    assert resnet.verdict.reason == "because it is about the multiply-adds of resnet50's forward pass alone"
    assert vit.verdict.reason == "because it is the multiply-adds of vit_b_32's forward pass alone"
    assert resnet.ratio == pytest.approx(270 / 1555, rel=0.001)
    # 64 x 0.2166 G = 13.9 and 64 x 0.3008 G = 19.3: neither is 15.31
    mobilenet = of(printed(), "mobilenet, NVIDIA L4", "FLOP, estimate")
    assert (mobilenet.verdict.outcome, mobilenet.verdict.explained) == (DIFFERS, False)


def test_without_a_batch_size_there_is_no_step_to_count():
    paper = printed()
    alone = replace(paper, training_steps=paper.training_steps.iloc[:0])
    row = of(alone, "vit, NVIDIA T4", "FLOP, estimate")
    assert row.verdict.outcome == OPEN
    assert "batch size" in row.verdict.reason
