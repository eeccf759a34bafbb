"""Lines, cells and chapters of a document, and the settings of its project."""

import re

import pytest
from helpers.places import ROOT

from measure.errors import UserError
from report.engine.embedded import render_embedded
from report.engine.project import KNOWN, read_project, read_settings
from report.engine.source import CodeCell, left_out, read_source


@pytest.fixture
def project(tmp_path):
    def make(settings="", **files):
        (tmp_path / "_quarto.yml").write_text(settings)
        for name, text in ({"index": "text\n"} | files).items():
            path = tmp_path / f"{name.replace('__', '/')}.qmd"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return read_project(tmp_path)

    return make


def test_lines_and_cells_have_their_places(project):
    """Paths of includes are relative to the document, in nested files too; a cell in a listing is text."""
    files = {
        "index": "a\n{{< include part/one.qmd >}}\n````\n```{python}\n````",
        "part__one": "b\n{{< include part/two.qmd >}}",
        "part__two": "```{python}\n#| label: tbl-x\n#| tbl-cap: >\n#|   two\n#|   lines\nf()\n```\nc",
    }
    a, b, cell, c, *listing = read_source(project(**files))
    assert [line.place for line in (a, b, c)] == ["index.qmd:1", "part/one.qmd:1", "part/two.qmd:8"]
    assert [line.text for line in (a, b, c)] == ["a", "b", "c"]
    assert isinstance(cell, CodeCell)
    assert (cell.opening.place, cell.first_line, cell.code) == ("part/two.qmd:1", 6, "f()")
    assert cell.options["tbl-cap"].split() == ["two", "lines"]
    assert [line.text for line in listing if line.text] == ["````", "```{python}", "````"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\n{{< include none.qmd >}}", r"^index\.qmd:2: the included file none\.qmd is not there"),
        ("{{< include index.qmd >}}", r"^index\.qmd:1: the included file index\.qmd is not there, or includes itself"),
        ("see {{< include a.qmd >}}", r"^index\.qmd:1: unknown shortcode 'include'.*alone on its line"),
        ("a\n```{r}\n1\n```", r"^index\.qmd:2: a cell begins with"),
        ("- a\n\n  ```{python}\n  1\n  ```", r"^index\.qmd:3: a cell begins with"),
        ("a\n```{python}\n1\n", r"^index\.qmd:2: this code block is never closed"),
        (
            "```{python}\n#| label: x\n#| fig-width: 5\nf()\n```",
            r"^index\.qmd:3: the embedded engine cannot honour 'fig-width'",
        ),
        (
            "```{python}\n#| output: maybe\nf()\n```",
            r"^index\.qmd:2: the embedded engine cannot honour 'output: maybe'; write asis",
        ),
        ("```{python}\n#| label: fig-x\nf()\n```", r"^index\.qmd:1: a label 'fig-…' and 'fig-cap' go together"),
        (
            "```{python}\n#| label: my label\nf()\n```",
            r"^index\.qmd:2: the embedded engine cannot honour 'label: my label'",
        ),
        ("```{python}\n#| label: [\nf()\n```", r"^index\.qmd:\d: this is not valid YAML"),
    ],
)
def test_sources_that_are_refused(project, text, message):
    with pytest.raises(UserError, match=message):
        read_source(project(index=text))


CHAPTERS = {
    "index": "{{< include part/one.qmd >}}\n\n{{< include /part/two.qmd >}}\n",
    "part__one": "# One {#sec-one .x}\n",
    "part__two": "text\n\n# Two {#sec-two}\n",
}


def test_chapters_that_are_not_chosen_are_not_read(project, monkeypatch):
    def texts(settings=""):
        return [line.text for line in read_source(project(settings, **CHAPTERS)) if line.text]

    one, two = CHAPTERS["part__one"].split("\n")[:1], ["text", "# Two {#sec-two}"]
    assert texts() == one + two
    chosen = "roofwright:\n  chapters: [one]\n"
    assert texts(chosen) == one
    with pytest.raises(UserError, match=r"chapters in _quarto\.yml: 'won' is not one of one, two"):
        left_out(project(chosen.replace("one", "won"), **CHAPTERS))
    monkeypatch.setenv("ROOFWRIGHT_CHAPTERS", "two")  # before the settings
    assert texts(chosen) == two


def test_front_matter_lies_over_the_project(project):
    read = project(
        "title: A\nformat:\n  html:\n    toc: true\n    toc-depth: 2\n  typst:\n    output-file: paper.pdf\n"
        "project:\n  render: [index.qmd, more.qmd]\n",
        index="---\nsubtitle: S\ntitle: B\nformat:\n  html:\n    toc-depth: 3\n---\n\ntext\n",
        more="---\ntitle: More\n---\n",
    )
    assert (read.settings["title"], read.settings["subtitle"]) == ("B", "S")
    assert (read.settings["format.html.toc"], read.settings["format.html.toc-depth"]) == (True, 3)
    assert read.body_line == 8  # seven lines of front matter
    assert (read.output_name("html"), read.output_name("pdf")) == ("index.html", "paper.pdf")
    assert read.others == ("more.qmd",)
    assert read_project(read.root, "more.qmd").settings["title"] == "More"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title\n", "_quarto.yml:1: this is not valid YAML: expected a mapping"),
        ("title: A\ntitle: B\n", "_quarto.yml:2: duplicate key 'title'"),
        (
            "roofwright:\n  pdf: all\n",
            "_quarto.yml:2: the embedded engine cannot honour 'roofwright.pdf: all'; write body|full",
        ),
        (
            "roofwright:\n  chapter: [a]\n",
            "_quarto.yml:2: the embedded engine cannot honour 'roofwright.chapter'; did you mean chapters?",
        ),
        (
            "roofwright:\n  chapters: 3\n",
            "_quarto.yml:2: the embedded engine cannot honour 'roofwright.chapters: 3'; write a list, such as [a, b]",
        ),
        (f"title: {'[' * 500}{']' * 500}\n", "_quarto.yml:1: this is not valid YAML"),
    ],
)
def test_settings_that_are_refused(text, message):
    with pytest.raises(UserError) as error:
        read_settings(text, "_quarto.yml", 1, KNOWN, [])
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("project:\n  render: [{index.qmd: 0}]\n", "'project: render' lists files such as index.qmd, not "),
        ("format:\n  html:\n    include-in-header: [{}]\n", "include-in-header' takes a file, 'text: …' or 'file: …'"),
        ("format:\n  html:\n    include-in-header: {text: 3}\n", "include-in-header' takes a file"),
        (f"format:\n  html:\n    include-in-header: {'n' * 5000}\n", "which is not there"),
        ('project:\n  render: ["a\\0.qmd"]\n', "cannot be read (embedded null byte)"),
    ],
)
def test_lists_of_something_else_are_refused(project, settings, message):
    with pytest.raises(UserError, match=re.escape(message)):
        project(settings, index="text\n").header_texts("html")


def test_a_filter_without_a_path_is_passed_over(project):
    read = project("filters:\n  - at: pre-ast\n", index="text\n")
    assert read.files("filters") == []
    assert read.passed_over == ("_quarto.yml: the embedded engine runs filters with at: pre-ast and a path alone",)


def test_what_quarto_alone_knows_is_told_and_passed_over():
    text = "title: A\ntitel: C\nformat:\n  html:\n    theme: cosmo\n    toc: 1\n  typst: default\n  pdf: default\n"
    told = []
    settings = read_settings(text, "_quarto.yml", 1, KNOWN, told)
    assert settings == {"title": "A"}
    assert told == [
        "_quarto.yml:2: the embedded engine cannot honour 'titel'; did you mean title?",
        "_quarto.yml:5: the embedded engine cannot honour 'format.html.theme'",
        "_quarto.yml:6: the embedded engine cannot honour 'format.html.toc: 1'; write true or false",
        "_quarto.yml:8: the embedded engine cannot honour 'format.pdf'",
    ]


HTML = [
    "theme: cosmo", "toc-location: right", "code-fold: true", "fig-width: 7", "lightbox: true", "page-layout: full",
    "html-math-method: katex", "embed-resources: false", "comments: {hypothesis: true}", 'output-file: "../evil.html"',
]  # fmt: skip
TYPST = ["fontsize: 9pt) #read(1", "papersize: a5", "pdf-standard: a-2b", "columns: 2"]


def test_ignored_options_are_named_before_any_cell_runs(project, tmp_path):
    lines = ["format:", "  html:", "    toc-depth: 3", *(f"    {option}" for option in HTML), "  typst:"]
    settings = "\n".join([*lines, *(f"    {option}" for option in TYPST), "callout-appearance: simple"])
    paper = project(settings, index="```{python}\n1 / 0\n```\n")
    progress = []
    with pytest.raises(UserError, match="ZeroDivisionError"):
        render_embedded(tmp_path, ["html"], tmp_path, tmp_path / "out", progress.append)
    *named, last = progress
    assert last == "running the cells of index.qmd"
    # The options of HTML begin in the fourth line; `typst:` is between them and Typst's.
    places = [
        *enumerate(HTML, 4),
        *enumerate(TYPST, 5 + len(HTML)),
        (5 + len(HTML) + len(TYPST), "callout-appearance:"),
    ]
    for (line, option), sentence in zip(places, named, strict=True):
        assert sentence.startswith(f"_quarto.yml:{line}: the embedded engine cannot honour '")
        assert option.partition(":")[0] in sentence
    assert [name for name in paper.settings if name.startswith("format.")] == ["format.html.toc-depth"]


def test_the_paper_s_own_settings_are_honoured_by_both_engines():
    paper = read_project(ROOT)
    assert paper.passed_over == ()
    # Quarto's PDF has no subject but this
    assert f'#set document(description: "{paper.settings["subtitle"]}")' in paper.header_texts("typst")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("title: !!int ''", r"^_quarto\.yml:1: .* title cannot be read as int"),
        ("lang: en\ntitle: !!bool maybe", r"^_quarto\.yml:2: .* title cannot be read as bool"),
        ("date: !!timestamp x", r"^_quarto\.yml:1: .* date cannot be read as timestamp"),
        # Eight lists, each of nine of the one before: 9^8 = 43 million values
        (
            "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)),
            r"^_quarto\.yml:1: .* aliases expand to more than 10000 values",
        ),
        ("keywords: &a [x, *a]", "aliases"),
    ],
)
def test_settings_that_cannot_be_read_are_one_sentence(project, settings, message):
    with pytest.raises(UserError, match=message):
        project(settings)
