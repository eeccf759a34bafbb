from dataclasses import replace

import pytest

from measure.domain.values import SPACE
from report.published.agreement import Measured, interval_between
from report.published.verdict import (
    AGREES,
    DIFFERS,
    NOT_COMPARABLE,
    UNDECIDED,
    Comparison,
    Verdict,
    by_cause,
    judge,
    judge_measured,
)


@pytest.mark.parametrize(
    ("printed", "rounding", "ours", "outcome", "words"),
    [
        (10.0, 0, 10.0, AGREES, "agrees exactly"),
        (10.05, 0, 10.0, AGREES, f"agrees within 0.50{SPACE}%"),  # 0.05 of 10
        (0.09, 0.005, 0.0855, AGREES, "agrees within"),  # 5 % off, and within its rounding
        (10.2, 0, 10.0, DIFFERS, "differs by a factor of 1.02, for no reason known here"),
        (5.0, 0, 10.0, DIFFERS, "differs because it is a half"),
        (5.0, 0, None, DIFFERS, "differs because it is a half"),
        (7.0, 0, None, NOT_COMPARABLE, "not comparable because nothing of ours means the same"),
    ],
)
def test_judge(printed, rounding, ours, outcome, words):
    verdict = judge(printed, rounding, ours, {"a half": 5.0, "the same half": 5.0})
    assert verdict.outcome == outcome
    assert str(verdict).startswith(words)
    assert verdict.explained == ("no reason" not in words)


def test_what_lies_nearest_is_told_and_explains_nothing():
    verdict = judge(5.2, 0, 10.0, {"a tenth": 1.0, "a half": 5.0})  # 5.2 / 5 = 1.04
    assert str(verdict).endswith(f"for no reason known here; the nearest is a half, 4.0{SPACE}% off")
    assert not verdict.explained
    assert not verdict.names("a half")
    # 9 is nearer to 10 than to 5
    assert str(judge(9.0, 0, 10.0, {"a half": 5.0})).endswith("for no reason known here")


@pytest.mark.parametrize(
    ("ours", "words"),
    [
        (Measured(2.01, (1.9, 2.1)), f"agrees within 0.50{SPACE}%"),  # 2 / 2.01 = 0.995
        (Measured(2.1, (1.9, 2.3)), "undecided because our interval holds it"),
        (Measured(2.1, None), "undecided because ours has too few samples"),
        (Measured(2.2, (2.1, 2.3)), "differs because it is another chip"),
    ],
)
def test_judge_measured(ours, words):
    assert str(judge_measured(2.0, 0.005, ours, "because it is another chip")) == words


def test_a_measured_difference_without_a_reason():
    verdict = judge_measured(1.0, 0, Measured(2.0, (1.9, 2.1)))
    assert str(verdict) == "differs by a factor of 0.500, for no reason known here"


def test_a_verdict_goes_on_a_sentence():
    assert Verdict(DIFFERS, "because it is a half").what == "is a half"
    assert Verdict(AGREES, "exactly").what == "agrees exactly"
    assert Verdict(UNDECIDED, "our interval holds it").what == "is undecided because our interval holds it"


def test_a_ratio_needs_something_of_ours():
    verdict = Verdict(NOT_COMPARABLE, "it is not measured")
    comparison = Comparison("s", "net", "FLOP", "FLOP", 10.0, None, verdict)
    assert comparison.ratio is None
    assert Comparison("s", "net", "FLOP", "FLOP", 10.0, 4.0, verdict).ratio == 2.5


def test_rows_with_one_cause_are_counted_once():
    half = Comparison("one", "a", "FLOP", "FLOP", 5.0, 10.0, Verdict(DIFFERS, "because it is a half"))
    unknown = replace(half, verdict=Verdict(DIFFERS, "by a factor of 2, for no reason known here", explained=False))
    found = [
        half, replace(half, subject="b", printed=6.0), replace(half, study="two"),  # a study's reason, twice; another's
        unknown, replace(unknown, subject="b"), replace(unknown, printed=7.0),  # one figure in two rows; another
        replace(half, verdict=Verdict(AGREES, "exactly")),
    ]  # fmt: skip
    assert sorted(len(rows) for rows in by_cause(found).values()) == [1, 1, 2, 2]


def test_an_interval_whose_ends_are_not_known_is_none():
    assert interval_between(2.2, 2.0) == interval_between(2.0, 2.2) == (2.0, 2.2)
    assert interval_between(float("nan"), 2.2) is None
    assert interval_between(2.0, float("nan")) is None
