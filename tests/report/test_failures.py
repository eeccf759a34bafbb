import altair as alt
import pandas as pd
import pytest

from measure.domain.values import significant
from measure.errors import UserError
from report import display, failures


@pytest.fixture(autouse=True)
def lenient(monkeypatch):
    monkeypatch.delenv(failures.STRICT)


def failed(function):
    """The paper's sentence about a failed function."""
    try:
        function()
    except Exception as failure:
        return failures.sentence("report.chapters.demo", failure)


def test_a_failure_names_the_last_line_within_the_report():
    with failures.noted() as lines:
        for _ in range(2):
            text = failed(lambda: 1 / 0)
        failed(lambda: significant(float("inf")))
        assert lines == []
    assert "report.chapters.demo failed with ZeroDivisionError: division by zero." in text
    first, second = lines
    assert first.startswith("report.chapters.demo: ZeroDivisionError: division by zero (test_failures.py, line ")
    assert second.startswith("report.chapters.demo: ValueError: inf is not a quantity (values.py, line ")


def test_a_part_of_a_chapter_that_fails_becomes_a_sentence():
    with failures.noted() as lines:
        assert "failed with ZeroDivisionError" in display.table(lambda paper: str(1 / 0))(None).markdown
    assert len(lines) == 1


def test_bad_input_and_strict_failures_stay_errors(monkeypatch):
    with pytest.raises(UserError, match="mend it"):
        failures.sentence("a", UserError("mend it"))
    monkeypatch.setenv(failures.STRICT, "1")
    with pytest.raises(ZeroDivisionError), failures.noted() as lines:
        failed(lambda: 1 / 0)
    assert lines == []


def test_a_figure_needs_a_name_of_its_own_and_a_description(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    drawn = []
    monkeypatch.setattr(display.drawing, "begin", lambda _, place: drawn.append(place.name))
    chart = alt.Chart(pd.DataFrame({"x": [1]})).mark_point().encode(x="x")

    @display.figure
    def one(**properties):
        return alt.layer(chart).properties(**properties)

    @display.figure
    def other():
        return chart.properties(name="dots", description="Another dot.")

    with pytest.raises(UserError, match=r"one: the figure has no name; add .properties"):
        one(description="A dot.")
    with pytest.raises(UserError, match="no description"):
        one(name="dots")
    for _ in range(2):  # a cell may run again
        one(name="dots", description="A dot.")
    with pytest.raises(UserError, match=r"other: .*one has a figure named 'dots' too"):
        other()
    assert drawn == ["dots.svg"] * 2
