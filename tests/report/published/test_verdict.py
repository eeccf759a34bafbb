import pytest

from report.published.verdict import AGREES, DIFFERS, OPEN, Comparison, Verdict, interval_between, judge
from report.text.quantities import SPACE


@pytest.mark.parametrize(
    ("printed", "rounding", "ours", "outcome", "words"),
    [
        (10.0, 0, 10.0, AGREES, "agrees exactly"),
        (10.05, 0, 10.0, AGREES, f"agrees within 0.50{SPACE}%"),  # 0.05 of 10
        (0.09, 0.005, 0.0855, AGREES, "agrees within"),  # 5 % off, and within its rounding
        (10.2, 0, 10.0, DIFFERS, "differs by a factor of 1.02, for no reason known here"),
        (5.0, 0, 10.0, DIFFERS, "differs because it is a half"),
        (5.0, 0, None, DIFFERS, "differs because it is a half"),
        (7.0, 0, None, OPEN, "cannot be compared because nothing of ours means the same"),
    ],
)
def test_judge(printed, rounding, ours, outcome, words):
    verdict = judge(printed, rounding, ours, {"a half": 5.0, "the same half": 5.0})
    assert verdict.outcome == outcome
    assert str(verdict).startswith(words)
    assert verdict.explained == ("no reason" not in words)


def test_a_verdict_goes_on_a_sentence():
    assert Verdict(DIFFERS, "because it is a half").what == "is a half"
    assert Verdict(AGREES, "exactly").what == "agrees exactly"


def test_a_ratio_needs_something_of_ours():
    verdict = Verdict(OPEN, "it is not measured")
    comparison = Comparison("s", "net", "FLOP", "FLOP", 10.0, None, verdict)
    assert comparison.ratio is None
    assert Comparison("s", "net", "FLOP", "FLOP", 10.0, 4.0, verdict).ratio == 2.5


def test_an_interval_whose_ends_are_not_known_is_none():
    assert interval_between(2.2, 2.0) == interval_between(2.0, 2.2) == (2.0, 2.2)
    assert interval_between(float("nan"), 2.2) is None
    assert interval_between(2.0, float("nan")) is None
