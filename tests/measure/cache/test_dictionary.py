import csv

import pytest
from helpers.places import ROOT

from measure.cache import dictionary
from measure.cache.records import KEYS, Run, Sample


def section(record):
    """The lines of a record's section."""
    _, _, after = dictionary.text().partition(f"## {record.__name__}: ")
    return after.partition("\n## ")[0].splitlines()


def test_the_committed_dictionary_is_the_one_that_the_records_give():
    committed = (ROOT / "docs" / "data.md").read_text("utf-8")
    assert committed == dictionary.text(), "run python -m measure.cache.dictionary > docs/data.md"


def test_every_record_has_its_table():
    assert set(dictionary.TABLES) == set(KEYS)
    assert len(set(dictionary.TABLES.values())) == len(KEYS)


def test_columns_have_type_unit_key_and_emptiness():
    lines = section(Sample)
    assert lines[0] == "`data/machines/NAME/samples.csv`"
    assert "| `model` | text |  | key |  |" in lines
    assert "| `latency_s` | number | s |  |  |" in lines
    assert "| `temperature_c` | number | °C |  | yes |" in lines
    assert "| `round` | whole number |  | key | yes |" in lines
    assert "| `peak_byte` | whole number | B |  | yes |" in section(Run)


def test_descriptions_are_markdown():
    assert any("`block` calls in a row" in line for line in section(Sample))
    assert "``" not in dictionary.text()


@pytest.mark.parametrize("record", dictionary.TABLES)
def test_committed_tables_have_the_columns_of_their_records(record):
    path = dictionary.TABLES[record].replace("NAME", "*")
    described = {line.split("`")[1] for line in section(record) if line.startswith("| `")}
    for file in [*ROOT.glob(path), *(ROOT / "tests").glob(path)]:
        with file.open(encoding="utf-8", newline="") as lines:
            assert set(next(csv.reader(lines))) <= described, file


def test_most_tables_are_committed():
    found = [path for path in dictionary.TABLES.values() if any(ROOT.glob(path.replace("NAME", "*")))]
    assert len(found) >= 8  # of a processor: all but those of a GPU's kernels and counters
