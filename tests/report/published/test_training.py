from dataclasses import replace

import pandas as pd
import pytest
from helpers.published_papers import LINEAR_MAC, printed

from report.published import training
from report.published.verdict import DIFFERS, NOT_COMPARABLE, UNDECIDED


def row_of(paper, study, model, quantity):
    return next(
        row
        for row in training.comparisons(paper)
        if (row.study, row.quantity) == (study, quantity) and row.subject.startswith(model)
    )


def test_a_backward_pass_without_that_of_convolutions():
    # 2 gradients x 2 x 64 x 58621952 = 15007219712, to the last FLOP
    assert 4 * 64 * LINEAR_MAC == 15_007_219_712
    row = row_of(printed(), "madani2026", "alexnet", "FLOP, backward")
    assert training.LINEAR_ONLY in row.verdict.reason
    assert row_of(printed(), "madani2026", "alexnet", "FLOP, forward").verdict.reason == "exactly"
    # 15.007 / 91.416 = 0.1642
    assert training.LINEAR_ONLY in row_of(printed(), "madani2026", "alexnet", "FLOP, backward/forward").verdict.reason


def with_ratio(value):
    """The printed paper, in which studies print this ratio."""
    paper = printed()
    rows = paper.published.training.assign(ratio_as_printed=value)
    return replace(paper, published=replace(paper.published, training=rows))


@pytest.mark.parametrize(("value", "explained"), [(1.0, True), (1.01, True), (1.03, False)])
def test_a_backward_pass_with_one_gradient(value, explained):
    row = row_of(with_ratio(value), "a1rooflines", "alexnet", "FLOP, forward/backward")
    # 0.7142 / (2 x 0.7142 - 0.0703) = 0.526: forward over forward is 1, from which 1.03 is more than the tolerance
    assert row.ours == pytest.approx(0.526, abs=0.001)
    assert row.verdict.outcome == DIFFERS
    assert row.verdict.names(training.ONE_GRADIENT) == explained


def test_what_a_difference_without_a_reason_lies_nearest_to():
    row = row_of(printed(), "a1rooflines", "alexnet", "FLOP, forward/backward")  # 1.03
    assert row.verdict.reason.replace("\u00a0", " ").endswith(f"; the nearest is {training.ONE_GRADIENT}, 3.0 % off")


def test_a_ratio_that_stands_for_several_models():
    row = row_of(printed(), "daugherty", "resnet50", "FLOP, forward/backward")
    assert row.verdict.outcome == NOT_COMPARABLE  # batch size 32 was not counted
    paper = printed()
    rows = paper.published.training.assign(batch=64.0)
    paper = replace(paper, published=replace(paper.published, training=rows))
    assert "stands for 5 models" in row_of(paper, "daugherty", "resnet50", "FLOP, forward/backward").verdict.reason


def test_times_need_a_chip_and_ratios_a_measurement():
    assert "which chip" in row_of(printed(), "madani2026", "alexnet", "time, forward").verdict.reason
    row = row_of(printed(), "daugherty", "vgg19", "time, forward/backward")
    assert row.verdict.outcome == NOT_COMPARABLE
    assert "--models vgg19 --training-batch-sizes 32" in row.verdict.reason


def test_a_ratio_of_times_in_one_round_of_few_samples_has_no_interval(monkeypatch):
    step = pd.Series({"time_ratio": 2.1, "time_ratio_low": float("nan"), "time_ratio_high": float("nan")})
    monkeypatch.setattr(training, "measured", lambda paper, model, batch: ("Example (2 cores)", step))
    row = row_of(printed(), "daugherty", "vgg19", "time, forward/backward")
    assert row.interval is None
    assert row.ours == pytest.approx(0.476, abs=0.001)
    assert str(row.verdict) == "undecided because ours has too few samples"


def test_a_ratio_of_times_that_was_measured(monkeypatch):
    step = pd.Series({"time_ratio": 2.1, "time_ratio_low": 2.0, "time_ratio_high": 2.2})
    monkeypatch.setattr(training, "measured", lambda paper, model, batch: ("Example (2 cores)", step))
    row = row_of(printed(), "madani2026", "alexnet", "time, backward/forward")
    # printed is 2.00, which the interval holds, 5 % below 2.1
    assert (row.verdict.outcome, row.interval, row.machine) == (UNDECIDED, (2.0, 2.2), "Example (2 cores)")
    # printed 0.41 forward over backward; 1 / 2.1 = 0.476, from 1 / 2.2 = 0.455 to 1 / 2.0
    other = row_of(printed(), "daugherty", "vgg19", "time, forward/backward")
    assert other.ours == pytest.approx(0.476, abs=0.001)
    assert "another chip" in other.verdict.reason
