import pytest

from measure.errors import UserError
from report import failures


@pytest.fixture(autouse=True)
def lenient(monkeypatch):
    monkeypatch.delenv(failures.STRICT)


def divided():
    return 1 / 0


def caught(function):
    with pytest.raises(Exception) as found:  # noqa: PT011 - whatever it raises
        function()
    return found.value


def test_a_sentence_says_what_failed_and_how():
    text = failures.sentence("report.chapters.demo", caught(divided))
    assert "report.chapters.demo failed with ZeroDivisionError: division by zero." in text


def test_whoever_renders_gets_a_line_for_each_failure_once():
    with failures.noted() as lines:
        for _ in range(2):
            failures.sentence("report.chapters.demo", caught(divided))
        assert lines == []
    (line,) = lines
    assert line.startswith("report.chapters.demo: ZeroDivisionError: division by zero (test_failures.py, line ")


def test_without_a_failure_there_is_no_line():
    with failures.noted() as lines:
        pass
    assert lines == []


def test_the_place_is_the_last_one_of_the_report():
    from measure.domain.values import significant

    with failures.noted() as lines:
        failures.sentence("a", caught(lambda: significant(float("inf"))))
    assert lines[0].startswith("a: ValueError: inf is not a quantity (values.py, line ")


def test_a_failure_without_a_text_and_one_of_several_lines():
    assert "a failed with KeyError. " in failures.sentence("a", KeyError())
    assert "a failed with ValueError: one two. " in failures.sentence("a", ValueError("one\ntwo"))


def test_bad_input_stays_an_error():
    with pytest.raises(UserError, match="mend it"):
        failures.sentence("a", UserError("mend it"))


def test_where_it_is_strict_the_failure_goes_on(monkeypatch):
    monkeypatch.setenv(failures.STRICT, "1")
    with pytest.raises(ZeroDivisionError), failures.noted() as lines:
        failures.sentence("a", caught(divided))
    assert lines == []
