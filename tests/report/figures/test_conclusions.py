import pytest
from helpers.papers import empty, many

from report.analysis.available import Missing
from report.analysis.effect import Effect
from report.charts import figure_data
from report.figures import conclusions as figures
from report.findings import conclusions
from report.findings.conclusions.conclusion import Conclusion


def effect(factor, interval):
    return Effect(factor, lambda confidence: interval, 6)


def concluded(topic, effects, where="", is_margin=False):
    return Conclusion(topic, effects, is_margin, where, f"do {topic}: it is.", "", ("fig-it",))


@pytest.fixture
def drawn(monkeypatch):
    """The rows of the figure, by name."""
    cpu, gpu = "Example CPU (4 cores)", "Example GPU"
    found = [
        concluded("Speed", {"batch size 1": effect(2, (1.5, 3)), "batch size 8": effect(0.9, (0.5, 1.2))}, cpu),
        concluded("Speed", {"batch size 1": effect(4, None)}, gpu),
        concluded("Peaks", {"": effect(2, (2, 2))}, is_margin=True),
    ]
    monkeypatch.setattr(conclusions, "ordered", lambda paper: found)
    specification = figure_data.specification(figures.effects(many()))
    rows = [row for data in specification["datasets"].values() for row in data if "name" in row]
    return {row["name"]: row for row in rows}


def test_a_row_for_each_effect_with_its_machine_where_there_are_two(drawn):
    assert {name: (row["sort"], row["from"], row["factor"]) for name, row in drawn.items()} == {
        "Speed (CPU), batch size 1": ("Effect", "CPU", 2),
        "Speed (CPU), batch size 8": ("Effect", "CPU", 0.9),
        "Speed (GPU), batch size 1": ("Effect", "GPU", 4),
        "Peaks": ("Margin", "tables", 2),
    }


def test_what_may_be_none_is_hollow(drawn):
    clear = {name: row["clear"] for name, row in drawn.items()}
    assert list(clear.values()) == [True, False, False, True]
    assert [(row["low"], row["high"]) for row in drawn.values()] == [(1.5, 3), (0.5, 1.2), (4, 4), (2, 2)]


def test_without_a_conclusion_there_is_a_sentence():
    assert isinstance(figures.effects(empty()), Missing)
