import shutil

import pytest
from helpers.places import ROOT

from measure.errors import UserError
from report.engine.chapters import FILTER, chapters, is_left_out, left_out
from report.engine.project import read_project

WITH_FILTER = f"filters:\n  - at: pre-ast\n    path: {FILTER}\n"
INCLUDES = "---\nsubtitle: S\n---\n\n{{< include part/one.qmd >}}\n\ntext\n\n{{< include /part/two.qmd >}}\n"


@pytest.fixture
def project(tmp_path):
    def make(settings="", two="# Two {#sec-two}\n", with_filter=WITH_FILTER):
        (tmp_path / "part").mkdir(exist_ok=True)
        (tmp_path / FILTER.parent).mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / FILTER, tmp_path / FILTER)
        (tmp_path / "_quarto.yml").write_text(with_filter + settings)
        (tmp_path / "index.qmd").write_text(INCLUDES)
        (tmp_path / "part" / "one.qmd").write_text("\n# One {#sec-one .x}\n")
        (tmp_path / "part" / "two.qmd").write_text(two)
        return read_project(tmp_path)

    return make


def test_chapters_are_the_included_files_in_order(project):
    assert chapters(project()) == {"one": "part/one.qmd", "two": "part/two.qmd"}


def test_none_is_left_out_without_a_choice(project):
    assert left_out(project()) == set()


def test_what_is_not_chosen_is_left_out(project):
    names = left_out(project("roofwright:\n  chapters: [one]\n"))
    assert names == {"two"}
    assert is_left_out("part/two.qmd", names)
    assert not is_left_out("index.qmd", names)


def test_the_environment_chooses_before_the_settings(project, monkeypatch):
    monkeypatch.setenv("ROOFWRIGHT_CHAPTERS", "two,one")
    assert left_out(project("roofwright:\n  chapters: [one]\n")) == set()
    monkeypatch.setenv("ROOFWRIGHT_CHAPTERS", "two")
    assert left_out(project("roofwright:\n  chapters: [one]\n")) == {"one"}


def test_a_name_that_is_no_chapter(project):
    said = r"chapters in _quarto\.yml: 'won' is not one of one, two"
    with pytest.raises(UserError, match=said):
        left_out(project("roofwright:\n  chapters: [won]\n"))


@pytest.mark.parametrize(
    "two", ["# Two\n", "text\n\n# Two {#sec-two}\n", "# Two {#sec-other}\n", "## Two {#sec-two}\n"]
)
def test_a_chapter_without_its_label_cannot_be_left_out(project, two):
    with pytest.raises(UserError, match=r"^part/two\.qmd:1: to be left out, .* '# Title \{#sec-two\}'"):
        left_out(project("roofwright:\n  chapters: [one]\n", two))
    left_out(project(two=two))  # as long as it stays, nothing is asked of it


def test_without_the_filter_none_can_be_left_out(project):
    with pytest.raises(UserError, match=r"^_quarto\.yml: to leave chapters out, add report/engine/selection\.lua"):
        left_out(project("roofwright:\n  chapters: [one]\n", with_filter=""))


def test_every_chapter_of_the_paper_can_be_left_out(monkeypatch):
    paper = read_project(ROOT)
    first, *others = chapters(paper)
    monkeypatch.setenv("ROOFWRIGHT_CHAPTERS", first)
    assert left_out(paper) == set(others)
    monkeypatch.setenv("ROOFWRIGHT_CHAPTERS", others[0])
    assert first in left_out(paper)


def test_a_chapter_of_the_paper_has_one_heading_of_the_first_level():
    # A second one would end the chapter, for the filter.
    for file in chapters(read_project(ROOT)).values():
        assert sum(line.startswith("# ") for line in (ROOT / file).read_text("utf-8").split("\n")) == 1, file
