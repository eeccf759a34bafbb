"""The chapters and the code behind them fit: all that is called is there, and all that is there is called."""

import inspect
import re
from types import SimpleNamespace

import altair as alt
import pytest
from helpers.chapters import CELL, CHAPTERS, SHARED, calls, cells, text_of
from helpers.counted_papers import counted
from helpers.papers import REFERENCES, empty, wide
from helpers.training_papers import trained
from report.analysis.available import Missing

from report import figures, findings, published, tables
from report.paper import hand_tables

pytestmark = pytest.mark.long


@pytest.mark.parametrize("paper", [wide, trained, counted, empty])
def test_every_figure_that_a_chapter_shows_is_there(paper):
    """Texts are asked for in test_whole_sentences; charts are validated and drawn in the tests of figures."""
    shown = SimpleNamespace(show=lambda content: content)
    for call in calls():
        if "figures." in call:
            content = eval(call, SHARED | {"data": paper(), "show": shown})
            assert isinstance(content, alt.TopLevelMixin | Missing), call


def test_every_figure_table_and_finding_is_in_a_chapter():
    used = "\n".join(calls())
    for package in (figures, findings, published, tables):
        for module in package.__all__:
            for name, function in inspect.getmembers(getattr(package, module), inspect.isfunction):
                if function.__module__.startswith(package.__name__) and hasattr(function, "__wrapped__"):
                    short = f"{function.__module__.removeprefix('report.')}.{name}"
                    assert f"{short}(" in used, f"no chapter uses {short}"


def test_every_cell_with_a_picture_or_table_has_a_label_and_a_caption():
    for chapter, options, code in cells():
        if "figures." in code:
            assert options["label"].startswith("fig-"), (chapter, code)
            assert options["fig-cap"]
        elif "tables." in code:
            assert options["label"].startswith("tbl-"), (chapter, code)
            assert options["tbl-cap"]


def test_every_cell_has_a_label():
    """Quarto gives the others one by chance, another in each render."""
    assert [code for _, options, code in cells() if "label" not in options] == []


def test_labels_are_unique_and_references_resolve():
    labels = [options["label"] for _, options, _ in cells() if "label" in options]
    text = "\n".join(text_of(chapter) for chapter in CHAPTERS)
    labels += re.findall(r"\{#((?:fig|tbl|sec|eq)-[\w-]+)\}", text)
    assert len(set(labels)) == len(labels)
    assert set(re.findall(r"@((?:fig|tbl|sec|eq)-[\w-]+)", text)) <= set(labels)


def test_every_key_that_is_cited_is_in_the_bibliography():
    keys = hand_tables.read_keys(REFERENCES)
    for chapter in CHAPTERS:
        cited = set(re.findall(r"@(?!(?:fig|tbl|sec|eq)-)([\w:-]+)", CELL.sub("", text_of(chapter))))
        assert cited <= keys, (chapter.name, cited - keys)


def test_every_chapter_is_included_once():
    included = re.findall(r"\{\{< include (\S+) >\}\}", text_of(CHAPTERS[0]))
    assert sorted(included) == [f"report/chapters/{chapter.name}" for chapter in CHAPTERS[1:]]


def test_chapters_hold_no_logic():
    for chapter, _, code in cells():
        assert not re.search(r"\b(if|for|groupby|open|Path)\b|\.csv", code), (chapter, code)
