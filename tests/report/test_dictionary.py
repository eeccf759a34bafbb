import csv

import pytest
from helpers.places import ROOT

from measure.cache.hand_kept import Chip
from measure.cache.records import Run, Sample
from measure.cache.schema import TABLES
from report import dictionary, facts


def section(record):
    """The lines of a record's section."""
    _, _, after = dictionary.text().partition(f"## {record.__name__}: ")
    return after.partition("\n## ")[0].splitlines()


@pytest.mark.parametrize(("name", "text"), [("data", dictionary.text), ("facts", facts.dictionary)])
def test_the_committed_dictionaries_are_those_of_the_records_and_facts(name, text):
    committed = (ROOT / "docs" / f"{name}.md").read_text("utf-8")
    assert committed == text(), "run python -m report.dictionary"


def test_columns_have_type_unit_values_key_emptiness_and_meaning():
    lines = section(Sample)
    assert lines[0] == "`data/machines/NAME/samples.csv`"
    assert "| `model` | text |  |  | key |  | the model's name |" in lines
    assert "| `latency_s` | number | s | from 1e-12 to 86400 |  |  | the host's time of one call |" in lines
    assert "| `temperature_c` | number | °C | from -100 to 300 |  | yes | its temperature then |" in lines
    assert any(line.startswith("| `round` | whole number | 1 |  | key |  | counts the") for line in lines)
    assert any(line.startswith("| `flags` | text |  | one of wide, drifting,") for line in section(Run))


def test_tables_kept_by_hand_are_described_too():
    lines = section(Chip)
    assert lines[0] == "`data/chips.csv`"
    assert "| `unit` | text |  | one of vector, tensor | key |  | the unit that computes at this rate |" in lines


def test_descriptions_are_markdown():
    assert any("`block` calls in a row" in line for line in section(Sample))
    assert "``" not in dictionary.text()


@pytest.mark.parametrize("record", TABLES)
def test_committed_tables_have_the_columns_of_their_records(record):
    path = "data/" + TABLES[record].path.replace("NAME", "*")
    described = {line.split("`")[1] for line in section(record) if line.startswith("| `")}
    for file in [*ROOT.glob(path), *(ROOT / "tests").glob(path)]:
        with file.open(encoding="utf-8", newline="") as lines:
            assert set(next(csv.reader(lines))) == described, file


def test_most_tables_are_committed():
    paths = ["data/" + facts.path.replace("NAME", "*") for facts in TABLES.values()]
    found = [path for path in paths if any(ROOT.glob(path))]
    assert len(found) >= 16  # of a processor: all but those of a GPU's kernels and counters
