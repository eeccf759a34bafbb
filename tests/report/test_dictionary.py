import pytest
from helpers.places import ROOT

from report import dictionary, facts


@pytest.mark.parametrize(("name", "text"), [("data", dictionary.text), ("facts", facts.dictionary)])
def test_the_committed_dictionaries_are_those_of_the_records_and_facts(name, text):
    committed = (ROOT / "docs" / f"{name}.md").read_text("utf-8")
    assert committed == text(), "run python -m report.dictionary"
