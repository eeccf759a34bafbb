"""The embedded engine against Quarto 1.9.38: the same sample project, field by field."""

import json
import re
import shutil

import pypdfium2
import pytest
from helpers.pages import Page
from helpers.places import LOOKS, ROOT, TESTS

from report.engine import embedded
from report.engine.embedded import make_editions, render_embedded

SAMPLE = TESTS / "quarto-sample"
STYLE = "report/engine/style.typ"  # frames callouts, with the filter
EXPECTED = json.loads((SAMPLE / "expected.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    root = tmp_path_factory.mktemp("sample") / "project"
    shutil.copytree(SAMPLE, root)
    for path in (LOOKS, STYLE):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, root / path)
    return root


@pytest.fixture(scope="module")
def written(project):
    steps = []
    files = render_embedded(project, ["html", "pdf"], project, project / "out", steps.append)
    assert len(steps) == 3  # the cells, the page, the paper
    assert files == [project / "out" / "index.html", project / "out" / "paper.pdf"]
    return files


@pytest.fixture(scope="module")
def page(written):
    return Page(written[0].read_text("utf-8")).root


@pytest.fixture(scope="module")
def main(page):
    return page.all("main")[0]


def headings(main):
    """Level, number and text."""
    found = [node for node in main.all("") if re.fullmatch("h[1-6]", node.name) and not node.has(".title")]
    numbers = [[span.text() for span in node.all("span.header-section-number")] or [None] for node in found]
    return [[node.name, *number, node.text()] for node, number in zip(found, numbers, strict=True)]


def callouts(main):
    return [
        [
            next(name for name in box.attributes["class"].split() if name.startswith("callout-")),
            box.all(".title")[0].text(),
            box.all(".body")[0].text(),
        ]
        for box in main.all(".callout")
    ]


def paragraphs(main):
    outside = ("figure", ".callout", "#footnotes", "#title-block", "#refs", "li")
    return [node.text() for node in main.all("p", outside) if not node.all("math")]


def texts(selector):
    return lambda main: [node.text() for node in main.all(selector)]


FIELDS = {
    "title": lambda main: main.all("h1.title")[0].text(),
    "headings": headings,
    "figure_captions": lambda main: [
        figure.all("figcaption")[0].text() for figure in main.all("figure") if not figure.has(".quarto-float-tbl")
    ],
    "figure_alt_texts": lambda main: [image.attributes["alt"] for image in main.all("img")],
    "table_captions": lambda main: [table.all("figcaption")[0].text() for table in main.all("figure.quarto-float-tbl")],
    "tables": lambda main: [
        [[cell.text() for cell in row.all("") if cell.name in ("td", "th")] for row in table.all("tr")]
        for table in main.all("table")
    ],
    "cross_references": lambda main: [[link.text(), link.attributes["href"]] for link in main.all("a.quarto-xref")],
    "citations": texts("span.citation"),
    "bibliography": texts(".csl-entry"),
    "callouts": callouts,
    "footnotes": lambda main: [note.text().removesuffix("↩︎") for note in main.all("#footnotes")[0].all("li")],
    "paragraphs": paragraphs,
    "listing": texts("pre"),
    "raw_blocks": lambda main: len(main.all("script.spec")),
}


@pytest.mark.parametrize("field", EXPECTED)
def test_the_page_says_what_quartos_says(main, field):
    assert FIELDS[field](main) == EXPECTED[field]


def squeezed(text):
    """A paper's text without white space, soft hyphens, page numbers and the icons of Quarto's callouts."""
    lines = [line for line in text.splitlines() if not re.fullmatch(r"\s*\d*\s*", line)]
    return re.sub(r"[\s\u00ad\u0002\ufffe\uf000-\uf8ff]", "", "\n".join(lines))


def test_the_paper_reads_like_quartos(written):
    pdf = pypdfium2.PdfDocument(written[1])
    text = squeezed("\n".join(pdf[number].get_textpage().get_text_range() for number in range(len(pdf))))
    expected = squeezed((SAMPLE / "expected-pdf.txt").read_text("utf-8"))
    # Footnotes and figures are at the ends of pages, and the pages are not cut alike.
    for part in (
        "1A footnote with emphasis.",
        "Figure 1: The first figure, with a citation (Williams et al. 2009).",
        "Figure 2: The second figure, after Figure 1.",
    ):
        assert text.count(squeezed(part)) == expected.count(squeezed(part)) == 1
        text, expected = text.replace(squeezed(part), ""), expected.replace(squeezed(part), "")
    assert text == expected


def test_the_paper_has_its_outline_and_metadata(written):
    pdf = pypdfium2.PdfDocument(written[1])
    outline = [(bookmark.level, bookmark.get_title()) for bookmark in pdf.get_toc()]
    levels = {"h1": 0, "h2": 1}
    assert outline == [(levels[name], text) for name, _, text in EXPECTED["headings"]]
    assert pdf.get_metadata_value("Title") == EXPECTED["title"]
    assert pdf.get_metadata_value("Author") == "Ada Example"
    kinds = {item.type for sheet in pdf for item in sheet.get_objects(max_depth=8)}
    assert pypdfium2.raw.FPDF_PAGEOBJ_IMAGE not in kinds
    assert pypdfium2.raw.FPDF_PAGEOBJ_PATH in kinds


def test_the_same_bytes_each_time(written, project):
    again = render_embedded(project, ["html", "pdf"], project, project / "again", lambda _: None)
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in written]


def render(root, title, settings, text, *formats):
    """Return the files of a small document that cites one book, and its progress except the steps."""
    book = f"@book{{knuth1984, author = {{Knuth, Donald}}, title = {{{title}}}, publisher = {{A}}, year = {{1984}}}}\n"
    (root / "books.bib").write_text(book)
    (root / "_quarto.yml").write_text(f"bibliography: books.bib\n{settings}")
    (root / "index.qmd").write_text(text)
    progress = []
    files = render_embedded(root, [*formats], root, root / "_out", progress.append)
    return files, [line for line in progress if not line.startswith(("running ", "writing "))]


def test_a_title_of_the_bibliography_runs_nothing(tmp_path):
    hostile = r"<script>alert(1)</script> \href{javascript:alert(1)}{The TeXbook}"
    ((written,), _) = render(tmp_path, hostile, "", "A text [@knuth1984].\n", "html")
    page = Page(written.read_text("utf-8")).root
    assert page.all("span.citation")[0].all("a")
    assert "<Script>alert(1)</Script> the TeXbook" in page.all(".csl-entry")[0].text()  # as titles are written
    assert not [script for script in page.all("script") if "alert" in "".join(script.content)]
    # a link to a script stays, and is one that the policy does not let run
    (policy,) = [meta.attributes["content"] for meta in page.all("meta") if "http-equiv" in meta.attributes]
    assert "unsafe" not in policy.split("script-src")[1]


def test_authors_stand_below_the_title(tmp_path):
    authors = "author:\n  - {name: Ada, affiliation: [One, Two], email: a@b.org}\n  - Bob\n"
    ((written,), _) = render(tmp_path, "The TeXbook", authors, "A text.\n", "html")
    page = Page(written.read_text("utf-8")).root
    assert [each.text() for each in page.all("p.author")] == ["AdaOneTwoa@b.org", "Bob"]  # the style sets dots between
    assert [each.attributes["content"] for each in page.all("meta") if each.attributes.get("name") == "author"] == [
        "Ada", "Bob",
    ]  # fmt: skip


def test_pandoc_reads_what_has_changed_alone(tmp_path, monkeypatch):
    jobs = []
    monkeypatch.setattr(embedded, "make_editions", lambda job, *rest: jobs.append(job) or make_editions(job, *rest))
    render(tmp_path, "The TeXbook", "", "A text [@knuth1984].", "html")
    for text in ("A text [@knuth1984].", "[@knuth1984, p. 1]"):
        (tmp_path / "index.qmd").write_text(text)
        (page,) = render_embedded(tmp_path, ["html"], tmp_path, tmp_path / "_out", lambda _: None)
    assert len(jobs) == 2
    assert Page(page.read_text("utf-8")).root.all("span.citation")[0].text() == "(Knuth 1984, 1)"
