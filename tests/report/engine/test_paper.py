"""The paper as Typst sets it."""

import json
import re

import pypdfium2
import pytest
import typst
from helpers.places import ROOT

from measure.errors import UserError
from report.engine.paper import compile_paper, paper_arguments, paper_changes, with_column_widths
from report.engine.project import Project
from report.engine.source import Line, Places
from report.engine.tree import LINE_CHARACTERS, run_pandoc

STYLE = (ROOT / "report/engine/style.typ").read_text("utf-8")


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path, "index.qmd", {}, 1)


def typst_of(project, inline):
    parts = paper_changes(project, Places([Line("a.svg", "index.qmd", 4)]))[inline["t"]](inline)
    return "".join(part["c"][1] for part in parts if part["t"] == "RawInline")


def typeset(text, folder=None, **options):
    """What Typst makes of a text in the paper's style."""
    return typst.Compiler(root=folder and str(folder)).compile(f"{STYLE}\n{text}".encode(), **options)


def pages(pdf):
    return [page.get_textpage().get_text_bounded() for page in pypdfium2.PdfDocument(pdf)]


@pytest.mark.parametrize(
    ("attributes", "width"),
    # 800 px take the line, so 200 px take a quarter of it.
    [('width="2000"', "100%"), ('width="200"', "25%"), ('stroke-width="3"', "auto")],
)
def test_pictures_are_drawn_at_one_scale(project, attributes, width):
    (project.root / "a.svg").write_text(f'<svg xmlns="http://www.w3.org/2000/svg" {attributes} height="10"/>')
    image = {"t": "Image", "c": [["", [], [["fig-alt", 'a "b" \\ µ']]], [], ["a.svg", ""]]}
    assert typst_of(project, image) == rf'#box(image("a.svg", width: {width}, alt: "a \"b\" \\ µ"))'


@pytest.mark.parametrize(("pixels", "points"), [(600, 450), (4000, 21 / 2.54 * 72)])
def test_a_high_picture_fits_the_page(tmp_path, pixels, points):
    """1 px is 0.75 pt, so 4000 px are 3000 pt; a page leaves room for 21 cm."""
    (tmp_path / "a.svg").write_text(f'<svg xmlns="http://www.w3.org/2000/svg" width="400" height="{pixels}"/>')
    page = '#set page(width: 400pt, height: auto, margin: 0pt)\n#image("a.svg", alt: "a")'
    (height,) = re.findall(r'^<svg[^>]*? height="([\d.]+)pt"', typeset(page, tmp_path, format="svg").decode())
    assert float(height) == pytest.approx(points, abs=0.1)


@pytest.mark.parametrize("width", range(140, 200, 20))
def test_the_words_of_a_command_stay_whole(width):
    command = "python -m measure --batch-sizes 1 --training-batch-sizes 2"
    (text,) = pages(typeset(f"#set page(width: {width}pt, height: auto, margin: 0pt)\nRun `{command}` there."))
    assert len(text.splitlines()) > 1
    assert text.replace("\ufffe", "-").split() == ["Run", *command.split(), "there."]


def test_a_formula_has_its_tex_to_be_read_aloud(project):
    formula = {"t": "Math", "c": [{"t": "InlineMath"}, "\\min(\\pi,\n\\beta I)"]}
    assert typst_of(project, formula) == r'#spoken("\\min(\\pi, \\beta I)")[]'


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


def test_the_template_names_fonts_that_are_in_the_wheel():
    template = (ROOT / "report/engine/resources/paper.typ").read_text("utf-8")
    named = set(re.findall(r'font: "([^"]+)"', template))
    assert len(named) == 2  # text, and code
    assert named <= set(typst.Fonts(include_system_fonts=False).families())


def test_margins_and_type_are_the_settings(tmp_path):
    typst_settings = {"fontsize": "9pt", "margin": {"x": "2cm", "top": "1in"}}
    arguments = paper_arguments(Project(tmp_path, "index.qmd", {"format": {"typst": typst_settings}}, 1))
    assert {"--variable=fontsize:9pt", "--variable=margin:x: 2cm, top: 1in"} <= set(arguments)


def test_a_table_that_is_too_wide_gets_widths(project):
    def table(*cells):
        text = f"| a | b |\n|---|---|\n| {cells[0]} | {cells[1]} |\n"
        arguments = ["--from=markdown", "--to=json", "--columns=100000"]
        return json.loads(run_pandoc(arguments, text, project, Places([])))["blocks"][0]["c"]

    assert with_column_widths(table("1", "2")) == table("1", "2")
    _, share = [width["c"] for _, width in with_column_widths(table("x" * 20, "abcd " * 41))[2]]
    assert share == pytest.approx(1 - 22.5 / LINE_CHARACTERS)  # what the word of 20 and its padding of 2.5 leave


FIGURE = '#figure([PICTURE], caption: [C], kind: "quarto-float-fig", supplement: "Figure", numbering: "1") <fig-a>\n'


def test_links_and_cross_references_have_one_colour():
    for linked in ("#link(<fig-a>)[here]", "@fig-a"):
        assert 'fill="#1d4f91"' in typeset(FIGURE + linked, format="svg").decode(), linked


def test_no_heading_stands_at_the_foot_of_a_page():
    page = "#set page(width: 10cm, height: 10cm, margin: 1cm)\n#block(height: 7cm)[BEFORE]\n= HEADING\n"
    first, second, *_ = pages(typeset(page + "#lorem(90)"))
    assert "HEADING" not in first
    assert "HEADING" in second
