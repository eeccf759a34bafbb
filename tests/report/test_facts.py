import json
from dataclasses import dataclass, replace

import pytest
from helpers.world import world

from measure.cache.project import MACHINES
from measure.errors import UserError
from report import facts
from report.paper import REFERENCE
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


def test_a_fact_has_a_key_a_docstring_and_a_source():
    other = Source("models.csv")
    made = facts.sourced(Example(MADE.step, Value(24, source=other), False, {}), SOURCE)
    keyed = facts._changed(made, "example", lambda _value, key: {"key": key})
    found = [(key, value.key, meaning, value.source) for key, value, meaning in facts.entries("example", keyed)]
    assert found == [
        ("example.step.ratio", "example.step.ratio", "Time of a step over its forward pass.", SOURCE),
        ("example.step.slowest", "example.step.slowest", "The slowest network.", SOURCE),
        ("example.count", "example.count", "How many networks.", other),
    ]


def test_conditions_are_metadata():
    _, text, _ = facts.conditions("example", MADE).split("---\n")
    assert json.loads(text) == {"example": {"step": True, "count": True, "has_gpu": False, "claims": {"is_slow": True}}}


def test_json_tells_a_fact_and_why_prints_it_or_refuses_a_name(monkeypatch):
    value = facts.as_json(facts.sourced(MADE, SOURCE).step.ratio, "Its meaning.")
    assert (value["value"], value["low"], value["count"], value["printed"]) == (2.9, 2.8, 24, "2.90 (2.80–3.00)")
    assert (value["table"], value["rows"], value["meaning"]) == (SOURCE.table, "phase=step", "Its meaning.")
    assert facts.as_json(Value(None), "")["value"] is facts.as_json(Name(None), "")["value"] is None
    monkeypatch.setattr(facts, "of_paper", lambda paper: {"example.step.ratio": value})
    told = facts.why(None, "example.step")
    assert "example.step.ratio: 2.90 (2.80–3.00)" in told
    assert "its data come from python -m measure --sections training" in told
    with pytest.raises(UserError, match=r"did you mean example\.step\.ratio"):
        facts.why(None, "example.step.ratoi")


@pytest.mark.parametrize(
    ("table", "command", "origin"),
    [
        ("workload/models.csv", "python -m measure", ""),
        ("chips.csv", None, ""),
        ("published/measurements/counted_kinds.csv", None, ""),
        ("published/counting_suites.csv", None, ""),
        ("published/measurements/models.csv", None, "reference"),
        ("prediction/errors.csv", None, "reference"),
        ("traces/*/operators.csv", None, "reference"),  # imported
        ("traces/*/operators.csv", "python -m measure --device cuda", "reference"),  # by the project's GPU
        ("traces/*/operators.csv", "python -m measure", "own"),
        ("machines/example-cpu/runs.csv", None, "own"),
        (f"machines/{REFERENCE}", None, "reference"),
        (f"machines/{MACHINES[1]}/samples.csv and machines/{MACHINES[2]}/samples.csv", None, "reference"),
        # The reader's processor is among the processors, no GPU of theirs among the GPUs
        ("machines/*/profiles.csv", "python -m measure", "own"),
        ("machines/*/profiles.csv", "python -m measure --device cuda", "reference"),
        ("machines", "python -m measure --device cuda", "reference"),
    ],
)
def test_a_readers_paper_tells_whose_machine_measured_a_value(table, command, origin):
    cpu, gpu = world().machines
    paper = replace(world(), machines=(cpu, replace(gpu, folder=MACHINES[1])))
    assert facts.origin(Source(table, command=command), paper) == origin
    assert facts.origin(None, paper) == ""
    ours = replace(paper, machines=(replace(cpu, folder=REFERENCE), paper.machines[1]))
    assert facts.origin(Source(table, command=command), ours) == ""


def test_the_facts_of_a_chapter_have_their_origins():
    value = facts.of_chapter("puzzle", world()).here.ratio
    assert value.origin == "own"
    assert f'{{.value .of-own key="{value.key}"}}' in value._repr_markdown_()
    assert f'{{.value .of-own key="{value.key}"}}' in value.interval
