import json
from dataclasses import dataclass

import pytest

from measure.errors import UserError
from report import facts
from report.stats.value import Name, Source, Value


@dataclass(frozen=True)
class Step:
    """A step."""

    ratio: Value
    """Time of a step over
    its forward pass."""
    slowest: Name
    """The slowest network."""


@dataclass(frozen=True)
class Example:
    step: Step
    count: Value  #: How many networks.
    has_gpu: bool
    claims: dict[str, bool]


MADE = Example(Step(Value(2.9, low=2.8, high=3.0, count=24), Name(None)), Value(24), False, {"is_slow": True})
SOURCE = Source("machines/a/samples.csv", "phase=step", "python -m measure --sections training")


def test_every_value_has_a_key_and_the_meaning_behind_or_below_it():
    keyed = facts._changed(MADE, "example", lambda _value, key: {"key": key})
    assert keyed.step.ratio.key == "example.step.ratio"
    assert [(key, meaning) for key, _, meaning in facts.entries("example", keyed)] == [
        ("example.step.ratio", "Time of a step over its forward pass."),
        ("example.step.slowest", "The slowest network."),
        ("example.count", "How many networks."),
    ]


def test_a_source_is_given_to_values_that_have_none():
    other = Source("models.csv")
    found = facts.sourced(Example(MADE.step, Value(24, source=other), False, {}), SOURCE)
    assert (found.step.ratio.source, found.step.slowest.source, found.count.source) == (SOURCE, SOURCE, other)


def test_conditions_are_metadata():
    _, text, _ = facts.conditions("example", MADE).split("---\n")
    assert json.loads(text) == {"example": {"step": True, "count": True, "has_gpu": False, "claims": {"is_slow": True}}}


def test_json_tells_a_fact_and_null_for_a_missing_one():
    value = facts.as_json(facts.sourced(MADE, SOURCE).step.ratio, "Its meaning.")
    assert (value["value"], value["low"], value["count"], value["printed"]) == (2.9, 2.8, 24, "2.90 (2.80–3.00)")
    assert (value["table"], value["rows"], value["meaning"]) == (SOURCE.table, "phase=step", "Its meaning.")
    assert facts.as_json(Value(None), "")["value"] is None
    assert facts.as_json(Name(None), "")["value"] is None


def test_why_tells_a_fact_or_refuses_a_name(monkeypatch):
    known = {"example.step.ratio": facts.as_json(facts.sourced(MADE, SOURCE).step.ratio, "Its meaning.")}
    monkeypatch.setattr(facts, "of_paper", lambda paper: known)
    told = facts.why(None, "example.step")
    assert "example.step.ratio: 2.90 (2.80–3.00)" in told
    assert "measured again by python -m measure --sections training" in told
    with pytest.raises(UserError, match=r"did you mean example\.step\.ratio"):
        facts.why(None, "example.step.ratoi")
