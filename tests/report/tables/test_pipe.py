from types import SimpleNamespace

from report.tables.pipe import between, failure, known, pipe, with_interval
from report.text.quantities import si


def test_a_column_is_as_wide_as_its_longest_cell_or_word_and_on_its_side():
    table = pipe("Model | A long name > |  | Source", [["a\\_b", "1", "", "[@someone_2000_title]"]])
    assert table.splitlines() == [
        "| Model | A long name |  | Source |",
        "| :----- | ----: | :--- | :------------- |",  # a citation takes the width of an author and a year
        "| a\\_b | 1 |  | [@someone_2000_title] |",
    ]


def test_what_is_not_known_is_a_dash():
    assert known(2000.0, si, "B") == "2.00\u00a0kB"
    assert [known(value, si, "B") for value in (None, float("nan"))] == ["–", "–"]
    assert known(None, si, "B", otherwise="not measured") == "not measured"


def test_a_failed_cell_says_its_reason_where_there_is_one():
    assert failure(SimpleNamespace(status="oom", reason="needs 9 GB")) == "oom: needs 9 GB"
    assert failure(SimpleNamespace(status="failed", reason=None)) == "failed"


def test_an_interval_lets_its_value_be_known_to_a_place():
    # half of 1.2 ms has one digit, 0.6 ms
    value, interval = with_interval(0.004, 0.0038, 0.005, "s")
    assert (value, interval) == ("4.0\u00a0ms", "3.8 to 5.0\u00a0ms")
    assert between(0.5e-3, 1.5, "s") == "500\u00a0µs to 1.50\u00a0s"
