import pytest
from helpers.places import ROOT

from measure.errors import UserError
from report.engine.project import read_project


@pytest.fixture
def project(tmp_path):
    def make(settings, document="text\n"):
        (tmp_path / "_quarto.yml").write_text(settings)
        (tmp_path / "index.qmd").write_text(document)
        return read_project(tmp_path)

    return make


def test_front_matter_lies_over_the_project(project):
    read = project(
        "title: A\nformat:\n  html:\n    toc: true\n    toc-depth: 2\nexecute:\n  echo: false\n",
        "---\nsubtitle: S\ntitle: B\nformat:\n  html:\n    toc-depth: 3\n---\n\ntext\n",
    )
    assert read.settings["title"] == "B"
    assert read.settings["subtitle"] == "S"
    assert read.format("html") == {"toc": True, "toc-depth": 3}
    assert read.execute("echo", True) is False
    assert read.execute("warning", True) is True
    assert read.body_line == 8  # seven lines of front matter


def test_output_names(project):
    read = project("format:\n  typst:\n    output-file: paper.pdf\n")
    assert read.output_name("html") == "index.html"
    assert read.output_name("pdf") == "paper.pdf"
    assert read.output_directory.name == "_site"


def test_header_texts(project, tmp_path):
    (tmp_path / "style.typ").write_text("from a file")
    read = project(
        "format:\n  typst:\n    include-in-header: style.typ\n"
        "  html:\n    include-in-header:\n      - text: given\n      - file: style.typ\n"
    )
    assert read.header_texts("typst") == ["from a file"]
    assert read.header_texts("html") == ["given", "from a file"]


def test_a_header_that_is_not_utf_8(project, tmp_path):
    (tmp_path / "style.typ").write_bytes(b"caf\xe9")
    read = project("format:\n  typst:\n    include-in-header: style.typ\n")
    with pytest.raises(UserError, match=r"style\.typ: is not UTF-8 text"):
        read.header_texts("typst")


def test_what_the_embedded_engine_cannot_honour(project):
    read = project("abstract: A\n", "---\ncolour: red\n---\n")
    assert read.passed_over == (
        "_quarto.yml:1: the embedded engine cannot honour 'abstract'",
        "index.qmd:2: the embedded engine cannot honour 'colour'",
    )


def test_a_file_that_is_not_there(project):
    read = project("bibliography: bib/none.bib\n")
    with pytest.raises(UserError, match=r"names the file 'bib/none\.bib', which is not there"):
        read.files(read.settings["bibliography"])


def test_choices_come_from_the_environment_first(project, monkeypatch):
    monkeypatch.delenv("ROOFWRIGHT_MACHINES", raising=False)
    assert project("title: A\n").chosen("machines") == []
    read = project("roofwright:\n  machines: [b, a]\n")
    assert read.chosen("machines") == ["b", "a"]
    monkeypatch.setenv("ROOFWRIGHT_MACHINES", "c,d")
    assert read.chosen("machines") == ["c", "d"]
    monkeypatch.setenv("ROOFWRIGHT_MACHINES", "")
    assert read.chosen("machines") == ["b", "a"]


def test_filters(project, tmp_path):
    (tmp_path / "a.lua").touch()
    assert project("filters:\n  - at: pre-ast\n    path: a.lua\n").filters == ["a.lua"]
    assert project("title: A\n").filters == []


@pytest.mark.parametrize("filters", ["[a.lua]", "[{path: a.lua}]", "[{path: a.lua, at: post-ast}]"])
def test_filters_that_the_embedded_engine_does_not_know(project, filters):
    with pytest.raises(UserError, match=r"^_quarto\.yml: a filter is a 'path' with 'at: pre-ast', not "):
        _ = project(f"filters: {filters}\n").filters


def test_no_project(tmp_path):
    with pytest.raises(UserError, match=r"there is no _quarto\.yml in"):
        read_project(tmp_path)


@pytest.mark.parametrize(
    ("settings", "document", "message"),
    [
        ("project:\n  render: [a.qmd, b.qmd]\n", "x\n", "must name one document"),
        ("title: A\n", "---\ntitle: B\n", r"index\.qmd:1: the front matter has no closing"),
    ],
)
def test_refusals(project, settings, document, message):
    with pytest.raises(UserError, match=message):
        project(settings, document)


def test_folders_of_fonts(project, tmp_path):
    (tmp_path / "fonts").mkdir()
    settings = "format:\n  typst:\n    font-paths: [fonts]\n"
    assert project(settings).font_folders == [str(tmp_path / "fonts")]
    assert project("title: A\n").font_folders == []
    with pytest.raises(UserError, match=r"^_quarto\.yml names the folder 'none', which is not there"):
        _ = project(settings.replace("fonts]", "none]")).font_folders


def test_the_paper_s_own_settings_are_honoured_by_both_engines():
    paper = read_project(ROOT)
    assert paper.passed_over == ()
    assert paper.settings["link-citations"] is True
    assert paper.files(paper.format("html")["css"]) == ["report/engine/style.css"]
    assert paper.files(paper.filters) == ["report/engine/missing.lua", "report/engine/hyphens.lua"]
    assert {"margin", "fontsize"} <= set(paper.format("typst"))
    # Quarto's PDF has no subject but this
    assert f'#set document(description: "{paper.settings["subtitle"]}")' in paper.header_texts("typst")
    # and calls it Typst, unless it is told another name
    assert paper.format("html")["format-links"][0]["text"] == "PDF"
