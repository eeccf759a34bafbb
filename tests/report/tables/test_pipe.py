import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.chapters import SHARED, calls
from helpers.counted_papers import counted
from helpers.papers import REFERENCES, many, wide
from helpers.published_papers import printed
from helpers.training_papers import trained

from report.analysis.available import Missing
from report.engine.columns import CELL_PADDING, LINE_CHARACTERS, length
from report.engine.pandoc import plain_text, run_pandoc
from report.tables.pipe import between, failure, known, pipe, with_interval
from report.text.prose import si


def test_a_column_is_as_wide_as_its_longest_line_and_on_its_side():
    """In characters of the average width (1.4 capitals and m, 0.6 narrow ones, 1.1 others), and 2.5 of padding.

    Model 5.3, A long name 11.2, nothing 0, [Longauthor 2000] 16.5, each with 2.5; a colon is one of the width.
    """
    table = pipe("Model | A long name > |  | Source", [["a\\_b", "1", "", "[@someone_2000_title]"]])
    assert table.splitlines() == [
        "| Model | A long name |  | Source |",
        f"| :{'-' * 7} | {'-' * 13}: | :--- | :{'-' * 18} |",
        "| a\\_b | 1 |  | [@someone_2000_title] |",
    ]


def test_a_column_that_says_one_thing_is_left_out():
    rows = [["CPU", "a", "1"], ["CPU", "b", "2"], ["", "2 more models", ""]]
    assert pipe("Device | Model | Batch >", rows, of="Device") == pipe("Model | Batch >", [row[1:] for row in rows])
    assert pipe("Device | Model | Batch >", rows) != pipe("Model | Batch >", [row[1:] for row in rows])
    two = [*rows, ["GPU", "a", "1"]]
    assert pipe("Device | Model | Batch >", two, of="Device") == pipe("Device | Model | Batch >", two)


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


def test_a_word_that_is_wider_than_a_column_may_break():
    """After forty characters, an escaped one being one; citations, formulas and code stay as they are."""
    kept = [f"[@{'k' * 50}]", f"${'x' * 50}$", f"`{'c' * 50}`", "x" * 40]
    table = pipe("A", [["x" * 39 + "\\_" + "y" * 41], *([cell] for cell in kept)])
    assert table.splitlines()[2:] == [f"| {'x' * 39}\\_\u200b{'y' * 40}\u200by |", *(f"| {cell} |" for cell in kept)]


def tables_of(paper):
    """The tables that the chapters show, as pandoc reads those that Quarto gives it."""
    shown = SimpleNamespace(show=lambda content: content)
    texts = [eval(call, SHARED | {"data": paper, "show": shown}) for call in calls() if "tables." in call]
    markdown = "\n\n".join(text for text in texts if not isinstance(text, Missing))
    arguments = ["--from=markdown", "--to=json", "--citeproc", f"--bibliography={REFERENCES}"]
    blocks = json.loads(run_pandoc(arguments, markdown, Path()))["blocks"]
    return [block["c"] for block in blocks if block["t"] == "Table"]


@pytest.mark.parametrize("paper", [wide, many, trained, counted, printed])
def test_no_word_of_a_table_runs_into_the_next_column(paper):
    """Each column's share of the line holds its longest word; where all words together do not fit, they share it."""
    checked = 0
    for _, _, columns, head, bodies, _ in tables_of(paper()):
        shares = [width["c"] for _, width in columns if width["t"] == "ColWidth"]
        if not shares:  # all lines are short
            continue
        rows = [row for _, row in [*head[1], *(row for _, _, _, body in bodies for row in body)]]
        texts = [[plain_text(row[at][4]) for row in rows] for at in range(len(columns))]
        words = [max(length(word) for text in column for word in re.split("[ \n\u200b-]", text)) for column in texts]
        if sum(words) + CELL_PADDING * len(words) <= LINE_CHARACTERS:
            checked += 1
            for share, word, column in zip(shares, words, texts, strict=True):
                assert share * LINE_CHARACTERS >= word, column[0]
    assert checked
