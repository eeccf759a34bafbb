"""Who stands below the title: the reader, the reader's machine, or the project's authors."""

import json
from dataclasses import replace

import pypdfium2
import pytest
from helpers.pages import Page
from helpers.world import nothing, world

from report import title_block
from report.engine.embedded import render_embedded
from report.engine.project import read_project
from report.options import AUTHOR
from report.paper import REFERENCE

MACHINE = "Example CPU, Example core, 2 cores"
ODD = """O'Neil "Q" <b>x</b> <script>alert(1)</script> & *i* _j_ `c` $x$ #1 [a](b) @c \\d {e} ~f~ 山田 Ωé 🙂"""
LONG = "Wolfeschlegelsteinhausenbergerdorff" * 9  # 315 letters in one word


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Write a project with these settings."""
    monkeypatch.delenv(AUTHOR, raising=False)

    def make(settings="title: T\n"):
        (tmp_path / "_quarto.yml").write_text(settings)
        (tmp_path / "index.qmd").write_text("A text.\n")
        return read_project(tmp_path)

    return make


def ours():
    """The world as the project's own, with its processor for the reference machine."""
    paper = replace(world(), machines=tuple(replace(each, folder=REFERENCE) for each in world().machines[:1]))
    vars(paper)["reference"] = paper
    return paper


def block(paper, project):
    opening, text, closing = str(title_block.metadata(paper, project)).split("---\n")
    assert opening == closing == ""
    return json.loads(text.replace("\\\\", ""))


def test_a_readers_paper_names_its_machine_and_not_our_authors(project, monkeypatch):
    found = block(world(), project())
    assert found["author"] == [{"name": f"Measured on the {MACHINE}"}]
    assert found["machines"] == {"reference": MACHINE, "here": MACHINE}
    monkeypatch.setenv(AUTHOR, "Jane Doe")
    assert block(world(), project())["author"] == [{"name": "Jane Doe", "affiliation": f"measured on the {MACHINE}"}]


def test_the_reference_paper_keeps_its_authors(project, monkeypatch):
    assert block(ours(), project()) == {
        "machines": {"reference": MACHINE, "names": {REFERENCE: MACHINE}},
        "author": [{"name": "The Roofwright authors"}],
    }  # fmt: skip
    monkeypatch.setenv(AUTHOR, "Jane Doe")
    assert block(ours(), project())["author"] == [{"name": "Jane Doe"}]


def test_without_a_machine_nobody_stands_there(project):
    assert block(nothing(), project()) == {"machines": {}}


def test_an_author_in_the_settings_stays(project, monkeypatch):
    monkeypatch.setenv(AUTHOR, "Jane Doe")
    assert "author" not in block(world(), project("title: T\nauthor: Ada\n"))


@pytest.mark.parametrize("name", [ODD, LONG])
def test_a_name_is_printed_as_text(project, monkeypatch, tmp_path, name):
    monkeypatch.setenv(AUTHOR, name)
    found = title_block.metadata(world(), project())
    (tmp_path / "index.qmd").write_text(f"A text.\n\n{found}\n")
    page, paper = render_embedded(tmp_path, ["html", "pdf"], tmp_path, tmp_path / "_out", lambda _: None)
    root = Page(page.read_text("utf-8")).root
    name = name.replace("O'Neil", "O’Neil")
    assert [each.text() for each in root.all("p.author")] == [f"{name}measured on the {MACHINE}"]
    (meta,) = [each for each in root.all("meta") if each.attributes.get("name") == "author"]
    assert meta.attributes["content"] == name
    pdf = pypdfium2.PdfDocument(paper)
    assert pdf.get_metadata_value("Author") == name
    right = [pdf[0].get_textpage().get_charbox(at)[2] for at in range(pdf[0].get_textpage().count_chars())]
    assert max(right) < pdf[0].get_width()
