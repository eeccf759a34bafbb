from dataclasses import replace

import pandas as pd
import pytest
from helpers.published_papers import printed
from helpers.sentences import cells

from measure.domain.values import SPACE
from report.published import training
from report.tables import published

TABLES = ("chips", "models", "training", "steps", "estimates", "claim_rulings")


def by_name(table):
    return [[text.replace("\\", "").replace(SPACE, " ") for text in row] for row in cells(table)]


def figures(table):
    """The rows below the names of the studies."""
    return [row for row in by_name(table) if any(row[1:])]


def test_each_printed_figure_has_a_row():
    # two of 17 chips, three of 13 models, four of nine steps, two of nine estimates
    assert len(figures(published.chips(printed()))) == 34
    assert len(figures(published.models(printed()))) == 39
    assert len(by_name(published.steps(printed()))) == 36
    assert len(by_name(published.estimates(printed()))) == 18
    # four rows of madani2026 and four with times of a1rooflines print both passes: 22 + 2 x 8
    assert len(figures(published.training(printed()))) == 38


def test_the_figures_of_a_study_stand_below_its_name():
    rows = by_name(published.training(printed()))
    names = [row[0] for row in rows if not any(row[1:])]
    assert rows[0] == [names[0], "", "", "", ""]
    assert len(names) == len(set(names)) > 1
    assert all(name.startswith("[@") for name in names)
    # the steps are of one study, which the text names
    assert figures(published.steps(printed())) == by_name(published.steps(printed()))


def test_a_row():
    rows = by_name(published.estimates(printed()))
    assert rows[1] == [
        "resnet50, NVIDIA T4: theoretical time", "33.33 s", "33.33 ms", "1000",
        "differs because it is the time in milliseconds, printed as seconds",
    ]  # fmt: skip
    study, first = by_name(published.chips(printed()))[:2]
    assert study[0] == "[@madani2026]"
    assert first[1:4] == ["1.979 PFLOP/s", "989.4 TFLOP/s", "2.00"]


def test_what_was_measured_has_an_interval_and_a_machine(monkeypatch):
    step = pd.Series({"time_ratio": 2.1, "time_ratio_low": 2.0, "time_ratio_high": 2.2})
    monkeypatch.setattr(training, "measured", lambda paper, model, batch: ("Example CPU", step))
    rows = by_name(published.training(replace(printed())))  # a paper of its own: nothing is kept of the others'
    ratio = next(row for row in rows if row[0] == "alexnet, batch size 64: time, backward/forward")
    # half of 2.2 - 2.0 is 0.10, of which two digits are told
    assert ratio[1:3] == ["2.000", "2.10 (2.00 to 2.20), Example CPU"]


@pytest.mark.parametrize(
    ("low", "high", "told"),
    [
        # 1 / 2.1 = 0.4762; half of 1 / 2.0 - 1 / 2.2 = 0.0455 is 0.0227, of which two digits are told
        (2.0, 2.2, "0.476 (0.455 to 0.500), Example CPU"),
        (float("nan"), float("nan"), "0.4762, Example CPU"),
    ],
)
def test_a_ratio_has_no_prefix(monkeypatch, low, high, told):
    step = pd.Series({"time_ratio": 2.1, "time_ratio_low": low, "time_ratio_high": high})
    monkeypatch.setattr(training, "measured", lambda paper, model, batch: ("Example CPU", step))
    rows = by_name(published.training(replace(printed())))
    assert told in [row[2] for row in rows if row[0].endswith(": time, forward/backward")]


def test_claims_with_marks():
    rows = figures(published.claim_rulings(printed()))
    assert len(rows) == 44
    assert {row[1] for row in rows} <= {"✓", "✗", "?", "–"}
