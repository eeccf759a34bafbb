"""The paper as Typst sets it."""

import json
import re
from itertools import chain

import pypdfium2
import pytest
import typst
from helpers.places import ROOT

from measure.errors import UserError
from report.engine.embedded import compile_paper
from report.engine.project import Project

STYLE = (ROOT / "report/engine/style.typ").read_text("utf-8")


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path, "index.qmd", {"format.typst.pdf-standard": "ua-1"})


def typeset(text, folder=None, **options):
    """Set a text in the paper's style with Typst."""
    return typst.Compiler(root=folder and str(folder)).compile(f"{STYLE}\n{text}".encode(), **options)


@pytest.mark.parametrize(("pixels", "points"), [(600, 450), (4000, 21 / 2.54 * 72)])
def test_a_high_picture_fits_the_page(tmp_path, pixels, points):
    """1 px is 0.75 pt, so 4000 px are 3000 pt; a page leaves room for 21 cm."""
    (tmp_path / "a.svg").write_text(f'<svg xmlns="http://www.w3.org/2000/svg" width="400" height="{pixels}"/>')
    page = '#set page(width: 400pt, height: auto, margin: 0pt)\n#image("a.svg", alt: "a")'
    (height,) = re.findall(r'^<svg[^>]*? height="([\d.]+)pt"', typeset(page, tmp_path, format="svg").decode())
    assert float(height) == pytest.approx(points, abs=0.1)


@pytest.mark.parametrize(
    ("kind", "label", "page"), [("image", "a", 0), ('"quarto-float-fig"', "a", 0), ("image", "fig-overview", 1)]
)
def test_text_fills_the_page_before_a_figure(kind, label, page):
    """300 pt of text and a figure of 200 pt on pages of 400 pt: a line of text has room on the first page."""
    head = "#set page(width: 400pt, height: 400pt, margin: 0pt)\n#block(height: 300pt)"
    paper = typeset(
        f"{head}\n#figure(block(height: 200pt), kind: {kind}, supplement: none)<{label}>\n\nafter", format="pdf"
    )
    pages = [each.get_textpage().get_text_range() for each in pypdfium2.PdfDocument(paper)]
    assert ["after" in text for text in pages].index(True) == page


def test_the_paper_is_for_listeners_too_unless_that_cannot_be(project):
    head = '#set document(title: [T])\n#set text(lang: "en")\n'
    pdf = compile_paper(head, project, pytest.fail)
    assert pypdfium2.raw.FPDFCatalog_IsTagged(pypdfium2.PdfDocument(pdf))
    for untold in ("$a$", "A 论"):
        notes = []
        assert compile_paper(head + untold, project, notes.append)
        assert len(notes) == 1
    with pytest.raises(UserError, match=r"^Typst stops: unknown variable: nosuch"):
        compile_paper("#nosuch", project, pytest.fail)


def test_the_style_that_quarto_has_too_sets_paragraphs():
    """In em of 11 pt, Typst's own letters: Quarto's template sets neither."""
    spacing = typst.query(
        f"{STYLE}\n#context [#metadata(par.spacing.to-absolute().pt()) <it>]".encode(), "<it>", field="value"
    )
    assert json.loads(spacing) == [pytest.approx(0.75 * 11)]


def test_the_template_names_fonts_that_are_in_the_wheel():
    template = (ROOT / "report/engine/resources/paper.typ").read_text("utf-8")
    named = set(re.findall(r'font: "([^"]+)"', template))
    assert len(named) == 2  # text, and code
    assert named <= set(typst.Fonts(include_system_fonts=False).families())


@pytest.mark.parametrize(
    "wrapped", ["{}", '#block[\n#figure([{}], kind: "quarto-float-tbl", supplement: "Table", caption: [T])\n]']
)
@pytest.mark.parametrize("above", range(20, 180, 20))
def test_a_table_breaks_between_groups_with_four_rows_each_side(above, wrapped):
    """Its tenth row has no first cell: it belongs to the ninth. Pandoc's table, and that in Quarto's cell."""
    names = [f"r{row}" if row != 10 else "" for row in range(1, 15)]
    cells = "".join(f"[{name}], [c{row}], " for row, name in enumerate(names, 1))
    table = "#align(center)[#table(columns: 2, align: (left,right,), table.header([A], [B],), table.hline(), {})]"
    figure = f"#figure({table.format(cells)[1:]}, kind: table)"
    page = f"#set page(width: 200pt, height: 220pt, margin: 10pt)\n#v({above}pt)\n{wrapped.format(figure)}"
    pdf = pypdfium2.PdfDocument(typeset(page, format="pdf"))
    pages = [[*map(int, re.findall(r"c(\d+)", sheet.get_textpage().get_text_bounded()))] for sheet in pdf]
    pages = [rows for rows in pages if rows]
    assert [*chain(*pages)] == [*range(1, 15)]
    assert min(map(len, pages)) >= 4
    assert 10 not in [rows[0] for rows in pages]


@pytest.mark.parametrize(("numbering", "printed"), [("none", "See Section “The title”."), ('"1.1"', "See Section 1.")])
def test_a_reference_to_an_unnumbered_section_has_its_title(numbering, printed):
    text = f"#set heading(numbering: {numbering})\n= The title <sec-a>\n\nSee #ref(<sec-a>, supplement: [Section])."
    (page,) = pypdfium2.PdfDocument(typeset(text, format="pdf"))
    assert printed in page.get_textpage().get_text_bounded().replace("\u00a0", " ")


PAGE = "#set page(width: 400pt, height: 300pt, margin: (left: 20pt, right: 180pt, y: 20pt))\n"
"""A text column of 200 pt, and a margin of 46 mm (130 pt) after a gutter of 6 mm (17 pt): it begins at 237 pt."""


def boxes(text, *words):
    """Return the boxes (left, bottom, right, top) of words on the first page, in points."""
    page = pypdfium2.PdfDocument(typeset(text, format="pdf"))[0].get_textpage()
    found = [page.search(word).get_next() for word in words]
    return [page.get_charbox(at) for at, _ in found]


def test_notes_stand_in_the_margin_and_not_upon_one_another_or_a_wide_figure():
    figure = (
        "#figure(rect(width: 300pt, height: 60pt)[wide], kind: image, supplement: none, placement: none)<fig-overview>"
    )
    notes = '#reference[first #v(30pt) end]\n\nafter\n\n#boxed("callout-tip")[second][rule]\n'
    text, wide, first, end, second = boxes(
        f"{PAGE}{figure}\n\ntext\n\n{notes}", "text", "wide", "first", "end", "second"
    )
    assert text[0] < 30
    assert min(first[0], end[0], second[0]) > 237
    assert wide[1] > first[3] > end[3] > second[3]
    assert end[1] - second[3] > 5  # points between the notes
    # Without the margin they stand in the text
    first, second = boxes(f"#set page(width: 400pt, height: 300pt, margin: 20pt)\n{notes}", "first", "second")
    assert max(first[0], second[0]) < 60


@pytest.mark.parametrize(("width", "is_beside"), [(150, True), (250, False)])
def test_a_narrow_figure_has_its_caption_in_the_margin(width, is_beside):
    figure = f"#figure(rect(width: {width}pt, height: 60pt)[drawn], kind: image, supplement: none, caption: [said])"
    drawn, said = boxes(f"{PAGE}{figure}", "drawn", "said")
    assert (said[0] > 237) == is_beside
    assert drawn[1] > said[1]  # level with the figure's foot, or below it


def test_a_heading_goes_to_the_next_page_with_the_table_that_has_no_room():
    """Of 260 pt the text leaves 60; the caption of three lines and the first four rows are higher."""
    rows = "".join(f"[r{row}], [a #linebreak() b], " for row in range(8))
    table = f"align(center)[#table(columns: 2, align: (left,right,), table.header([A], [B],), table.hline(), {rows})]"
    figure = f"#figure({table}, kind: table, supplement: none, caption: [{'caption ' * 30}])"
    pdf = pypdfium2.PdfDocument(typeset(f"{PAGE}#block(height: 200pt)\n= Title\n{figure}", format="pdf"))
    assert ["Title" in sheet.get_textpage().get_text_bounded() for sheet in pdf][:2] == [False, True]
